"""DeleteAcls (key 31): deletes the access rules that match filters, and tells for each filter which those were.

Checks: permission, authorizer; then the numbers in each filter (`metadata/commands/delete_acls.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from chronik.broker.api import api
from chronik.broker.apis.describe_acls import NO_AUTHORIZER
from chronik.broker.audit import note_rules
from chronik.broker.permissions import ALTER, CLUSTER
from chronik.broker.topics import refused_by
from chronik.metadata.access import AccessRule
from chronik.metadata.commands.create_acls import AclRule
from chronik.metadata.commands.delete_acls import AclFilter, DeleteAcls
from chronik.metadata.errors import MetadataError
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context

FILTERS_PER_COMMAND: Final = 20  # the controller compares each with every rule


@api(DeleteAclsRequest, DeleteAclsResponse, needs=(ALTER.on(CLUSTER),))
async def delete_acls(request: DeleteAclsRequest, context: Context) -> DeleteAclsResponse:
    asked = request.filters
    if not context.allows_on_cluster(ALTER):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return _all_refused(asked, error, error.message)
    if not context.services.authorizer.restricts:
        return _all_refused(asked, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    results = []
    for start in range(0, len(asked), FILTERS_PER_COMMAND):
        some = asked[start : start + FILTERS_PER_COMMAND]
        try:
            reply = await context.services.store.submit(DeleteAcls(filters=[_filter(each) for each in some]))
        except MetadataError as fault:
            results += _all_refused(some, *refused_by(fault)).filter_results
        else:
            results += [
                DeleteAclsFilterResult(
                    error_code=each.error_code,
                    error_message=each.error_message,
                    matching_acls=[_told(rule) for rule in each.deleted],
                )
                for each in reply.results
            ]
            deleted = dict.fromkeys(_access_rule(rule) for each in reply.results for rule in each.deleted)
            note_rules(context.session, "deleted", deleted)
        await context.services.turns.piece(len(some))
    return DeleteAclsResponse(throttle_time_ms=0, filter_results=results)


def _all_refused(asked: list[DeleteAclsFilter], error: ErrorCode, message: str) -> DeleteAclsResponse:
    results = [DeleteAclsFilterResult(error_code=error, error_message=message, matching_acls=[]) for _ in asked]
    return DeleteAclsResponse(throttle_time_ms=0, filter_results=results)


def _filter(asked: DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        resource_type=asked.resource_type_filter,
        resource_name=asked.resource_name_filter,
        pattern_type=asked.pattern_type_filter,
        principal=asked.principal_filter,
        host=asked.host_filter,
        operation=asked.operation,
        permission_type=asked.permission_type,
    )


def _told(rule: AclRule) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_code=0,
        error_message=None,
        resource_type=rule.resource_type,
        resource_name=rule.resource_name,
        pattern_type=rule.pattern_type,
        principal=rule.principal,
        host=rule.host,
        operation=rule.operation,
        permission_type=rule.permission_type,
    )


def _access_rule(rule: AclRule) -> AccessRule:
    return AccessRule(
        rule.resource_type,
        rule.resource_name,
        rule.pattern_type,
        rule.principal,
        rule.host,
        rule.operation,
        rule.permission_type,
    )
