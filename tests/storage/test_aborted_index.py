"""Aborted transactions in files beside their segments: results for readers, costs, and the effects of damage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from chronik.runtime.pieces import at_once
from chronik.sim.disk import SimDisk
from chronik.storage import checkpoint, repair
from chronik.storage.aborted_index import (
    BLOCK_ENTRIES,
    ENTRY,
    HEADER,
    UNKNOWN_BLOCKS_MAX,
    AbortedIndex,
    DamagedIndex,
    NotReady,
)
from chronik.storage.aborted_mending import BATCHES_PER_STEP, mending
from chronik.storage.aborted_transactions import AbortedTransactions
from chronik.storage.config import LogConfig
from chronik.storage.log import Log
from chronik.storage.logs import Logs
from chronik.storage.producer_state import ABORTED, AbortedTransaction
from tests.storage.driving import NOW_MS, append, batch, batches_of, durable, marker, open_logs, run, topic_id

TOPIC = topic_id(1)
PATH = "/data/t-0/00000000000000000000.aborted"
MANY = 20_000


def transaction(log: Log, producer_id: int, *, committed: bool = False) -> AbortedTransaction:
    """One record and its marker."""
    known = log.producers.producers.get(producer_id)
    sequence = known.last_sequence + 1 if known is not None else 0
    first = append(log, batch([b"v"], keys=[b"k"], producer=(producer_id, 0, sequence), transactional=True))
    last = append(log, marker(producer_id, 0, committed=committed))
    return AbortedTransaction(producer_id, first, last, last + 1)


def aborted_of(log: Log, first: int, end: int) -> list[AbortedTransaction]:
    """The final result for a reader."""
    while True:
        try:
            return log.aborted_transactions(first, end)
        except NotReady:
            at_once(mending(log))


async def opened(disk: SimDisk, **config: int) -> tuple[Logs, Log]:
    logs = await open_logs(disk)
    log = logs.create("t", TOPIC, 0, LogConfig(**config))  # type: ignore[arg-type]
    log.config = LogConfig(**config)  # type: ignore[arg-type]
    return logs, log


# --- results for readers


@pytest.mark.parametrize("seed", range(40))
def test_a_search_finds_every_transaction_that_overlaps_the_range_and_no_other(seed: int) -> None:
    """Transactions of many producers overlap each other, and some stay open very long."""
    random = Random(seed)
    disk = SimDisk(seed)
    disk.make_directory("/data/t-0")
    made = AbortedTransactions(disk, "/data/t-0")
    model: list[AbortedTransaction] = []
    open_ones: dict[int, int] = {}
    bases = sorted({0, *random.sample(range(1, 3000), random.randint(0, 4))})
    for offset in range(3000):
        producer_id = random.randrange(random.choice([2, 40]))
        if producer_id not in open_ones:
            open_ones[producer_id] = offset
        elif random.random() < (0.002 if producer_id == 0 else 0.5):
            first = open_ones.pop(producer_id)
            entry = AbortedTransaction(producer_id, first, offset, min([offset + 1, *open_ones.values()]))
            model.append(entry)
            made.add(max(base for base in bases if base <= offset), entry)
            if random.random() < 0.02:
                made.write()
    for _ in range(300):
        first = random.randrange(3000)
        end = min(3000, first + random.choice([1, 10, 500]))
        undecided = min(open_ones.values(), default=3000)
        if end > undecided:
            continue  # read_committed consumers do not read there
        base = max(base for base in bases if base <= first)
        expected = [each for each in model if each.last_offset >= first and each.first_offset < end]
        assert made.between(first, end, base) == sorted(expected, key=lambda each: each.first_offset)


def test_a_marker_is_in_its_own_segment_and_its_transaction_may_begin_in_an_earlier_one() -> None:
    async def scenario() -> None:
        _, log = await opened(SimDisk(0), segment_bytes=300)
        append(log, batch([b"v"], producer=(7, 0, 0), transactional=True))
        for _ in range(5):
            append(log, batch([bytes(150)]))
        append(log, marker(7, 0, committed=False))
        assert len(log.segments) > 2
        [base] = log.aborted.indexes
        assert base == log.segments[-1].base_offset
        assert aborted_of(log, 0, 1) == [(7, 0, 6, 7)]

    run(scenario)


# --- costs


def _with_many(disk: SimDisk, *, held: bool) -> None:
    """MANY aborted transactions. With `held`, one that began before all of them stays open till the end."""

    async def scenario() -> None:
        logs, log = await opened(disk)
        for number in range(5):
            transaction(log, number)
        for number in range(MANY):
            first = log.end_offset + 2 * number
            log.aborted.add(0, AbortedTransaction(7, first, first + 1, 11 if held else first + 2))
        await logs.close()

    run(scenario)


@pytest.mark.parametrize("held", [False, True])
def test_very_many_aborted_transactions_cost_a_start_and_a_checkpoint_nothing(held: bool) -> None:
    """They were one list in every checkpoint, and in memory."""
    disk = SimDisk(0)
    _with_many(disk, held=held)

    async def scenario() -> None:
        assert len(disk.read_file("/data/checkpoint")) < 1500
        before = disk.calls["read"]
        logs, log = await opened(disk)
        assert disk.calls["read"] - before < 8
        assert sum(len(index.unwritten) for index in log.aborted.indexes.values()) == 0
        transaction(log, 9)
        before_bytes = len(disk.read_file(PATH))
        await logs.checkpoint()
        assert len(disk.read_file(PATH)) == before_bytes + ENTRY.size
        assert len(disk.read_file("/data/checkpoint")) < 1500

    run(scenario)


@pytest.mark.parametrize("held", [False, True])
def test_a_fetch_among_very_many_aborted_transactions_reads_a_few_of_them(held: bool) -> None:
    """Bisection finds the start. If a transaction stayed open meanwhile, blocks that begin after the range are read
    only once and then skipped."""
    disk = SimDisk(0)
    _with_many(disk, held=held)

    restored = AbortedTransactions(disk, "/data/t-0")
    restored.restore({0: MANY + 5}, [0], end_offset=3 * MANY)
    first = 10 + MANY
    for repeated in range(2):
        before = disk.calls["read"]
        found = restored.between(first, first + 20, 0)
        assert [each.first_offset for each in found] == list(range(first, first + 20, 2))
        if repeated or not held:
            assert disk.calls["read"] - before < 25


def test_a_log_without_aborted_transactions_has_no_file() -> None:
    async def scenario() -> None:
        disk = SimDisk(0)
        logs, log = await opened(disk)
        for number in range(100):
            transaction(log, number % 3, committed=True)
        await logs.close()
        assert not [name for name in disk.list("/data/t-0") if name.endswith(".aborted")]

    run(scenario)


# --- what keeps it true


def test_it_survives_kills_and_closes_with_entries_in_the_file_and_in_memory() -> None:
    async def scenario() -> None:
        disk = SimDisk(0)
        expected: list[AbortedTransaction] = []
        for how in ["closed", "killed", "closed", "killed", "killed"]:
            logs, log = await opened(disk)
            assert aborted_of(log, 0, log.end_offset) == expected
            expected += [transaction(log, number % 4) for number in range(BLOCK_ENTRIES + 9)]
            await durable(log)
            if how == "closed":
                await logs.close()
            disk = disk.process_killed()
        _, log = await opened(disk)
        assert aborted_of(log, 0, log.end_offset) == expected

    run(scenario)


@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_truncation_takes_markers_back_and_opens_their_transactions_again(checkpointed: bool) -> None:
    async def scenario() -> None:
        disk = SimDisk(0)
        logs, log = await opened(disk, segment_bytes=2000)
        expected = [transaction(log, number % 4) for number in range(3 * BLOCK_ENTRIES)]
        if checkpointed:
            await logs.checkpoint()
        cut = expected[BLOCK_ENTRIES + 5].last_offset
        log.truncate_to(cut)
        assert aborted_of(log, 0, cut) == expected[: BLOCK_ENTRIES + 5]
        assert log.last_stable_offset(cut) == cut - 1
        again = transaction(log, 9)
        await durable(log)
        _, log = await opened(disk.process_killed())
        assert aborted_of(log, 0, cut)[-1:] == expected[BLOCK_ENTRIES + 4 : BLOCK_ENTRIES + 5]
        assert [each.last_offset for each in aborted_of(log, cut, log.end_offset)] == [again.last_offset]

    run(scenario)


def test_files_go_with_their_segments() -> None:
    async def scenario() -> None:
        disk = SimDisk(0)
        logs, log = await opened(disk, segment_bytes=1500, retention_bytes=3000, retention_ms=-1)
        expected = [transaction(log, number % 4) for number in range(50)]
        await logs.checkpoint()
        log.high_watermark = log.end_offset
        await logs.maintain(NOW_MS)
        assert 0 < log.start_offset < log.end_offset
        kept = [each for each in expected if each.last_offset >= log.start_offset]
        assert aborted_of(log, log.start_offset, log.end_offset) == kept
        bases = {f"{segment.base_offset:020}.aborted" for segment in log.segments}
        assert {name for name in disk.list("/data/t-0") if name.endswith(".aborted")} <= bases
        await logs.close()
        _, log = await opened(disk)
        assert aborted_of(log, log.start_offset, log.end_offset) == kept

    run(scenario)


def _cut_entry(data: bytes) -> bytes:
    return data[: HEADER.size + 3 * ENTRY.size]


def _flip_entry(data: bytes) -> bytes:
    at = HEADER.size + 10 * ENTRY.size + 12
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def _foreign(data: bytes) -> bytes:
    index = AbortedIndex(SimDisk(0), "/data/u-3", 0)
    return data[: HEADER.size] + index._encoded([AbortedTransaction(5, 0, 1, 2)]) * 400


@pytest.mark.parametrize("damage", [None, _cut_entry, _flip_entry, _foreign, lambda data: b""])
@pytest.mark.parametrize("compacts", [False, True])
def test_a_missing_or_damaged_file_is_made_again_from_the_log(
    damage: Callable[[bytes], bytes] | None, compacts: bool
) -> None:
    """Without it a reader of committed records would get aborted ones."""

    async def scenario() -> None:
        disk = SimDisk(0)
        policy = "compact" if compacts else "delete"
        logs, log = await opened(disk, cleanup_policy=policy, min_cleanable_dirty_ratio=2)  # type: ignore[arg-type]
        expected = [transaction(log, number % 4) for number in range(100)]
        open_first = append(log, batch([b"v"], producer=(9, 0, 0), transactional=True))
        await logs.close()
        if damage is None:
            disk.remove(PATH)
        else:
            disk.replace_file(PATH, damage(disk.read_file(PATH)))
        logs, log = await opened(disk)
        end = append(log, marker(9, 0, committed=False))
        expected.append(AbortedTransaction(9, open_first, end, end + 1))
        assert aborted_of(log, 0, log.end_offset) == expected
        await logs.close()
        _, log = await opened(disk)
        assert log.aborted.is_whole
        assert aborted_of(log, 0, log.end_offset) == expected, "it is in the new file"

    run(scenario)


def test_a_file_that_vanishes_under_a_running_node_is_made_again() -> None:
    async def scenario() -> None:
        disk = SimDisk(0)
        logs, log = await opened(disk)
        expected = [transaction(log, number % 4) for number in range(100)]
        disk.remove(PATH)
        expected += [transaction(log, number % 4) for number in range(100)]
        assert aborted_of(log, 0, log.end_offset) == expected
        disk.remove(PATH)
        expected.append(transaction(log, 1))
        await logs.checkpoint()
        _, log = await opened(disk.process_killed())
        assert aborted_of(log, 0, log.end_offset) == expected

    run(scenario)


def test_a_repaired_directory_knows_its_aborted_transactions() -> None:
    async def scenario() -> None:
        disk = SimDisk(0)
        logs, log = await opened(disk, segment_bytes=2000)
        expected = [transaction(log, number % 4) for number in range(100)]
        await logs.close()
        for name in disk.list("/data/t-0"):
            if name.endswith(".aborted"):
                disk.replace_file(f"/data/t-0/{name}", b"something else")
        disk.remove("/data/checkpoint")
        repair.repair(disk, "/data")
        _, log = await opened(disk)
        assert log.aborted.is_whole
        assert aborted_of(log, 0, log.end_offset) == expected

    run(scenario)


def test_a_checkpoint_of_an_older_release_is_read() -> None:
    """It kept all aborted transactions in the producers' snapshot."""

    async def scenario() -> None:
        disk = SimDisk(0)
        logs, log = await opened(disk, segment_bytes=2000)
        expected = [transaction(log, number % 4) for number in range(100)]
        await logs.close()
        for name in disk.list("/data/t-0"):
            if name.endswith(".aborted"):
                disk.remove(f"/data/t-0/{name}")
        number, [point] = checkpoint.decode("", disk.read_file("/data/checkpoint"))
        held = b"".join([ABORTED.pack(*each) for each in expected])
        older = point._replace(producers=point.producers + held, aborted=None)
        assert len(older.line().split(" ")) == 15
        disk.replace_file("/data/checkpoint", checkpoint.encode(number, [older.line()]))
        logs, log = await opened(disk)
        assert aborted_of(log, 0, log.end_offset) == expected
        expected.append(transaction(log, 2))
        await logs.close()
        _, log = await opened(disk)
        assert aborted_of(log, 0, log.end_offset) == expected

    run(scenario)


@pytest.mark.parametrize("steps", range(1, 60))
def test_power_cuts_during_compaction_leave_one_index_or_the_other(steps: int) -> None:
    """Segments are joined, and so are their indexes. Whatever reached the disk, readers get no aborted record, and none
    of a committed transaction is hidden."""

    async def scenario() -> None:
        disk = SimDisk(steps)
        config = {"segment_bytes": 1500, "cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0}
        logs, log = await opened(disk, **config)  # type: ignore[arg-type]
        for number in range(40):
            transaction(log, number % 4, committed=number % 5 == 0)
        append(log, batch([bytes(1400)], keys=[b"last"]))
        await durable(log)
        await logs.checkpoint()
        log.high_watermark = log.end_offset
        disk.cut_after(steps)
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        working = asyncio.ensure_future(logs.maintain(NOW_MS))
        for _ in range(400):  # the power cut leaves tasks that never end
            await asyncio.sleep(0)
        working.cancel()
        await asyncio.wait([working])
        _, log = await opened(disk.power_cut(), **config)  # type: ignore[arg-type]
        model = {each.last_offset for each in aborted_of(log, 0, log.end_offset)}
        log.aborted.distrust("the test compares it with the log")
        from_log = {each.last_offset for each in aborted_of(log, 0, log.end_offset)}
        assert from_log <= model
        assert model <= {each.last_offset for each in batches_of(log) if each.is_control}, "a marker ends each"

    run(scenario)


def test_a_damaged_index_says_so() -> None:
    disk = SimDisk(0)
    disk.make_directory("/data/t-0")
    index = AbortedIndex(disk, "/data/t-0", 0)
    for number in range(200):
        index.add(AbortedTransaction(1, 2 * number, 2 * number + 1, 2 * number + 2))
    index.write()
    disk.replace_file(PATH, _flip_entry(disk.read_file(PATH)))
    found: list[AbortedTransaction] = []
    assert index.collect(300, 302, found)
    assert [each.first_offset for each in found] == [300], "damage elsewhere does not affect this lookup"
    with pytest.raises(DamagedIndex, match="entry 10"):
        index.collect(20, 22, found)


# --- nothing of this holds the loop


def _damaged(disk: SimDisk, count: int, **config: int) -> list[AbortedTransaction]:
    """A closed log with `count` aborted transactions, without its index files."""
    expected: list[AbortedTransaction] = []

    async def scenario() -> None:
        logs, log = await opened(disk, **config)
        expected.extend(transaction(log, number % 4) for number in range(count))
        await logs.close()
        for name in disk.list("/data/t-0"):
            if name.endswith(".aborted"):
                disk.remove(f"/data/t-0/{name}")

    run(scenario)
    return expected


def test_an_index_is_made_again_in_short_pieces() -> None:
    """A million entries take many seconds, in which a node has to serve others."""
    disk = SimDisk(0)
    expected = _damaged(disk, 500, segment_bytes=4000)

    async def scenario() -> None:
        _, log = await opened(disk)
        with pytest.raises(NotReady):
            log.aborted_transactions(0, log.end_offset)
        pieces = list(mending(log))
        assert len(pieces) > 2 * len(expected) // BATCHES_PER_STEP
        assert max(pieces) <= 1 + BATCHES_PER_STEP
        assert log.aborted_transactions(0, log.end_offset) == expected

    run(scenario)


@pytest.mark.parametrize("seed", range(12))
def test_a_rebuild_takes_into_account_what_happens_to_the_log_meanwhile(seed: int) -> None:
    """Appends, truncations, checkpoints, retention, and a second rebuild of the same log."""
    disk = SimDisk(seed)
    expected = _damaged(disk, 120, segment_bytes=900)

    async def scenario() -> None:
        random = Random(seed)
        logs, log = await opened(disk, segment_bytes=900, retention_ms=-1)
        log.aborted.distrust("the test says so")
        others = []
        working = mending(log)
        for _ in working:
            choice = random.randrange(30)
            if choice < 3:
                expected.append(transaction(log, 9))
            elif choice == 3 and len(expected) > 5:
                cut = expected[-3].first_offset
                log.truncate_to(cut)
                del expected[-3:]
            elif choice == 4:
                await durable(log)
                log.high_watermark = log.end_offset
                log.advance_start(min(log.start_offset + 20, log.end_offset))
                log.drop_below(log.start_offset)
            elif choice == 5:
                others.append(mending(log))
            elif choice == 6 and others:
                next(others[-1], None)
            elif choice == 7 and random.random() < 0.2:
                await logs.checkpoint()
        kept = [each for each in expected if each.last_offset >= log.start_offset]
        found = log.aborted_transactions(log.start_offset, log.end_offset)
        # Of a transaction that begins before the first segment its marker is all that is left to be read.
        assert [each for each in kept if each.first_offset >= log.segments[0].base_offset] == found
        await logs.close()
        _, log = await opened(disk)
        assert log.aborted_transactions(log.start_offset, log.end_offset) == found

    run(scenario)


def test_a_search_that_would_read_very_many_blocks_is_prepared_in_pieces() -> None:
    """If a transaction stayed open meanwhile, each of the others might overlap the range."""
    count = (UNKNOWN_BLOCKS_MAX + 20) * BLOCK_ENTRIES
    disk = SimDisk(0)

    async def scenario() -> None:
        logs, log = await opened(disk)
        transaction(log, 1)
        for number in range(count):
            first = 2 + 2 * number
            log.aborted.add(0, AbortedTransaction(7, first, first + 1, 2))
        await logs.close()
        logs, log = await opened(disk)
        before = disk.calls["read"]
        with pytest.raises(NotReady):
            log.aborted_transactions(0, 3)
        assert disk.calls["read"] - before < UNKNOWN_BLOCKS_MAX + 30, "it gives up at the limit"
        assert len(list(mending(log))) >= 19
        before = disk.calls["read"]
        assert [each.first_offset for each in log.aborted_transactions(0, 3)] == [0, 2]
        assert disk.calls["read"] - before < 25

    run(scenario)


def test_whoever_mends_a_log_that_is_deleted_meanwhile_ends() -> None:
    disk = SimDisk(0)
    _damaged(disk, 100)

    async def scenario() -> None:
        logs, log = await opened(disk)
        log.aborted.distrust("the test says so")
        working = mending(log)
        next(working)
        await logs.delete(log)
        assert list(working) == []

    run(scenario)
