"""The scenario `share-groups`: members of a share group come and go while leaders and coordinators move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from chronik.sim.broker_scenarios import RecordsScenario
from chronik.sim.checkers.interface import Checker
from chronik.sim.checkers.sets import SHARE_GROUP_CHECKERS
from chronik.sim.cluster import SimCluster
from chronik.sim.history import History
from chronik.sim.record_clients import RecordClients
from chronik.sim.scenario import PACES_MS, Clients, require
from chronik.sim.share_group_clients import ShareGroupClients
from chronik.sim.world import World

LOCK_MS = 3_000
SESSION_MS = 2_500
DELIVERED_MS_MAX = 10_000  # a lock that a dead member has left ends meanwhile


class ShareGroupsScenario(RecordsScenario):
    """Three whole nodes, and a share group whose members accept, release and reject, are killed, and come back."""

    name = "share-groups"
    checkers: Sequence[type[Checker]] = SHARE_GROUP_CHECKERS
    brokers: ClassVar[dict[str, object]] = {
        **RecordsScenario.brokers,
        "group_share_min_session_timeout_ms": SESSION_MS,
        "group_share_session_timeout_ms": SESSION_MS,
        "group_share_min_heartbeat_interval_ms": 300,
        "group_share_heartbeat_interval_ms": 300,
        "group_share_min_record_lock_duration_ms": LOCK_MS,
        "group_share_record_lock_duration_ms": LOCK_MS,
        "share_coordinator_state_topic_num_partitions": 3,
        "share_coordinator_state_topic_replication_factor": 3,
    }

    def __init__(self) -> None:
        self._members: ShareGroupClients | None = None

    def clients(self, cluster: SimCluster, history: History) -> Clients:
        records = RecordClients(
            cluster,
            history,
            partition_count=self.partition_count,
            producer_count=2,
            reader_count=0,
            think_ms=cluster.world.random("pace").choice(PACES_MS[:2]),
            commits=False,
        )
        self._members = ShareGroupClients(cluster, history, records, member_count=3)
        return self._members

    def has_recovered(self, cluster: SimCluster) -> bool:
        """Members have decided about what was written, as well."""
        assert self._members is not None
        self._members.is_calm = True
        return super().has_recovered(cluster) and self._members.unsettled_count <= self.in_flight_max

    in_flight_max = 40  # producers go on

    def audit(self, world: World, cluster: SimCluster, history: History) -> None:
        assert self._members is not None
        members = self._members
        require(world, lambda: not members.unsettled_count, DELIVERED_MS_MAX, "31 every record is settled")
        super().audit(world, cluster, history)
