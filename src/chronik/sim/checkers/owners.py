"""Invariant 18: a partition has one owner per generation of a group, and generations only increase.

Judged by the members' answers: a member owns the partitions in its SyncGroup response. Invariant 17 detects a former
owner that commits over its successor.
"""

from __future__ import annotations

from chronik.sim.checkers.interface import Checker
from chronik.sim.history import OK, Operation


class OneOwner(Checker):
    name = "18 one owner per partition and generation"

    def finish(self) -> None:
        owners: dict[tuple[int, object], tuple[str, Operation]] = {}
        newest: Operation | None = None  # the answered one with the highest generation
        told = [each for each in self.history.operations if each.kind == "own" and each.status == OK]
        for operation in told:
            generation, member_id, partitions = operation.result
            for at in partitions:
                owner, first = owners.setdefault((generation, at), (member_id, operation))
                if owner != member_id:
                    self.violated(f"{at} has two owners in generation {generation}: {first} and {operation}")
        for operation in told:
            for before in told:
                if before.returned_ns is not None and before.returned_ns < operation.invoked_ns:
                    newest = before if newest is None or before.result[0] > newest.result[0] else newest
            if newest is not None and operation.result[0] < newest.result[0]:
                self.violated(f"the generation went back from {newest} to {operation}")
            newest = None
