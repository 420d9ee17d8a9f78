"""Commands that create and delete access rules: which are refused, and the rules that result."""

from __future__ import annotations

from typing import Any

import pytest

from chronik.metadata.access import AccessRule
from chronik.metadata.commands import create_acls
from chronik.metadata.commands.create_acls import AclRule, CreateAcls
from chronik.metadata.commands.delete_acls import DeleteAcls
from chronik.metadata.snapshot import decode_snapshot, encode_snapshot
from chronik.wire.error_codes import ErrorCode
from tests.metadata.access_commands import CLUSTER, DENY, GROUP, LITERAL, MATCH, PREFIXED, WRITE, acl, acl_filter
from tests.metadata.clusters import Cluster, cluster


def created(*rules: AclRule) -> Cluster:
    on = cluster(1)
    reply = on.ask(CreateAcls(rules=list(rules)))
    assert [result.error_code for result in reply.results] == [0] * len(rules)
    return on


def names(rules: Any) -> list[tuple[str, int]]:
    return [(rule.name, rule.pattern) for rule in rules]


REFUSED = [
    (acl(""), "name of an ACL is empty"),
    (acl("other", resource_type=CLUSTER), "the only resource of type CLUSTER is kafka-cluster"),
    (acl(principal="alice"), "write User:alice"),
    (acl(resource_type=0), "resource type 0"),
    (acl(resource_type=1), "resource type 1"),
    (acl(resource_type=8), "resource type 8"),
    (acl(pattern_type=1), "pattern type 1"),
    (acl(pattern_type=MATCH), "pattern type 2"),
    (acl(operation=0), "operation 0"),
    (acl(operation=1), "operation 1"),
    (acl(operation=16), "operation 16"),
    (acl(permission_type=1), "permission type 1"),
    (acl(permission_type=4), "permission type 4"),
    (acl("x" * 32_768), "32768 bytes"),
]


@pytest.mark.parametrize(("rule", "reason"), REFUSED)
def test_what_cannot_be_a_rule_is_refused_alone(rule: AclRule, reason: str) -> None:
    on = cluster(1)
    good, bad = on.ask(CreateAcls(rules=[acl("orders"), rule])).results
    assert good.error_code == 0
    assert bad.error_code == ErrorCode.INVALID_REQUEST
    assert reason in bad.error_message
    assert names(on.image.access) == [("orders", LITERAL)]


def test_a_rule_that_exists_is_created_without_effect() -> None:
    on = created(acl(), acl())
    before = on.image.access
    assert len(before) == 1
    assert on.ask(CreateAcls(rules=[acl()])).results[0].error_code == 0
    assert on.image.access is before, "what is kept by the identity of the rules stays valid"


def test_first_rules_are_created_once() -> None:
    """Three nodes bring the same rules, and a node that joins later must not restore what an operator removed."""
    on = cluster(1)
    for rules in ([acl("a"), acl("b")], [acl("c")]):
        results = on.ask(CreateAcls(rules=rules, if_none_exist=True)).results
        assert [each.error_code for each in results] == [0] * len(rules)
    assert names(on.image.access) == [("a", LITERAL), ("b", LITERAL)]


def test_rules_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(create_acls, "RULES_MAX", 2)
    on = created(acl("a"), acl("b"))
    again, more = on.ask(CreateAcls(rules=[acl("a"), acl("c")])).results
    assert (again.error_code, more.error_code) == (0, ErrorCode.POLICY_VIOLATION)


FILTERS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["*", "or", "orders", "orders", "payments"]),
    ({"resource_type": GROUP}, ["orders"]),
    ({"resource_name": "orders"}, ["orders", "orders"]),
    ({"resource_name": "orders", "pattern_type": PREFIXED}, []),
    ({"resource_type": 2, "resource_name": "or", "pattern_type": PREFIXED}, ["or"]),
    ({"resource_type": 2, "resource_name": "orders", "pattern_type": MATCH}, ["*", "or", "orders"]),
    ({"resource_name": "absent", "pattern_type": MATCH}, ["*"]),
    ({"pattern_type": LITERAL}, ["*", "orders", "orders", "payments"]),
    ({"principal": "User:bob"}, ["payments"]),
    ({"principal": "User:carol"}, []),
    ({"host": "10.0.0.1"}, ["or"]),
    ({"operation": WRITE}, ["payments"]),
    ({"permission_type": DENY}, ["*"]),
]


@pytest.mark.parametrize(("fields", "expected"), FILTERS)
def test_a_filter_finds_and_deletes_what_it_fits(fields: dict[str, Any], expected: list[str]) -> None:
    on = created(
        acl("orders"),
        acl("or", pattern_type=PREFIXED, host="10.0.0.1"),
        acl("*", permission_type=DENY),
        acl("payments", principal="User:bob", operation=WRITE),
        acl("orders", resource_type=GROUP),
    )
    before = set(on.image.access)
    [result] = on.ask(DeleteAcls(filters=[acl_filter(**fields)])).results
    assert sorted(rule.resource_name for rule in result.deleted) == sorted(expected)
    left = set(on.image.access)
    assert len(left) == len(before) - len(expected)
    assert left < before or not expected


def test_a_rule_that_two_filters_fit_is_told_for_both_and_deleted_once() -> None:
    on = created(acl("orders"))
    first, second = on.ask(DeleteAcls(filters=[acl_filter(), acl_filter(resource_name="orders")])).results
    assert len(first.deleted) == len(second.deleted) == 1
    assert len(on.image.access) == 0


@pytest.mark.parametrize("field", ["resource_type", "pattern_type", "operation", "permission_type"])
@pytest.mark.parametrize("value", [0, 99])
def test_a_filter_with_unknown_numbers_is_refused_and_deletes_nothing(field: str, value: int) -> None:
    on = created(acl("orders"))
    [result] = on.ask(DeleteAcls(filters=[acl_filter(**{field: value})])).results
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert len(on.image.access) == 1


def test_prefixes_are_found_after_others_of_their_length_are_gone() -> None:
    """They are looked up by their lengths, which are counted."""
    on = created(*(acl(name, pattern_type=PREFIXED) for name in ("ab", "xy", "abc")))
    on.ask(DeleteAcls(filters=[acl_filter(resource_name="xy")]))
    applying = [
        rule.name for known in on.image.access.applying_to(2, "abcd") for rules in known.values() for rule in rules
    ]
    assert applying == ["ab", "abc"]
    on.ask(DeleteAcls(filters=[acl_filter()]))
    assert dict(on.image.access.prefix_lengths) == {}
    assert list(on.image.access.applying_to(2, "abcd")) == []


def test_a_snapshot_of_a_release_without_rules_has_none() -> None:
    read = decode_snapshot(encode_snapshot(cluster(1).image))
    assert list(read.access) == []


def test_rules_are_equal_whatever_way_they_came_about() -> None:
    one, other = created(acl("a"), acl("b")), created(acl("b"), acl("c"), acl("a"))
    other.ask(DeleteAcls(filters=[acl_filter(resource_name="c")]))
    assert one.image.access == other.image.access
    assert AccessRule(2, "a", 3, "User:alice", "*", 3, 3) in one.image.access
