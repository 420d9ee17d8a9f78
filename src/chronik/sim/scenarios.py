"""The scenarios by name. Each says who runs, what clients do and who looks on; the course of a run is `scenario`'s."""

from __future__ import annotations

from chronik.sim.broker_scenarios import (
    DamageScenario,
    GroupsScenario,
    MembersScenario,
    MovesScenario,
    RecordsScenario,
    TopicsScenario,
    UpkeepScenario,
)
from chronik.sim.errors import UnknownScenario
from chronik.sim.faults import Fault
from chronik.sim.quorum_scenarios import MetadataScenario, QuorumScenario
from chronik.sim.recreated_scenario import RecreatedScenario
from chronik.sim.scenario import Outcome, Scenario, run

SCENARIOS: dict[str, type[Scenario]] = {
    each.name: each
    for each in (
        QuorumScenario,
        MetadataScenario,
        TopicsScenario,
        MembersScenario,
        RecordsScenario,
        GroupsScenario,
        DamageScenario,
        UpkeepScenario,
        MovesScenario,
        RecreatedScenario,
    )
}


def run_named(name: str, seed: int, faults: list[Fault] | None = None) -> Outcome:
    if name not in SCENARIOS:
        raise UnknownScenario(f"there is no scenario {name!r}: choose one of {', '.join(sorted(SCENARIOS))}")
    return run(SCENARIOS[name], seed, faults)
