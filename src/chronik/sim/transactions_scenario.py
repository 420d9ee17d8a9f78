"""Three complete nodes with transactions: writers of both protocol generations that are replaced, fenced and forgotten,
readers of committed records, and all usual faults. At the end every transaction is complete, and none is torn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from chronik.client.admin import offsets as group_offsets
from chronik.sim.broker_scenarios import RecordsScenario, run_in
from chronik.sim.checkers.interface import Checker
from chronik.sim.checkers.partitions import node_of
from chronik.sim.checkers.records import AUDITOR
from chronik.sim.checkers.sets import TRANSACTION_CHECKERS
from chronik.sim.cluster import SimCluster
from chronik.sim.history import OK, History
from chronik.sim.record_clients import COMMITTED_AT, TOPIC, routing_of
from chronik.sim.scenario import HEALED_MS_MAX, PACES_MS, Clients, require
from chronik.sim.transaction_clients import TIMEOUT_MS, TransactionClients
from chronik.sim.wire_clients import make_client
from chronik.sim.world import World

WRITER_COUNT = 3
PACES = (*PACES_MS[:2], (1, 30))  # the last one is busy, so that faults hit running operations


class TransactionsScenario(RecordsScenario):
    name = "transactions"
    checkers: Sequence[type[Checker]] = TRANSACTION_CHECKERS
    brokers: ClassVar[dict[str, object]] = {
        **RecordsScenario.brokers,
        "transaction_state_log_replication_factor": 3,
        "transaction_state_log_min_isr": 2,
        "transaction_state_log_num_partitions": 2,
        "log_retention_check_interval_ms": 400,
    }

    def clients(self, cluster: SimCluster, history: History) -> Clients:
        return self._writers(cluster, history, WRITER_COUNT, 2, cluster.world.random("pace").choice(PACES))

    def _writers(
        self, cluster: SimCluster, history: History, writer_count: int, reader_count: int, think_ms: tuple[int, int]
    ) -> TransactionClients:
        return TransactionClients(
            cluster,
            history,
            partition_count=self.partition_count,
            writer_count=writer_count,
            reader_count=reader_count,
            think_ms=think_ms,
        )

    def audit(self, world: World, cluster: SimCluster, history: History) -> None:
        promise = "16 every transaction ends"
        require(world, lambda: have_all_ended(cluster), TIMEOUT_MS + HEALED_MS_MAX, promise)
        clients = self._writers(cluster, history, 0, 0, (0, 0))
        auditor = make_client(cluster, AUDITOR)

        async def look() -> None:
            routing = routing_of(cluster, auditor)
            for partition in range(self.partition_count):
                leader = (await routing.topic(TOPIC)).partitions[partition].leader_id
                node = node_of(cluster.machines[leader])
                assert node is not None
                replica = next(
                    replica
                    for replica in node.replicas.all()
                    if (replica.log.topic, replica.log.partition) == (TOPIC, partition)
                )
                offset = 0
                while offset < replica.high_watermark:
                    fetched = await clients.fetch(auditor, leader, partition, offset)
                    offset = offset if fetched is None else fetched.end
            for number in range(1, WRITER_COUNT + 1):
                key = f"writer-{number}"
                operation = history.invoke(AUDITOR, "-", "committed", key)
                found = await group_offsets.committed(routing, f"group of {key}")
                history.complete(operation, OK, found[COMMITTED_AT].offset if found else 0)
            await routing.close()

        run_in(world, auditor, look())


def have_all_ended(cluster: SimCluster) -> bool:
    """Whether no transaction is open or waits for markers, so that readers of committed records get everything."""
    for machine in cluster.machines.values():
        node = node_of(machine)
        if node is None:
            return False
        transactions = node.coordinators.transactions.transactions()
        if not isinstance(transactions, list) or any(each.has_not_ended for each in transactions):
            return False
        for replica in node.replicas.all():
            if replica.is_leader and replica.log.last_stable_offset(replica.high_watermark) < replica.high_watermark:
                return False
    return True
