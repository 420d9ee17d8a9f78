"""The meaning of access rules: literal cases, and a brute-force model over random rules and questions. Costs are
measured in executed lines of code, because times depend on the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronik.metadata.access import NO_ACCESS_RULES, AccessRule, AccessRules
from chronik.runtime.pieces import at_once
from chronik.security.deciding import Policy, Why, decide, deciding_any
from chronik.sim.checkers.access_model import (
    ALL,
    ALLOW,
    ALTER,
    ALTER_CONFIGS,
    DELETE,
    DENY,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    LITERAL,
    PREFIXED,
    READ,
    WRITE,
    may,
)

TOPIC, GROUP = 2, 3
ALICE, EVERYBODY, HERE = "User:alice", "User:*", "10.0.0.1"


def rule(
    name: str = "orders",
    permission: int = ALLOW,
    operation: int = READ,
    *,
    pattern: int = LITERAL,
    principal: str = ALICE,
    host: str = "*",
    kind: int = TOPIC,
) -> AccessRule:
    return AccessRule(kind, name, pattern, principal, host, operation, permission)


def rules(*made: AccessRule) -> AccessRules:
    all_rules = NO_ACCESS_RULES
    for each in made:
        all_rules = all_rules.with_rule(each)
    return all_rules


CASES = [
    ("nothing is allowed without a rule", [], READ, "orders", Why.NO_RULE),
    ("a rule for the name", [rule()], READ, "orders", Why.ALLOWED),
    ("a rule for another name", [rule("payments")], READ, "orders", Why.NO_RULE),
    ("a rule for another operation", [rule(operation=WRITE)], READ, "orders", Why.NOT_FOR_THIS),
    ("a rule for everything", [rule(operation=ALL)], READ, "orders", Why.ALLOWED),
    ("a prefix", [rule("or", pattern=PREFIXED)], READ, "orders", Why.ALLOWED),
    ("a prefix that is the whole name", [rule("orders", pattern=PREFIXED)], READ, "orders", Why.ALLOWED),
    ("a prefix longer than the name", [rule("orders2", pattern=PREFIXED)], READ, "orders", Why.NO_RULE),
    ("a literal name is no prefix", [rule("or")], READ, "orders", Why.NO_RULE),
    ("the wildcard", [rule("*")], READ, "orders", Why.ALLOWED),
    ("a prefix named * is the character", [rule("*", pattern=PREFIXED)], READ, "orders", Why.NO_RULE),
    ("everybody", [rule(principal=EVERYBODY)], READ, "orders", Why.ALLOWED),
    ("another principal", [rule(principal="User:bob")], READ, "orders", Why.NOT_FOR_THIS),
    ("a principal of another type", [rule(principal="Group:alice")], READ, "orders", Why.NOT_FOR_THIS),
    ("the own host", [rule(host=HERE)], READ, "orders", Why.ALLOWED),
    ("another host", [rule(host="10.0.0.2")], READ, "orders", Why.NOT_FOR_THIS),
    ("another kind of resource", [rule(kind=GROUP)], READ, "orders", Why.NO_RULE),
    ("DENY wins over ALLOW", [rule(), rule(permission=DENY)], READ, "orders", Why.DENIED),
    ("DENY by the wildcard wins", [rule(), rule("*", DENY)], READ, "orders", Why.DENIED),
    ("DENY by a prefix wins", [rule(), rule("o", DENY, pattern=PREFIXED)], READ, "orders", Why.DENIED),
    ("DENY of everything wins", [rule(), rule(permission=DENY, operation=ALL)], READ, "orders", Why.DENIED),
    ("DENY of everybody wins", [rule(), rule(permission=DENY, principal=EVERYBODY)], READ, "orders", Why.DENIED),
    ("DENY of somebody else", [rule(), rule(permission=DENY, principal="User:b")], READ, "orders", Why.ALLOWED),
    ("DENY of another host", [rule(), rule(permission=DENY, host="::1")], READ, "orders", Why.ALLOWED),
    *(
        (f"{operation} implies DESCRIBE", [rule(operation=operation)], DESCRIBE, "orders", Why.ALLOWED)
        for operation in (READ, WRITE, DELETE, ALTER)
    ),
    ("CREATE implies nothing", [rule(operation=5)], DESCRIBE, "orders", Why.NOT_FOR_THIS),
    (
        "ALTER_CONFIGS implies DESCRIBE_CONFIGS",
        [rule(operation=ALTER_CONFIGS)],
        DESCRIBE_CONFIGS,
        "orders",
        Why.ALLOWED,
    ),
    ("DESCRIBE does not imply READ", [rule(operation=DESCRIBE)], READ, "orders", Why.NOT_FOR_THIS),
    ("DENY implies nothing", [rule(operation=DESCRIBE), rule(permission=DENY)], DESCRIBE, "orders", Why.ALLOWED),
    ("DENY of DESCRIBE leaves READ", [rule(), rule("*", DENY, DESCRIBE)], READ, "orders", Why.ALLOWED),
]


@pytest.mark.parametrize(("made", "operation", "name", "why"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_what_rules_mean(made: list[AccessRule], operation: int, name: str, why: Why) -> None:
    decided = decide(rules(*made), ALICE, HERE, operation, TOPIC, name)
    assert decided.why is why
    assert decided.allowed == (why is Why.ALLOWED)
    assert (decided.rule in made) == (why in (Why.ALLOWED, Why.DENIED))


def test_super_users_may_do_everything_also_what_is_denied() -> None:
    policy = Policy(super_users=frozenset({ALICE}))
    decided = decide(rules(rule("*", DENY, ALL)), ALICE, HERE, READ, TOPIC, "orders", policy)
    assert (decided.allowed, decided.why) == (True, Why.SUPER_USER)


def test_open_resources_are_those_to_which_no_rule_applies() -> None:
    policy = Policy(is_open_without_rules=True)
    made = rules(rule("payments", principal="User:bob"))
    assert decide(made, ALICE, HERE, READ, TOPIC, "orders", policy).why is Why.OPEN
    assert decide(made, ALICE, HERE, READ, TOPIC, "payments", policy).why is Why.NOT_FOR_THIS
    assert decide(rules(rule("*", principal="User:b")), ALICE, HERE, READ, TOPIC, "x", policy).why is Why.NOT_FOR_THIS


ANY_CASES = [
    ([], False),
    ([rule(operation=WRITE)], True),
    ([rule(operation=READ)], False),
    ([rule(operation=WRITE, principal="User:bob")], False),
    ([rule(operation=WRITE), rule("*", DENY, WRITE)], False),
    ([rule(operation=WRITE), rule(permission=DENY, operation=ALL)], False),
    ([rule("orders", operation=WRITE), rule("or", DENY, WRITE, pattern=PREFIXED)], False),
    ([rule("or", operation=WRITE, pattern=PREFIXED), rule("orders", DENY, WRITE, pattern=PREFIXED)], True),
    ([rule("or", operation=WRITE, pattern=PREFIXED), rule("o", DENY, WRITE, pattern=PREFIXED)], False),
    ([rule("*", operation=WRITE), rule("o", DENY, WRITE, pattern=PREFIXED)], True),
]


@pytest.mark.parametrize(("made", "expected"), ANY_CASES)
def test_any_resource_is_one_that_no_denial_covers(made: list[AccessRule], *, expected: bool) -> None:
    assert at_once(deciding_any(rules(*made), ALICE, HERE, WRITE, TOPIC)).allowed is expected


short = st.sampled_from(["*", "a", "ab", "abc", "b", "ba", "hardcode"])
principals = st.sampled_from([ALICE, "User:bob", EVERYBODY, "Group:alice"])
hosts = st.sampled_from([HERE, "10.0.0.2", "*"])
operations = st.integers(2, 15)
kinds = st.sampled_from([2, 3, 4])
made_rules = st.builds(
    AccessRule,
    kinds,
    short,
    st.sampled_from([LITERAL, PREFIXED]),
    principals,
    hosts,
    st.sampled_from([ALL, READ, WRITE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS]),
    st.sampled_from([DENY, ALLOW, ALLOW]),
)


@settings(max_examples=400, deadline=None)
@given(
    made=st.lists(made_rules, max_size=12),
    gone=st.lists(st.integers(0, 11), max_size=4),
    asked=st.tuples(principals, hosts, st.integers(3, 15), kinds, short),
    super_users=st.sets(principals, max_size=1),
    is_open=st.booleans(),
)
def test_decisions_are_those_of_a_model_that_looks_at_every_rule(
    made: list[AccessRule],
    gone: list[int],
    asked: tuple[str, str, int, int, str],
    super_users: Iterable[str],
    *,
    is_open: bool,
) -> None:
    """Also after some of the rules are removed again."""
    all_rules = rules(*made)
    left = set(made)
    for index in gone:
        if index < len(made):
            all_rules = all_rules.without_rule(made[index])
            left.discard(made[index])
    assert set(all_rules) == left
    assert len(all_rules) == len(left)
    decided = decide(all_rules, *asked, Policy(frozenset(super_users), is_open))
    assert decided.allowed is may(left, *asked, super_users, is_open=is_open)


@settings(max_examples=400, deadline=None)
@given(made=st.lists(made_rules, max_size=12), asked=st.tuples(principals, hosts, st.integers(3, 15), kinds))
def test_any_resource_is_decided_as_by_a_model_that_looks_at_every_rule(
    made: list[AccessRule], asked: tuple[str, str, int, int]
) -> None:
    principal, host, operation, kind = asked
    fitting = [
        rule
        for rule in made
        if rule.kind == kind
        and rule.principal in (principal, EVERYBODY)
        and rule.host in (host, "*")
        and rule.operation in (ALL, operation)
    ]
    denials = [rule for rule in fitting if rule.permission == DENY]
    by_pattern = not any((rule.pattern, rule.name) == (LITERAL, "*") for rule in denials) and any(
        (rule.pattern, rule.name) == (LITERAL, "*")
        or not any(
            rule.name.startswith(denial.name)
            if denial.pattern == PREFIXED
            else (rule.pattern, rule.name) == (LITERAL, denial.name)
            for denial in denials
        )
        for rule in fitting
        if rule.permission == ALLOW
    )
    expected = by_pattern or may(set(made), principal, host, operation, kind, "hardcode", (), is_open=False)
    assert at_once(deciding_any(rules(*made), *asked)).allowed is expected


RULE_COUNT = 10_000
SHAPES = {
    "many resources": lambda n: rule(f"t{n}", operation=WRITE),
    "many principals": lambda n: rule(principal=f"User:{n}", operation=WRITE),
    "many hosts": lambda n: rule(host=f"10.0.{n // 256}.{n % 256}", operation=WRITE),
    "many prefixes": lambda n: rule("p" * (n % 1_000 + 1) + str(n), pattern=PREFIXED, operation=WRITE),
    "all that is allowed is denied": lambda n: rule(f"t{n // 2}", (DENY, ALLOW)[n % 2], WRITE),
    "a prefix denies all": lambda n: rule(f"t{n}", operation=WRITE) if n else rule("t", DENY, WRITE, pattern=PREFIXED),
    "nothing is denied as a whole": lambda n: rule(f"t{n}", (DENY, ALLOW)[n % 2], WRITE, pattern=PREFIXED),
}


def lines_run(work: Callable[[], object]) -> int:
    """The number of executed Python lines. A line takes well under a microsecond, unless it iterates over a
    collection."""
    count = 0

    def trace(frame: object, event: str, argument: object) -> object:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("shape", SHAPES)
def test_rules_of_any_shape_cost_no_more_when_there_are_many(shape: str) -> None:
    """To add or remove one, to ask for a resource, and between two pieces of a question about any resource. Only few
    rules are iterated as one collection."""
    made = [SHAPES[shape](number) for number in range(RULE_COUNT)]
    all_rules = rules(*made)
    assert len(all_rules) == RULE_COUNT
    for known in all_rules.resources.values():
        assert max(map(len, known.values())) <= 28, "two permissions, fourteen operations"
    made_lengths = all_rules.prefix_lengths.get(TOPIC, ())
    assert len(made_lengths) <= 1_010, "no more than there can be letters"
    more = rule("p" * 2_000, pattern=PREFIXED, host="::1")
    for each in (made[0], made[-1], more):
        assert lines_run(lambda each=each: all_rules.with_rule(each)) < 100  # type: ignore[misc]
        assert lines_run(lambda each=each: all_rules.without_rule(each)) < 100 + 2 * len(made_lengths)  # type: ignore[misc]
    for name in ("orders", "t7", "p" * 2_000):
        asked = lambda name=name: decide(all_rules, ALICE, HERE, WRITE, TOPIC, name)  # type: ignore[misc]  # noqa: E731
        assert lines_run(asked) < 200 + 15 * len(made_lengths)
    work = deciding_any(all_rules, ALICE, HERE, WRITE, TOPIC)
    pieces: list[int | None] = [0]
    bound = 10_000  # for the first question, about one name
    while pieces[-1] is not None:
        assert lines_run(lambda: pieces.append(next(work, None))) < bound
        bound = 1_000
    assert sum(each or 0 for each in pieces) <= RULE_COUNT
