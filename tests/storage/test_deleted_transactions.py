"""DeleteRecords inside an open transaction: all replicas agree where read_committed consumers stop.

A replica that was created after the deletion has never seen the deleted records. So no replica may count them.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from chronik.sim.disk import SimDisk
from chronik.storage import producer_replay, producer_state
from chronik.storage.config import LogConfig
from chronik.storage.log import Log
from tests.storage.driving import append, batch, durable, marker, open_logs, run, topic_id

TOPIC = topic_id(1)
MANY = 50


async def opened(disk: SimDisk) -> Log:
    return (await open_logs(disk)).create("t", TOPIC, 0, LogConfig())


def send(log: Log, producer_id: int, *values: bytes) -> int:
    known = log.producers.producers.get(producer_id)
    sequence = 0 if known is None else known.last_sequence + 1
    return append(log, batch(list(values), producer=(producer_id, 0, sequence), transactional=True))


async def _as_it_is(disk: SimDisk, log: Log) -> Log:
    return log


async def _rebuilt(disk: SimDisk, log: Log) -> Log:
    log.snapshot = (log.end_offset + 1, b"")  # of a time that a cut takes back
    append(log, batch([b"cut off"]))
    log.truncate_to(log.end_offset - 1)
    return log


async def _restarted(disk: SimDisk, log: Log) -> Log:
    await durable(log)
    return await opened(disk.process_killed())


async def _copied(disk: SimDisk, log: Log) -> Log:
    """A new follower, which fetches from where the log starts now."""
    copy = await opened(SimDisk(1))
    copy.restart_at(log.start_offset)
    while copy.end_offset < log.end_offset:
        [read] = log.read(copy.end_offset, bytes_max=1, offset_limit=log.end_offset).buffers
        copy.append_fetched(memoryview(bytes(read)))
    return copy


Way = Callable[[SimDisk, Log], Coroutine[Any, Any, Log]]
WAYS = [_as_it_is, _rebuilt, _restarted, _copied]


@pytest.mark.parametrize("way", WAYS)
def test_a_transaction_begins_with_the_first_record_that_is_left_of_it(way: Way) -> None:
    async def scenario() -> None:
        disk = SimDisk(0)
        log = await opened(disk)
        send(log, 7, b"a")
        append(log, batch([b"b"]), batch([b"c"]))
        send(log, 7, b"d")
        log.advance_start(2)
        log = await way(disk, log)
        assert log.last_stable_offset(4) == 3
        append(log, marker(7, 0, committed=False))
        assert log.last_stable_offset(4) == 3, "its marker is not committed"
        assert log.last_stable_offset(5) == 5

    run(scenario)


@pytest.mark.parametrize("way", WAYS)
def test_a_transaction_of_which_nothing_is_left_holds_nobody_up(way: Way) -> None:
    async def scenario() -> None:
        disk = SimDisk(0)
        log = await opened(disk)
        send(log, 7, b"a")
        append(log, batch([b"b"]), batch([b"c"]))
        log.advance_start(2)
        log = await way(disk, log)
        assert log.last_stable_offset(3) == 3
        append(log, marker(7, 0, committed=False))
        assert log.last_stable_offset(3) == 3
        assert log.aborted_transactions(2, 4) == []

    run(scenario)


@pytest.mark.parametrize("way", [_as_it_is, _rebuilt, _restarted])
def test_what_is_left_of_a_batch_is_not_read_before_its_transaction_ends(way: Way) -> None:
    """Records are deleted up to any offset, and batches are kept whole."""

    async def scenario() -> None:
        disk = SimDisk(0)
        log = await opened(disk)
        send(log, 7, b"a", b"b", b"c")
        append(log, batch([b"d"]))
        log.advance_start(1)
        log = await way(disk, log)
        assert log.last_stable_offset(4) == 1

    run(scenario)


@pytest.mark.parametrize("way", [_as_it_is, _rebuilt, _restarted])
def test_an_ended_transaction_counts_until_its_marker_is_committed(way: Way) -> None:
    async def scenario() -> None:
        disk = SimDisk(0)
        log = await opened(disk)
        send(log, 7, b"a")
        send(log, 8, b"b")
        append(log, batch([b"c"]))
        send(log, 8, b"d")
        append(
            log,
            marker(7, 0, committed=True),
        )
        append(log, marker(8, 0, committed=True))
        log.advance_start(2)
        log = await way(disk, log)
        assert [log.last_stable_offset(mark) for mark in (3, 4, 5, 6)] == [3, 3, 3, 6]

    run(scenario)


def test_a_search_that_would_take_long_leaves_readers_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_replay, "SEARCHED_BATCHES_MAX", 3)

    async def scenario() -> None:
        log = await opened(SimDisk(0))
        send(log, 7, b"a")
        for _ in range(5):
            append(log, batch([b"b"]))
        log.advance_start(1)
        assert log.last_stable_offset(6) == 1
        append(log, marker(7, 0, committed=True))
        assert log.last_stable_offset(7) == 7

    run(scenario)


def test_many_open_transactions_are_put_in_order_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 of them, each put into order by itself, would hold up the node for a minute."""
    looked_at = 0

    def counted(place: int) -> Callable[[Any], Any]:
        def get(item: Any) -> Any:
            nonlocal looked_at
            looked_at += 1
            return item[place]

        return get

    async def scenario() -> None:
        log = await opened(SimDisk(0))
        for value in (b"a", b"b"):
            for producer_id in range(MANY):
                send(log, producer_id, value)
        monkeypatch.setattr(producer_state, "itemgetter", counted)
        log.advance_start(MANY)
        assert looked_at <= 3 * MANY
        state = log.producers
        first_offsets = [state.producers[each].transaction_first_offset for each in state.in_transaction()]
        assert first_offsets == list(range(MANY, 2 * MANY))

    run(scenario)
