"""Checks the quorum by itself: at the end all ledgers are equal and hold every acknowledged proposal, once."""

from __future__ import annotations

from chronik.sim.checkers.interface import Checker
from chronik.sim.history import OK
from chronik.sim.ledger import LedgerProgram


class Ledgers(Checker):
    name = "3 acknowledged proposals are in every ledger"

    def finish(self) -> None:
        ledgers = {
            machine.node_id: machine.program.ledger.numbers
            for machine in self.cluster.machines.values()
            if isinstance(machine.program, LedgerProgram)
        }
        acknowledged = [each.value for each in self.history.operations if each.status == OK]
        longest = max(ledgers.values(), key=len, default=[])
        if len(set(longest)) != len(longest):
            self.violated("a proposal was applied twice")
        missing = sorted(set(acknowledged) - set(longest))
        if missing:
            self.violated(f"{missing[:5]} were acknowledged and are in no ledger")
        for node_id, numbers in ledgers.items():
            if numbers != longest:
                self.violated(f"the ledger of node {node_id} has {len(numbers)} numbers, another has {len(longest)}")
