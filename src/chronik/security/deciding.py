"""Whether the access rules allow an action, and which rule says so. The semantics are those of Kafka's
StandardAuthorizer.

In this order: super users may do everything; a DENY rule that fits decides; an ALLOW rule that fits decides; a
resource to which no rule at all applies is open if allow.everyone.if.no.acl.found says so; everything else is denied.
ALLOW rules for READ, WRITE, DELETE and ALTER imply DESCRIBE, and ALTER_CONFIGS implies DESCRIBE_CONFIGS. DENY rules
imply nothing.

Pure: it reads the rules that it is given and nothing else. tests/security compares it with a brute-force model, and
tests/oracle with Kafka's class.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import Final, NamedTuple

from chronik.metadata.access import ALL, ALLOW, DENY, EVERYBODY, LITERAL, PREFIXED, WILDCARD, AccessRule, AccessRules

# AclOperation, by Kafka's numbers.
READ, WRITE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 3, 4, 6, 7, 8, 10, 11
# For an operation that is asked for: the operations in ALLOW rules that grant it.
_GRANTED_BY: Final = {
    DESCRIBE: frozenset({ALL, DESCRIBE, READ, WRITE, DELETE, ALTER}),
    DESCRIBE_CONFIGS: frozenset({ALL, DESCRIBE_CONFIGS, ALTER_CONFIGS}),
}
_ANY_NAME: Final = "hardcode"  # the name for which Kafka asks when any resource of a type will do


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
    rule: AccessRule | None = None  # the one that decided


class Policy(NamedTuple):
    """What the settings say: super.users and allow.everyone.if.no.acl.found."""

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
    for known in rules.applying_to(kind, name):
        applies = True
        for who in (principal, EVERYBODY) if principal != EVERYBODY else (EVERYBODY,):
            for rule in known.get(who, ()):
                if rule.host not in (WILDCARD, host):
                    continue
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


def decide_any(
    rules: AccessRules, principal: str, host: str, operation: int, kind: int, policy: Policy = NO_POLICY
) -> Decision:
    """Whether there may be a resource of this kind to which the operation is allowed; it need not exist.

    As Kafka decides it: an implied operation does not count, and of DENY rules only those that cover an allowed pattern
    as a whole.
    """
    decided = decide(rules, principal, host, operation, kind, _ANY_NAME, policy)
    if decided.allowed:
        return decided
    denied: set[tuple[int, str]] = set()
    allowed: list[AccessRule] = []
    for pattern, name, known in rules.of_kind(kind):
        for who in (principal, EVERYBODY):
            for rule in known.get(who, ()):
                if rule.host not in (WILDCARD, host) or rule.operation not in (ALL, operation):
                    continue
                if rule.permission == ALLOW:
                    allowed.append(rule)
                elif (pattern, name) == (LITERAL, WILDCARD):
                    return Decision(False, Why.DENIED, rule)
                else:
                    denied.add((pattern, name))
    # Only lengths that occur: names can be long, and each length costs a copy of the name.
    lengths = sorted({len(name) for pattern, name in denied if pattern == PREFIXED})
    for rule in sorted(allowed):
        if (rule.pattern, rule.name) == (LITERAL, WILDCARD):
            return Decision(True, Why.ALLOWED, rule)
        if rule.pattern == LITERAL and (LITERAL, rule.name) in denied:
            continue
        if not any((PREFIXED, rule.name[:length]) in denied for length in lengths if length <= len(rule.name)):
            return Decision(True, Why.ALLOWED, rule)
    return decided
