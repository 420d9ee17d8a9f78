"""Invariant 24: every request is allowed or denied according to the ACLs, every login accepted or refused according to
the users and delegation tokens, and every produce throttled according to the quotas.

Judged twice, by a model that shares no code with the product (`access_model`). A node's answer must follow from
metadata that the node had during the request. It must also follow from metadata that the cluster had then, or at most a
session timeout earlier: a node's metadata may become that old before the node asks the quorum's leader.

Clients record their requests in the history: kind `ask`, value an Asked, OK if the node did not deny, REFUSED if it
did; for a produce the result is a Produced. Logins: kind `log in`, value a Tried, OK or REFUSED.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from chronik.metadata.access import NO_ACCESS_RULES, AccessRules
from chronik.metadata.commands.alter_client_quotas import PRODUCER_BYTE_RATE
from chronik.metadata.image import Image
from chronik.runtime.units import NS_PER_MS
from chronik.sim.checkers.access_model import may
from chronik.sim.checkers.interface import Checker
from chronik.sim.clock import WALL_MS
from chronik.sim.cluster import SimCluster, SimMachine
from chronik.sim.history import OK, REFUSED, History, Operation
from chronik.sim.programs import host_of
from chronik.sim.world import World

ASK: Final = "ask"
LOG_IN: Final = "log in"
TINY_RATE: Final = 100  # bytes per second; one of the scenario's two rates is far below, one far above
SESSION_MS: Final = 3000  # broker.session.timeout.ms of the scenario
# A change counts from when a first node shows it, and applies to all lease holders once it is acknowledged, a round
# trip
# later. Nodes check their lease ten times a second.
SLACK_MS: Final = 1500
CLOCK_NS: Final = 2_000 * NS_PER_MS  # maximum difference between node clocks and the world's


class Asked(NamedTuple):
    principal: str
    host: str
    operation: int
    kind: int
    name: str


class Tried(NamedTuple):
    """A login: the user name, and the stored key that belongs to the password used."""

    user: str
    password: str
    stored_key: bytes


class TriedToken(NamedTuple):
    """A login with a delegation token and its correct secret."""

    token_id: str


class Produced(NamedTuple):
    code: int
    throttle_ms: int


class Facts(NamedTuple):
    """The metadata that decides requests and logins, as plain values."""

    rules: AccessRules
    stored_keys: Mapping[str, bytes]  # by user
    rates: Mapping[str | None, float]  # produce quota by user; None: users without their own quota
    token_ends_ms: Mapping[str, int]  # by id, wall time


NO_FACTS: Final = Facts(NO_ACCESS_RULES, {}, {}, {})


class Held(NamedTuple):
    """Facts, and the time from which they applied."""

    since_ns: int
    facts: Facts


class AsTheNodeKnew(Checker):
    name = "24 a node answers as the rules, users and quotas say that it has"

    def __init__(self, world: World, cluster: SimCluster, history: History) -> None:
        super().__init__(world, cluster, history)
        self._held: dict[str, list[Held]] = {}  # host: its facts
        self._seen: dict[str, tuple[object, ...]] = {}

    def saw_image(self, machine: SimMachine, image: Image) -> None:
        host = host_of(machine.node_id)
        sources = (image.access, image.scram, image.quotas, image.tokens)
        if all(new is old for new, old in zip(sources, self._seen.get(host, (None,) * 4), strict=True)):
            return
        self._seen[host] = sources
        self._held.setdefault(host, []).append(Held(self.world.time.now_ns, facts_of(image)))

    def finish(self) -> None:
        for operation in judged(self.history):
            held = self._held.get(operation.node, [])
            judge(self, operation, during(held, operation.invoked_ns, operation.returned_ns or 0))


class AsTheClusterSays(Checker):
    name = "24 no request is served that the metadata forbids, and none denied that it allows"

    def __init__(self, world: World, cluster: SimCluster, history: History) -> None:
        super().__init__(world, cluster, history)
        self._held = [Held(0, NO_FACTS)]
        self._version = 0  # version of the newest image seen on any node

    def saw_image(self, machine: SimMachine, image: Image) -> None:
        if image.version <= self._version:
            return
        self._version = image.version
        facts = facts_of(image)
        if facts != self._held[-1].facts:
            self._held.append(Held(self.world.time.now_ns, facts))

    def finish(self) -> None:
        window_ns = (SESSION_MS + SLACK_MS) * NS_PER_MS
        for operation in judged(self.history):
            judge(self, operation, during(self._held, operation.invoked_ns - window_ns, operation.returned_ns or 0))


def facts_of(image: Image) -> Facts:
    stored_keys = {key.user: credential.stored_key for key, credential in image.scram.items()}
    rates = {
        entity[0][1]: limits[PRODUCER_BYTE_RATE]
        for entity, limits in image.quotas.items()
        if len(entity) == 1 and entity[0][0] == "user" and PRODUCER_BYTE_RATE in limits
    }
    token_ends_ms = {token_id: min(token.expiry_ms, token.max_ms) for token_id, token in image.tokens.items()}
    return Facts(image.access, stored_keys, rates, token_ends_ms)


def judged(history: History) -> Iterable[Operation]:
    return (each for each in history.operations if each.kind in (ASK, LOG_IN) and each.status in (OK, REFUSED))


def during(held: list[Held], since_ns: int, until_ns: int) -> list[Facts]:
    """All facts that applied at some moment of the interval, both ends included."""
    ends = [*(each.since_ns for each in held[1:]), None]
    return [
        each.facts
        for each, end_ns in zip(held, ends, strict=True)
        if each.since_ns <= until_ns and (end_ns is None or end_ns >= since_ns)
    ]


def judge(checker: Checker, operation: Operation, candidates: list[Facts]) -> None:
    if isinstance(operation.value, TriedToken):
        answers = {answer for facts in candidates for answer in token_answers(facts, operation)}
        words = ("was accepted", "was refused")
    elif operation.kind == LOG_IN:
        tried: Tried = operation.value
        answers = {facts.stored_keys.get(tried.user) == tried.stored_key for facts in candidates}
        words = ("was accepted", "was refused")
    else:
        answers = {may(list(facts.rules), *operation.value) for facts in candidates}
        words = ("was not denied", "was denied")
        judge_wait(checker, operation, candidates)
    if (operation.status == OK) not in answers:
        did = words[0] if operation.status == OK else words[1]
        checker.violated(f"{operation} {did}, by none of {len(candidates)} states of the metadata")


def token_answers(facts: Facts, operation: Operation) -> set[bool]:
    """The allowed answers. The node's clock decides whether a known token has expired, so near its end both are
    allowed."""
    ends_ms = facts.token_ends_ms.get(operation.value.token_id)
    if ends_ms is None:
        return {False}
    ends_ns = (ends_ms - WALL_MS) * NS_PER_MS
    may_hold = operation.invoked_ns <= ends_ns + CLOCK_NS
    may_have_ended = (operation.returned_ns or 0) >= ends_ns - CLOCK_NS
    return {answer for answer, may in ((True, may_hold), (False, may_have_ended)) if may}


def judge_wait(checker: Checker, operation: Operation, candidates: list[Facts]) -> None:
    """A user without a quota is never throttled. A quota of one byte per second always throttles a stored batch."""
    if not isinstance(operation.result, Produced):
        return
    user = operation.value.principal.removeprefix("User:")
    rates = {facts.rates.get(user, facts.rates.get(None)) for facts in candidates}
    has_waited, is_stored = operation.result.throttle_ms > 0, not operation.result.code
    allowed = {must_wait(rate) for rate in rates}
    if has_waited not in allowed and (is_stored or has_waited):
        did = "had to wait" if has_waited else "did not have to wait"
        checker.violated(f"{operation} {did}, by none of the quotas {rates}")


def must_wait(rate: float | None) -> bool:
    return rate is not None and rate < TINY_RATE
