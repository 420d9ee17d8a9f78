"""Authorization by rules, as simple as possible: evaluates every rule for every question.

Cross-checks `chronik.security.deciding`. Written from Kafka's documentation, and shares no code with it.
"""

from __future__ import annotations

from collections.abc import Iterable

from chronik.metadata.access import AccessRule

LITERAL, PREFIXED, DENY, ALLOW, ALL = 3, 4, 2, 3, 2
READ, WRITE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 3, 4, 6, 7, 8, 10, 11
IMPLIES = {
    (READ, DESCRIBE),
    (WRITE, DESCRIBE),
    (DELETE, DESCRIBE),
    (ALTER, DESCRIBE),
    (ALTER_CONFIGS, DESCRIBE_CONFIGS),
}


def applies(rule: AccessRule, kind: int, name: str) -> bool:
    if rule.kind != kind:
        return False
    if rule.pattern == PREFIXED:
        return name.startswith(rule.name)
    return rule.name in ("*", name)


def is_about(rule: AccessRule, principal: str, host: str) -> bool:
    return rule.principal in (principal, "User:*") and rule.host in (host, "*")


def may(
    rules: Iterable[AccessRule],
    principal: str,
    host: str,
    operation: int,
    kind: int,
    name: str,
    super_users: Iterable[str] = (),
    *,
    is_open: bool = False,
) -> bool:
    if principal in super_users:
        return True
    applying = [rule for rule in rules if applies(rule, kind, name)]
    if not applying:
        return is_open
    mine = [rule for rule in applying if is_about(rule, principal, host)]
    if any(rule.permission == DENY and rule.operation in (operation, ALL) for rule in mine):
        return False
    return any(
        rule.permission == ALLOW and (rule.operation in (operation, ALL) or (rule.operation, operation) in IMPLIES)
        for rule in mine
    )
