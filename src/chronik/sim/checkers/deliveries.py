"""Invariant 31, of share groups: no record is passed over, and none is delivered more often than its limit allows."""

from __future__ import annotations

from chronik.sim.checkers.interface import Checker
from chronik.sim.history import OK

DELIVERIES_MAX = 5  # group.share.delivery.count.limit


class EachIsDelivered(Checker):
    name = "31 every record reaches a member of the share group"

    def finish(self) -> None:
        delivered: dict[str, int] = {}
        for told in [each for each in self.history.operations if each.kind == "deliver"]:
            if not 1 <= told.result <= DELIVERIES_MAX:
                self.violated(f"a record was delivered too often: {told}")
            delivered[told.value] = max(told.result, delivered.get(told.value, 0))
        for made in [each for each in self.history.operations if each.kind == "produce" and each.status == OK]:
            if made.value not in delivered:
                self.violated(f"never delivered: {made}")
