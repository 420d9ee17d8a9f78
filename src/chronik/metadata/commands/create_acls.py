"""Creates access rules. Each rule of the command is decided alone; creating an existing rule has no effect.

With `if_none_exist` the command does nothing in a cluster that has a rule: a formatted node uses this to create the
first rules.
"""

from __future__ import annotations

from typing import Final

from chronik.metadata.access import ALLOW, ANY, CLUSTER, CLUSTER_RESOURCE, DENY, LITERAL, PREFIXED, AccessRule
from chronik.metadata.access_records import record_of
from chronik.metadata.commands.command import ControllerCommand, Reply
from chronik.metadata.decisions.decision import ControllerState, Decision
from chronik.metadata.errors import MetadataRefused, refuse
from chronik.metadata.records import MetadataRecord
from chronik.wire.error_codes import ErrorCode
from chronik.wire.notation import Struct, boolean, int8, int16, string

RULES_MAX: Final = 100_000  # every node holds all of them in memory
TEXT_BYTES_MAX: Final = 32_767  # the limit of strings in older versions, which describe rules too
# An authorization check tries each prefix length in use: this bounds their number.
PREFIX_CHARS_MAX: Final = 1_000
TYPE_MAX, OPERATION_MAX = 7, 15  # Kafka's last ResourceType and AclOperation


class CreateAclsReply(Reply):
    results: list[AclResult]


class AclResult(Struct):
    error_code: int16 = 0
    error_message: string | None = None


class CreateAcls(ControllerCommand[CreateAclsReply]):
    rules: list[AclRule]
    if_none_exist: boolean = False

    def decide(self, state: ControllerState) -> Decision[CreateAclsReply]:
        access = state.view.access
        if self.if_none_exist and len(access):
            return Decision([], CreateAclsReply(results=[AclResult() for _ in self.rules]))
        records: list[MetadataRecord] = []
        results = []
        for asked in self.rules:
            result = AclResult()
            results.append(result)
            try:
                rule = checked(asked)
                if rule in access:
                    continue
                if len(access) >= RULES_MAX:
                    refuse(ErrorCode.POLICY_VIOLATION, f"the cluster has {len(access)} ACLs, the most that it can have")
                access = access.with_rule(rule)
                records.append(record_of(rule))
            except MetadataRefused as refused:
                result.error_code, result.error_message = refused.error_code, refused.message
        return Decision(records, CreateAclsReply(results=results))


class AclRule(Struct):
    resource_type: int8
    resource_name: string
    pattern_type: int8
    principal: string
    host: string
    operation: int8
    permission_type: int8


def checked(asked: AclRule) -> AccessRule:
    """The rule, if it is valid. Any host is accepted, as in Kafka: it is compared as text."""
    if not ANY < asked.resource_type <= TYPE_MAX:
        refuse(ErrorCode.INVALID_REQUEST, f"an ACL cannot have resource type {asked.resource_type}")
    if asked.pattern_type not in (LITERAL, PREFIXED):
        refuse(
            ErrorCode.INVALID_REQUEST, f"an ACL cannot have pattern type {asked.pattern_type}: 3 literal, 4 prefixed"
        )
    if not ANY < asked.operation <= OPERATION_MAX:
        refuse(ErrorCode.INVALID_REQUEST, f"an ACL cannot have operation {asked.operation}")
    if asked.permission_type not in (DENY, ALLOW):
        refuse(
            ErrorCode.INVALID_REQUEST, f"an ACL cannot have permission type {asked.permission_type}: 2 deny, 3 allow"
        )
    if not asked.resource_name:
        refuse(ErrorCode.INVALID_REQUEST, "the resource name of an ACL is empty")
    if asked.resource_type == CLUSTER and asked.resource_name != CLUSTER_RESOURCE:
        refuse(ErrorCode.INVALID_REQUEST, f"the only resource of type CLUSTER is {CLUSTER_RESOURCE}")
    if ":" not in asked.principal:
        refuse(ErrorCode.INVALID_REQUEST, f"principal {asked.principal!r} has no type: write User:{asked.principal}")
    if asked.pattern_type == PREFIXED and len(asked.resource_name) > PREFIX_CHARS_MAX:
        refuse(ErrorCode.INVALID_REQUEST, f"a prefix has {len(asked.resource_name)} letters, over {PREFIX_CHARS_MAX}")
    for text in (asked.resource_name, asked.principal, asked.host):
        if len(text.encode()) > TEXT_BYTES_MAX:
            refuse(ErrorCode.INVALID_REQUEST, f"an ACL has a text of {len(text.encode())} bytes, over {TEXT_BYTES_MAX}")
    return AccessRule(
        asked.resource_type,
        asked.resource_name,
        asked.pattern_type,
        asked.principal,
        asked.host,
        asked.operation,
        asked.permission_type,
    )
