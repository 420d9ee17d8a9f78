"""Whether the access rules allow an action, and which rule decides. The semantics are those of Kafka's
StandardAuthorizer.

In this order: super users may do everything; a matching DENY rule decides; a matching ALLOW rule decides; a resource to
which no rule applies is open if allow.everyone.if.no.acl.found is set; everything else is denied. ALLOW rules for READ,
WRITE, DELETE and ALTER imply DESCRIBE, and ALTER_CONFIGS implies DESCRIBE_CONFIGS. DENY rules imply nothing.

Pure: it reads only the given rules. tests/security compares it with a brute-force model, and tests/oracle with Kafka's
class.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from enum import Enum
from itertools import chain
from typing import Final, NamedTuple

from chronik.metadata.access import (
    ALL,
    ALLOW,
    DENY,
    EVERYBODY,
    LITERAL,
    NO_RULES,
    PREFIXED,
    WILDCARD,
    AccessRule,
    AccessRules,
    Who,
)
from chronik.runtime.pieces import ITEMS_PER_PIECE, Work, in_order

# Kafka's numbers of AclOperation.
READ, WRITE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 3, 4, 6, 7, 8, 10, 11
# For a requested operation: the operations in ALLOW rules that grant it.
_GRANTED_BY: Final = {
    DESCRIBE: frozenset({ALL, DESCRIBE, READ, WRITE, DELETE, ALTER}),
    DESCRIBE_CONFIGS: frozenset({ALL, DESCRIBE_CONFIGS, ALTER_CONFIGS}),
}
_ANY_NAME: Final = "hardcode"  # the name that Kafka uses to ask about any resource of a type


class Why(Enum):
    SUPER_USER = "the principal is a super user"
    DENIED = "a rule denies it"
    ALLOWED = "a rule allows it"
    OPEN = "no rule applies to the resource, and allow.everyone.if.no.acl.found is true"
    NO_RULE = "no rule applies to the resource"
    NOT_FOR_THIS = "rules apply to the resource, but none of them allows this"


class Decision(NamedTuple):
    allowed: bool
    why: Why
    rule: AccessRule | None = None  # the rule that decided


class Policy(NamedTuple):
    """The settings super.users and allow.everyone.if.no.acl.found."""

    super_users: Collection[str] = frozenset()
    is_open_without_rules: bool = False


NO_POLICY: Final = Policy()
_SUPER_USER: Final = Decision(True, Why.SUPER_USER)
_OPEN: Final = Decision(True, Why.OPEN)
_NO_RULE: Final = Decision(False, Why.NO_RULE)
_NOT_FOR_THIS: Final = Decision(False, Why.NOT_FOR_THIS)


def decide(
    rules: AccessRules, principal: str, host: str, operation: int, kind: int, name: str, policy: Policy = NO_POLICY
) -> Decision:
    """`principal` with its type, as in User:alice; `host` as an address; numbers as in `metadata.access`."""
    if principal in policy.super_users:
        return _SUPER_USER
    allowing: AccessRule | None = None
    applies = False
    granted_by = _GRANTED_BY.get(operation) or (ALL, operation)
    whos = _named(principal, host)
    for known in rules.applying_to(kind, name):
        applies = True
        for who in whos:
            for rule in known.get(who, NO_RULES):
                if rule.permission == DENY:
                    if rule.operation in (ALL, operation):
                        return Decision(False, Why.DENIED, rule)
                elif allowing is None and rule.operation in granted_by:
                    allowing = rule
    if allowing is not None:
        return Decision(True, Why.ALLOWED, allowing)
    if applies:
        return _NOT_FOR_THIS
    return _OPEN if policy.is_open_without_rules else _NO_RULE


def deciding_any(
    rules: AccessRules, principal: str, host: str, operation: int, kind: int, policy: Policy = NO_POLICY
) -> Work[Decision]:
    """Whether the operation is allowed on some possible resource of this kind; it need not exist.

    As in Kafka, implied operations do not count, and a DENY rule counts only if it covers an entire allowed pattern.
    Checks all rules for this principal and host, in pieces.
    """
    decided = decide(rules, principal, host, operation, kind, _ANY_NAME, policy)
    if decided.allowed:
        return decided
    denied_names: set[str] = set()
    denied_prefixes: set[str] = set()
    allowed: list[AccessRule] = []
    of_all = chain.from_iterable(rules.of(kind, who).values() for who in _named(principal, host))
    for count, rule in enumerate(chain.from_iterable(of_all), 1):
        if count % ITEMS_PER_PIECE == 0:
            yield 1
        if rule.operation not in (ALL, operation):
            continue
        if rule.permission == ALLOW:
            allowed.append(rule)
        elif rule.pattern == PREFIXED:
            denied_prefixes.add(rule.name)
        elif rule.name == WILDCARD:
            return Decision(False, Why.DENIED, rule)
        else:
            denied_names.add(rule.name)
    shortest: list[str] = []  # denied prefixes that do not start with another one, ascending
    for count, prefix in enumerate((yield from in_order(denied_prefixes)), 1):
        if not shortest or not prefix.startswith(shortest[-1]):
            shortest.append(prefix)
        if count % ITEMS_PER_PIECE == 0:
            yield 1
    first: AccessRule | None = None
    for count, rule in enumerate(allowed, 1):
        if (first is None or rule < first) and not _is_covered(rule, denied_names, shortest):
            first = rule
        if count % ITEMS_PER_PIECE == 0:
            yield 1
    return decided if first is None else Decision(True, Why.ALLOWED, first)


def _named(principal: str, host: str) -> tuple[Who, ...]:
    """The ways in which rules can name this principal at this host."""
    principals = (principal,) if principal == EVERYBODY else (principal, EVERYBODY)
    hosts = (host,) if host == WILDCARD else (host, WILDCARD)
    return tuple(Who(each, where) for each in principals for where in hosts)


def _is_covered(rule: AccessRule, denied_names: set[str], shortest: list[str]) -> bool:
    """Whether a denial covers the rule's whole pattern. In sorted order, everything between a prefix and a name that
    starts with it also starts with it, so only the last of the `shortest` before the name can be its prefix."""
    if rule.pattern == LITERAL and rule.name == WILDCARD:
        return False
    if rule.pattern == LITERAL and rule.name in denied_names:
        return True
    at = bisect_right(shortest, rule.name)
    return at > 0 and rule.name.startswith(shortest[at - 1])
