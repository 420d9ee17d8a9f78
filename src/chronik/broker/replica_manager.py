"""Assembles a node's replicas with their fetchers and their requests to the controller, and runs the tasks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from chronik.replication.assignment import Replicas
from chronik.replication.fetcher import FetchConfig, Fetcher, Fetchers
from chronik.replication.full_replicas import FullReplicas
from chronik.replication.isr_changes import IsrChanges
from chronik.replication.lost_replicas import LostReplicas

if TYPE_CHECKING:
    from chronik.broker.node import Node
    from chronik.metadata.commands.alter_partition import AlterPartition, AlterPartitionReply
    from chronik.metadata.commands.report_lost_replicas import ReportLostReplicas, ReportLostReplicasReply
    from chronik.metadata.commands.withdraw_replicas import WithdrawReplicas, WithdrawReplicasReply


class ReplicaManager:
    """The node leads and follows nothing before `Replicas.begin`."""

    def __init__(self, node: Node) -> None:
        self._node = node
        settings, runtime = node.settings, node.runtime
        disk, directory = runtime.disk, settings.log_dir
        self.full = FullReplicas(
            runtime.clock,
            node_id=node.node_id,
            submit=self._withdraw,
            broker_epoch=lambda: node.broker_epoch,
            free_bytes=lambda: disk.free_bytes(directory),
            total_bytes=lambda: disk.total_bytes(directory),
        )
        self.isr_changes = IsrChanges(
            node.node_id,
            runtime.clock,
            submit=self._submit,
            image=lambda: node.store.image,
            broker_epoch=lambda: node.broker_epoch,
            lag_ms_max=settings.replica_lag_time_max_ms,
            full=self.full,
        )
        self.losses = LostReplicas(node.node_id, submit=self._report_losses, broker_epoch=lambda: node.broker_epoch)
        self._fetch_config = FetchConfig(
            wait_ms_max=settings.replica_fetch_wait_max_ms,
            bytes_min=settings.replica_fetch_min_bytes,
            bytes_max=settings.replica_fetch_response_max_bytes,
            partition_bytes_max=settings.replica_fetch_max_bytes,
            retry_ms=settings.replica_fetch_backoff_ms,
        )
        self.replicas = Replicas(
            node.node_id,
            node.logs,
            node.live_settings.of_topic,
            clock=runtime.clock,
            randomness=runtime.randomness,
            keeper=self.isr_changes,
            fetchers=Fetchers(self._make_fetcher, self._start_fetcher),
            losses=self.losses,
            full=self.full,
        )

    def start(self) -> None:
        self._node.duties.start("changes of in-sync replicas", self.isr_changes.run())
        self._node.duties.start("lost replicas", self.losses.run())
        self._node.duties.start("replicas without space", self.full.run())
        self._node.duties.start("space for replicas", self.full.watch())
        self._node.duties.start("lagging replicas", self.isr_changes.watch(self.replicas.all))

    def stop(self) -> None:
        self.replicas.end()

    async def _withdraw(self, command: WithdrawReplicas) -> WithdrawReplicasReply:
        return await self._node.store.submit(command)

    async def _report_losses(self, command: ReportLostReplicas) -> ReportLostReplicasReply:
        return await self._node.store.submit(command)

    async def _submit(self, command: AlterPartition) -> AlterPartitionReply:
        return await self._node.store.submit(command)

    def _make_fetcher(self, leader_id: int) -> Fetcher:
        node = self._node
        return Fetcher(
            node.node_id,
            leader_id,
            node.broker_network,
            self._fetch_config,
            address_of=node.peers.directory.address_of,
            broker_epoch=lambda: node.broker_epoch,
            incarnation_id=lambda: node.lifecycle.incarnation_id,
            login=node.peers.login,
        )

    def _start_fetcher(self, name: str, fetcher: Fetcher) -> asyncio.Task[None]:
        return self._node.duties.start(name, fetcher.run())
