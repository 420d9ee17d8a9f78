"""The Raft journal: recovery finds exactly the durable state, one entry per index, and never hides damage."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise, product
from random import Random
from typing import NamedTuple

import pytest

from chronik.raft.errors import LogDamaged
from chronik.raft.journal import RaftJournal, Recovered
from chronik.raft.journal_format import Base, encode_frame, replay
from chronik.raft.messages import Entry, EntryKind, HardState, Membership, Snapshot
from chronik.runtime.errors import DiskFull
from chronik.sim.disk import PowerCut, SimDisk

DIRECTORY = "/data/raft"
MEMBERS = Membership((1, 2, 3))


def entries(first: int, last: int, term: int = 1) -> list[Entry]:
    return [Entry(term, index, EntryKind.NORMAL, b"%d/%d" % (term, index)) for index in range(first, last + 1)]


def reopened(disk: SimDisk) -> Recovered:
    return RaftJournal(disk, DIRECTORY).recover()


def founded(disk: SimDisk, index: int = 1, term: int = 1) -> RaftJournal:
    journal = RaftJournal(disk, DIRECTORY)
    journal.recover()
    journal.write_snapshot(Snapshot(index, term, MEMBERS, b"image"))
    journal.rewrite(HardState(term, 0, index), Base(index, term), ())
    return journal


def write(journal: RaftJournal, hard_state: HardState | None, round_: list[Entry]) -> None:
    journal.append(hard_state, round_).sync()


def test_1745_records_with_241_overwrites_are_1504_entries() -> None:
    """The case that was lost once: indices 724 to 2227, written in runs, 241 of them written again by later leaders."""
    disk = SimDisk(1)
    journal = founded(disk, 723, 1)
    runs = [(724, 1000, 2), (941, 1500, 3), (1400, 2000, 5), (1921, 2227, 9)]  # each begins before the last one ends
    records = [entry for first, last, term in runs for entry in entries(first, last, term)]
    assert len(records) == 1745
    assert sum(earlier[1] - later[0] + 1 for earlier, later in pairwise(runs)) == 241
    for first, last, term in runs:
        write(journal, HardState(term, 1, 723), entries(first, last, term))
    recovered = reopened(disk.power_cut())
    assert [entry.index for entry in recovered.entries] == list(range(724, 2228))
    assert len(recovered.entries) == 1504
    assert recovered.entries[-1].index == 2227
    assert recovered.entries[1400 - 724].term == 5
    assert recovered.hard_state.term == 9


def test_a_later_write_voids_all_behind_it_whatever_the_terms_say() -> None:
    """By highest term per index, 7/12 would survive after 8/11: entries that no leader ever had in one log."""
    stream = [Base(9, 1), *entries(10, 12, 7), *entries(10, 11, 8)]
    assert [(entry.term, entry.index) for entry in replay(stream).entries] == [(8, 10), (8, 11)]
    lower = [Base(9, 1), *entries(10, 12, 7), *entries(11, 11, 3)]
    assert [(entry.term, entry.index) for entry in replay(lower).entries] == [(7, 10), (3, 11)]


def test_replay_agrees_with_a_dumb_twin() -> None:
    """The second implementation keeps a dictionary and deletes everything at or after each write."""
    random = Random(5)
    for _ in range(2000):
        stream, twin, last = [], {}, 0
        for _ in range(random.randint(0, 30)):
            index = random.randint(1, last + 1)
            entry = Entry(random.randint(1, 9), index)
            stream.append(entry)
            twin = {at: kept for at, kept in twin.items() if at < index} | {index: entry}
            last = index
        got = replay(stream)
        assert list(got.entries) == [twin[index] for index in sorted(twin)]
        assert (got.record_count, got.hole_at) == (len(stream), 0)


def test_a_hole_is_damage_and_not_filled() -> None:
    assert replay([*entries(1, 3), *entries(5, 5)]).hole_at == 5
    assert replay([Base(9, 1), *entries(8, 8)]).hole_at == 8


def test_an_empty_directory_is_a_new_node() -> None:
    recovered = reopened(SimDisk(1))
    assert (recovered.snapshot, recovered.hard_state, list(recovered.entries)) == (None, HardState(), [])


def test_a_torn_round_is_cut_and_the_rounds_before_it_stay() -> None:
    """At every byte of the last round, with and without preallocated zeros: it was not acknowledged, so it may be gone,
    but nothing else may."""
    disk = SimDisk(1)
    journal = founded(disk)
    write(journal, HardState(2, 3, 1), entries(2, 4, 2))
    path = next(f"{DIRECTORY}/{name}" for name in disk.list(DIRECTORY) if name.startswith("journal-"))
    whole = disk.read_file(path)[: journal.size_bytes]
    last_round = encode_frame(len(whole), [HardState(2, 3, 3), *entries(5, 6, 2)])
    for size, zeros in product(range(len(last_round)), (0, 1, 600)):
        torn = SimDisk(2)
        torn.make_directory(DIRECTORY)
        torn.replace_file(f"{DIRECTORY}/snapshot", disk.read_file(f"{DIRECTORY}/snapshot"))
        torn.replace_file(path, whole + last_round[:size] + bytes(zeros))
        recovered = reopened(torn)
        assert [entry.index for entry in recovered.entries] == [2, 3, 4]
        assert recovered.hard_state == HardState(2, 3, 1)


@pytest.mark.parametrize("rounds_behind", [1, 2])
def test_damage_below_a_durable_round_is_reported_and_nothing_is_cut(rounds_behind: int) -> None:
    """A whole round after a broken one proves that the broken one was durable: truncating it would break promises."""
    disk = SimDisk(1)
    journal = founded(disk)
    write(journal, HardState(2, 3, 1), entries(2, 4, 2))
    path = next(f"{DIRECTORY}/{name}" for name in disk.list(DIRECTORY) if name.startswith("journal-"))
    start = journal.size_bytes - 20
    for at in range(rounds_behind):
        write(journal, None, entries(5 + at, 5 + at, 2))
    disk.flip_bit(path, start)
    before = disk.read_file(path)
    with pytest.raises(LogDamaged, match="whole ones follow"):
        reopened(disk)
    assert disk.read_file(path) == before


def flip_in_journal(disk: SimDisk, position: int) -> str:
    path = next(f"{DIRECTORY}/{name}" for name in disk.list(DIRECTORY) if name.startswith("journal-"))
    disk.flip_bit(path, position)
    return path


@pytest.mark.parametrize("has_snapshot", [True, False])
def test_damage_in_the_only_frame_is_reported_and_nothing_is_cut(has_snapshot: bool) -> None:
    """Right after a start or a compaction the journal is one frame. That it is broken may look like a crash while it
    was being made; but the one before it is gone, or a snapshot is there, so a whole one was durable before."""
    disk = SimDisk(1)
    if has_snapshot:
        journal = founded(disk)
    else:
        journal = RaftJournal(disk, DIRECTORY)  # of a node that waits to be added, and has voted
        journal.recover()
    write(journal, HardState(7, 2, 1 if has_snapshot else 0), entries(2, 50, 7) if has_snapshot else [])
    assert reopened(disk).hard_state.term == 7
    path = flip_in_journal(disk, 30)
    before = disk.read_file(path)
    with pytest.raises(LogDamaged, match="no whole frame"):
        reopened(disk)
    assert disk.read_file(path) == before


def test_a_snapshot_without_a_journal_is_reported() -> None:
    """It held the term and the vote: without them this node could vote twice."""
    disk = SimDisk(1)
    founded(disk)
    for name in disk.list(DIRECTORY):
        if name.startswith("journal-"):
            disk.remove(f"{DIRECTORY}/{name}")
    with pytest.raises(LogDamaged, match="no whole frame"):
        reopened(disk)


def test_a_crash_while_the_first_journal_was_being_made_leaves_a_new_node() -> None:
    """Again and again, too: nothing was ever durable, so nothing is missing."""
    disk = SimDisk(1)
    disk.make_directory(DIRECTORY)
    for number in (1, 2):
        disk.replace_file(f"{DIRECTORY}/journal-{number:08d}", encode_frame(0, [HardState()])[:-1] + bytes(100))
    assert reopened(disk).is_empty


def test_a_damaged_snapshot_is_reported() -> None:
    disk = SimDisk(1)
    founded(disk)
    disk.flip_bit(f"{DIRECTORY}/snapshot", 20)
    with pytest.raises(LogDamaged, match="checksum"):
        reopened(disk)


def test_a_missing_snapshot_is_reported() -> None:
    """Without it, the previous entry and the members of a log that begins after 1 are unknown."""
    disk = SimDisk(1)
    write(founded(disk), HardState(1, 0, 1), entries(2, 3))
    disk.remove(f"{DIRECTORY}/snapshot")
    with pytest.raises(LogDamaged, match="begins behind 1"):
        reopened(disk)


def test_a_snapshot_ahead_of_the_log_replaces_it() -> None:
    """The crash came after a leader's snapshot was installed and before the log was restarted after it."""
    disk = SimDisk(1)
    journal = founded(disk)
    write(journal, HardState(2, 3, 2), entries(2, 4, 2))
    journal.write_snapshot(Snapshot(10, 5, MEMBERS, b"newer"))
    recovered = reopened(disk.power_cut())
    assert (recovered.base, list(recovered.entries)) == (Base(10, 5), [])
    assert recovered.hard_state == HardState(2, 3, 10)


def test_a_snapshot_that_contradicts_the_log_replaces_it() -> None:
    """Same index, another term: those entries were never committed, the snapshot's were."""
    disk = SimDisk(1)
    journal = founded(disk)
    write(journal, HardState(2, 3, 1), entries(2, 6, 2))
    journal.write_snapshot(Snapshot(4, 3, MEMBERS, b"newer"))
    assert list(reopened(disk).entries) == []


def test_a_snapshot_inside_the_log_keeps_what_follows() -> None:
    disk = SimDisk(1)
    journal = founded(disk)
    write(journal, HardState(2, 3, 5), entries(2, 6, 2))
    journal.write_snapshot(Snapshot(4, 2, MEMBERS, b"newer"))
    assert [entry.index for entry in reopened(disk).entries] == [2, 3, 4, 5, 6]


def test_a_full_disk_keeps_nothing_of_the_round_and_the_next_one_fits() -> None:
    disk = SimDisk(1)
    journal = founded(disk)
    write(journal, HardState(1, 0, 1), entries(2, 3))
    disk.capacity_bytes = 0
    with pytest.raises(DiskFull):
        write(journal, None, entries(4, 500))
    disk.capacity_bytes = None
    write(journal, None, entries(4, 4))
    assert [entry.index for entry in reopened(disk.power_cut()).entries] == [2, 3, 4]


class Expected(NamedTuple):
    base: Base
    kept: dict[int, Entry]
    hard_state: HardState

    def matches(self, recovered: Recovered) -> bool:
        """The recovered log may begin earlier than expected, because an interrupted compaction has no effect."""
        start = recovered.base.base_index
        return (
            {entry.index: entry for entry in recovered.entries if entry.index > self.base.base_index}
            == {index: entry for index, entry in self.kept.items() if index > start}
            and start <= max(self.base.base_index, recovered.snapshot.index if recovered.snapshot else 0)
            and recovered.hard_state[:2] == self.hard_state[:2]
        )


def overwriting(now: Expected, random: Random) -> Expected:
    first = random.randint(now.base.base_index + 1, max(now.kept, default=now.base.base_index) + 1)
    term = now.hard_state.term + 1
    added = {index: Entry(term, index) for index in range(first, first + random.randint(1, 5))}
    kept = {index: entry for index, entry in now.kept.items() if index < first} | added
    return Expected(now.base, kept, HardState(term, random.randint(0, 3), 1))


def test_what_was_durable_survives_a_power_cut_at_any_step() -> None:
    """Rounds, overwrites and compactions are interrupted at any disk call, recovered, interrupted again and recovered
    again: the result is the state before or after the last call, never another one."""
    for seed in range(400):
        random = Random(seed)
        disk = SimDisk(seed)
        journal = founded(disk)
        now = under_way = Expected(Base(1, 1), {}, HardState(1, 0, 1))
        disk.cut_after(random.randint(0, 60))
        with suppress(PowerCut):
            for _ in range(20):
                if random.random() < 0.75 or not now.kept:
                    under_way = overwriting(now, random)
                    new = [entry for index, entry in under_way.kept.items() if now.kept.get(index) != entry]
                    write(journal, under_way.hard_state, new)
                else:
                    base = Base(*random.choice([(entry.index, entry.term) for entry in now.kept.values()]))
                    kept = {index: entry for index, entry in now.kept.items() if index > base.base_index}
                    under_way = Expected(base, kept, now.hard_state)
                    journal.write_snapshot(Snapshot(base.base_index, base.base_term, MEMBERS))
                    journal.rewrite(now.hard_state, base, list(kept.values()))
                now = under_way
        disk = disk.power_cut()
        disk.cut_after(random.randint(0, 12))
        with suppress(PowerCut):
            reopened(disk)
        recovered = reopened(disk.power_cut())
        assert now.matches(recovered) or under_way.matches(recovered), (seed, now, under_way, recovered)
