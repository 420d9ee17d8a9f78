"""Users, access rules and quotas; and what was done through this console."""

from __future__ import annotations

from typing import Any, Final

from chronik.client.admin import acls, quotas, users
from chronik.client.errors import Refused
from chronik.console.calls import Call, get
from chronik.console.parameters import text, whole
from chronik.metadata.access import MATCH, AccessRule, RuleFilter
from chronik.security.words import OPERATIONS, PATTERN_TYPES, PERMISSIONS, RESOURCE_TYPES

TOPIC: Final = 2  # of resource types
RULES_MAX: Final = 10_000


@get("/security/users")
async def show_users(call: Call) -> dict[str, Any]:
    found = await call.part("users", users.describe(call.cluster)) or {}
    rows = [
        {
            "name": name,
            "mechanisms": [{"mechanism": each.mechanism, "iterations": each.iterations} for each in credentials],
        }
        for name, credentials in sorted(found.items())
        if not isinstance(credentials, Refused)
    ]
    return {"users": rows}


@get("/security/acls", principal=text(chars_max=512), topic=text(chars_max=256))
async def show_acls(call: Call) -> dict[str, Any]:
    query = call.query
    wanted = RuleFilter(principal=query["principal"] or None)
    if query["topic"]:
        wanted = wanted._replace(kind=TOPIC, name=query["topic"], pattern=MATCH)
    try:
        found = await acls.describe(call.cluster, wanted)
    except Refused as fault:
        if not acls.is_without_authorizer(fault):
            raise
        return {"acls": [], "is_enabled": False}
    return {
        "acls": [_rule(each) for each in found[:RULES_MAX]],
        "is_enabled": True,
        "is_truncated": len(found) > RULES_MAX,
    }


def _rule(rule: AccessRule) -> dict[str, Any]:
    return {
        "principal": rule.principal,
        "host": rule.host,
        "operation": OPERATIONS.get(rule.operation, str(rule.operation)),
        "permission": PERMISSIONS.get(rule.permission, str(rule.permission)),
        "resource_type": RESOURCE_TYPES.get(rule.kind, str(rule.kind)),
        "resource_name": rule.name,
        "pattern_type": PATTERN_TYPES.get(rule.pattern, str(rule.pattern)),
    }


@get("/security/quotas")
async def show_quotas(call: Call) -> dict[str, Any]:
    found = await call.part("quotas", quotas.list_all(call.cluster)) or []
    return {"quotas": [{"entity": dict(each.entity.names), "values": dict(each.limits)} for each in found]}


@get("/activity", before=whole(None, 1, 2**62), limit=whole(200, 1, 1_000))
async def activity(call: Call) -> dict[str, Any]:
    # What other users do is theirs.
    found = call.console.activity.newest(call.query["limit"], call.query["before"], call.session.user)
    return {"activity": found}
