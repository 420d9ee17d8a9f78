"""DeleteAcls (key 31): deletes the access rules that match filters, and lists them for each filter.

Checks: permission, authorizer; then the numbers in each filter (`metadata/commands/delete_acls.py`). A filter may match
every rule of the cluster, and the controller does nothing else while it decides a command. So this node finds the
rules, in slices, and the controller deletes them by name, several at a time. Rules that another request deletes
meanwhile are listed in that request's response.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from chronik.broker.api import api
from chronik.broker.apis.describe_acls import NO_AUTHORIZER
from chronik.broker.audit import note_rules
from chronik.broker.command_splitting import PER_COMMAND
from chronik.broker.made_later import MadeLater
from chronik.broker.permissions import ALTER, CLUSTER
from chronik.broker.topics import refused_by
from chronik.metadata.access import AccessRule, RuleFilter
from chronik.metadata.commands.create_acls import AclRule
from chronik.metadata.commands.delete_acls import AclFilter, DeleteAcls, checked_filter
from chronik.metadata.errors import MetadataError, MetadataRefused
from chronik.runtime.pieces import ITEMS_PER_PIECE, Work
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

Refusal = tuple[ErrorCode, str]


@api(DeleteAclsRequest, DeleteAclsResponse, needs=(ALTER.on(CLUSTER),))
async def delete_acls(request: DeleteAclsRequest, context: Context) -> DeleteAclsResponse:
    asked = request.filters
    if not context.allows_on_cluster(ALTER):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return _all_refused(asked, error, error.message)
    if not context.services.authorizer.restricts:
        return _all_refused(asked, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    try:
        await context.services.store.read()
    except MetadataError as fault:
        return _all_refused(asked, *refused_by(fault))
    found = await _found(asked, context)
    wanted = await context.services.turns.run(_distinct(found))
    deleted: set[AccessRule] = set()
    why_not: Refusal | None = None
    for start in range(0, len(wanted), PER_COMMAND):
        some = wanted[start : start + PER_COMMAND]
        try:
            reply = await context.services.store.submit(DeleteAcls(filters=[_only(rule) for rule in some]))
        except MetadataError as fault:
            why_not = refused_by(fault)
            break
        gone = [_access_rule(rule) for result in reply.results for rule in result.deleted]
        deleted.update(gone)
        note_rules(context.session, "deleted", gone)
        await context.services.turns.piece(len(some))
    results = await context.services.turns.run(_results(found, deleted, why_not))
    return DeleteAclsResponse(throttle_time_ms=0, filter_results=results)


async def _found(asked: list[DeleteAclsFilter], context: Context) -> list[list[AccessRule] | Refusal]:
    """For each filter its rules, or why the filter is invalid."""
    access = context.services.store.image.access
    found: list[list[AccessRule] | Refusal] = []
    for each in asked:
        try:
            wanted = _filter(each)
        except MetadataRefused as refused:
            found.append((refused.kafka_error, refused.message))
        else:
            found.append(await context.services.turns.run(access.finding(wanted)))
    return found


def _distinct(found: Sequence[list[AccessRule] | Refusal]) -> Work[list[AccessRule]]:
    distinct: dict[AccessRule, None] = {}
    for rules in found:
        if isinstance(rules, list):
            for start in range(0, len(rules), ITEMS_PER_PIECE):
                distinct.update(dict.fromkeys(rules[start : start + ITEMS_PER_PIECE]))
                yield 1
    return list(distinct)


def _results(
    found: Sequence[list[AccessRule] | Refusal], deleted: set[AccessRule], why_not: Refusal | None
) -> Work[list[DeleteAclsFilterResult]]:
    """`why_not` is the error for rules that were found and not deleted."""
    results = []
    for rules in found:
        yield 1
        if isinstance(rules, tuple):
            results.append(_refused(*rules))
            continue
        gone: list[AccessRule] = []
        for start in range(0, len(rules), ITEMS_PER_PIECE):
            gone += [rule for rule in rules[start : start + ITEMS_PER_PIECE] if rule in deleted]
            yield 1
        if why_not is not None and len(gone) < len(rules):
            results.append(_refused(*why_not))
        else:
            told = MadeLater(_told, cast("list[tuple[Any, ...]]", gone)).as_list
            results.append(DeleteAclsFilterResult(error_code=0, error_message=None, matching_acls=told))
    return results


def _all_refused(asked: list[DeleteAclsFilter], error: ErrorCode, message: str) -> DeleteAclsResponse:
    return DeleteAclsResponse(throttle_time_ms=0, filter_results=[_refused(error, message) for _ in asked])


def _refused(error: ErrorCode, message: str) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=error, error_message=message, matching_acls=[])


def _filter(asked: DeleteAclsFilter) -> RuleFilter:
    """Raises MetadataRefused."""
    return checked_filter(
        AclFilter(
            resource_type=asked.resource_type_filter,
            resource_name=asked.resource_name_filter,
            pattern_type=asked.pattern_type_filter,
            principal=asked.principal_filter,
            host=asked.host_filter,
            operation=asked.operation,
            permission_type=asked.permission_type,
        )
    )


def _only(rule: AccessRule) -> AclFilter:
    """Matches this rule and no other."""
    return AclFilter(
        resource_type=rule.kind,
        resource_name=rule.name,
        pattern_type=rule.pattern,
        principal=rule.principal,
        host=rule.host,
        operation=rule.operation,
        permission_type=rule.permission,
    )


def _told(
    kind: int, name: str, pattern: int, principal: str, host: str, operation: int, permission: int
) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_code=0,
        error_message=None,
        resource_type=kind,
        resource_name=name,
        pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
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
