"""Why a group is behind, in words, from two observations some seconds apart.

Pure: no I/O, no clock. Causes that stop a group come before those that slow it down. Each names the partitions, members
and rates that show it. For a group that catches up, it estimates when the group is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from chronik.client.topology import NO_LEADER, TopicPartition
from chronik.runtime.units import MS_PER_S
from chronik.runtime.wording import counted, human_count, human_duration, is_or_are

REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
NOT_READY: Final = "NotReady"  # of a streams group
HOT_SHARE: Final = 0.8  # share of all lag in one of several partitions
NAMES_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class PartitionLook:
    committed: int | None  # None: the group has no offset here
    start_offset: int
    end_offset: int
    leader_id: int = 0

    @property
    def lag(self) -> int:
        position = self.start_offset if self.committed is None else max(self.committed, self.start_offset)
        return max(0, self.end_offset - position)


@dataclass(frozen=True, slots=True)
class Look:
    time_ms: int
    state: str
    readers: Mapping[TopicPartition, str]  # the member that reads each partition
    members: Sequence[str]
    partitions: Mapping[TopicPartition, PartitionLook]
    awaited: Mapping[TopicPartition, tuple[str, str]] = field(default_factory=dict)  # holder and taker
    missing_topics: Sequence[str] = ()  # that the topology of a streams group needs

    @property
    def lag(self) -> int:
        return sum(each.lag for each in self.partitions.values())

    @property
    def lag_without_offset(self) -> int:
        """The part of it in partitions where the group has no offset. Lag as metrics count it leaves them out."""
        return sum(each.lag for each in self.partitions.values() if each.committed is None)


@dataclass(frozen=True, slots=True)
class Cause:
    name: str  # a fixed identifier, such as "no-members"
    text: str
    action: str  # empty if no action is needed


def causes(group_id: str, before: Look, after: Look) -> list[Cause]:
    """Empty if the group has no lag and every partition can be read."""
    if not after.lag:
        return [*_not_ready(after), *_leaderless(after), *_awaited(before, after)]
    found = [
        *_not_ready(after),
        *_leaderless(after),
        *_deleted(group_id, after),
        *_beyond_end(group_id, after),
        *_without_members(group_id, after),
        *_awaited(before, after),
        *_rebalancing(group_id, before, after),
    ]
    if not after.members or (before.state in REBALANCING and after.state in REBALANCING):
        return found
    found += [*_unread(after), *_standing_still(group_id, before, after)]
    return found + list(_pace(group_id, before, after))


# --- causes that stop a group


def _not_ready(look: Look) -> Iterator[Cause]:
    if look.state != NOT_READY:
        return
    missing = sorted(look.missing_topics)
    if missing:
        shown = ", ".join(missing[:NAMES_MAX]) + (" and more" if len(missing) > NAMES_MAX else "")
        yield Cause(
            "missing-topics",
            f"{counted(len(missing), 'topic')} of the application's topology {is_or_are(len(missing))} missing: "
            f"{shown}.",
            "Create the source topics: `chronik topic create`. The coordinator creates the others.",
        )
    else:
        yield Cause(
            "wrong-partitions",
            "Topics of the application's topology do not have the numbers of partitions that it needs.",
            "The application's log names them. Give copartitioned topics as many partitions each.",
        )


def _leaderless(look: Look) -> Iterator[Cause]:
    gone = [at for at, each in look.partitions.items() if each.leader_id == NO_LEADER]
    if gone:
        yield Cause(
            "no-leader",
            f"{_named(gone)} {is_or_are(len(gone))} without a leader, so nobody can read there.",
            "Start the brokers that hold these partitions: `chronik doctor`",
        )


def _deleted(group_id: str, look: Look) -> Iterator[Cause]:
    lost = {
        at: each.start_offset - each.committed
        for at, each in look.partitions.items()
        if each.committed is not None and each.committed < each.start_offset
    }
    if lost:
        yield Cause(
            "below-log-start",
            f"Retention deleted {counted(sum(lost.values()), 'offset')} before the group read them ({_named(lost)}). "
            "Its consumers continue where auto.offset.reset says.",
            f"If they stopped instead: `chronik group reset {group_id} --to earliest --execute`",
        )


def _beyond_end(group_id: str, look: Look) -> Iterator[Cause]:
    ahead = [
        at for at, each in look.partitions.items() if each.committed is not None and each.committed > each.end_offset
    ]
    if ahead:
        yield Cause(
            "beyond-log-end",
            f"The group's offset lies beyond the end of the log in {_named(ahead)}: the topic was deleted and created "
            "again, or the offset was set by hand.",
            f"Stop the consumers, then `chronik group reset {group_id} --to earliest --execute`",
        )


def _without_members(group_id: str, look: Look) -> Iterator[Cause]:
    if not look.members:
        yield Cause(
            "no-members",
            f"The group has no members. {counted(look.lag, 'record')} wait.",
            f"Start its consumers, or delete it: `chronik group delete {group_id}`",
        )


def _awaited(before: Look, after: Look) -> Iterator[Cause]:
    waiting = {at: after.awaited[at] for at in after.awaited if before.awaited.get(at) == after.awaited[at]}
    for holder, taker in dict.fromkeys(waiting.values()):
        places = [at for at, each in waiting.items() if each == (holder, taker)]
        yield Cause(
            "partitions-awaited",
            f"{holder} has not given up {_named(places)}, which {taker} waits for.",
            f"The coordinator removes {holder} if it takes longer than its max.poll.interval.ms. "
            "Look for a consumer that does not poll.",
        )


def _rebalancing(group_id: str, before: Look, after: Look) -> Iterator[Cause]:
    if before.state in REBALANCING and after.state in REBALANCING:
        took = human_duration(after.time_ms - before.time_ms)
        yield Cause(
            "rebalancing",
            f"The group has been rebalancing for {took} or more. Members of a classic group read nothing meanwhile.",
            f"A member does not rejoin: look for one that processes records for longer than max.poll.interval.ms "
            f"(`chronik group describe {group_id}`)",
        )
    elif set(before.members) != set(after.members):
        yield Cause(
            "members-change",
            f"Members came or went within {human_duration(after.time_ms - before.time_ms)}. Each change rebalances.",
            "Look for consumers that restart, or whose session.timeout.ms is shorter than their pauses.",
        )


def _unread(look: Look) -> Iterator[Cause]:
    unread = [at for at, each in look.partitions.items() if each.lag and at not in look.readers]
    if unread and look.state not in REBALANCING:
        waiting = sum(look.partitions[at].lag for at in unread)
        yield Cause(
            "partitions-unread",
            f"No member reads {_named(unread)}, where {counted(waiting, 'record')} wait.",
            "The members subscribe to other topics, or assign partitions themselves: look at their configuration.",
        )


def _standing_still(group_id: str, before: Look, after: Look) -> Iterator[Cause]:
    """Members that commit nothing, and partitions without progress while others of the same member progress."""
    moved = {at for at in after.readers if _moved(before, after, at)}
    waiting = [at for at, each in after.partitions.items() if each.lag and at in after.readers and at not in moved]
    took = human_duration(after.time_ms - before.time_ms)
    silent = sorted({after.readers[at] for at in waiting} - {after.readers[at] for at in moved})
    if silent:
        yield Cause(
            "nothing-committed",
            f"{', '.join(silent[:NAMES_MAX])} committed nothing within {took}, although records wait.",
            "The consumer hangs in its processing, is paused, or commits rarely (auto.commit.interval.ms).",
        )
    stuck = [at for at in waiting if after.readers[at] not in silent]
    if stuck:
        first = stuck[0]
        yield Cause(
            "partition-stuck",
            f"{_named(stuck)} {'stands' if len(stuck) == 1 else 'stand'} still while other partitions of the same "
            "member move.",
            f"Look at the next record: `chronik consume {first.topic} --partition {first.partition} --from "
            f"{after.partitions[first].committed or 0} --count 1`",
        )


# --- causes that slow a group down


def _pace(group_id: str, before: Look, after: Look) -> Iterator[Cause]:
    elapsed_s = (after.time_ms - before.time_ms) / MS_PER_S
    arrived = sum(each.end_offset - before.partitions[at].end_offset for at, each in _both(before, after))
    read = sum(
        each.committed - (before.partitions[at].committed or before.partitions[at].start_offset)
        for at, each in _both(before, after)
        if each.committed is not None
    )
    if read <= 0 or elapsed_s <= 0:
        return
    in_s, out_s = arrived / elapsed_s, read / elapsed_s
    rates = f"{_rate(in_s)} arrive, {_rate(out_s)} are read"
    if out_s > in_s:
        left_ms = round(after.lag / (out_s - in_s) * MS_PER_S)
        yield Cause(
            "catching-up",
            f"The group catches up: {rates}. It is done in about {human_duration(left_ms)}.",
            "",
        )
        return
    hot = max(after.partitions, key=lambda at: after.partitions[at].lag)
    if len(after.partitions) > 1 and after.partitions[hot].lag > HOT_SHARE * after.lag:
        yield Cause(
            "hot-partition",
            f"{hot} has {human_count(after.partitions[hot].lag)} of the {counted(after.lag, 'record')} that wait, and "
            f"one member reads it: {rates}.",
            "Most records have few keys, or the partitioner sends them there. More members do not help; better spread "
            "keys do.",
        )
        return
    idle = len(after.partitions) - len(after.members)
    more = (
        f"Start up to {counted(idle, 'more consumer')}: there are {counted(len(after.partitions), 'partition')} and "
        f"{counted(len(after.members), 'member')}."
        if idle > 0
        else "Every partition has a member of its own: make the processing faster, or add partitions with "
        "`chronik topic alter`."
    )
    yield Cause("too-slow", f"The group reads slower than records arrive: {rates}.", more)


def _both(before: Look, after: Look) -> Iterator[tuple[TopicPartition, PartitionLook]]:
    return ((at, each) for at, each in after.partitions.items() if at in before.partitions)


def _moved(before: Look, after: Look, at: TopicPartition) -> bool:
    earlier, later = before.partitions.get(at), after.partitions.get(at)
    return earlier is not None and later is not None and earlier.committed != later.committed


def _rate(per_s: float) -> str:
    return f"{per_s:,.0f} records/s" if per_s >= 10 else f"{per_s:.1f} records/s"


def _named(places: Sequence[TopicPartition] | Mapping[TopicPartition, int]) -> str:
    names = [str(at) for at in places]
    more = len(names) - NAMES_MAX
    return ", ".join(names[:NAMES_MAX]) + (f" and {more} more" if more > 0 else "")
