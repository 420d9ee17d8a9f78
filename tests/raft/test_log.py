"""The log against a dumb twin: whatever is durable or not, handed out or not, it reads as one row of entries."""

from __future__ import annotations

from random import Random

import pytest

from chronik.raft.log import RaftLog, within
from chronik.raft.messages import Entry, EntryKind, Membership, Snapshot
from chronik.raft.stable_log import StableLog
from chronik.runtime.invariants import InvariantBroken

UNLIMITED = 1 << 60


def make(base: int = 5) -> tuple[RaftLog, StableLog]:
    stable = StableLog(lambda: None)
    stable.restart_behind(base, 1)
    return RaftLog(stable, applying_bytes_max=UNLIMITED), stable


def entries(first: int, last: int, term: int) -> list[Entry]:
    return [Entry(term, index, EntryKind.NORMAL, b"x") for index in range(first, last + 1)]


def check_against(log: RaftLog, twin: dict[int, int], base: int) -> None:
    last = max(twin, default=base)
    assert log.last_index == last
    assert log.first_index == base + 1
    for index in range(base - 1, last + 3):
        expected = 1 if index == base else twin.get(index)
        assert log.term(index) == expected, index
    for low in range(base + 1, last + 2):
        assert [entry.index for entry in log.entries(low, UNLIMITED) or ()] == list(range(low, last + 1))


def test_it_reads_like_a_row_of_entries_whatever_the_disk_has_done() -> None:
    """Appends, overwrites, writes that end late or for entries that are void by now."""
    for seed in range(300):
        random = Random(seed)
        log, stable = make()
        twin: dict[int, int] = {}
        writing: list[tuple[list[Entry], int, int]] = []
        term = 1
        for _ in range(40):
            dice = random.random()
            if dice < 0.5:
                term += random.randint(0, 1)
                low = log.committed + 1
                first = random.randint(max(low, log.last_index - 2), log.last_index + 1)
                if first <= log.last_index:
                    term += 1  # only a new leader overwrites
                new = entries(first, first + random.randint(0, 3), term)
                log.append(new)
                twin = {index: old for index, old in twin.items() if index < first} | {e.index: term for e in new}
            elif dice < 0.7 and log.has_unwritten:
                writing.append((list(log.unwritten), log.last_index, log.last_term))
                log.accept_writing()
            elif dice < 0.9 and writing:
                written, index, last_term = writing.pop(0)
                stable.append(written)
                log.stable_to(index, last_term)
            elif log.last_index > log.committed:
                log.commit_to(random.randint(log.committed, log.last_index))
            check_against(log, twin, 5)


def test_a_committed_entry_is_never_replaced() -> None:
    log, _ = make()
    log.append(entries(6, 8, 2))
    log.commit_to(7)
    with pytest.raises(InvariantBroken, match="never replaced"):
        log.append(entries(7, 7, 3))


def test_a_commit_beyond_the_end_is_not_believed() -> None:
    """It comes from a peer: no reason to stop, and none to trust."""
    log, _ = make()
    log.append(entries(6, 8, 2))
    assert not log.commit_to(9)
    assert not log.commit_to(5)
    assert log.commit_to(8)


def test_a_late_write_says_nothing_about_what_replaced_it() -> None:
    """Index 7 was written in term 2 and is by now term 3: the report of the old write must not count for the new."""
    log, stable = make()
    log.append(entries(6, 7, 2))
    log.accept_writing()
    log.append(entries(7, 7, 3))
    stable.append(entries(6, 7, 2))
    log.stable_to(7, 2)
    assert log.offset == 6
    log.accept_writing()
    stable.append(entries(7, 7, 3))
    log.stable_to(7, 3)
    assert (log.offset, log.unstable) == (8, [])


def test_nothing_is_applied_while_a_snapshot_waits_for_the_disk() -> None:
    log, _ = make()
    log.append(entries(6, 8, 2))
    log.commit_to(8)
    assert log.has_next_committed(include_unstable=True)
    log.restore(Snapshot(20, 4, Membership((1,))))
    assert not log.has_next_committed(include_unstable=True)
    assert (log.last_index, log.last_term, log.term(19), log.term(8)) == (20, 4, None, None)
    log.append(entries(21, 22, 4))
    log.stable_snapshot_to(19)
    assert log.snapshot is not None
    log.stable_snapshot_to(20)
    assert log.snapshot is None


def test_asynchronous_writes_apply_only_what_the_disk_holds() -> None:
    """A node that applied an entry and lost it in a crash would have to apply another in its place."""
    log, stable = make()
    log.append(entries(6, 8, 2))
    log.commit_to(8)
    assert log.next_committed(include_unstable=False) == ()
    stable.append(entries(6, 7, 2))
    log.stable_to(7, 2)
    assert [entry.index for entry in log.next_committed(include_unstable=False)] == [6, 7]


def test_the_hint_skips_terms_that_cannot_agree() -> None:
    log, _ = make()
    log.append([*entries(6, 8, 2), *entries(9, 12, 5), *entries(13, 14, 7)])
    assert log.agreement(14, 7) == (14, 7)
    assert log.agreement(14, 6) == (12, 5)
    assert log.agreement(14, 3) == (8, 2)
    assert log.agreement(14, 1) == (5, 1)
    assert log.agreement(14, 0) == (4, 0)  # before the first entry kept: the term is unknown, so none is claimed


def test_a_limit_lets_at_least_one_entry_through() -> None:
    row = entries(6, 9, 1)
    size = row[0].size_bytes
    assert len(within(row, 0)) == 1
    assert len(within(row, 2 * size)) == 2
    assert len(within(row, 2 * size + 1)) == 2
    assert len(within(row, 100 * size)) == 4
    assert within([], 10) == []


@pytest.mark.parametrize(
    ("entry", "size_bytes"),
    [
        (Entry(1, 7), 6),
        (Entry(1, 7, EntryKind.NORMAL, b"berry"), 13),
        (Entry(1, 7, EntryKind.CHANGE, b"berry"), 13),
        (Entry(127, 128, EntryKind.NORMAL, b"x"), 10),
        (Entry(300, 1 << 21, EntryKind.NORMAL, b"x" * 200), 213),
    ],
)
def test_an_entry_counts_with_what_it_has_besides_its_data(entry: Entry, size_bytes: int) -> None:
    """Whatever its kind: a limit that some kinds pass more cheaply cuts portions elsewhere than the recordings do."""
    assert entry.size_bytes == size_bytes


def test_entries_before_the_first_are_gone_not_empty() -> None:
    """An empty answer would let the leader skip them; None makes it send a snapshot."""
    log, stable = make()
    stable.append(entries(6, 9, 1))
    log = RaftLog(stable, applying_bytes_max=UNLIMITED)
    stable.compact(7)
    assert log.entries(7, UNLIMITED) is None
    assert [entry.index for entry in log.entries(8, UNLIMITED) or ()] == [8, 9]
