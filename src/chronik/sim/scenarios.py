"""The scenarios by name. Each defines nodes, clients and checkers; `scenario` defines the course of a run."""

from __future__ import annotations

from chronik.sim.access_scenario import AccessScenario
from chronik.sim.broker_scenarios import (
    DamageScenario,
    GroupsScenario,
    MembersScenario,
    MovesScenario,
    RecordsScenario,
    TopicsScenario,
    UpkeepScenario,
)
from chronik.sim.consumer_groups_scenario import ConsumerGroupsScenario
from chronik.sim.errors import UnknownFault, UnknownScenario
from chronik.sim.faults import Fault
from chronik.sim.lasting_scenario import LastingScenario
from chronik.sim.loss_scenario import LossScenario
from chronik.sim.overload_scenario import OverloadScenario
from chronik.sim.quorum_scenarios import MetadataScenario, QuorumScenario
from chronik.sim.recreated_scenario import RecreatedScenario
from chronik.sim.scenario import Outcome, Scenario, run
from chronik.sim.share_groups_scenario import ShareGroupsScenario
from chronik.sim.swarm_scenario import SwarmScenario
from chronik.sim.transaction_swarm_scenario import TransactionSwarmScenario
from chronik.sim.transactions_scenario import TransactionsScenario
from chronik.sim.wire_scenario import WireScenario

SCENARIOS: dict[str, type[Scenario]] = {
    each.name: each
    for each in (
        QuorumScenario,
        MetadataScenario,
        TopicsScenario,
        MembersScenario,
        RecordsScenario,
        GroupsScenario,
        ConsumerGroupsScenario,
        ShareGroupsScenario,
        DamageScenario,
        UpkeepScenario,
        MovesScenario,
        RecreatedScenario,
        LossScenario,
        LastingScenario,
        SwarmScenario,
        WireScenario,
        OverloadScenario,
        TransactionsScenario,
        TransactionSwarmScenario,
        AccessScenario,
    )
}


def run_named(name: str, seed: int, faults: list[Fault] | None = None, *, only: str = "") -> Outcome:
    """Runs a scenario. `only` selects a fault that every drawn schedule contains; dashes may join its words."""
    return run(scenario_named(name), seed, faults, only=fault_named(name, only))


def scenario_named(name: str) -> type[Scenario]:
    if name not in SCENARIOS:
        raise UnknownScenario(f"there is no scenario {name!r}: choose one of {', '.join(sorted(SCENARIOS))}")
    return SCENARIOS[name]


def fault_named(scenario: str, name: str) -> str:
    known = scenario_named(scenario).selectable
    kind = name.replace("-", " ")
    if kind and kind not in known:
        choices = ", ".join(each.replace(" ", "-") for each in known) or "none"
        raise UnknownFault(f"scenario {scenario!r} has no fault {name!r} to choose: it has {choices}")
    return kind
