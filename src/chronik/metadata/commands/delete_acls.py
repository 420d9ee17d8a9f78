"""Deletes the access rules that match filters, and lists them for each filter."""

from __future__ import annotations

from chronik.metadata.access import ANY, PREFIXED, AccessRule, RuleFilter
from chronik.metadata.access_records import removal_of
from chronik.metadata.commands.command import ControllerCommand, Reply
from chronik.metadata.commands.create_acls import OPERATION_MAX, TYPE_MAX, AclRule
from chronik.metadata.decisions.decision import ControllerState, Decision
from chronik.metadata.errors import MetadataRefused, refuse
from chronik.wire.error_codes import ErrorCode
from chronik.wire.notation import Struct, int8, int16, string

PERMISSION_MAX = 3


class DeleteAclsReply(Reply):
    results: list[FilterResult]


class FilterResult(Struct):
    error_code: int16 = 0
    error_message: string | None = None
    deleted: list[AclRule]


class DeleteAcls(ControllerCommand[DeleteAclsReply]):
    filters: list[AclFilter]

    def decide(self, state: ControllerState) -> Decision[DeleteAclsReply]:
        """A rule that two filters match is deleted once, and listed for both."""
        removed: dict[AccessRule, None] = {}
        results = []
        for asked in self.filters:
            result = FilterResult(deleted=[])
            results.append(result)
            try:
                found = state.view.access.found(checked_filter(asked))
            except MetadataRefused as refused:
                result.error_code, result.error_message = refused.error_code, refused.message
                continue
            removed.update(dict.fromkeys(found))
            result.deleted = [_told(rule) for rule in found]
        return Decision([removal_of(rule) for rule in removed], DeleteAclsReply(results=results))


class AclFilter(Struct):
    """Null and 1 match everything."""

    resource_type: int8
    resource_name: string | None
    pattern_type: int8
    principal: string | None
    host: string | None
    operation: int8
    permission_type: int8


def checked_filter(asked: AclFilter) -> RuleFilter:
    for what, value, value_max in (
        ("resource type", asked.resource_type, TYPE_MAX),
        ("pattern type", asked.pattern_type, PREFIXED),
        ("operation", asked.operation, OPERATION_MAX),
        ("permission type", asked.permission_type, PERMISSION_MAX),
    ):
        if not ANY <= value <= value_max:
            refuse(ErrorCode.INVALID_REQUEST, f"a filter of ACLs has the unknown {what} {value}")
    return RuleFilter(
        asked.resource_type,
        asked.resource_name,
        asked.pattern_type,
        asked.principal,
        asked.host,
        asked.operation,
        asked.permission_type,
    )


def _told(rule: AccessRule) -> AclRule:
    return AclRule(
        resource_type=rule.kind,
        resource_name=rule.name,
        pattern_type=rule.pattern,
        principal=rule.principal,
        host=rule.host,
        operation=rule.operation,
        permission_type=rule.permission,
    )
