"""Invariant 24: every request is allowed or denied as the ACLs say.

Judged twice, by a model that shares no code with the product (`access_model`). What a node answers must follow from
rules that the node had while it was asked. And it must follow from rules that the cluster had then, or at most a
session timeout earlier: so old may a node's rules become before it asks the quorum's leader.

Clients note their questions in the history: kind `ask`, value an Asked, OK if the node did not deny, REFUSED if it did.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from chronik.metadata.access import NO_ACCESS_RULES, AccessRules
from chronik.metadata.image import Image
from chronik.runtime.units import NS_PER_MS
from chronik.sim.checkers.access_model import may
from chronik.sim.checkers.interface import Checker
from chronik.sim.cluster import SimCluster, SimMachine
from chronik.sim.history import OK, REFUSED, History, Operation
from chronik.sim.programs import host_of
from chronik.sim.world import World

ASK: Final = "ask"
SESSION_MS: Final = 3000  # broker.session.timeout.ms of the scenario
# A change counts from when a first node shows it, and holds for all who have a lease when it is acknowledged, which is
# a round trip later. Nodes look at their lease ten times a second.
SLACK_MS: Final = 1500


class Asked(NamedTuple):
    principal: str
    host: str
    operation: int
    kind: int
    name: str


class Held(NamedTuple):
    """Rules, and from when on they held."""

    since_ns: int
    rules: AccessRules


class AsTheNodeKnew(Checker):
    name = "24 a node answers as the rules say that it has"

    def __init__(self, world: World, cluster: SimCluster, history: History) -> None:
        super().__init__(world, cluster, history)
        self._held: dict[str, list[Held]] = {}  # by host

    def saw_image(self, machine: SimMachine, image: Image) -> None:
        held = self._held.setdefault(host_of(machine.node_id), [])
        if not held or held[-1].rules is not image.access:
            held.append(Held(self.world.time.now_ns, image.access))

    def finish(self) -> None:
        for operation in judged(self.history):
            held = self._held.get(operation.node, [])
            judge(self, operation, during(held, operation.invoked_ns, operation.returned_ns or 0))


class AsTheClusterSays(Checker):
    name = "24 no request is served that the rules forbid, and none denied that they allow"

    def __init__(self, world: World, cluster: SimCluster, history: History) -> None:
        super().__init__(world, cluster, history)
        self._held = [Held(0, NO_ACCESS_RULES)]
        self._version = 0  # of the newest image that any node has shown

    def saw_image(self, machine: SimMachine, image: Image) -> None:
        if image.version <= self._version:
            return
        self._version = image.version
        if image.access != self._held[-1].rules:
            self._held.append(Held(self.world.time.now_ns, image.access))

    def finish(self) -> None:
        window_ns = (SESSION_MS + SLACK_MS) * NS_PER_MS
        for operation in judged(self.history):
            judge(self, operation, during(self._held, operation.invoked_ns - window_ns, operation.returned_ns or 0))


def judged(history: History) -> Iterable[Operation]:
    return (each for each in history.operations if each.kind == ASK and each.status in (OK, REFUSED))


def during(held: list[Held], since_ns: int, until_ns: int) -> list[AccessRules]:
    """All rules that held at some moment of that time, both ends included."""
    ends = [*(each.since_ns for each in held[1:]), None]
    return [
        each.rules
        for each, end_ns in zip(held, ends, strict=True)
        if each.since_ns <= until_ns and (end_ns is None or end_ns >= since_ns)
    ]


def judge(checker: Checker, operation: Operation, candidates: list[AccessRules]) -> None:
    answers = {may(list(rules), *operation.value) for rules in candidates}
    if (operation.status == OK) not in answers:
        did = "was not denied" if operation.status == OK else "was denied"
        checker.violated(f"{operation} {did}, by none of {len(candidates)} sets of rules")
