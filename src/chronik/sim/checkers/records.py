"""Invariants 7, 8, 12 and 13, judged by answers to clients and by the records readable at the end.

7: every acknowledged record is readable at its offset with its value. 8: an offset has one value forever, whichever
client reads it from whichever node. 12: acknowledged records of one producer are in sending order; 13: and there are
no duplicates.
"""

from __future__ import annotations

from collections import defaultdict

from chronik.sim.checkers.interface import Checker
from chronik.sim.history import OK, Operation

AUDITOR = "auditor"


class OneValuePerOffset(Checker):
    name = "8 one value per offset"
    judges_unfinished = True

    def finish(self) -> None:
        values: dict[tuple[str, int], tuple[str, Operation]] = {}
        for operation in self.history.operations:
            for offset, value in _claims(operation):
                known, before = values.setdefault((operation.key, offset), (value, operation))
                if known != value:
                    self.violated(f"{operation.key} at {offset}: {known!r} by {before}, {value!r} by {operation}")


class AcknowledgedIsReadable(Checker):
    name = "7 acknowledged is readable"

    def finish(self) -> None:
        final = audited(self.history.operations)
        for operation in self.history.operations:
            if operation.kind == "produce" and operation.status == OK and self.is_kept(operation):
                found = final.get(operation.key, {}).get(operation.result)
                if found != operation.value:
                    self.violated(f"{operation} was acknowledged, {found!r} is readable there")

    def is_kept(self, produced: Operation) -> bool:
        """Whether no deletion of the record was requested."""
        return True


class ProducerOrder(Checker):
    name = "12 per-producer order, nothing twice"

    def finish(self) -> None:
        for key, values in audited(self.history.operations).items():
            offsets: dict[str, int] = {}
            for offset, value in sorted(values.items()):
                if value in offsets:
                    self.violated(f"{key}: {value!r} stands at {offsets[value]} and at {offset}")
                offsets[value] = offset
            acknowledged: dict[str, int] = defaultdict(lambda: -1)
            for operation in self.history.operations:
                if (operation.kind, operation.status, operation.key) == ("produce", OK, key):
                    if operation.result <= acknowledged[operation.client]:
                        self.violated(f"{operation} stands before what the same producer sent before it")
                    acknowledged[operation.client] = operation.result


class CommitsStay(Checker):
    """Invariant 17. Committed offsets only increase in this workload, so a later lookup never finds a lower one."""

    name = "17 an acknowledged commit is never lost"
    judges_unfinished = True

    def finish(self) -> None:
        commits: dict[str, list[Operation]] = defaultdict(list)
        for operation in self.history.operations:
            if operation.kind == "commit" and operation.status == OK:
                commits[operation.key].append(operation)
        for found in self.history.operations:
            if found.kind != "committed" or found.status != OK:
                continue
            known = [each for each in commits[found.key] if (each.returned_ns or 0) < found.invoked_ns]
            highest = max(known, key=lambda each: each.value, default=None)
            if highest is not None and found.result < highest.value:
                self.violated(f"{highest} was acknowledged, {found} was found")


def _claims(operation: Operation) -> list[tuple[int, str]]:
    if operation.status != OK:
        return []
    if operation.kind == "produce":
        return [(operation.result, operation.value)]
    return operation.result if operation.kind == "read" else []


def audited(operations: list[Operation]) -> dict[str, dict[int, str]]:
    """By partition: the records of the last complete read."""
    final: dict[str, dict[int, str]] = defaultdict(dict)
    for operation in operations:
        if operation.client == AUDITOR and operation.kind == "read" and operation.status == OK:
            final[operation.key].update(operation.result)
    return final
