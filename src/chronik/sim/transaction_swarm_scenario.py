"""Transactions in a cluster whose shape each seed draws: shapes, settings and faults as in `swarm`, clients and checks
as in `transactions`.

The writers cause truncation: when a fenced leader follows again, its log is truncated in the middle of transactions,
segments and indexes. Topics are not compacted, because these clients write records without keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chronik.sim.checkers.interface import Checker
from chronik.sim.checkers.sets import TRANSACTION_CHECKERS
from chronik.sim.cluster import SimCluster
from chronik.sim.history import History
from chronik.sim.scenario import Clients
from chronik.sim.swarm_scenario import PARTITIONS, TOPIC_CONFIGS, SwarmScenario
from chronik.sim.transactions_scenario import PACES, WRITER_COUNT, TransactionsScenario
from chronik.sim.world import World

PLAIN_CONFIGS = tuple(configs for configs in TOPIC_CONFIGS if configs.get("cleanup.policy") != "compact")
STATE_PARTITIONS = (1, 2, 5)


class TransactionSwarmScenario(SwarmScenario, TransactionsScenario):
    name = "transaction-swarm"
    checkers: Sequence[type[Checker]] = TRANSACTION_CHECKERS

    def configure(self, world: World) -> Mapping[str, object]:
        drawn = super().configure(world)
        random = world.random("transaction swarm")
        self.partition_count = min(self.partition_count, max(PARTITIONS))
        self.topic_configs = random.choice(PLAIN_CONFIGS)
        self._settings |= {
            "transaction_state_log_replication_factor": self.replication_factor,
            "transaction_state_log_min_isr": random.randint(1, self.replication_factor),
            "transaction_state_log_num_partitions": random.choice(STATE_PARTITIONS),
        }
        self._pace_ms = random.choice(PACES)
        return {
            **drawn,
            "partitions": self.partition_count,
            "topic configs": self.topic_configs,
            "settings": self._settings,
            "pace": self._pace_ms,
        }

    def clients(self, cluster: SimCluster, history: History) -> Clients:
        return self._writers(cluster, history, WRITER_COUNT, 2, self._pace_ms)

    def audit(self, world: World, cluster: SimCluster, history: History) -> None:
        TransactionsScenario.audit(self, world, cluster, history)
