"""Access rules in Kafka's terms: names of resource types, patterns, operations, permissions; a rule as text."""

from __future__ import annotations

from typing import Final

from chronik.metadata.access import ALLOW, ANY, DENY, LITERAL, MATCH, PREFIXED, AccessRule

RESOURCE_TYPES: Final = {
    ANY: "ANY",
    2: "TOPIC",
    3: "GROUP",
    4: "CLUSTER",
    5: "TRANSACTIONAL_ID",
    6: "DELEGATION_TOKEN",
    7: "USER",
}
PATTERN_TYPES: Final = {ANY: "ANY", MATCH: "MATCH", LITERAL: "LITERAL", PREFIXED: "PREFIXED"}
OPERATIONS: Final = {
    ANY: "ANY",
    2: "ALL",
    3: "READ",
    4: "WRITE",
    5: "CREATE",
    6: "DELETE",
    7: "ALTER",
    8: "DESCRIBE",
    9: "CLUSTER_ACTION",
    10: "DESCRIBE_CONFIGS",
    11: "ALTER_CONFIGS",
    12: "IDEMPOTENT_WRITE",
    13: "CREATE_TOKENS",
    14: "DESCRIBE_TOKENS",
    15: "TWO_PHASE_COMMIT",
}
PERMISSIONS: Final = {ANY: "ANY", DENY: "DENY", ALLOW: "ALLOW"}


def rule_text(rule: AccessRule) -> str:
    """ALLOW User:alice READ on TOPIC orders* from 10.0.0.1. A prefix ends with an asterisk."""
    star = "*" if rule.pattern == PREFIXED else ""
    return (
        f"{_name(PERMISSIONS, rule.permission)} {rule.principal} {_name(OPERATIONS, rule.operation)} on "
        f"{_name(RESOURCE_TYPES, rule.kind)} {rule.name}{star} from {rule.host}"
    )


def _name(names: dict[int, str], number: int) -> str:
    return names.get(number, str(number))
