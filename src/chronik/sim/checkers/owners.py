"""Invariant 18: in a generation of a group a partition has one owner, and generations only go up.

From what members were told: a member owns what an answer to its SyncGroup gave it. That an owner of the past commits
nothing over its successor is seen by invariant 17.
"""

from __future__ import annotations

from chronik.sim.checkers.interface import Checker
from chronik.sim.history import OK, Operation


class OneOwner(Checker):
    name = "18 one owner per partition and generation"

    def finish(self) -> None:
        owners: dict[tuple[int, object], tuple[str, Operation]] = {}
        newest: Operation | None = None  # of those answered so far, the one with the highest generation
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
