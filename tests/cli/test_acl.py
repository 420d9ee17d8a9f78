"""`chronik acl` against a running broker with an authorizer: its output, and the effect of the rules."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from chronik.broker.settings.access import STANDARD
from chronik.cli.acl_explaining import explained
from chronik.cli.acl_words import operation_of, principal_of
from chronik.cli.errors import Misused
from chronik.metadata.access import ALLOW, DENY, LITERAL, NO_ACCESS_RULES, PREFIXED, AccessRule
from chronik.security.deciding import Policy, decide
from chronik.security.impact import Change, Resource, changes
from chronik.testing import Cluster
from tests.cli.conftest import Run

TOPIC, READ, WRITE, DESCRIBE = 2, 3, 4, 8
SETTINGS = {"authorizer.class.name": STANDARD, "super.users": "User:ANONYMOUS"}


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    with Cluster(settings=SETTINGS) as cluster:
        yield cluster.bootstrap


class Acl:
    """The command on one cluster that has no rules at first."""

    def __init__(self, run_command: Run, bootstrap: str) -> None:
        self._run, self._bootstrap = run_command, bootstrap
        self("remove", "--all", fails=None)

    def __call__(self, verb: str, *words: str, fails: bool | None = False) -> Any:
        done = self._run("acl", verb, *words, "--bootstrap", self._bootstrap)
        if fails is not None:
            assert (done.exit_code != 0) is fails, done.err
        return done

    def json(self, verb: str, *words: str) -> Any:
        return json.loads(self(verb, *words, "--format", "json").out)


@pytest.fixture
def acl(run_command: Run, guarded: str) -> Acl:
    return Acl(run_command, guarded)


def test_rules_are_added_listed_and_removed(acl: Acl) -> None:
    added = acl("add", "--principal", "alice", "--operation", "read", "-o", "Write", "--topic", "orders")
    assert added.out.splitlines() == [
        "added: ALLOW User:alice READ on TOPIC orders from *",
        "added: ALLOW User:alice WRITE on TOPIC orders from *",
    ]
    again = acl("add", "--principal", "User:alice", "--operation", "READ", "--topic", "orders")
    assert again.out == "exists: ALLOW User:alice READ on TOPIC orders from *\n"
    acl(
        "add", "--deny", "--principal", "*", "--operation", "all", "--topic", "secret", "--prefix", "--host", "10.0.0.1"
    )
    assert [(row["principal"], row["operation"], row["pattern"]) for row in acl.json("list")] == [
        ("User:alice", "read", "literal"),
        ("User:alice", "write", "literal"),
        ("User:*", "all", "prefixed"),
    ]
    assert [row["operation"] for row in acl.json("list", "--principal", "alice", "-o", "write")] == ["write"]
    assert acl.json("list", "--topic", "secrets") == []
    assert len(acl.json("list", "--topic", "secrets", "--matching")) == 1
    assert acl("remove", "--principal", "alice").out == "2 rules removed\n"
    assert [row["principal"] for row in acl.json("list")] == ["User:*"]


def test_producers_and_consumers_get_what_they_need(acl: Acl) -> None:
    acl("add", "--producer", "--principal", "p", "--topic", "t", "--transactional-id", "x")
    acl("add", "--consumer", "--principal", "c", "--topic", "t", "--group", "g")
    found = {(row["principal"], row["resource_type"], row["operation"]) for row in acl.json("list")}
    assert found == {
        ("User:p", "topic", "write"),
        ("User:p", "topic", "describe"),
        ("User:p", "topic", "create"),
        ("User:p", "transactional_id", "write"),
        ("User:p", "transactional_id", "describe"),
        ("User:c", "topic", "read"),
        ("User:c", "topic", "describe"),
        ("User:c", "group", "read"),
    }


def test_explain_names_the_rule_that_decides(acl: Acl) -> None:
    acl("add", "--principal", "alice", "--operation", "read", "--topic", "orders")
    acl("add", "--deny", "--principal", "alice", "--operation", "write", "--topic", "or", "--prefix")
    words = ("--principal", "alice", "--topic", "orders")
    assert acl("explain", *words, "--operation", "describe").out.splitlines()[0] == (
        "User:alice may describe topic orders: a rule allows it: ALLOW User:alice READ on TOPIC orders from *, "
        "which implies describe."
    )
    told = acl.json("explain", *words, "--operation", "write")
    assert (told["allowed"], told["why"], told["rule"]["resource_name"]) == (False, "a rule denies it", "or")
    anonymous = acl("explain", "--principal", "ANONYMOUS", "--operation", "write", "--topic", "orders").out
    assert anonymous.startswith("User:ANONYMOUS may write topic orders: the principal is a super user.")


def test_a_dry_run_tells_what_would_change_and_changes_nothing(acl: Acl) -> None:
    acl("add", "--principal", "alice", "--operation", "read", "--topic", "orders")
    words = ("--deny", "--principal", "*", "--operation", "read", "--topic", "orders", "--dry-run")
    assert acl.json("add", *words) == [
        {
            "principal": "User:alice",
            "operation": "read",
            "resource": "topic orders",
            "host": "*",
            "change": "allowed -> denied",
        }
    ]
    assert len(acl.json("list")) == 1


def test_a_dry_run_of_remove_shows_the_rules_and_who_would_lose_what(acl: Acl) -> None:
    """The options of `remove` may fit more rules than the caller thinks of."""
    acl("add", "--principal", "alice", "--operation", "read", "--topic", "orders")
    acl("add", "--principal", "bob", "--operation", "read", "--topic", "orders")
    words = ("remove", "--principal", "alice", "--dry-run")
    told = acl.json(*words)
    assert [(rule["principal"], rule["resource_name"]) for rule in told["rules"]] == [("User:alice", "orders")]
    assert {(each["principal"], each["change"]) for each in told["changes"]} == {("User:alice", "allowed -> denied")}
    assert acl(*words).out.startswith("would be removed: ALLOW User:alice READ on TOPIC orders from *\nPRINCIPAL")
    assert len(acl.json("list")) == 2


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("add", "--operation", "read", "--topic", "t"), "Name a --principal"),
        (("add", "--principal", "a", "--topic", "t"), "Name an --operation"),
        (("add", "--principal", "a", "--operation", "read"), "Name a --topic"),
        (("add", "--principal", "a", "--operation", "raed", "--topic", "t"), "did you mean 'read'?"),
        (("add", "--principal", "a", "--producer", "--group", "g"), "a producer needs a --topic"),
        (("add", "--principal", "a", "--consumer", "--topic", "t"), "a consumer needs a --topic and a --group"),
        (
            ("add", "--principal", "a", "--operation", "alter", "--cluster", "--prefix"),
            "--prefix and --cluster exclude",
        ),
        (("remove",), "--all removes every rule"),
        (("explain", "--principal", "a", "--operation", "read"), "name one resource"),
    ],
)
def test_what_is_missing_or_misspelt_is_said(acl: Acl, words: tuple[str, ...], reason: str) -> None:
    assert reason in acl(*words, fails=True).err


def test_a_name_that_no_rule_has_is_answered_with_the_nearest(acl: Acl) -> None:
    acl("add", "--principal", "alice", "--operation", "read", "--topic", "orders")
    assert "did you mean 'User:alice'?" in acl("remove", "--principal", "alcie", fails=True).err
    assert "did you mean 'orders'?" in acl("remove", "--topic", "order", fails=True).err


def test_without_an_authorizer_the_command_says_what_to_set(run_command: Run, our_broker: Cluster) -> None:
    done = run_command("acl", "list", "--bootstrap", our_broker.bootstrap)
    assert done.exit_code == 1
    assert "authorizer.class.name" in done.err


def test_words_are_read_as_kafkas_tools_read_them() -> None:
    assert {operation_of(word) for word in ("DescribeConfigs", "DESCRIBE_CONFIGS", "describe-configs")} == {10}
    assert principal_of("alice") == principal_of("User:alice") == "User:alice"
    assert principal_of("Group:x") == "Group:x"
    with pytest.raises(Misused):
        operation_of("any")


def rule(
    name: str, permission: int, operation: int, *, who: str = "User:a", host: str = "*", pattern: int = LITERAL
) -> AccessRule:
    return AccessRule(TOPIC, name, pattern, who, host, operation, permission)


def test_the_impact_of_a_rule_is_told_for_everybody_whom_it_concerns() -> None:
    before = NO_ACCESS_RULES.with_rule(rule("t", ALLOW, READ))
    after = before.with_rule(rule("*", DENY, READ, who="User:*", host="10.0.0.1"))
    existing = [Resource(TOPIC, "t"), Resource(TOPIC, "u"), Resource(4, "kafka-cluster")]
    assert changes(before, after, existing, Policy()) == [
        Change("User:a", "10.0.0.1", Resource(TOPIC, "t"), READ, is_allowed=False)
    ]
    opened = NO_ACCESS_RULES.with_rule(rule("t", ALLOW, READ, pattern=PREFIXED))
    assert {(each.operation, each.is_allowed) for each in changes(NO_ACCESS_RULES, opened, existing, Policy())} == {
        (READ, True),
        (DESCRIBE, True),
    }


def test_many_rules_are_not_all_printed() -> None:
    rules = NO_ACCESS_RULES
    for number in range(30):
        rules = rules.with_rule(rule("t", ALLOW, WRITE, who=f"User:{number}"))
    lines = explained(decide(rules, "User:x", "*", WRITE, TOPIC, "t"), "User:x", "*", WRITE, TOPIC, "t", list(rules))
    assert lines[0] == "User:x may not write topic t: rules apply to the resource, but none of them allows this."
    assert lines[-1] == "  and 10 more: chronik acl list --matching shows them"
