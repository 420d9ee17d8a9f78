"""Invariant 18, for consumer groups (KIP-848): a partition has one reader at any time, and epochs never decrease.

A reader is a member to which the partition was assigned, until it gives it up, is fenced, or has been silent for so
long that it must expect to be fenced.
"""

from __future__ import annotations

from chronik.sim.checkers.interface import Checker
from chronik.sim.history import OK, Operation


class OneHolder(Checker):
    name = "18 one reader of a partition at a time"

    def finish(self) -> None:
        last: dict[str, Operation] = {}  # by partition: of the holds that have begun, the one that ends last
        for hold in [each for each in self.history.operations if each.kind == "hold"]:
            before = last.get(hold.key)
            if before is not None and (before.returned_ns is None or before.returned_ns > hold.invoked_ns):
                self.violated(f"two members read {hold.key} at a time: {before} and {hold}")
            last[hold.key] = hold
        epochs: dict[str, Operation] = {}  # by member: the newest epoch
        for told in [each for each in self.history.operations if each.kind == "epoch" and each.status == OK]:
            known = epochs.get(told.client)
            if known is not None and told.result < known.result:
                self.violated(f"the epoch of a member fell from {known} to {told}")
            epochs[told.client] = told
