"""Access rules as records of the metadata log, and back."""

from __future__ import annotations

from chronik.metadata.access import AccessRule
from chronik.metadata.records import AccessRuleRecord, RemoveAccessRuleRecord


def record_of(rule: AccessRule) -> AccessRuleRecord:
    return AccessRuleRecord(
        resource_type=rule.kind,
        resource_name=rule.name,
        pattern_type=rule.pattern,
        principal=rule.principal,
        host=rule.host,
        operation=rule.operation,
        permission_type=rule.permission,
    )


def removal_of(rule: AccessRule) -> RemoveAccessRuleRecord:
    return RemoveAccessRuleRecord(
        resource_type=rule.kind,
        resource_name=rule.name,
        pattern_type=rule.pattern,
        principal=rule.principal,
        host=rule.host,
        operation=rule.operation,
        permission_type=rule.permission,
    )


def rule_of(record: AccessRuleRecord | RemoveAccessRuleRecord) -> AccessRule:
    return AccessRule(
        record.resource_type,
        record.resource_name,
        record.pattern_type,
        record.principal,
        record.host,
        record.operation,
        record.permission_type,
    )
