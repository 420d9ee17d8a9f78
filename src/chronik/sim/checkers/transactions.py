"""Invariants 13 to 17 for transactions, judged by the answers to writers and the records that readers received.

13: a transaction with an acknowledged commit is readable in full, each record once, in sending order; one with an
unknown outcome is readable in full or not at all. 14: no reader receives a record of an aborted or undecided
transaction, nor one that disappears later, and none skips one; no two transactions read each other's records. 15: once
a writer has initialized, no commit by an earlier instance of its id is acknowledged. 17: a group's offset is that of
the last transaction whose records are readable.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import ClassVar

from chronik.sim.checkers.anomalies import Kind, Outcome, Poll, Seen, Transacted, TransactionHistory, anomalies
from chronik.sim.checkers.interface import Checker
from chronik.sim.checkers.records import AUDITOR, audited
from chronik.sim.history import OK, Operation
from chronik.sim.transaction_clients import ABORTED, COMMITTED, Written

OUTCOMES = {COMMITTED: Outcome.COMMITTED, ABORTED: Outcome.ABORTED}


class _Anomalies(Checker):
    kinds: ClassVar[Collection[Kind]]

    def finish(self) -> None:
        for anomaly in anomalies(history_of(self.history.operations)):
            if anomaly.kind in self.kinds:
                self.violated(str(anomaly))


class CommittedTransactions(_Anomalies):
    name = "13 a committed transaction is readable, once, and in full"
    kinds = (Kind.LOST, Kind.DOUBLED, Kind.TORN, Kind.OUT_OF_ORDER)


class AbortedTransactions(_Anomalies):
    name = "14 readers get what is committed, and nothing else"
    kinds = (Kind.ABORTED_READ, Kind.PRECOMMITTED_READ, Kind.INCONSISTENT, Kind.BACKWARDS, Kind.SKIPPED)


class CircularTransactions(_Anomalies):
    name = "14 no two transactions read each other's records"
    kinds = (Kind.G1C,)


class FencedWriters(Checker):
    name = "15 an earlier life of a transactional id commits nothing"
    judges_unfinished = True

    def finish(self) -> None:
        begun: dict[str, list[tuple[int, int]]] = defaultdict(list)  # id: (time of initialization, instance)
        for operation in self.history.operations:
            if operation.kind == "init" and operation.status == OK and operation.returned_ns is not None:
                begun[operation.key].append((operation.returned_ns, operation.value))
        for operation in _transactions(self.history.operations):
            written: Written = operation.value
            asked_ns = written.commit_invoked_ns
            if operation.result != COMMITTED or asked_ns is None:
                continue
            for since_ns, life in begun[operation.key]:
                if life > written.life and since_ns < asked_ns:
                    self.violated(f"{operation} was acknowledged, although life {life} began at {since_ns // 1000} us")


class OffsetsOfTransactions(Checker):
    name = "17 an offset counts if and only if its transaction does"

    def finish(self) -> None:
        places = _places(self.history.operations)
        expected: dict[str, int] = defaultdict(int)
        for operation in _transactions(self.history.operations):
            written: Written = operation.value
            is_visible = any(value in places for values in written.values.values() for value in values)
            if is_visible and written.offset is not None:
                expected[operation.key] = max(expected[operation.key], written.offset)
        self._check_look_ups()
        for found in self.history.operations:
            is_final = found.client == AUDITOR and found.kind == "committed" and found.status == OK
            if is_final and found.result != expected[found.key]:
                self.violated(f"{found}: the last committed transaction says {expected[found.key]}")

    def _check_look_ups(self) -> None:
        """A lookup after an acknowledged commit finds its offset or a later one."""
        commits: dict[str, list[Operation]] = defaultdict(list)
        for operation in _transactions(self.history.operations):
            if operation.result == COMMITTED and operation.value.offset is not None:
                commits[operation.key].append(operation)
        for found in self.history.operations:
            if found.kind != "committed" or found.status != OK:
                continue
            known = [each for each in commits[found.key] if (each.returned_ns or 0) < found.invoked_ns]
            highest = max(known, key=lambda each: each.value.offset, default=None)
            if highest is not None and found.result < highest.value.offset:
                self.violated(f"{highest} was acknowledged, {found} was found")


def history_of(operations: list[Operation]) -> TransactionHistory:
    """The clients' operations as the plain value that is judged."""
    polls: dict[int, Poll] = {
        read.number: Poll(
            read.client,
            [Seen(read.key, offset, value) for offset, value in read.result],
            {read.key: read.value},
            read.returned_ns,
        )
        for read in operations
        if read.kind == "read" and read.status == OK and read.client != AUDITOR
    }
    transactions = []
    for operation in _transactions(operations):
        written: Written = operation.value
        made = Transacted(
            f"{operation.key} life {written.life} transaction {written.number}",
            OUTCOMES.get(operation.result, Outcome.UNKNOWN),
            [value for values in written.values.values() for value in values],
            [polls.pop(number) for number in written.reads if number in polls],
            written.commit_asked_ns,
        )
        transactions.append(made)
    return TransactionHistory(transactions, audited(operations), list(polls.values()))


def _transactions(operations: list[Operation]) -> list[Operation]:
    return [operation for operation in operations if operation.kind == "transaction"]


def _places(operations: list[Operation]) -> dict[str, list[tuple[str, int]]]:
    """By value: its positions at the end."""
    places: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for key, values in audited(operations).items():
        for offset, value in sorted(values.items()):
            places[value].append((key, offset))
    return dict(places)
