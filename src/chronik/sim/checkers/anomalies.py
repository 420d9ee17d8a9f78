"""Anomalies in a history of transactions, as defined by Jepsen's Kafka workload. Pure functions.

A history is a plain value, recorded by the simulator or by processes of real clients. It holds what each transaction
sent and read, how it ended, what readers of committed records received, and the final contents of the partitions. Every
value is sent once, so a value identifies its writer.

Kafka does not isolate writers from each other: records of two transactions may alternate in a partition, in different
orders in two partitions. So two anomalies are detected but allowed: cycles of write-write dependencies (G0), and cycles
of write-read dependencies that need a write-write one (G1C_WITH_WW). Two others are not checked. Records of another
transaction between those of one transaction (Jepsen's int-send-skip) are normal. A reader whose partitions a group
assigns may skip and go back between polls (poll-skip, nonmonotonic-poll) because of rebalances; so a poll without a
known start is judged by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from chronik.sim.checkers.cycles import Edge, cycles, cycles_with, graph_of, in_words

WW, WR = "ww", "wr"


class Outcome(Enum):
    COMMITTED = "committed"  # committed and acknowledged
    ABORTED = "aborted"
    UNKNOWN = "unknown"  # the answer was lost: all of it is visible, or nothing


class Kind(Enum):
    LOST = "lost write"
    DOUBLED = "duplicate"
    TORN = "torn transaction"
    OUT_OF_ORDER = "order of sending"
    ABORTED_READ = "aborted read (G1a)"
    PRECOMMITTED_READ = "precommitted read"
    INCONSISTENT = "inconsistent offset"
    BACKWARDS = "nonmonotonic poll"
    SKIPPED = "skipped in a poll"
    G1C = "circular information flow (G1c)"
    G0 = "write cycle (G0)"
    G1C_WITH_WW = "circular information flow with write-write dependencies"


ALLOWED = frozenset({Kind.G0, Kind.G1C_WITH_WW})


class Seen(NamedTuple):
    partition: str
    offset: int
    value: str

    def __str__(self) -> str:
        return f"{self.value!r} at {self.partition}@{self.offset}"


@dataclass(frozen=True)
class Poll:
    """The records that one poll returned to a reader of committed records."""

    reader: str
    records: Sequence[Seen]
    begins: Mapping[str, int] | None = None  # partition: requested offset; None: chosen by a group
    returned: int | None = None  # time, on the clock of `Transacted.commit_asked`; None: not recorded


@dataclass(frozen=True)
class Transacted:
    name: str
    outcome: Outcome
    sent: Sequence[str]  # in sending order
    polls: Sequence[Poll] = ()  # inside the transaction
    commit_asked: int | None = None  # when the commit was first requested; None: never, or not recorded


@dataclass(frozen=True)
class TransactionHistory:
    transactions: Sequence[Transacted]
    logs: Mapping[str, Mapping[int, str]]  # partition: {offset: value} for readers of committed records, at the end
    polls: Sequence[Poll] = ()  # outside transactions

    @property
    def all_polls(self) -> Iterator[Poll]:
        yield from self.polls
        for transaction in self.transactions:
            yield from transaction.polls


class Anomaly(NamedTuple):
    kind: Kind
    words: str

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.words}"


def anomalies(history: TransactionHistory) -> list[Anomaly]:
    """All anomalies that are not allowed."""
    return [each for each in every_anomaly(history) if each.kind not in ALLOWED]


def every_anomaly(history: TransactionHistory) -> Iterator[Anomaly]:
    places = _places(history)
    writers = {value: transaction for transaction in history.transactions for value in transaction.sent}
    for value, found in places.items():
        if len(found) > 1:
            yield Anomaly(Kind.DOUBLED, f"{value!r} stands at {' and '.join(map(_place, found))}")
    for transaction in history.transactions:
        yield from _of_one(transaction, places)
    for poll in history.all_polls:
        yield from _of_poll(poll, history, writers)
    yield from _cycles(history, writers)


def _places(history: TransactionHistory) -> dict[str, list[tuple[str, int]]]:
    places: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for partition, values in history.logs.items():
        for offset, value in sorted(values.items()):
            places[value].append((partition, offset))
    return dict(places)


def _place(place: tuple[str, int]) -> str:
    return f"{place[0]}@{place[1]}"


def _of_one(transaction: Transacted, places: Mapping[str, list[tuple[str, int]]]) -> Iterator[Anomaly]:
    visible = [value for value in transaction.sent if value in places]
    missing = [value for value in transaction.sent if value not in places]
    if transaction.outcome is Outcome.ABORTED:
        for value in visible:
            yield Anomaly(
                Kind.ABORTED_READ, f"{transaction.name} was aborted; {value!r} is at {_place(places[value][0])}"
            )
    elif missing and transaction.outcome is Outcome.COMMITTED:
        yield Anomaly(Kind.LOST, f"{transaction.name} was acknowledged; {missing} cannot be read")
    if visible and missing:
        yield Anomaly(Kind.TORN, f"of {transaction.name} {visible} can be read, {missing} cannot")
    last: dict[str, tuple[int, str]] = {}
    for value in visible:
        partition, offset = places[value][0]
        before, earlier = last.get(partition, (-1, ""))
        if offset < before:
            words = f"{transaction.name} sent {earlier!r} before {value!r}; they stand at {before} and {offset}"
            yield Anomaly(Kind.OUT_OF_ORDER, f"{words} of {partition}")
        last[partition] = (offset, value)


def _of_poll(poll: Poll, history: TransactionHistory, writers: Mapping[str, Transacted]) -> Iterator[Anomaly]:
    reached: dict[str, int] = {partition: begin - 1 for partition, begin in (poll.begins or {}).items()}
    for seen in poll.records:
        held = history.logs.get(seen.partition, {})
        if held.get(seen.offset) != seen.value:
            words = f"{poll.reader} read {seen}, where {held.get(seen.offset)!r} stands in the end"
            yield Anomaly(Kind.INCONSISTENT, words)
        writer = writers.get(seen.value)
        if writer is not None and writer.outcome is Outcome.ABORTED:
            yield Anomaly(Kind.ABORTED_READ, f"{poll.reader} read {seen}, of {writer.name}, which was aborted")
        elif writer is not None and _is_early(poll, writer):
            words = f"{poll.reader} read {seen} before {writer.name} asked for its commit"
            yield Anomaly(Kind.PRECOMMITTED_READ, words)
        before = reached.get(seen.partition)
        if before is not None and seen.offset <= before:
            yield Anomaly(Kind.BACKWARDS, f"{poll.reader} read {seen} behind offset {before}")
        elif before is not None:
            skipped = [offset for offset in range(before + 1, seen.offset) if offset in held]
            if skipped:
                yield Anomaly(Kind.SKIPPED, f"{poll.reader} read {seen} and left out what is at {skipped}")
        reached[seen.partition] = seen.offset


def _is_early(poll: Poll, writer: Transacted) -> bool:
    return poll.returned is not None and writer.commit_asked is not None and poll.returned < writer.commit_asked


# --- dependencies


def _cycles(history: TransactionHistory, writers: Mapping[str, Transacted]) -> Iterator[Anomaly]:
    writes = list(_write_edges(history, writers))
    reads = list(_read_edges(history, writers))
    for cycle in cycles(graph_of(reads)):
        yield Anomaly(Kind.G1C, in_words(cycle))
    for cycle in cycles(graph_of(writes)):
        yield Anomaly(Kind.G0, in_words(cycle))
    for cycle in cycles_with(graph_of([*writes, *reads]), WR):
        if any(edge.kind == WW for edge in cycle):
            yield Anomaly(Kind.G1C_WITH_WW, in_words(cycle))


def _write_edges(history: TransactionHistory, writers: Mapping[str, Transacted]) -> Iterator[Edge]:
    """For each partition: edges from a transaction to the one with the next record."""
    for partition, values in sorted(history.logs.items()):
        before: tuple[int, Transacted] | None = None
        for offset, value in sorted(values.items()):
            writer = writers.get(value)
            if writer is None:
                continue
            if before is not None:
                words = f"{writer.name} wrote {partition}@{offset} behind {partition}@{before[0]} of {before[1].name}"
                yield Edge(before[1].name, writer.name, WW, words)
            before = offset, writer


def _read_edges(history: TransactionHistory, writers: Mapping[str, Transacted]) -> Iterator[Edge]:
    """Edges from the writer of a record to each transaction that read it and is visible."""
    standing = {value for values in history.logs.values() for value in values.values()}
    for reader in history.transactions:
        counts = reader.outcome is Outcome.COMMITTED or any(value in standing for value in reader.sent)
        for seen in (seen for poll in reader.polls for seen in poll.records if counts):
            writer = writers.get(seen.value)
            if writer is not None:
                yield Edge(writer.name, reader.name, WR, f"{reader.name} read {seen}, which {writer.name} wrote")
