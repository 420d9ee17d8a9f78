"""Access rules and filters as in commands, with defaults for fields that a test does not name."""

from __future__ import annotations

from typing import Any

from chronik.metadata.commands.create_acls import AclRule
from chronik.metadata.commands.delete_acls import AclFilter

TOPIC, GROUP, CLUSTER = 2, 3, 4
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
READ, WRITE = 3, 4
DENY, ALLOW = 2, 3


def acl(resource_name: str = "orders", **fields: Any) -> AclRule:
    usual: dict[str, Any] = {
        "resource_type": TOPIC,
        "pattern_type": LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": READ,
        "permission_type": ALLOW,
    }
    return AclRule(resource_name=resource_name, **{**usual, **fields})


def acl_filter(**fields: Any) -> AclFilter:
    """Fits everything but for the fields given."""
    usual: dict[str, Any] = {
        "resource_type": ANY,
        "resource_name": None,
        "pattern_type": ANY,
        "principal": None,
        "host": None,
        "operation": ANY,
        "permission_type": ANY,
    }
    return AclFilter(**{**usual, **fields})
