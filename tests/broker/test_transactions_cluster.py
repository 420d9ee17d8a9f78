"""Transactions on three nodes, in the simulator: leaders ask coordinators on other nodes; offsets outlive theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import pytest

from chronik.broker.hanging_transactions import INTERVAL_S, OPEN_MS_MIN, ROUNDS_PAUSE_S
from chronik.broker.node import Node
from chronik.metadata.commands.create_topics import ConfigValue, NewTopic, PartitionReplicas
from chronik.sim.cluster import SimCluster
from chronik.wire.batches import build
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from chronik.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from chronik.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from chronik.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from chronik.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from chronik.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from chronik.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from chronik.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from chronik.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from chronik.wire.notation import Request, Response
from chronik.wire.peer_errors import PeerError
from chronik.wire.records import Record
from tests.broker.test_peers import node_of, play, run

GROUP_KEY, TRANSACTION_KEY = 0, 1
READ_COMMITTED = 1
A = TypeVar("A", bound=Response)
Ask = Callable[[], Awaitable[int]]


class Producer(NamedTuple):
    name: str
    producer_id: int
    epoch: int


class Versions(NamedTuple):
    """Of the requests that differ between the two generations of transactions."""

    produce: int
    commit: int
    end: int


OLD, NEW = Versions(11, 4, 4), Versions(12, 5, 5)


async def until_done(ask: Callable[[], Awaitable[Any]]) -> Any:
    """Retries like a client. `ask` returns an error code, or something else when it is done."""
    for _ in range(300):
        try:
            found = await ask()
        except PeerError as fault:
            if not fault.retriable:
                raise
        else:
            if not isinstance(found, ErrorCode) or not (found.retriable or found is ErrorCode.CONCURRENT_TRANSACTIONS):
                return found
        await asyncio.sleep(0.1)
    raise AssertionError("no end of errors")


class Talk:
    """The actions of a client of the cluster, from the process of one node."""

    def __init__(self, node: Node, versions: Versions) -> None:
        self._node, self._versions = node, versions

    async def ask(self, node_id: int, request: Request, answer: type[A], version: int) -> A:
        return await self._node.peers.ask(
            node_id, request, answer, version_min=version, version_max=version, timeout_ms=5_000
        )

    async def coordinator(self, kind: int, key: str) -> int:
        async def ask() -> int | ErrorCode:
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            found = (await self.ask(self._node.node_id, request, FindCoordinatorResponse, 4)).coordinators[0]
            return ErrorCode.of(found.error_code) if found.error_code else (found.node_id,)  # type: ignore[return-value]

        [node_id] = await until_done(ask)
        return int(node_id)

    async def init(self, name: str) -> Producer:
        async def ask() -> Any:
            request = InitProducerIdRequest(
                transactional_id=name, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
            )
            node_id = await self.coordinator(TRANSACTION_KEY, name)
            found = await self.ask(node_id, request, InitProducerIdResponse, 4)
            error = ErrorCode.of(found.error_code)
            return error or Producer(name, found.producer_id, found.producer_epoch)

        made = await until_done(ask)
        assert isinstance(made, Producer), made
        return made

    async def produce(self, producer: Producer, partition: int = 0, value: bytes = b"v") -> None:
        if self._versions is OLD:
            await self._add_partition(producer, partition)
        records = build(
            [Record(0, 1, b"k", value, ())],
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=0,
            is_transactional=True,
        )
        data = TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=partition, records=records)])

        async def ask() -> ErrorCode:
            leader_id = self._node.peers.directory.leader_of("orders", partition)
            if leader_id is None:
                return ErrorCode.LEADER_NOT_AVAILABLE
            request = ProduceRequest(transactional_id=producer.name, acks=-1, timeout_ms=5_000, topic_data=[data])
            found = await self.ask(leader_id, request, ProduceResponse, self._versions.produce)
            return ErrorCode.of(found.responses[0].partition_responses[0].error_code)

        assert await until_done(ask) is ErrorCode.NONE

    async def _add_partition(self, producer: Producer, partition: int) -> None:
        async def ask() -> ErrorCode:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=producer.name,
                v3_and_below_producer_id=producer.producer_id,
                v3_and_below_producer_epoch=producer.epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name="orders", partitions=[partition])],
            )
            node_id = await self.coordinator(TRANSACTION_KEY, producer.name)
            found = await self.ask(node_id, request, AddPartitionsToTxnResponse, 3)
            return ErrorCode.of(found.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

        assert await until_done(ask) is ErrorCode.NONE

    async def commit(self, producer: Producer, offset: int) -> None:
        async def add() -> ErrorCode:
            request = AddOffsetsToTxnRequest(
                transactional_id=producer.name,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                group_id="g",
            )
            node_id = await self.coordinator(TRANSACTION_KEY, producer.name)
            return ErrorCode.of((await self.ask(node_id, request, AddOffsetsToTxnResponse, 3)).error_code)

        async def ask() -> ErrorCode:
            partition = TxnOffsetCommitRequestPartition(
                partition_index=0, committed_offset=offset, committed_metadata=None
            )
            request = TxnOffsetCommitRequest(
                transactional_id=producer.name,
                group_id="g",
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                member_id="",
                topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=[partition])],
            )
            node_id = await self.coordinator(GROUP_KEY, "g")
            found = await self.ask(node_id, request, TxnOffsetCommitResponse, self._versions.commit)
            return ErrorCode.of(found.topics[0].partitions[0].error_code)

        if self._versions is OLD:
            await self.coordinator(GROUP_KEY, "g")
            assert await until_done(add) is ErrorCode.NONE
        assert await until_done(ask) is ErrorCode.NONE

    async def end(self, producer: Producer, *, commits: bool) -> None:
        async def ask() -> ErrorCode:
            request = EndTxnRequest(
                transactional_id=producer.name,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                committed=commits,
            )
            node_id = await self.coordinator(TRANSACTION_KEY, producer.name)
            return ErrorCode.of((await self.ask(node_id, request, EndTxnResponse, self._versions.end)).error_code)

        assert await until_done(ask) is ErrorCode.NONE

    async def stable_offset_of_group(self) -> tuple[int, ErrorCode]:
        """The committed offset of orders-0, and whether a transaction may change it."""

        async def ask() -> Any:
            group = OffsetFetchRequestGroup(group_id="g", topics=None)
            request = OffsetFetchRequest(groups=[group], require_stable=True)
            node_id = await self.coordinator(GROUP_KEY, "g")
            found = (await self.ask(node_id, request, OffsetFetchResponse, 9)).groups[0]
            if found.error_code:
                return ErrorCode.of(found.error_code)
            each = found.topics[0].partitions[0] if found.topics else None
            return (-1, ErrorCode.NONE) if each is None else (each.committed_offset, ErrorCode.of(each.error_code))

        offset, error = await until_done(ask)
        return offset, error

    async def last_stable_offset(self, partition: int = 0) -> int:
        async def ask() -> Any:
            place = ListOffsetsPartition(partition_index=partition, timestamp=-1)
            asked = ListOffsetsTopic(name="orders", partitions=[place])
            request = ListOffsetsRequest(replica_id=-1, isolation_level=READ_COMMITTED, topics=[asked])
            leader_id = self._node.peers.directory.leader_of("orders", partition)
            if leader_id is None:
                return ErrorCode.LEADER_NOT_AVAILABLE
            found = (await self.ask(leader_id, request, ListOffsetsResponse, 7)).topics[0].partitions[0]
            return ErrorCode.of(found.error_code) if found.error_code else (found.offset,)

        [offset] = await until_done(ask)
        return int(offset)


@pytest.mark.parametrize("versions", [OLD, NEW], ids=["verified", "added"])
@pytest.mark.parametrize("commits", [True, False])
def test_a_transaction_over_three_nodes_ends_everywhere(versions: Versions, commits: bool) -> None:
    """Records and offsets become visible together, or neither does. Six transactional ids, so that their coordinators
    are on all nodes, and most are not on the leader's."""

    async def work(node: Node) -> None:
        talk = Talk(node, versions)
        coordinators = set()
        for number in range(6):
            producer = await talk.init(f"tx-{number}")
            coordinators.add(await talk.coordinator(TRANSACTION_KEY, producer.name))
            end_offset = await talk.last_stable_offset()
            before, _ = await talk.stable_offset_of_group()
            await talk.produce(producer)
            await talk.commit(producer, 100 + number)
            assert await talk.last_stable_offset() == end_offset
            await talk.end(producer, commits=commits)
            for _ in range(100):  # markers follow the answer
                if await talk.last_stable_offset() == end_offset + 2:
                    break
                await asyncio.sleep(0.1)
            assert await talk.last_stable_offset() == end_offset + 2
            expected = 100 + number if commits else before
            for _ in range(100):
                if await talk.stable_offset_of_group() == (expected, ErrorCode.NONE):
                    break
                await asyncio.sleep(0.1)
            assert await talk.stable_offset_of_group() == (expected, ErrorCode.NONE)
        assert len(coordinators) == 3

    def story(cluster: SimCluster) -> None:
        run(cluster, cluster.numbered(1), work)

    play(story)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("commits", [True, False])
def test_pending_offsets_outlive_their_coordinator(seed: int, commits: bool) -> None:
    """The group's coordinator dies between the commit and the end of the transaction. The next one knows from the log
    which offset is pending, and the marker that it gets later decides."""

    def story(cluster: SimCluster) -> None:
        first = cluster.numbered(1)

        async def begin(node: Node) -> tuple[Producer, int]:
            talk = Talk(node, NEW)
            producer = await talk.init("tx")
            await talk.commit(producer, 5)
            await talk.end(producer, commits=True)
            while await talk.stable_offset_of_group() != (5, ErrorCode.NONE):
                await asyncio.sleep(0.1)
            producer = await talk.init("tx")
            await talk.commit(producer, 6)
            return producer, await talk.coordinator(GROUP_KEY, "g")

        producer, coordinator_id = run(cluster, first, begin)
        dead = cluster.numbered(coordinator_id)
        asker = next(machine for machine in cluster.machines.values() if machine is not dead)

        async def finish(node: Node) -> None:
            talk = Talk(node, NEW)
            while await talk.coordinator(GROUP_KEY, "g") == coordinator_id:
                await asyncio.sleep(0.1)
            assert await talk.stable_offset_of_group() == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
            await talk.end(producer, commits=commits)
            expected = (6 if commits else 5, ErrorCode.NONE)
            for _ in range(300):
                if await talk.stable_offset_of_group() == expected:
                    return
                await asyncio.sleep(0.1)
            assert await talk.stable_offset_of_group() == expected

        dead.crash()
        run(cluster, asker, finish)

    play(story, seed)


def test_a_coordinator_that_was_replaced_without_hearing_of_it_tells_no_stable_offsets() -> None:
    """A restarted copier asks for the offset of its last transaction. With an older offset it would copy records twice,
    and its transactional id would not prevent that, because it is the current producer."""

    def story(cluster: SimCluster) -> None:
        async def copy(node: Node, offset: int, coordinator_before: int | None = None) -> int:
            talk = Talk(node, NEW)
            while (coordinator_id := await talk.coordinator(GROUP_KEY, "g")) == coordinator_before:
                await asyncio.sleep(0.1)
            producer = await talk.init("tx")
            await talk.commit(producer, offset)
            await talk.end(producer, commits=True)
            while await talk.stable_offset_of_group() != (offset, ErrorCode.NONE):
                await asyncio.sleep(0.1)
            return coordinator_id

        async def ask_the_old_one(node: Node) -> tuple[ErrorCode, list[int]]:
            group = OffsetFetchRequestGroup(group_id="g", topics=None)
            request = OffsetFetchRequest(groups=[group], require_stable=True)
            answer = await node.peers.ask(node.node_id, request, OffsetFetchResponse, version_max=9, timeout_ms=30_000)
            found = answer.groups[0]
            return ErrorCode.of(found.error_code), [
                each.committed_offset for t in found.topics for each in t.partitions
            ]

        coordinator_id = run(cluster, cluster.numbered(1), partial(copy, offset=5))
        old = cluster.numbered(coordinator_id)
        others = [machine for machine in cluster.machines.values() if machine is not old]
        assert run(cluster, old, ask_the_old_one) == (ErrorCode.NONE, [5])
        for other in others:
            cluster.world.wires.cut(old.host, other.host)
            cluster.world.wires.cut(other.host, old.host)
        run(cluster, others[0], partial(copy, offset=6, coordinator_before=coordinator_id))
        assert run(cluster, old, ask_the_old_one) == (ErrorCode.NOT_COORDINATOR, [])

    play(story)


# Two of the three nodes have it, so that the third one keeps the quorum while these two cannot reach each other.
LOSSY = NewTopic(
    name="orders",
    assignments=[PartitionReplicas(index=0, broker_ids=[1, 2])],
    configs=[
        ConfigValue(key="unclean.leader.election.enable", value="true"),
        ConfigValue(key="min.insync.replicas", value="1"),
        ConfigValue(
            key="retention.ms", value="-1"
        ),  # a transaction without records that are left would not hold readers
    ],
)


@pytest.mark.parametrize("commits", [True, False])
def test_readers_go_on_after_an_unclean_election_has_lost_a_marker(commits: bool) -> None:
    """The new leader has the records of a transaction, and not its end, which the coordinator regards as written. No
    marker will come, so the leader finds out and ends the transaction itself."""

    def story(cluster: SimCluster) -> None:
        first, second, third = (cluster.numbered(number) for number in (1, 2, 3))
        wires = cluster.world.wires

        async def begin(node: Node) -> Producer:
            producer = await Talk(node, NEW).init("tx")
            await Talk(node, NEW).produce(producer)
            return producer

        async def end(node: Node) -> None:
            talk = Talk(node, NEW)
            await talk.end(producer, commits=commits)
            assert await becomes(talk, 2)

        async def becomes(talk: Talk, offset: int, seconds: float = 10) -> bool:
            for _ in range(int(seconds * 10)):
                if await talk.last_stable_offset() == offset:
                    return True
                await asyncio.sleep(0.1)
            return False

        def isr() -> list[int]:
            topic = node_of(third).store.image.topic_named("orders")
            assert topic is not None
            return sorted(topic.partitions[0].isr)

        assert node_of(third).peers.directory.leader_of("orders", 0) == 1
        producer = run(cluster, third, begin)
        for one, other in ((first, second), (second, first)):
            wires.cut(one.host, other.host)
        assert cluster.world.run_until(lambda: isr() == [1], within_ms=60_000)
        run(cluster, third, end)
        first.crash()
        assert cluster.world.run_until(lambda: isr() == [2], within_ms=60_000)

        async def look(node: Node) -> None:
            talk = Talk(node, NEW)
            assert await talk.last_stable_offset() == 0, "the marker is lost"
            healed_s = OPEN_MS_MIN / 1000 + 2 * INTERVAL_S + 2 * ROUNDS_PAUSE_S
            assert await becomes(talk, 2, healed_s), "readers of committed records do not get past the transaction"

        run(cluster, third, look, within_ms=300_000)

    play(story, topic=LOSSY)
