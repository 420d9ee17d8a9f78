"""Planted bugs in access control: missing checks, and rules, users and quotas that are misread, kept for too long, or
lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from chronik.broker import authorizer
from chronik.broker.authorizer import StandardAuthorizer
from chronik.broker.context import Context
from chronik.broker.delegation_tokens import DelegationTokens, KnownToken
from chronik.broker.dispatch import Dispatcher
from chronik.broker.quotas.client_quotas import ClientQuotas
from chronik.broker.rule_freshness import RuleFreshness
from chronik.broker.sasl.logins import ScramUsers
from chronik.broker.sasl.scram import Known, ScramServer
from chronik.broker.session import Principal
from chronik.metadata import snapshot
from chronik.metadata.access import ALLOW, DENY, LITERAL, PREFIXED, WILDCARD, AccessRules
from chronik.metadata.image import DelegationToken, Image
from chronik.metadata.records import AccessRuleRecord, MetadataRecord
from chronik.security.deciding import Decision


def a_handler_does_not_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    def allows(self: Context, *asked: Any) -> bool:
        return self.api == "ListOffsets" or original(self, *asked)

    original = Context.allows
    monkeypatch.setattr(Context, "allows", allows)


def what_was_allowed_once_is_allowed_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memo of a connection outlives the rules that it came from."""

    def allows(self: StandardAuthorizer, session: Any, operation: int, kind: int, name: str, *rest: Any) -> bool:
        kept = session.kept
        if kept is not None and (operation, kind, name) in kept.allowed:
            return True
        return original(self, session, operation, kind, name, *rest)  # type: ignore[arg-type]

    original = StandardAuthorizer.allows
    monkeypatch.setattr(StandardAuthorizer, "allows", allows)


def an_allowing_rule_wins_over_a_denying_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def decide(rules: AccessRules, *asked: Any) -> Decision:
        without = rules
        for rule in rules:
            without = without.without_rule(rule) if rule.permission == DENY else without
        decided = original(without, *asked)
        return decided if decided.allowed else original(rules, *asked)

    original = authorizer.decide
    monkeypatch.setattr(authorizer, "decide", decide)


def a_prefix_does_not_fit_the_name_that_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def applying_to(self: AccessRules, kind: int, name: str) -> Iterator[Any]:
        keys = [(LITERAL, kind, name), (LITERAL, kind, WILDCARD)]
        keys += [(PREFIXED, kind, name[:length]) for length in range(1, len(name))]
        return iter([self.resources[key] for key in keys if key in self.resources])

    monkeypatch.setattr(AccessRules, "applying_to", applying_to)


def a_prefix_fits_names_that_it_begins_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compared the wrong way round."""

    def applying_to(self: AccessRules, kind: int, name: str) -> Iterator[Any]:
        return (
            known
            for (pattern, of, written), known in sorted(self.resources.items(), key=lambda item: item[0])
            if of == kind and (written.startswith(name) if pattern == PREFIXED else written in (name, WILDCARD))
        )

    monkeypatch.setattr(AccessRules, "applying_to", applying_to)


def a_snapshot_has_no_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor has the hash by which nodes are compared, which is made of the same records."""

    def records_of(image: Image) -> Iterator[MetadataRecord]:
        return (record for record in original(image) if not isinstance(record, AccessRuleRecord))

    original = snapshot.records_of
    monkeypatch.setattr(snapshot, "records_of", records_of)


def a_denying_rule_implies_what_an_allowing_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    def decide(rules: AccessRules, principal: str, host: str, operation: int, *rest: Any) -> Decision:
        if operation == 8:  # DESCRIBE
            for implying in (3, 4, 6, 7):
                decided = original(rules, principal, host, implying, *rest)
                if decided.rule is not None and decided.rule.permission != ALLOW:
                    return decided
        return original(rules, principal, host, operation, *rest)

    original = authorizer.decide
    monkeypatch.setattr(authorizer, "decide", decide)


def hosts_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def decide(rules: AccessRules, principal: str, host: str, *rest: Any) -> Decision:
        decisions = [original(rules, principal, each, *rest) for each in (host, *sorted({r.host for r in rules}))]
        return next((each for each in decisions if each.allowed), decisions[0])

    original = authorizer.decide
    monkeypatch.setattr(authorizer, "decide", decide)


def a_node_never_asks_whether_its_rules_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RuleFreshness, "is_fresh", lambda self, principal, now_ns: True)


def a_login_goes_by_users_of_any_age(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dispatcher, "_must_confirm_login", lambda self, connection: False)


def a_deleted_user_can_still_log_in(monkeypatch: pytest.MonkeyPatch) -> None:
    def known(self: ScramUsers, kind: Any, user: str) -> Known:
        found = original(self, kind, user)
        kept = vars(self).setdefault("kept", {})
        if found.credential is not None:
            kept[user] = found.credential
        return found._replace(credential=found.credential or kept.get(user))

    original = ScramUsers.known
    monkeypatch.setattr(ScramUsers, "known", known)


def a_login_goes_by_tokens_of_any_age(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a token were judged like a password in the configuration."""

    def judged_by_metadata(self: ScramServer) -> Principal | None:
        found = original.fget(self)  # type: ignore[misc]
        return None if found is not None and found.type == "Token" else found  # type: ignore[no-any-return]

    original = ScramServer.judged_by_metadata
    monkeypatch.setattr(ScramServer, "judged_by_metadata", property(judged_by_metadata))


def a_token_outlives_its_expiry(monkeypatch: pytest.MonkeyPatch) -> None:
    """It lets its bearer in until the controller removes it, as in Kafka."""
    monkeypatch.setattr(DelegationToken, "is_expired", lambda self, now_ms: False)


def a_removed_token_can_still_log_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its keys are kept, and its existence is not checked."""

    def known(self: DelegationTokens, kind: Any, token_id: str) -> KnownToken:
        found = original(self, kind, token_id)
        kept = vars(self).setdefault("kept", {})
        if found.token is not None:
            kept[token_id] = found
        return kept.get(token_id, found)  # type: ignore[no-any-return]

    original = DelegationTokens.known
    monkeypatch.setattr(DelegationTokens, "known", known)


def quotas_are_not_enforced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClientQuotas, "follow", lambda self, image: None)
