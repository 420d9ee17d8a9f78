"""The authorizer with access rules: what a connection caches, for how long, and what the audit logs."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chronik.broker.audit import CALLERS_MAX, Audit
from chronik.broker.authorizer import KEPT_MAX, Notes, StandardAuthorizer, may_touch
from chronik.broker.permissions import ALTER, CLUSTER, CLUSTER_NAME, DESCRIBE, READ, TOPIC, WRITE
from chronik.broker.session import Principal, Session
from chronik.metadata.access import ALLOW, DENY, LITERAL, NO_ACCESS_RULES, AccessRule
from chronik.runtime.pieces import at_once
from chronik.security.deciding import Policy

ALICE = Principal("User", "alice")
ROOT = Principal("User", "root")
POLICY = Policy(super_users=frozenset({str(ROOT)}))
SECOND_NS = 1_000_000_000


class Guard:
    def __init__(self, policy: Policy = POLICY) -> None:
        self.store = SimpleNamespace(image=SimpleNamespace(access=NO_ACCESS_RULES))
        self.now_ns = 0
        self.authorizer = StandardAuthorizer(cast(Any, self.store), policy, Audit(lambda: self.now_ns))

    def rule(
        self, name: str = "orders", permission: int = ALLOW, operation: int = WRITE, who: str = "User:alice"
    ) -> None:
        made = AccessRule(TOPIC, name, LITERAL, who, "*", operation, permission)
        self.store.image.access = self.store.image.access.with_rule(made)

    def forget_all(self) -> None:
        self.store.image.access = NO_ACCESS_RULES

    def writes(self, session: Session, name: str = "orders", notes: Notes = Notes.ALL) -> bool:
        return self.authorizer.allows(session, WRITE, TOPIC, name, "Produce", notes)


def session_of(principal: Principal = ALICE, host: str = "10.0.0.7") -> Session:
    session = Session("PLAINTEXT", 1000)
    session.principal, session.host = principal, host
    return session


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(record.getMessage()) for record in caplog.records if record.name == "chronik.authorizer"]


def test_what_a_connection_keeps_is_as_good_as_the_rules_it_was_decided_by() -> None:
    guard, session = Guard(), session_of()
    assert not guard.writes(session)
    guard.rule()
    assert guard.writes(session)
    assert session.kept is not None
    assert guard.writes(session)
    guard.rule(permission=DENY)
    assert not guard.writes(session), "a rule was added"
    guard.forget_all()
    assert not guard.writes(session), "all rules are gone"


def test_what_a_connection_keeps_belongs_to_its_principal() -> None:
    guard, session = Guard(), session_of()
    guard.rule()
    assert guard.writes(session)
    session.principal = Principal("User", "bob")
    assert not guard.writes(session)


def test_a_connection_keeps_a_bounded_number_of_actions_and_nothing_of_lists() -> None:
    guard, session = Guard(), session_of()
    guard.rule("*")
    for number in range(KEPT_MAX + 10):
        assert guard.writes(session, f"t{number}")
    assert session.kept is not None
    assert len(session.kept.allowed) <= KEPT_MAX
    before = len(session.kept.allowed)
    assert guard.authorizer.allows(session, DESCRIBE, TOPIC, "listed", "Metadata", Notes.NONE)
    assert len(session.kept.allowed) == before


def test_any_resource_is_decided_anew_when_rules_change() -> None:
    guard, session = Guard(), session_of()
    assert not at_once(guard.authorizer.allows_any(session, WRITE, TOPIC, "InitProducerId"))
    guard.rule()
    assert at_once(guard.authorizer.allows_any(session, WRITE, TOPIC, "InitProducerId"))
    guard.rule("*", DENY)
    assert not at_once(guard.authorizer.allows_any(session, WRITE, TOPIC, "InitProducerId"))
    assert at_once(guard.authorizer.allows_any(session_of(ROOT), WRITE, TOPIC, "InitProducerId"))


def test_only_a_super_user_touches_a_super_user() -> None:
    assert may_touch(POLICY, ROOT, "User:root")
    assert may_touch(POLICY, ALICE, "User:bob")
    assert not may_touch(POLICY, ALICE, "User:root")


def test_a_denial_is_one_line_with_who_what_and_why(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "chronik.authorizer")
    guard = Guard()
    guard.rule("*", DENY)
    assert not guard.writes(session_of())
    assert lines(caplog) == [
        {
            "action": "denied",
            "principal": "User:alice",
            "host": "10.0.0.7",
            "operation": "WRITE",
            "resource": "TOPIC:orders",
            "api": "Produce",
            "rule": "DENY User:alice WRITE on TOPIC * from *",
        }
    ]


def test_denials_by_one_rule_are_a_line_a_second_with_a_count(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "chronik.authorizer")
    guard, session = Guard(), session_of()
    for _ in range(1000):
        guard.writes(session)
    guard.writes(session_of(Principal("User", "bob")))
    guard.now_ns = SECOND_NS
    guard.writes(session)
    found = lines(caplog)
    assert [line["principal"] for line in found] == ["User:alice", "User:bob", "User:alice"]
    assert [line.get("repeated") for line in found] == [None, None, 999]
    assert found[0]["rule"] == "no rule applies to the resource"


def test_the_audit_counts_a_bounded_number_of_callers() -> None:
    guard = Guard()
    for number in range(CALLERS_MAX + 100):
        guard.writes(session_of(Principal("User", f"u{number}")))
    assert len(guard.authorizer._audit._last) <= CALLERS_MAX


def test_allowed_actions_are_noted_for_debugging_and_changes_always(caplog: pytest.LogCaptureFixture) -> None:
    guard, session = Guard(), session_of(ROOT)
    caplog.set_level(logging.INFO, "chronik.authorizer")
    assert guard.writes(session)
    assert guard.authorizer.allows(session, ALTER, CLUSTER, CLUSTER_NAME, "CreateAcls")
    assert guard.authorizer.allows(session, ALTER, CLUSTER, CLUSTER_NAME, "CreateAcls")
    assert [(line["action"], line["api"]) for line in lines(caplog)] == [("allowed", "CreateAcls")] * 2
    caplog.clear()
    caplog.set_level(logging.DEBUG, "chronik.authorizer")
    for _ in range(2):
        assert guard.authorizer.allows(session, READ, TOPIC, "orders", "Fetch")
    assert [line["rule"] for line in lines(caplog)] == ["the principal is a super user"] * 2


def test_what_another_permission_may_still_allow_is_no_denial(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "chronik.authorizer")
    guard = Guard()
    assert not guard.writes(session_of(), notes=Notes.ALLOWED)
    assert not guard.writes(session_of(), notes=Notes.NONE)
    assert lines(caplog) == []
    assert guard.writes(session_of(ROOT), notes=Notes.ALLOWED)
    assert len(lines(caplog)) == 1


@pytest.mark.parametrize("name", ['x\n{"action": "allowed"}', "\x1b[2J", "\u2028", '"}', "n" * 10_000])
def test_nobody_forges_a_line(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "chronik.authorizer")
    Guard().writes(session_of(Principal("User", name)), name)
    [record] = caplog.records
    text = record.getMessage()
    assert text.isascii()
    assert text.isprintable()
    assert len(text) < 3_000
    assert json.loads(text)["action"] == "denied"
