"""Invariant 31, of share groups: no record is passed over, and none is delivered more often than its limit allows.

A record is settled when a member has accepted or rejected it, or when it had its last delivery. A member that dies, or
a leader that dies with what it remembered, settles nothing: then the record must come again.
"""

from __future__ import annotations

from chronik.sim.checkers.interface import Checker
from chronik.sim.history import OK
from chronik.sim.share_group_clients import DELIVERIES_MAX, settled


class EachIsSettled(Checker):
    name = "31 every record is settled by a member of the share group"

    def finish(self) -> None:
        for told in [each for each in self.history.operations if each.kind == "deliver"]:
            if not 1 <= told.result <= DELIVERIES_MAX:
                self.violated(f"a record was delivered too often: {told}")
        values = settled(self.history)
        for made in [each for each in self.history.operations if each.kind == "produce" and each.status == OK]:
            if made.value not in values:
                self.violated(f"nobody has settled {made}")
