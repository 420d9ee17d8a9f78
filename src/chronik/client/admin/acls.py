"""Access rules of a cluster: finds, creates and deletes them. Any broker serves these requests; it forwards changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from chronik.client.errors import Refused, refuse
from chronik.metadata.access import AccessRule, RuleFilter
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from chronik.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from chronik.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient

VERSION_PATTERNS = 1  # the first version with prefixes


async def describe(cluster: ClusterClient, wanted: RuleFilter) -> list[AccessRule]:
    """The matching rules, in ascending order."""
    request = DescribeAclsRequest(
        resource_type_filter=wanted.kind,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )

    async def attempt() -> list[AccessRule]:
        connection = await cluster.to_any()
        response = await connection.ask(request, DescribeAclsResponse, version_min=VERSION_PATTERNS)
        refuse(response.error_code, "cannot list ACLs", response.error_message)
        return sorted(
            AccessRule(
                of.resource_type,
                of.resource_name,
                of.pattern_type,
                each.principal,
                each.host,
                each.operation,
                each.permission_type,
            )
            for of in response.resources
            for each in of.acls
        )

    return await cluster.retrying(attempt)


async def create(cluster: ClusterClient, rules: Sequence[AccessRule]) -> None:
    """Raises Refused for the first rule that is refused; the others are created."""
    request = CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=rule.kind,
                resource_name=rule.name,
                resource_pattern_type=rule.pattern,
                principal=rule.principal,
                host=rule.host,
                operation=rule.operation,
                permission_type=rule.permission,
            )
            for rule in rules
        ]
    )

    async def attempt() -> None:
        connection = await cluster.to_any()
        response = await connection.ask(request, CreateAclsResponse, version_min=VERSION_PATTERNS)
        for result in response.results:
            refuse(result.error_code, "cannot create the ACL", result.error_message)

    await cluster.retrying(attempt)


async def delete(cluster: ClusterClient, rules: Sequence[AccessRule]) -> None:
    """Deletes exactly these rules. Raises Refused for the first that is refused."""
    request = DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=rule.kind,
                resource_name_filter=rule.name,
                pattern_type_filter=rule.pattern,
                principal_filter=rule.principal,
                host_filter=rule.host,
                operation=rule.operation,
                permission_type=rule.permission,
            )
            for rule in rules
        ]
    )

    async def attempt() -> None:
        connection = await cluster.to_any()
        response = await connection.ask(request, DeleteAclsResponse, version_min=VERSION_PATTERNS)
        for result in response.filter_results:
            refuse(result.error_code, "cannot delete the ACL", result.error_message)
            for acl in result.matching_acls:
                refuse(acl.error_code, "cannot delete the ACL", acl.error_message)

    await cluster.retrying(attempt)


def is_without_authorizer(fault: Refused) -> bool:
    return fault.kafka_error is ErrorCode.SECURITY_DISABLED
