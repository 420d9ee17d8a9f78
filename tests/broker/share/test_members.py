"""Members of a share group on a node: what they are given, what becomes of it, and when others get it."""

from __future__ import annotations

import asyncio

import pytest

from chronik.broker.share.acquisition import ACCEPT, GAP, REJECT, RELEASE, RENEW
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from chronik.wire.messages.share_acknowledge import AcknowledgementBatch
from tests.broker.apis.test_share_groups import offsets
from tests.broker.hostile import TOPIC, World, run
from tests.broker.share.members import GROUP, Member, configure, partitions_of, world_with_group

LOCK_S = 30.0


async def produced(world: World, count: int, partition: int = 0) -> None:
    for number in range(count):
        answer = await world.produce(b"%d" % number, partition=partition)
        assert not answer.error_code


async def lag(world: World) -> int:
    """Of partition 0: records that are not done with, as the group's coordinator knows it."""
    return next(behind for partition, _, behind in await offsets(world) if partition == 0)


def test_what_is_accepted_is_delivered_once() -> None:
    async def test() -> None:
        world = await world_with_group()
        await produced(world, 3)
        one, other = Member(world.node, "one"), Member(world.node, "other")
        assert await one.take(wait_ms=1000) == [(0, 1), (1, 1), (2, 1)]
        assert await other.take() == []
        assert await one.acknowledge((0, 2, ACCEPT)) == ErrorCode.NONE
        assert await other.take() == []
        assert await lag(world) == 0
        await world.node.stop()

    run(test())


def test_what_is_released_goes_to_another_member_with_a_higher_delivery_count() -> None:
    async def test() -> None:
        world = await world_with_group()
        await produced(world, 3)
        one, other = Member(world.node, "one"), Member(world.node, "other")
        assert await one.take(wait_ms=1000) == [(0, 1), (1, 1), (2, 1)]
        assert await one.acknowledge((0, 0, ACCEPT), (1, 1, RELEASE), (2, 2, REJECT)) == ErrorCode.NONE
        assert await other.take() == [(1, 2)]
        assert await other.acknowledge((1, 1, ACCEPT)) == ErrorCode.NONE
        assert await one.take() == []
        await world.node.stop()

    run(test())


def test_a_record_that_is_released_too_often_is_given_up_and_does_not_come_back_with_another_leader() -> None:
    """The count must be written with each release: in memory alone it would begin again with each leader."""

    async def test() -> None:
        world = await world_with_group()
        await produced(world, 1)
        for count in range(1, 6):
            member = Member(world.node, f"member {count}")
            assert await member.take(wait_ms=1000) == [(0, count)]
            assert await member.acknowledge((0, 0, RELEASE)) == ErrorCode.NONE
            member.client.closed()  # the last one: this leader forgets all that is not written
        assert await Member(world.node, "late").take(wait_ms=1000) == []
        assert await lag(world) == 0
        await world.node.stop()

    run(test())


def test_a_lock_ends_on_time_and_not_before() -> None:
    async def test() -> None:
        world = await world_with_group()
        await produced(world, 2)
        one, other = Member(world.node, "one"), Member(world.node, "other")
        assert await one.take(wait_ms=1000) == [(0, 1), (1, 1)]
        assert await other.take() == []
        assert await one.acknowledge((0, 0, ACCEPT)) == ErrorCode.NONE
        await asyncio.sleep(LOCK_S - 1)
        assert await other.take() == []
        await asyncio.sleep(2)
        assert await other.take() == [(1, 2)]
        assert await one.acknowledge((1, 1, ACCEPT)) == ErrorCode.INVALID_RECORD_STATE
        await world.node.stop()

    run(test())


def test_the_timer_of_a_lock_finds_what_became_of_its_record() -> None:
    """Of two records one is accepted, and stays in flight behind the other: the end of both locks concerns one."""

    async def test() -> None:
        world = await world_with_group()
        await produced(world, 2)
        one, other = Member(world.node, "one"), Member(world.node, "other")
        assert await one.take(wait_ms=1000) == [(0, 1), (1, 1)]
        assert await one.acknowledge((1, 1, ACCEPT)) == ErrorCode.NONE
        await asyncio.sleep(LOCK_S + 1)
        assert await other.take() == [(0, 2)]
        await world.node.stop()

    run(test())


def test_a_lock_that_is_renewed_lasts_longer() -> None:
    async def test() -> None:
        world = await world_with_group()
        await produced(world, 1)
        one, other = Member(world.node, "one"), Member(world.node, "other")
        assert await one.take(wait_ms=1000) == [(0, 1)]
        await asyncio.sleep(LOCK_S - 5)
        assert await one.acknowledge((0, 0, RENEW), is_renew_ack=True) == ErrorCode.NONE
        await asyncio.sleep(LOCK_S - 5)
        assert await other.take(wait_ms=1000) == []
        assert await other.take(wait_ms=10_000) == [(0, 2)]
        await configure(world, GROUP, {"share.renew.acknowledge.enable": "false"})
        assert await other.acknowledge((0, 0, RENEW), is_renew_ack=True) == ErrorCode.INVALID_RECORD_STATE
        await world.node.stop()

    run(test())


@pytest.mark.parametrize("how", ["the session is closed by a fetch", "by an acknowledgement", "the connection is lost"])
def test_a_member_that_leaves_holds_nothing(how: str) -> None:
    async def test() -> None:
        world = await world_with_group()
        await produced(world, 4)
        one, other = Member(world.node, "one"), Member(world.node, "other")
        assert len(await one.take(wait_ms=1000)) == 4
        assert await other.take() == []
        waiting = asyncio.ensure_future(other.take(wait_ms=20_000))
        await asyncio.sleep(0.1)
        if how == "the session is closed by a fetch":
            answer = await one.fetch(share_session_epoch=-1, acks={0: [(0, 0, ACCEPT)]})
            assert partitions_of(answer)[0].acknowledge_error_code == ErrorCode.NONE
        elif how == "by an acknowledgement":
            assert await one.acknowledge((0, 0, ACCEPT), share_session_epoch=-1) == ErrorCode.NONE
        else:
            assert await one.acknowledge((0, 0, ACCEPT)) == ErrorCode.NONE
            one.client.closed()
        assert await waiting == [(1, 2), (2, 2), (3, 2)]
        assert (await one.acknowledge((1, 1, ACCEPT)) if how != "the connection is lost" else 122) == (
            ErrorCode.SHARE_SESSION_NOT_FOUND
        )
        await world.node.stop()

    run(test())


def test_a_fetch_waits_for_what_is_produced_and_for_enough_of_it() -> None:
    async def test() -> None:
        world = await world_with_group(partitions=2)
        one = Member(world.node, "one")
        waiting = asyncio.ensure_future(one.take(partitions=(0, 1), wait_ms=60_000))
        await asyncio.sleep(1)
        assert not waiting.done()
        await produced(world, 1, partition=1)
        assert await waiting == [(0, 1)]
        begun = asyncio.get_running_loop().time()
        waiting = asyncio.ensure_future(one.take(partitions=(0, 1), wait_ms=5_000, min_bytes=1_000_000))
        await asyncio.sleep(1)
        await produced(world, 2, partition=0)
        assert await waiting == [(0, 1), (1, 1)]
        assert asyncio.get_running_loop().time() - begun >= 5
        size_bytes = 3 * 69
        waiting = asyncio.ensure_future(one.take(partitions=(0, 1), wait_ms=60_000, min_bytes=size_bytes))
        await asyncio.sleep(1)
        await produced(world, 2, partition=0)
        await asyncio.sleep(1)
        assert not waiting.done()
        await produced(world, 1, partition=1)
        assert len(await waiting) == 3
        await world.node.stop()

    run(test())


def test_records_that_retention_removes_are_nobodys_any_more() -> None:
    """Else the start would stay below the log, and every fetch would be out of range."""

    async def test() -> None:
        world = await world_with_group()
        await produced(world, 6)
        one, other = Member(world.node, "one"), Member(world.node, "other")
        assert len(await one.take(wait_ms=1000, records_max=2)) == 2
        part = DeleteRecordsPartition(partition_index=0, offset=4)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=TOPIC, partitions=[part])], timeout_ms=1000)
        await world.client.ask(request, DeleteRecordsResponse, 2)
        assert await other.take() == [(4, 1), (5, 1)]
        assert await one.acknowledge((0, 1, ACCEPT)) == ErrorCode.NONE
        assert await other.acknowledge((4, 5, ACCEPT)) == ErrorCode.NONE
        assert await lag(world) == 0
        await world.node.stop()

    run(test())


def test_what_a_leader_did_not_write_is_delivered_again_by_the_next_one() -> None:
    """The state has gaps where records were acquired and never acknowledged. They are fetched, and nothing else is."""

    async def test() -> None:
        world = await world_with_group()
        await produced(world, 6)
        one = Member(world.node, "one")
        assert len(await one.take(wait_ms=1000)) == 6
        assert await one.acknowledge((1, 2, ACCEPT), (4, 4, REJECT)) == ErrorCode.NONE
        key = next(iter(world.node.services.share_partitions._by_key))
        world.node.services.share_partitions._by_key[key].end(ErrorCode.FENCED_LEADER_EPOCH)
        assert await one.acknowledge((0, 0, ACCEPT)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await one.take(wait_ms=1000) == [(0, 1), (3, 1), (5, 1)]
        await world.node.stop()

    run(test())


def test_a_group_begins_where_it_is_configured_to() -> None:
    async def test() -> None:
        world = await world_with_group({"share.auto.offset.reset": "latest"}, group="latest")
        await produced(world, 2)
        member = Member(world.node, "one", "latest")
        waiting = asyncio.ensure_future(member.take(wait_ms=60_000))
        await asyncio.sleep(1)
        await produced(world, 1)
        assert await waiting == [(2, 1)]
        await world.node.stop()

    run(test())


def test_more_records_than_may_be_locked_are_not_acquired() -> None:
    async def test() -> None:
        world = await world_with_group({"share.partition.max.record.locks": "100"})
        await produced(world, 130)
        one, other = Member(world.node, "one"), Member(world.node, "other")
        assert len(await one.take(wait_ms=1000, records_max=60)) == 60
        assert len(await other.take()) == 40
        assert await other.take() == []
        assert await one.acknowledge((0, 9, ACCEPT)) == ErrorCode.NONE
        assert len(await other.take()) == 10
        await world.node.stop()

    run(test())


Row = tuple[list[tuple[int, int, list[int]]], ErrorCode]
ACKNOWLEDGEMENTS: dict[str, Row] = {
    "one type for all": ([(0, 2, [ACCEPT])], ErrorCode.NONE),
    "a type for each": ([(0, 2, [ACCEPT, REJECT, GAP])], ErrorCode.NONE),
    "nothing": ([(0, 2, [])], ErrorCode.INVALID_REQUEST),
    "too few types": ([(0, 2, [ACCEPT, ACCEPT])], ErrorCode.INVALID_REQUEST),
    "an unknown type": ([(0, 2, [5])], ErrorCode.INVALID_REQUEST),
    "a renewal that was not announced": ([(0, 2, [RENEW])], ErrorCode.INVALID_REQUEST),
    "backwards": ([(2, 0, [ACCEPT])], ErrorCode.INVALID_REQUEST),
    "overlapping": ([(0, 2, [ACCEPT]), (1, 3, [ACCEPT])], ErrorCode.INVALID_REQUEST),
    "one offset twice": ([(0, 2, [ACCEPT]), (2, 3, [ACCEPT])], ErrorCode.INVALID_RECORD_STATE),
    "what another member holds": ([(0, 4, [ACCEPT])], ErrorCode.INVALID_RECORD_STATE),
    "what was not acquired": ([(0, 9, [ACCEPT])], ErrorCode.INVALID_REQUEST),
}


@pytest.mark.parametrize("case", ACKNOWLEDGEMENTS)
def test_an_acknowledgement_that_is_wrong_changes_nothing(case: str) -> None:
    batches, error = ACKNOWLEDGEMENTS[case]

    async def test() -> None:
        world = await world_with_group()
        await produced(world, 8)
        one, other = Member(world.node, "one"), Member(world.node, "other")
        assert len(await one.take(wait_ms=1000, records_max=4)) == 4
        assert len(await other.take(records_max=2)) == 2
        asked = [AcknowledgementBatch(first_offset=f, last_offset=la, acknowledge_types=t) for f, la, t in batches]
        assert await one.acknowledge_all(asked) == error
        if error:
            assert await one.acknowledge((0, 3, ACCEPT)) == ErrorCode.NONE, "as if it had not been asked"
        else:
            assert await one.acknowledge((0, 2, ACCEPT)) == ErrorCode.NONE, "below the start nothing is looked at"
            assert await one.acknowledge((3, 3, ACCEPT)) == ErrorCode.NONE
        await world.node.stop()

    run(test())


def test_a_request_that_no_session_takes() -> None:
    async def test() -> None:
        world = await world_with_group()
        await produced(world, 1)
        invalid, not_found = ErrorCode.INVALID_REQUEST, ErrorCode.SHARE_SESSION_NOT_FOUND
        one = Member(world.node, "one")
        for error, more in [
            (invalid, {"group_id": None}),
            (invalid, {"member_id": None}),
            (invalid, {"member_id": ""}),
            (invalid, {"member_id": "x" * 37}),
            (not_found, {"share_session_epoch": 1}),
            (not_found, {"share_session_epoch": -1}),
            (invalid, {"is_renew_ack": True}),
            (invalid, {"acks": {0: [(0, 0, ACCEPT)]}}),
        ]:
            assert (await one.fetch(**more)).error_code == error, more
        for error, more in [
            (invalid, {"group_id": None}),
            (invalid, {"member_id": None}),
            (ErrorCode.INVALID_SHARE_SESSION_EPOCH, {"share_session_epoch": 0}),
            (not_found, {"share_session_epoch": 1}),
        ]:
            assert await one.acknowledge((0, 0, ACCEPT), **more) == error, more
        assert await one.take(wait_ms=1000) == [(0, 1)]
        assert (await one.fetch(share_session_epoch=2)).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        wrong = await one.acknowledge((0, 0, ACCEPT), share_session_epoch=3)
        assert wrong == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        assert await one.acknowledge((0, 0, ACCEPT)) == ErrorCode.NONE
        await world.node.stop()

    run(test())
