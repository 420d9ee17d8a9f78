"""A run that once broke an invariant, kept with what made it break."""

from __future__ import annotations

from dataclasses import dataclass

from chronik.sim.faults import Fault


@dataclass(frozen=True)
class Found:
    scenario: str
    seed: int
    faults: list[Fault] | None = None  # None: those that the seed draws
    story: str = ""

    def __str__(self) -> str:
        return f"{self.scenario}-{self.seed}"
