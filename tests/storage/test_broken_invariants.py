"""State of a log that must never be, made on purpose: the next step stops the node before bytes are written by it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from chronik.runtime.invariants import InvariantBroken
from chronik.sim.disk import SimDisk
from chronik.storage.checkpoint import LogPoint
from chronik.storage.config import LogConfig
from chronik.storage.indexes import Index
from chronik.storage.journal import Journal
from chronik.storage.leader_epochs import LeaderEpochs
from chronik.storage.log import Log
from chronik.storage.log_invariants import check_log
from chronik.storage.manifest import Manifest
from chronik.storage.producer_state import ProducerState
from tests.storage.driving import NOW_MS, batch, durable, open_logs, run, topic_id

Break = Callable[[Log], object]


def set_(name: str, value: object) -> Break:
    return lambda log: setattr(log, name, value)


def set_in_segment(index: int, name: str, value: object) -> Break:
    return lambda log: setattr(log.segments[index], name, value)


BROKEN: dict[str, tuple[str, Break]] = {
    "it starts behind its end": ("10 a log does not start", set_("start_offset", 99)),
    "durable and not written": ("10 nothing is durable", set_("_durable_offset", 99)),
    "committed and not written": ("10 nothing is committed", set_("high_watermark", 99)),
    "compacted and not written": ("28 compaction", set_("compacted_offset", 99)),
    "a checkpoint of no segment": ("28 a checkpoint", set_("checkpointed_segment", 99)),
    "producers of later batches": ("13 a snapshot", set_("snapshot", (99, b""))),
    "segments of a deleted log": ("30 a deleted log", set_("deleted", True)),
    "files in no directory": ("28 a log with segments", set_("has_directory", False)),
    "a start that no file reaches": ("7 the log's files", lambda log: log.segments.pop(0)),
    "an epoch behind the end": ("11 no epoch", lambda log: log.epochs.assign(9, 99)),
    "an epoch that was forgotten": ("11 the latest epoch", lambda log: setattr(log.epochs, "latest", 7)),
    "epochs out of order": (
        "11 leader epochs rise",
        lambda log: (log.epochs.assign(2, 2), log.epochs._starts.reverse()),
    ),
    "a transaction behind the end": (
        "14 a transaction's records",
        lambda log: log.producers.append(7, 0, 0, 0, 99, 99, NOW_MS, transactional=True),
    ),
    "segments out of order": ("28 segments follow", lambda log: log.segments.insert(1, log.segments[0])),
    "a segment behind the end": ("28 segments begin", set_in_segment(-1, "base_offset", 99)),
    "a hole in what is durable": ("10 what is durable has no hole", set_in_segment(0, "durable_bytes", 1)),
    "durable bytes that are not there": ("10 nothing is durable", set_in_segment(-1, "durable_bytes", 1 << 20)),
    "synced bytes that are not there": ("21 nothing is synced", set_in_segment(-1, "synced_bytes", 1 << 20)),
}


async def two_segments() -> Log:
    logs = await open_logs(SimDisk(1))
    log = logs.create("t", topic_id(1), 0, LogConfig())
    log.append(batch([b"a", b"b"]), leader_epoch=1, now_ms=NOW_MS)
    log.roll()
    log.append(batch([b"c"]), leader_epoch=1, now_ms=NOW_MS)
    await durable(log)
    check_log(log)
    return log


@pytest.mark.parametrize("what", BROKEN)
def test_a_log_that_cannot_be_stops_the_node(what: str) -> None:
    promise, change = BROKEN[what]

    async def scenario() -> None:
        log = await two_segments()
        change(log)
        with pytest.raises(InvariantBroken, match=f"invariant {promise}"):
            check_log(log)

    run(scenario)


@pytest.mark.parametrize(
    ("step", "change"),
    [
        (lambda log: log.advance_start(1), set_("high_watermark", 99)),
        (lambda log: log.truncate_to(2), set_("has_directory", False)),
        (lambda log: log.restart_at(7), set_("deleted", True)),
        (lambda log: log.replace_segments(0, 1, []), lambda log: None),
        (lambda log: log.adopt(log.segments, 99), lambda log: None),
    ],
    ids=["advance_start", "truncate_to", "restart_at", "replace_segments", "adopt"],
)
def test_a_log_is_looked_at_whenever_it_changes_as_a_whole(step: Break, change: Break) -> None:
    """The check runs before the caller continues. Each of these bugs once left a broken log to the next caller."""

    async def scenario() -> None:
        log = await two_segments()
        change(log)
        with pytest.raises(InvariantBroken):
            step(log)

    run(scenario)


def test_an_append_that_does_not_join_is_not_acknowledged() -> None:
    async def wrong_size() -> None:
        log = await two_segments()
        log.segments[-1].size_bytes += 1
        with pytest.raises(Exception, match="somebody else wrote"):
            log.append(batch([b"d"]), leader_epoch=1, now_ms=NOW_MS)

    async def old_epoch() -> None:
        log = await two_segments()
        with pytest.raises(InvariantBroken, match="11 a leader's epoch never goes back"):
            log.append(batch([b"d"]), leader_epoch=0, now_ms=NOW_MS)

    async def durable_before_written() -> None:
        log = await two_segments()
        log.append(batch([b"d"]), leader_epoch=1, now_ms=NOW_MS)
        capture = log.capture()
        capture.end_offset = 99
        with pytest.raises(InvariantBroken, match="10 nothing is durable"):
            log.made_durable(capture)

    for each in (wrong_size, old_epoch, durable_before_written):
        run(each)


def test_indexes_epochs_and_producers_keep_their_order() -> None:
    index = Index(SimDisk(1), "/i")
    index.add(5, 500, -1, 0)
    with pytest.raises(InvariantBroken, match="28 index entries rise"):
        index.add(6, 400, -1, 0)
    epochs = LeaderEpochs([(1, 0), (3, 10)])
    epochs.latest = 2
    with pytest.raises(InvariantBroken, match="11 leader epochs rise with offsets"):
        epochs.assign(3, 20)
    producers = ProducerState()
    producers.append(7, 0, 0, 4, 10, 14, NOW_MS, transactional=True)
    with pytest.raises(InvariantBroken, match="12 a producer's batches"):
        producers.append(7, 0, 5, 5, 12, 12, NOW_MS, transactional=True)
    with pytest.raises(InvariantBroken, match="16 open transactions are kept oldest first"):
        producers.append(8, 0, 0, 0, 3, 3, NOW_MS, transactional=True)
    with pytest.raises(InvariantBroken, match="14 a transaction ends behind"):
        producers.end_transaction(7, 0, 0, 9, NOW_MS, committed=True)


@pytest.mark.parametrize(
    ("promise", "more"),
    [
        ("10 a log does not start", {"start_offset": 9}),
        ("28 a checkpoint names", {"segment": 9}),
        ("28 compaction", {"compacted_offset": 9}),
        ("11 leader epochs", {"epochs": [(3, 0), (1, 2)]}),
        ("28 segments follow", {"bases": [3, 0]}),
    ],
)
def test_no_checkpoint_is_written_of_what_cannot_be(promise: str, more: dict[str, object]) -> None:
    """The checkpoint is read at the next start, when no process knows better."""
    point = LogPoint("t", 0, topic_id(1), 0, 100, 5, 0, 0, [(1, 0)], b"", [0])
    point.require_sound()
    with pytest.raises(InvariantBroken, match=f"invariant {promise}"):
        point._replace(**more).require_sound()  # type: ignore[arg-type]


def test_manifests_and_journals_promise_only_what_is_there() -> None:
    with pytest.raises(InvariantBroken, match="28 a checkpoint covers only journals that were begun"):
        Manifest(journal=3, checkpoint=4).encode()
    short = SimpleNamespace(_written_bytes=100, _synced_bytes=101)
    with pytest.raises(InvariantBroken, match="21 what was synced was written before"):
        Journal._write(short, [b"records"])  # type: ignore[arg-type]
