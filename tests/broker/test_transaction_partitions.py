"""How a leader asks a transaction's coordinator: which questions travel together, which wait, and which end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from chronik.broker.transaction_partitions import Answers, TopicPartition, TransactionPartitions
from chronik.peer.addresses import Address
from chronik.runtime.tasks import Tasks
from chronik.wire.compiler import decode, encode
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from chronik.wire.peer_errors import Unreachable

HERE, THERE = 1, 2
NONE = ErrorCode.NONE
T0: TopicPartition = ("t", 0)
T1: TopicPartition = ("t", 1)


class Nodes:
    """The directory and the other nodes: keeps requests until the test answers them."""

    def __init__(self, leader: int | None) -> None:
        self.leader = leader
        self.directory = self
        self.sent: list[tuple[int, AddPartitionsToTxnRequest, asyncio.Future[Any]]] = []

    def leader_of(self, topic: str, partition: int) -> int | None:
        assert topic == "__transaction_state"
        return self.leader

    def address_of(self, node_id: int) -> Address | None:
        return None

    async def ask(self, node_id: int, request: Any, answer: type[Any], *, version_min: int = 0) -> Any:
        assert (version_min, answer) == (4, AddPartitionsToTxnResponse)
        received = decode(AddPartitionsToTxnRequest, 5, encode(request, 5))
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.sent.append((node_id, received, future))
        return await future

    @property
    def ids(self) -> list[list[str]]:
        return [[each.transactional_id for each in request.transactions] for _, request, _ in self.sent]

    async def answer(self, number: int, error: ErrorCode = NONE, whole: ErrorCode = NONE) -> None:
        _, request, future = self.sent[number]
        results = [
            AddPartitionsToTxnResult(
                transactional_id=each.transactional_id,
                topic_results=[
                    AddPartitionsToTxnTopicResult(
                        name=topic.name,
                        results_by_partition=[
                            AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)
                            for index in topic.partitions
                        ],
                    )
                    for topic in each.topics
                ],
            )
            for each in request.transactions
        ]
        response = AddPartitionsToTxnResponse(
            throttle_time_ms=0, error_code=whole, results_by_transaction=[] if whole else results
        )
        future.set_result(response)
        await happen()


class Coordinator:
    """Of this node: keeps calls until the test answers them."""

    def __init__(self) -> None:
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any], asyncio.Future[Answers]]] = []

    def partition_for(self, key: str) -> int:
        return 7

    async def add_partitions(self, *arguments: Any, **options: Any) -> Answers:
        future: asyncio.Future[Answers] = asyncio.get_running_loop().create_future()
        self.calls.append((arguments, options, future))
        return await future


class World:
    def __init__(self, leader: int | None) -> None:
        self.nodes, self.coordinator, self.tasks = Nodes(leader), Coordinator(), Tasks("test")
        self.asking = TransactionPartitions(HERE, self.nodes, self.coordinator, self.tasks.start)

    def ask(
        self, transactional_id: str, epoch: int = 0, *partitions: TopicPartition, verify_only: bool = False
    ) -> asyncio.Task[Answers]:
        asked = list(partitions) or [T0]
        return asyncio.ensure_future(self.asking.ask(transactional_id, 9, epoch, asked, verify_only=verify_only))


async def happen() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def play(story: Callable[[World], Coroutine[Any, Any, None]], leader: int | None = THERE) -> None:
    async def main() -> None:
        world = World(leader)
        await story(world)
        await world.tasks.stop()

    asyncio.run(main())


def test_questions_that_arrive_while_one_is_in_flight_share_the_next_request() -> None:
    """A thousand producers that begin transactions at once must not cost a thousand round trips to one node."""

    async def story(world: World) -> None:
        answers = [world.ask("a")]
        await happen()
        answers += [world.ask("b", 3, T0, T1), world.ask("c", verify_only=True)]
        await happen()
        assert world.nodes.ids == [["a"]]
        await world.nodes.answer(0)
        assert world.nodes.ids == [["a"], ["b", "c"]]
        node_id, request, _ = world.nodes.sent[1]
        b, c = request.transactions
        assert (node_id, b.producer_id, b.producer_epoch, b.verify_only, c.verify_only) == (THERE, 9, 3, False, True)
        assert [(topic.name, topic.partitions) for topic in b.topics] == [("t", [0, 1])]
        await world.nodes.answer(1, ErrorCode.CONCURRENT_TRANSACTIONS)
        assert [await each for each in answers] == [
            {T0: NONE},
            {T0: ErrorCode.CONCURRENT_TRANSACTIONS, T1: ErrorCode.CONCURRENT_TRANSACTIONS},
            {T0: ErrorCode.CONCURRENT_TRANSACTIONS},
        ]

    play(story)


@pytest.mark.parametrize(
    ("earlier_epoch", "later_epoch", "ends", "error"),
    [
        (1, 2, "earlier", ErrorCode.INVALID_PRODUCER_EPOCH),
        (1, 1, "earlier", ErrorCode.NETWORK_EXCEPTION),
        (2, 1, "later", ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
@pytest.mark.parametrize("leader", [HERE, THERE])
def test_one_question_of_a_transactional_id_waits(
    leader: int, earlier_epoch: int, later_epoch: int, ends: str, error: ErrorCode
) -> None:
    """Otherwise questions of a producer that was replaced, or that repeats its request, would pile up. The one that
    ends does so at once: its client must not wait for a coordinator that does not answer."""

    async def story(world: World) -> None:
        first = world.ask("a", 0)
        await happen()
        earlier = world.ask("a", earlier_epoch)
        await happen()
        later = world.ask("a", later_epoch)
        await happen()
        ended, waits = (earlier, later) if ends == "earlier" else (later, earlier)
        assert ended.done()
        assert not waits.done()
        assert await ended == {T0: error}
        if leader == THERE:
            await world.nodes.answer(0)
            await world.nodes.answer(1)
            asked = [request.transactions[0].producer_epoch for _, request, _ in world.nodes.sent]
        else:
            world.coordinator.calls[0][2].set_result({T0: NONE})
            await happen()
            world.coordinator.calls[1][2].set_result({T0: NONE})
            asked = [arguments[2] for arguments, _, _ in world.coordinator.calls]
        assert [await first, await waits] == [{T0: NONE}, {T0: NONE}]
        assert asked == [0, max(earlier_epoch, later_epoch)]

    play(story, leader)


def test_a_transaction_of_this_node_is_asked_about_by_a_call() -> None:
    """Other transactions do not wait for it, no request is sent, and no task is started: each costs time in every
    transaction."""

    async def story(world: World) -> None:
        a, b = world.ask("a", 4, T0, T1), world.ask("b", verify_only=True)
        await happen()
        assert not world.nodes.sent
        assert not world.tasks.names()
        arguments, options, answer = world.coordinator.calls[0]
        assert (arguments, options) == (("a", 9, 4, [T0, T1]), {"verify_only": False, "transaction_version": 2})
        assert world.coordinator.calls[1][1] == {"verify_only": True, "transaction_version": 0}
        world.coordinator.calls[1][2].set_result({T0: ErrorCode.TRANSACTION_ABORTABLE})
        assert await b == {T0: ErrorCode.TRANSACTION_ABORTABLE}
        answer.set_result({T0: NONE, T1: NONE})
        assert await a == {T0: NONE, T1: NONE}

    play(story, HERE)


def test_a_question_that_is_cancelled_ends_the_one_that_waits_for_it() -> None:
    """Requests are cancelled when the node stops. Nothing may start then, and nothing may wait."""

    async def story(world: World) -> None:
        first = world.ask("a")
        await happen()
        second = world.ask("a", 1)
        await happen()
        first.cancel()
        assert await second == {T0: ErrorCode.NETWORK_EXCEPTION}
        assert not world.tasks.names()
        assert len(world.coordinator.calls) == 1

    play(story, HERE)


def test_without_a_coordinator_the_answer_is_at_hand() -> None:
    """The state partition has no leader: the producer retries, and no request waits on this node."""

    async def story(world: World) -> None:
        assert await world.ask("a") == {T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert not world.nodes.sent

    play(story, None)


def test_a_coordinator_that_does_not_answer_is_a_network_error_for_each() -> None:
    """It is unknown whether the partitions were added; the producer retries."""

    async def story(world: World) -> None:
        a = world.ask("a")
        await happen()
        b = world.ask("b")
        await happen()
        world.nodes.sent[0][2].set_exception(Unreachable("gone"))
        await happen()
        assert await a == {T0: ErrorCode.NETWORK_EXCEPTION}
        await world.nodes.answer(1)
        assert await b == {T0: NONE}

    play(story)


@pytest.mark.parametrize(
    ("whole", "told"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_an_error_of_the_whole_request_is_one_of_each_partition(whole: ErrorCode, told: ErrorCode) -> None:
    """That this node may not ask is no answer about the client's permissions."""

    async def story(world: World) -> None:
        a = world.ask("a", 0, T0, T1)
        await happen()
        await world.nodes.answer(0, whole=whole)
        assert await a == {T0: told, T1: told}

    play(story)


def test_a_client_that_leaves_takes_only_its_own_question_along() -> None:
    """The request that carries its question also carries others. A question without a waiting client is not sent."""

    async def story(world: World) -> None:
        a = world.ask("a")
        await happen()
        b, c = world.ask("b"), world.ask("c")
        await happen()
        a.cancel()
        b.cancel()
        await world.nodes.answer(0)
        assert world.nodes.ids == [["a"], ["c"]]
        await world.nodes.answer(1)
        assert await c == {T0: NONE}

    play(story)


def test_whoever_waits_when_the_node_stops_is_told() -> None:
    """A handler that waits forever would prevent the node from stopping."""

    async def story(world: World) -> None:
        a = world.ask("a")
        await happen()
        b = world.ask("b")
        await happen()
        await world.tasks.stop()
        assert [await a, await b] == [{T0: ErrorCode.NETWORK_EXCEPTION}, {T0: ErrorCode.NETWORK_EXCEPTION}]
        assert world.nodes.ids == [["a"]]

    play(story)
