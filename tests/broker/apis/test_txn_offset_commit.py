"""TxnOffsetCommit on a whole node: when the transaction's coordinator is asked, and every error by its version."""

from __future__ import annotations

import asyncio

import pytest

from chronik.coordinator.open_transactions import Producer
from chronik.replication.errors import NotLeader
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from chronik.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from chronik.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from chronik.wire.records import ControlType
from tests.broker.harness import Client
from tests.broker.hostile import World
from tests.broker.transactional import Asked, P, play, replica_of

ADDS, VERIFIES = 5, 4
VERSIONS = range(6)
OFFSETS = "__consumer_offsets"
Offsets = dict[tuple[str, int], int]


async def coordinator_is_found(world: World) -> None:
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    while (await world.client.ask(find, FindCoordinatorResponse, 4)).coordinators[0].error_code:
        await asyncio.sleep(0.1)


def request_of(
    offsets: Offsets,
    *,
    epoch: int = 0,
    group: str = "g",
    generation: int = -1,
    member_id: str = "",
    instance_id: str | None = None,
    metadata: str | None = None,
) -> TxnOffsetCommitRequest:
    topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for (name, index), offset in offsets.items():
        partition = TxnOffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata=metadata
        )
        topics.setdefault(name, []).append(partition)
    return TxnOffsetCommitRequest(
        transactional_id="mine",
        group_id=group,
        producer_id=P,
        producer_epoch=epoch,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=[TxnOffsetCommitRequestTopic(name=name, partitions=each) for name, each in topics.items()],
    )


def errors_in(response: TxnOffsetCommitResponse) -> dict[tuple[str, int], ErrorCode]:
    return {
        (topic.name, each.partition_index): ErrorCode.of(each.error_code)
        for topic in response.topics
        for each in topic.partitions
    }


async def commit(world: World, request: TxnOffsetCommitRequest, version: int = ADDS) -> ErrorCode:
    """The error that all partitions share."""
    found = errors_in(await world.client.ask(request, TxnOffsetCommitResponse, version))
    (error,) = set(found.values())
    return error


async def stored(world: World, *, stable: bool = True) -> list[tuple[int, int, ErrorCode]]:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)], require_stable=stable)
    response = await world.client.ask(request, OffsetFetchResponse, 9)
    return [
        (each.partition_index, each.committed_offset, ErrorCode.of(each.error_code))
        for topic in response.groups[0].topics
        for each in topic.partitions
    ]


async def end(world: World, outcome: ControlType, epoch: int = 0) -> None:
    answer = world.node.groups.end_transaction(0, Producer(P, epoch), outcome, 0, 0)
    assert (await answer if isinstance(answer, asyncio.Future) else answer) is ErrorCode.NONE


@pytest.mark.parametrize("version", VERSIONS)
def test_offsets_count_when_the_transaction_commits(version: int) -> None:
    """Before, the partition is added to the transaction (v5), or found in it, once for all commits of a transaction."""

    async def story(world: World, asked: Asked) -> None:
        await coordinator_is_found(world)
        assert await commit(world, request_of({("t", 0): 5, ("t", 1): 6}), version) is ErrorCode.NONE
        assert await commit(world, request_of({("t", 0): 7}), version) is ErrorCode.NONE
        assert asked.questions == [("mine", P, 0, ((OFFSETS, 0),), version < ADDS)]
        assert await stored(world) == []
        await end(world, ControlType.COMMIT)
        assert await stored(world) == [(0, 7, ErrorCode.NONE), (1, 6, ErrorCode.NONE)]
        assert await commit(world, request_of({("t", 0): 8}), version) is ErrorCode.NONE
        assert len(asked.questions) == 2, "the next transaction is another"
        await end(world, ControlType.ABORT)
        assert {index: offset for index, offset, _ in await stored(world)} == {0: 7, 1: 6}

    play(story)


UNCHANGED = (
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.INVALID_TXN_STATE,
)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_transactions_coordinator_refuses_is_told_in_words_that_the_client_knows(version: int) -> None:
    """A word that a client does not know ends its application; one that makes it retry for nothing hides the fault."""
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if version >= 2 else ErrorCode.COORDINATOR_NOT_AVAILABLE
    told = {
        **{error: error for error in UNCHANGED},
        ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.NETWORK_EXCEPTION: loading,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: loading,
        ErrorCode.TRANSACTION_ABORTABLE: (
            ErrorCode.TRANSACTION_ABORTABLE if version >= 4 else ErrorCode.INVALID_TXN_STATE
        ),
        ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    }

    async def story(world: World, asked: Asked) -> None:
        await coordinator_is_found(world)
        end_offset = replica_of(world, OFFSETS).log.end_offset
        for error, expected in told.items():
            asked.says = [error]
            assert await commit(world, request_of({("t", 0): 5}), version) is expected, error
        assert len(asked.questions) == len(told), "no question is repeated here: the client comes again"
        assert replica_of(world, OFFSETS).log.end_offset == end_offset

    play(story)


def test_topics_that_do_not_exist_are_refused_one_by_one() -> None:
    """The rest of the commit is written."""

    async def story(world: World, asked: Asked) -> None:
        await coordinator_is_found(world)
        request = request_of({("gone", 0): 1, ("t", 0): 2, ("t", 3): 3, ("t", 1): 4})
        found = errors_in(await world.client.ask(request, TxnOffsetCommitResponse, ADDS))
        assert found == {
            ("gone", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("t", 0): ErrorCode.NONE,
            ("t", 3): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("t", 1): ErrorCode.NONE,
        }
        await end(world, ControlType.COMMIT)
        assert [offset for _, offset, _ in await stored(world)] == [2, 4]

    play(story)


def test_a_commit_of_nothing_that_exists_asks_nobody() -> None:
    """Neither the transaction's coordinator nor the group's, also if the group's name is none."""

    async def story(world: World, asked: Asked) -> None:
        await coordinator_is_found(world)
        assert await commit(world, request_of({("gone", 0): 1}, group="")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert not asked.questions

    play(story)


def test_a_group_without_a_name_is_refused_before_anybody_is_asked() -> None:
    async def story(world: World, asked: Asked) -> None:
        await coordinator_is_found(world)
        assert await commit(world, request_of({("t", 0): 1}, group="")) is ErrorCode.INVALID_GROUP_ID
        assert not asked.questions

    play(story)


def test_only_the_leader_of_the_groups_partition_takes_commits() -> None:
    """Before the topic exists, no node takes them."""

    async def story(world: World, asked: Asked) -> None:
        assert await commit(world, request_of({("t", 0): 1})) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await coordinator_is_found(world)

        def follows() -> None:
            raise NotLeader("__consumer_offsets-0", 2)

        replica_of(world, OFFSETS).require_leader = follows  # type: ignore[method-assign,assignment]
        assert await commit(world, request_of({("t", 0): 1})) is ErrorCode.NOT_COORDINATOR
        assert not asked.questions

    play(story)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_coordinator_that_is_not_loaded_is_told_as_its_version_knows_it(version: int) -> None:
    async def story(world: World, asked: Asked) -> None:
        await coordinator_is_found(world)
        world.node.groups.unload(0)
        assert await commit(world, request_of({("t", 0): 1}), version) is ErrorCode.NOT_COORDINATOR
        assert len(asked.questions) == 1, "the transaction is looked at before the group"

    play(story)


def test_a_fenced_producer_is_refused_at_once() -> None:
    """Its successor has written, so the node refuses without asking the transaction coordinator."""

    async def story(world: World, asked: Asked) -> None:
        await coordinator_is_found(world)
        assert await commit(world, request_of({("t", 0): 1}, epoch=2)) is ErrorCode.NONE
        assert await commit(world, request_of({("t", 0): 2}, epoch=1)) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert len(asked.questions) == 1

    play(story)


def test_the_group_has_its_say_about_members() -> None:
    """Unknown group: only a producer that names no generation may commit. The transcripts have the other cases."""

    async def story(world: World, asked: Asked) -> None:
        await coordinator_is_found(world)
        assert await commit(world, request_of({("t", 0): 1}, generation=1, member_id="m")) is (
            ErrorCode.ILLEGAL_GENERATION
        )
        assert await commit(world, request_of({("t", 0): 1}, metadata="x" * 4097)) is (
            ErrorCode.OFFSET_METADATA_TOO_LARGE
        )
        assert await commit(world, request_of({("t", 0): 1}, member_id="m")) is ErrorCode.NONE
        assert await commit(world, request_of({("t", 0): 1}, generation=1, member_id="m")) is (
            ErrorCode.UNKNOWN_MEMBER_ID
        )

    play(story)


@pytest.mark.parametrize("version", [VERIFIES, ADDS])
def test_verification_can_be_switched_off_for_clients_that_add_partitions_themselves(version: int) -> None:
    """Newer ones rely on the leader to add the partition: there the question is not a check."""

    async def story(world: World, asked: Asked) -> None:
        await coordinator_is_found(world)
        assert await commit(world, request_of({("t", 0): 1}), version) is ErrorCode.NONE
        assert len(asked.questions) == (1 if version >= ADDS else 0)

    play(story, transaction_partition_verification_enable=False)


def test_a_commit_that_waited_too_long_is_not_written() -> None:
    """The transaction was aborted while the node asked its coordinator. The answer is about a transaction that has
    ended. Offsets that are written now would belong to no transaction and stay unstable forever."""

    async def story(world: World, asked: Asked) -> None:
        await coordinator_is_found(world)
        asked.waits = asyncio.Event()
        late = asyncio.ensure_future(commit(world, request_of({("t", 0): 5}), VERIFIES))
        await asyncio.sleep(1)
        await end(world, ControlType.ABORT)
        asked.waits.set()
        assert await late is ErrorCode.INVALID_TXN_STATE
        assert await stored(world) == []

    play(story)


def test_commits_of_one_connection_keep_their_order() -> None:
    """The first one has to ask and the second has not: still the second is the later one in the log."""

    async def story(world: World, asked: Asked) -> None:
        await coordinator_is_found(world)
        asked.waits = asyncio.Event()
        first = world.client.start(request_of({("t", 0): 5}), ADDS)
        second = world.client.start(request_of({("t", 0): 6}), ADDS)
        await asyncio.sleep(1)
        assert len(asked.questions) == 1
        asked.waits.set()
        await asyncio.gather(first, second)
        assert len(asked.questions) == 1
        await end(world, ControlType.COMMIT)
        assert await stored(world) == [(0, 6, ErrorCode.NONE)]

    play(story)


@pytest.mark.parametrize("version", [VERIFIES, ADDS])
def test_a_commit_that_was_held_up_on_an_older_connection_sets_the_group_back_no_more(version: int) -> None:
    """It belongs to an earlier transaction, which has the same epoch if the client adds partitions itself. The requests
    of newer clients name another epoch in each transaction, so connections say nothing about them."""

    async def story(world: World, asked: Asked) -> None:
        await coordinator_is_found(world)
        newer = Client(world.node)
        assert await commit(world, request_of({("t", 0): 5}), version) is ErrorCode.NONE
        await end(world, ControlType.COMMIT)
        answer = await newer.ask(request_of({("t", 0): 6}), TxnOffsetCommitResponse, version)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
        late = await commit(world, request_of({("t", 0): 5}), version)
        assert late is (ErrorCode.NONE if version >= ADDS else ErrorCode.INVALID_TXN_STATE)
        await end(world, ControlType.COMMIT)
        assert await stored(world) == [(0, 5 if version >= ADDS else 6, ErrorCode.NONE)]

    play(story)


def test_a_commit_of_many_partitions_is_one_batch_of_the_transaction() -> None:
    """It is made in pieces, so that others get their turn; all of it counts or none."""

    async def story(world: World, asked: Asked) -> None:
        await world.create("wide", partitions=300)
        await coordinator_is_found(world)
        offsets = {("wide", index): index for index in range(300)}
        before = replica_of(world, OFFSETS).log.end_offset
        assert await commit(world, request_of(offsets)) is ErrorCode.NONE
        assert replica_of(world, OFFSETS).log.end_offset == before + 300
        assert await stored(world) == []
        await end(world, ControlType.COMMIT)
        assert len(await stored(world)) == 300

    play(story)
