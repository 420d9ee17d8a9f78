"""Requests of producers without epoch bump that arrive late: their connection tells what their epoch does not."""

from __future__ import annotations

from chronik.coordinator.transactions.coordinator import Initialized
from chronik.wire.error_codes import ErrorCode
from tests.coordinator.transactions.test_coordinator import NONE, P0, World, play

OLD, NEW = 1, 2  # connections of one producer: it gave the first one up when it opened the second


async def requests_on(world: World, made: Initialized, connection: int) -> tuple[ErrorCode, ErrorCode]:
    """A partition is added, and the transaction ended, without epoch bump."""
    producer = made.producer_id, made.producer_epoch
    added = await world.coordinator.add_partitions("x", *producer, [P0], transaction_version=0, connection=connection)
    ended = await world.coordinator.end("x", *producer, commits=True, transaction_version=0, connection=connection)
    return added[P0], ended.error


def test_a_request_that_was_held_up_on_an_older_connection_changes_nothing() -> None:
    """All transactions have the same epoch here. A late EndTxn would commit half of the next transaction, and a late
    AddPartitionsToTxn would begin a transaction that no producer ends."""

    async def story(world: World) -> None:
        made = await world.init()
        assert await requests_on(world, made, OLD) == (NONE, NONE)
        world.markers.finish()
        assert await requests_on(world, made, NEW) == (NONE, NONE)
        world.markers.finish()
        before = world.current
        assert await requests_on(world, made, OLD) == (ErrorCode.INVALID_TXN_STATE,) * 2
        assert world.current == before
        assert await requests_on(world, made, NEW) == (NONE, NONE)

    play(story)


def test_a_transaction_goes_on_after_its_producer_has_reconnected() -> None:
    async def story(world: World) -> None:
        made = await world.init()
        producer = made.producer_id, made.producer_epoch
        await world.coordinator.add_partitions("x", *producer, [P0], transaction_version=0, connection=OLD)
        ended = await world.coordinator.end("x", *producer, commits=True, transaction_version=0, connection=NEW)
        assert ended.error is NONE

    play(story)


def test_a_producer_that_takes_over_may_have_an_older_connection() -> None:
    """A standby connects early and waits. Once the first producer has gone it takes over, on a connection that is older
    than that of the first one. Its epoch tells that it is not the past."""

    async def story(world: World) -> None:
        first = await world.init()
        assert await requests_on(world, first, NEW) == (NONE, NONE)
        world.markers.finish()
        standby = await world.init()
        assert await requests_on(world, standby, OLD) == (NONE, NONE)
        world.markers.finish()
        assert await requests_on(world, first, NEW) == (ErrorCode.PRODUCER_FENCED,) * 2
        assert await requests_on(world, standby, NEW) == (NONE, NONE)
        world.markers.finish()
        assert await requests_on(world, standby, OLD) == (ErrorCode.INVALID_TXN_STATE,) * 2

    play(story)


def test_a_producer_that_was_replaced_is_told_so_on_its_older_connection() -> None:
    """It hung, so its connection is older than that of its successor. A client that hears INVALID_TXN_STATE may regard
    that as a mistake of the broker, and try again with a new epoch, which fences the successor."""

    async def story(world: World) -> None:
        first = await world.init()
        assert await requests_on(world, first, OLD) == (NONE, NONE)
        world.markers.finish()
        successor = await world.init()
        assert await requests_on(world, successor, NEW) == (NONE, NONE)
        world.markers.finish()
        assert await requests_on(world, first, OLD) == (ErrorCode.PRODUCER_FENCED,) * 2

    play(story)
