"""DescribeAcls (key 29): the access rules that match a filter, by resource.

Null and ANY match everything. The pattern type MATCH finds the rules that apply to the resource with this name: those
for the name itself, for its prefixes and for `*`. Checks: permission, authorizer, filter.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.linearizable_reads import reads_metadata
from chronik.broker.permissions import CLUSTER, DESCRIBE
from chronik.metadata.commands.delete_acls import AclFilter, checked_filter
from chronik.metadata.errors import MetadataRefused
from chronik.runtime.pieces import ITEMS_PER_PIECE, Work
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context


NO_AUTHORIZER = "this cluster has no ACLs: set authorizer.class.name on every node to use them"


@api(DescribeAclsRequest, DescribeAclsResponse, needs=(DESCRIBE.on(CLUSTER),))
@reads_metadata
def describe_acls(request: DescribeAclsRequest, context: Context) -> Work[DescribeAclsResponse]:
    if not context.allows_on_cluster(DESCRIBE):
        return _refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
    if not context.services.authorizer.restricts:
        return _refused(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    asked = AclFilter(
        resource_type=request.resource_type_filter,
        resource_name=request.resource_name_filter,
        pattern_type=request.pattern_type_filter,
        principal=request.principal_filter,
        host=request.host_filter,
        operation=request.operation,
        permission_type=request.permission_type,
    )
    try:
        wanted = checked_filter(asked)
    except MetadataRefused as refused:
        return _refused(refused.kafka_error, refused.message)
    found = yield from context.services.store.image.access.finding(wanted)
    resources = []
    for (kind, name, pattern), rules in groupby(found, key=lambda rule: rule[:3]):
        acls = [
            AclDescription(
                principal=rule.principal, host=rule.host, operation=rule.operation, permission_type=rule.permission
            )
            for rule in rules
        ]
        resources.append(DescribeAclsResource(resource_type=kind, resource_name=name, pattern_type=pattern, acls=acls))
        yield 1 + len(acls) // ITEMS_PER_PIECE
    return DescribeAclsResponse(throttle_time_ms=0, error_code=0, error_message=None, resources=resources)


def _refused(error: ErrorCode, message: str | None) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        throttle_time_ms=0, error_code=error, error_message=message or error.message, resources=[]
    )
