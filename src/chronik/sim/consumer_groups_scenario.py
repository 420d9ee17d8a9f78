"""The scenario `consumer-groups`: members of a consumer group join and leave while coordinators move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from chronik.sim.broker_scenarios import RecordsScenario
from chronik.sim.checkers.interface import Checker
from chronik.sim.checkers.sets import CONSUMER_GROUP_CHECKERS
from chronik.sim.cluster import SimCluster
from chronik.sim.consumer_group_clients import HEARTBEAT_MS, SESSION_MS, ConsumerGroupClients
from chronik.sim.history import History
from chronik.sim.record_clients import RecordClients
from chronik.sim.scenario import PACES_MS, Clients


class ConsumerGroupsScenario(RecordsScenario):
    """Three complete nodes, and a consumer group with static and dynamic members that are killed, fall silent and
    return."""

    name = "consumer-groups"
    partition_count = 5
    checkers: Sequence[type[Checker]] = CONSUMER_GROUP_CHECKERS
    brokers: ClassVar[dict[str, object]] = {
        **RecordsScenario.brokers,
        "group_consumer_session_timeout_ms": SESSION_MS,
        "group_consumer_heartbeat_interval_ms": HEARTBEAT_MS,
        "group_consumer_assignment_interval_ms": 200,
    }

    def __init__(self) -> None:
        self._members: ConsumerGroupClients | None = None

    def clients(self, cluster: SimCluster, history: History) -> Clients:
        records = RecordClients(
            cluster,
            history,
            partition_count=self.partition_count,
            producer_count=1,
            reader_count=0,
            think_ms=cluster.world.random("pace").choice(PACES_MS[:2]),
            commits=False,
        )
        self._members = ConsumerGroupClients(cluster, history, records, member_count=3)
        return self._members

    def has_recovered(self, cluster: SimCluster) -> bool:
        """Also requires that every partition has a reader."""
        assert self._members is not None
        self._members.is_calm = True
        return super().has_recovered(cluster) and self._members.held_count == self.partition_count
