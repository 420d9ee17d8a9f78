"""CreateAcls (key 30): creates access rules. Each rule is created or refused separately; an existing rule is not an
error.

Checks: permission, authorizer; then each rule's types, name and principal (`metadata/commands/create_acls.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.apis.describe_acls import NO_AUTHORIZER
from chronik.broker.audit import note_rules
from chronik.broker.command_splitting import PER_COMMAND
from chronik.broker.permissions import ALTER, CLUSTER
from chronik.broker.topics import refused_by
from chronik.metadata.access import AccessRule
from chronik.metadata.commands.create_acls import AclRule, CreateAcls
from chronik.metadata.errors import MetadataError
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(CreateAclsRequest, CreateAclsResponse, needs=(ALTER.on(CLUSTER),))
async def create_acls(request: CreateAclsRequest, context: Context) -> CreateAclsResponse:
    asked = request.creations
    if not context.allows_on_cluster(ALTER):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return _all_refused(asked, error, error.message)
    if not context.services.authorizer.restricts:
        return _all_refused(asked, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    results = []
    for start in range(0, len(asked), PER_COMMAND):
        some = asked[start : start + PER_COMMAND]
        try:
            reply = await context.services.store.submit(CreateAcls(rules=[_rule(each) for each in some]))
        except MetadataError as fault:
            results += _all_refused(some, *refused_by(fault)).results
        else:
            results += [
                AclCreationResult(error_code=each.error_code, error_message=each.error_message)
                for each in reply.results
            ]
            created = [one for one, result in zip(some, reply.results, strict=True) if not result.error_code]
            note_rules(context.session, "created", [_access_rule(each) for each in created])
        await context.services.turns.piece(len(some))
    return CreateAclsResponse(throttle_time_ms=0, results=results)


def _all_refused(asked: list[AclCreation], error: ErrorCode, message: str) -> CreateAclsResponse:
    results = [AclCreationResult(error_code=error, error_message=message) for _ in asked]
    return CreateAclsResponse(throttle_time_ms=0, results=results)


def _rule(asked: AclCreation) -> AclRule:
    return AclRule(
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        pattern_type=asked.resource_pattern_type,
        principal=asked.principal,
        host=asked.host,
        operation=asked.operation,
        permission_type=asked.permission_type,
    )


def _access_rule(asked: AclCreation) -> AccessRule:
    return AccessRule(
        asked.resource_type,
        asked.resource_name,
        asked.resource_pattern_type,
        asked.principal,
        asked.host,
        asked.operation,
        asked.permission_type,
    )
