"""Markers reach the leaders of their partitions, together, and until each is written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from chronik.broker.transaction_markers import IN_FLIGHT_MAX, TransactionMarkers, Written
from chronik.coordinator.transactions.markers import MarkerOrder
from chronik.coordinator.transactions.transaction import TopicPartition
from chronik.metadata.image import NO_LEADER
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from chronik.wire.peer_errors import Closed
from tests.coordinator.virtual import FakeClock, let_everything_happen, run_virtually

P0, P1, P2 = ("t", 0), ("t", 1), ("t", 2)
STATE_PARTITION = 4


class Here:
    """This node: keeps markers until the test says what became of them."""

    node_id = 9

    def __init__(self) -> None:
        self.written: list[tuple[MarkerOrder, TopicPartition, asyncio.Future[ErrorCode]]] = []
        self.refusals: list[ErrorCode] = []  # of the next ones, which are not appended then
        self.at_once = 1_000_000  # markers that one loop iteration has time for
        self.left = self.at_once
        self.pauses = 0

    def write(self, order: MarkerOrder, partition: TopicPartition) -> Written:
        if self.refusals:
            return self.refusals.pop(0)
        future: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self.written.append((order, partition, future))
        return future

    def outcome_of(self, written: asyncio.Future[Any]) -> ErrorCode:
        outcome: ErrorCode = written.result()
        return outcome

    def may_go_on(self, pieces: int) -> bool:
        self.left -= 1
        return self.left > 0

    def go_on_later(self, go_on: Callable[[], None]) -> None:
        self.pauses += 1
        self.left = self.at_once
        asyncio.get_running_loop().call_soon(go_on)

    async def settle(self, outcome: ErrorCode = ErrorCode.NONE) -> None:
        settled, self.written = self.written, []
        for _, _, future in settled:
            future.set_result(outcome)
        await let_everything_happen()


class Cluster:
    """Leaders by partition, and what each request to them is answered."""

    def __init__(self) -> None:
        self.leaders: dict[TopicPartition, int] = {P0: 1, P1: 1, P2: 2}
        self.errors: dict[TopicPartition, ErrorCode] = {}
        self.requests: list[tuple[int, list[tuple[int, TopicPartition]]]] = []  # node, then producers and partitions
        self.unreachable: set[int] = set()
        self.stuck: set[TopicPartition] = set()
        self.finished: list[TopicPartition] = []
        self.tasks: list[asyncio.Future[None]] = []
        self.here = Here()
        self.markers = TransactionMarkers(lambda: self, self.ask, self.start, asyncio.sleep, self.here, self.epoch_at)  # type: ignore[arg-type,return-value]

    def start(self, _: str, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.ensure_future(work))

    async def epoch_at(self, *asked: Any) -> int:
        raise AssertionError("no marker of these tests is fenced")

    # As much of an image as is looked at.
    def topic_named(self, name: str) -> Any:
        leaders = self.leaders

        class Topic:
            def partition(self, index: int) -> Any:
                class State:
                    leader = leaders.get((name, index))

                return State if (name, index) in leaders else None

        return Topic() if any(topic == name for topic, _ in leaders) else None

    async def ask(self, node_id: int, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        asked = [
            (marker.producer_id, (topic.name, index))
            for marker in request.markers
            for topic in marker.topics
            for index in topic.partition_indexes
        ]
        self.requests.append((node_id, asked))
        if node_id in self.unreachable:
            raise Closed(f"broker {node_id}")
        while any(partition in self.stuck for _, partition in asked):
            await asyncio.sleep(0.01)
        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                WritableTxnMarkerPartitionResult(
                                    partition_index=index, error_code=self.errors.get((topic.name, index), 0)
                                )
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in request.markers
            ]
        )

    def write(self, *partitions: TopicPartition, producer_id: int = 7, epoch: int = 1) -> None:
        order = MarkerOrder("x", producer_id, epoch, True, 2, 3)
        for partition in partitions:
            self.markers.write(STATE_PARTITION, order, partition, self.finished.append)


def play(story: Callable[[Cluster], Coroutine[Any, Any, None]]) -> None:
    async def told() -> None:
        await story(Cluster())

    run_virtually(told(), FakeClock())


def test_markers_of_one_moment_share_a_request_to_each_leader() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.write(P0, P1, P2)
        cluster.write(P0, producer_id=8)
        await let_everything_happen()
        assert cluster.requests == [(1, [(7, P0), (7, P1), (8, P0)]), (2, [(7, P2)])]
        assert sorted(cluster.finished) == [P0, P0, P1, P2]

    play(story)


def test_two_orders_of_one_producer_are_two_requests() -> None:
    """The response tells markers apart by producer and partition only."""

    async def story(cluster: Cluster) -> None:
        cluster.write(P0, epoch=1)
        cluster.write(P0, epoch=2)
        await let_everything_happen()
        assert [len(asked) for _, asked in cluster.requests] == [1, 1]

    play(story)


def test_a_marker_that_is_refused_goes_to_the_leader_of_then_and_the_others_do_not_wait() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.errors[P0] = ErrorCode.NOT_LEADER_OR_FOLLOWER
        cluster.write(P0, P1)
        await let_everything_happen()
        assert cluster.finished == [P1]
        cluster.leaders[P0] = 2
        cluster.errors.clear()
        await asyncio.sleep(0.1)
        assert cluster.requests[-1] == (2, [(7, P0)])
        assert cluster.finished == [P1, P0]

    play(story)


def test_a_partition_that_commits_slowly_does_not_delay_the_others() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.stuck.add(P0)
        cluster.write(P0)
        await let_everything_happen()
        cluster.write(P1, producer_id=8)
        await let_everything_happen()
        assert cluster.finished == [P1]
        for producer_id in range(100, 120):
            cluster.write(P0, producer_id=producer_id)
            await let_everything_happen()
        assert len(cluster.requests) == 1 + IN_FLIGHT_MAX, "and what is ordered beyond that waits for one request"
        cluster.stuck.clear()
        await asyncio.sleep(0.1)
        assert len(cluster.finished) == 22
        assert len(cluster.requests) == 2 + IN_FLIGHT_MAX

    play(story)


def test_an_order_is_carried_out_however_long_it_takes() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.unreachable.add(1)
        cluster.leaders[P2] = NO_LEADER
        cluster.write(P0, P2)
        await asyncio.sleep(600)
        assert 600 <= len(cluster.requests) <= 610, "once a second"
        cluster.unreachable.clear()
        cluster.leaders[P2] = 2
        await asyncio.sleep(1.5)
        assert sorted(cluster.finished) == [P0, P2]

    play(story)


def test_a_partition_that_is_gone_needs_no_marker() -> None:
    async def story(cluster: Cluster) -> None:
        del cluster.leaders[P0]
        cluster.write(P0, ("deleted", 0))
        await let_everything_happen()
        assert sorted(cluster.finished) == [("deleted", 0), P0]
        assert not cluster.requests

    play(story)


def test_orders_of_a_leadership_that_is_over_are_dropped() -> None:
    """The next coordinator sends its own. Two coordinators with different epochs would block each other forever."""

    async def story(cluster: Cluster) -> None:
        cluster.errors[P0] = ErrorCode.NOT_ENOUGH_REPLICAS
        cluster.write(P0)
        await let_everything_happen()
        cluster.markers.forget(STATE_PARTITION)
        await asyncio.sleep(10)
        assert len(cluster.requests) == 1
        assert not cluster.finished

    play(story)


def test_a_partition_that_knows_a_later_epoch_has_ended_the_transaction() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.errors[P0] = ErrorCode.INVALID_PRODUCER_EPOCH
        cluster.write(P0)
        await let_everything_happen()
        assert cluster.finished == [P0]

    play(story)


def test_markers_for_partitions_of_this_node_need_no_request_and_finish_when_they_are_committed() -> None:
    """A marker that is only appended goes with its leader, so the transaction must not be complete yet."""

    async def story(cluster: Cluster) -> None:
        cluster.leaders = {P0: Here.node_id, P1: Here.node_id, P2: 2}
        cluster.write(P0, P1, P2)
        await let_everything_happen()
        assert cluster.requests == [(2, [(7, P2)])]
        assert [partition for _, partition, _ in cluster.here.written] == [P0, P1]
        assert cluster.finished == [P2]
        await cluster.here.settle()
        assert cluster.finished == [P2, P0, P1]

    play(story)


def test_a_marker_that_this_node_refuses_goes_to_the_leader_of_then() -> None:
    """Refused at once, or after the append because the leadership has moved: both are tried again."""

    async def story(cluster: Cluster) -> None:
        cluster.leaders[P0] = cluster.leaders[P1] = Here.node_id
        cluster.here.refusals = [ErrorCode.NOT_ENOUGH_REPLICAS]
        cluster.write(P0, P1)
        await let_everything_happen()
        await cluster.here.settle(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert cluster.finished == []
        cluster.leaders[P0] = cluster.leaders[P1] = 2
        await asyncio.sleep(1)
        assert sorted(partition for _, asked in cluster.requests for _, partition in asked) == [P0, P1]
        assert sorted(cluster.finished) == [P0, P1]

    play(story)


def test_markers_of_a_former_coordinator_are_not_written_here() -> None:
    """Between the order and the next loop iteration the state partition may move."""

    async def story(cluster: Cluster) -> None:
        cluster.leaders[P0] = Here.node_id
        cluster.write(P0)
        cluster.markers.forget(STATE_PARTITION)
        await let_everything_happen()
        assert cluster.here.written == []
        cluster.write(P0)
        await let_everything_happen()
        assert len(cluster.here.written) == 1

    play(story)


def test_very_many_markers_for_this_node_leave_time_for_others() -> None:
    """A transaction with 10,000 partitions must not hold the loop."""

    async def story(cluster: Cluster) -> None:
        cluster.leaders = {("t", index): Here.node_id for index in range(100)}
        cluster.here.at_once = cluster.here.left = 10
        cluster.write(*cluster.leaders)
        await let_everything_happen()
        assert cluster.here.pauses == 9
        await cluster.here.settle()
        assert len(cluster.finished) == 100

    play(story)


def test_while_a_partition_of_this_node_refuses_one_marker_is_tried_again_for_all() -> None:
    """Thousands of transactions may have ended there. Each attempt of all would take the time of those that succeed."""

    async def story(cluster: Cluster) -> None:
        cluster.leaders[P0] = cluster.leaders[P2] = cluster.here.node_id
        cluster.here.refusals = [ErrorCode.NOT_ENOUGH_REPLICAS] * 100
        for producer_id in range(1_000):
            cluster.write(P0, producer_id=producer_id)
        await asyncio.sleep(3)
        assert 2 < 100 - len(cluster.here.refusals) < 10, "one, with growing pauses"
        cluster.write(P0, producer_id=2_000)
        cluster.here.refusals = []
        await asyncio.sleep(1.1)
        await cluster.here.settle()
        await asyncio.sleep(0.1)
        await cluster.here.settle()
        assert cluster.finished == [P0] * 1_001

    play(story)


@pytest.mark.parametrize("change", ["another node leads", "another node coordinates"])
def test_markers_that_wait_for_another_one_go_on_without_it(change: str) -> None:
    async def story(cluster: Cluster) -> None:
        cluster.leaders[P0] = cluster.here.node_id
        cluster.here.refusals = [ErrorCode.NOT_ENOUGH_REPLICAS]
        cluster.write(P0, producer_id=1)
        order = MarkerOrder("y", 2, 1, True, 2, 3)
        cluster.markers.write(STATE_PARTITION + 1, order, P0, cluster.finished.append)
        await asyncio.sleep(0.001)
        assert not cluster.here.refusals
        if change == "another node leads":
            cluster.leaders[P0] = 1
        else:
            cluster.markers.forget(STATE_PARTITION)
        await asyncio.sleep(1)
        await cluster.here.settle()
        assert cluster.finished == ([P0, P0] if change == "another node leads" else [P0])

    play(story)
