"""Like records, in a cluster whose shape each seed draws: the number of nodes, replicas and partitions, the settings,
and a few of all kinds of faults.

A run with few kinds of faults, each often, finds bugs that a mix of all kinds seldom reaches. Drawn values come from
separate random streams and are printed with a failure; shrinking a schedule keeps the shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from chronik.metadata.image import NO_LEADER
from chronik.sim import buggifying
from chronik.sim.broker_scenarios import RecordsScenario, settled_image
from chronik.sim.buggifying import Buggify
from chronik.sim.checkers.interface import Checker
from chronik.sim.checkers.sets import SWARM_CHECKERS
from chronik.sim.cluster import SimCluster
from chronik.sim.faults import METADATA_WEIGHTS, Fault, Weight, draw
from chronik.sim.history import History
from chronik.sim.programs import broker_programs
from chronik.sim.quorum_scenarios import draw_raft_config
from chronik.sim.record_clients import TOPIC
from chronik.sim.scenario import PACES_MS, Clients, Together
from chronik.sim.session_clients import SessionClient
from chronik.sim.world import World

NODES = (1, 2, 3, 3, 3, 3, 4, 5, 5, 6, 7)
PARTITIONS = (1, 2, 2, 3, 3, 5, 8)
MANY_PARTITIONS = (40, 200)
MANY_SHARE = 0.03  # of the seeds; each takes as long as fifty others
BUGGIFIED_SHARE = 0.5  # of the seeds
FIRST_IDS = (0, 1)
SLOWNESS_PERCENT = (50, 100, 100, 300)  # percentage of the price table
MORE_WEIGHTS = (
    Weight("full disk", 4, (300, 4000), (0, 4000)),
    Weight("kill", 6, (3000, 6000)),  # longer than a session
    Weight("short reads", 4, (500, 6000), (20, 900)),
)
NEEDS_OTHERS = frozenset({"isolate", "cut", "mute", "deafen", "slow link", "lossy", "reset"})
TOPIC_CONFIGS: tuple[dict[str, str], ...] = (
    {},
    {"internal.segment.bytes": "300"},
    {"internal.segment.bytes": "2000"},
    {"cleanup.policy": "compact", "internal.segment.bytes": "300", "min.cleanable.dirty.ratio": "0.0"},
    {"cleanup.policy": "compact", "internal.segment.bytes": "1000", "min.cleanable.dirty.ratio": "0.5"},
)
SETTINGS: Mapping[str, tuple[object, ...]] = {
    "log_retention_check_interval_ms": (150, 400, 300_000),
    "memory_budget_bytes": (16 << 20, 1 << 30),
    "replica_fetch_max_bytes": (1, 300, 1 << 20),
    "replica_fetch_response_max_bytes": (1, 10 << 20),
    "replica_fetch_wait_max_ms": (10, 500),
    "replica_lag_time_max_ms": (1000, 2000, 4000),
    "max_incremental_fetch_session_cache_slots": (0, 2, 1000),
    "metadata_forwarding_enable": (True, True, False),
    "metadata_batching_enable": (True, True, False),
    "metadata_leases_enable": (True, True, False),
    "auto_leader_rebalance_enable": (True, False),
    "log_index_interval_bytes": (1, 4096),
}


class SwarmScenario(RecordsScenario):
    name = "swarm"
    checkers: Sequence[type[Checker]] = SWARM_CHECKERS

    def configure(self, world: World) -> Mapping[str, object]:
        random = world.random("swarm")
        self.node_count = random.choice(NODES)
        factors = range(1, min(self.node_count, 4) + 1)
        self.replication_factor = random.choice((*factors, *(factor for factor in factors if factor == 3)))
        self.partition_count = random.choice(PARTITIONS if random.random() >= MANY_SHARE else MANY_PARTITIONS)
        self.topic_configs = random.choice(TOPIC_CONFIGS)
        self._settings = {name: random.choice(values) for name, values in SETTINGS.items()}
        self._settings |= {
            "min_insync_replicas": random.randint(1, self.replication_factor),
            "offsets_topic_replication_factor": self.replication_factor,
        }
        self._pace_ms = random.choice(PACES_MS)
        self.slowness_percent = world.random("slowness").choice(SLOWNESS_PERCENT)
        self.first_id = world.random("ids").choice(FIRST_IDS)
        points = _draw_points(world)
        self._weights = _draw_weights(random, self.node_count)
        self._course_share = random.choice((0.0, 0.0, 0.4, 0.8)) if self.node_count > 1 else 0.0
        return {
            "nodes": self.node_count,
            "first id": self.first_id,
            "replicas": self.replication_factor,
            "partitions": self.partition_count,
            "topic configs": self.topic_configs,
            "settings": self._settings,
            "pace": self._pace_ms,
            "slowness": self.slowness_percent,
            "points": points,
            "kinds of faults": [weight.kind for weight in self._weights],
            "share of courses": self._course_share,
        }

    def draw_faults(self, world: World) -> list[Fault]:
        random = world.random("faults")
        return draw(
            random,
            node_count=self.node_count,
            span_ms=self.fault_ms,
            count=random.randint(*self.fault_count),
            weights=self._weights,
            course_share=self._course_share,
        )

    def build(self, world: World) -> SimCluster:
        brokers = {**self.brokers, **self._settings}
        raft_config = draw_raft_config(world)
        programs = broker_programs(self.node_count, brokers, raft_config=raft_config, first_id=self.first_id)
        return SimCluster(world, self.node_count, programs, raft_directory="/data/raft", first_id=self.first_id)

    def clients(self, cluster: SimCluster, history: History) -> Clients:
        records = self._clients(cluster, history, self._pace_ms)
        return Together([records, SessionClient(cluster, TOPIC, self.partition_count)])

    def has_recovered(self, cluster: SimCluster) -> bool:
        image = settled_image(cluster)
        return image is not None and all(
            partition.leader != NO_LEADER and set(partition.replicas) == set(partition.isr)
            for topic in image.all_topics()
            for partition in topic.partitions
        )


def _draw_points(world: World) -> Mapping[str, int]:
    """Half of the seeds enable no points, because a point may hide other bugs."""
    random = world.random("points")
    if random.random() >= BUGGIFIED_SHARE:
        return {}
    points = buggifying.draw(random)
    world.points = Buggify(points, world.random("points that fire"))
    return points


def _draw_weights(random: Random, node_count: int) -> tuple[Weight, ...]:
    """A few kinds, each with a random frequency."""
    kinds = [
        weight for weight in (*METADATA_WEIGHTS, *MORE_WEIGHTS) if node_count > 1 or weight.kind not in NEEDS_OTHERS
    ]
    chosen = random.sample(kinds, random.randint(1, min(6, len(kinds))))
    return tuple(weight._replace(weight=random.choice((1, 3, 10))) for weight in chosen)
