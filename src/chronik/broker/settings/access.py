"""Reads Kafka's keys for authorization, with Kafka's meaning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from chronik.broker.errors import BadSetting
from chronik.security.deciding import Policy

AUTHORIZER: Final = "authorizer.class.name"
SUPER_USERS: Final = "super.users"
ALLOWS_EVERYBODY: Final = "allow.everyone.if.no.acl.found"
STANDARD: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def access_policy(values: Mapping[str, Any]) -> Policy | None:
    """None: without an authorizer, everyone may do everything. Raises BadSetting."""
    chosen = values[AUTHORIZER].strip()
    if not chosen:
        return None
    if chosen != STANDARD:
        # Without it, the node would allow everything.
        raise BadSetting(AUTHORIZER, chosen, f"this authorizer is not supported: use {STANDARD}, or remove the key")
    names = [each.strip() for each in values[SUPER_USERS].split(";")]
    for name in names:
        if name and ":" not in name:
            raise BadSetting(SUPER_USERS, values[SUPER_USERS], f"{name!r} has no type: write User:{name}")
    return Policy(frozenset(filter(None, names)), values[ALLOWS_EVERYBODY])
