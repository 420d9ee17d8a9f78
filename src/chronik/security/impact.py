"""The effect of a change of access rules: permissions before and after it.

Pure. It evaluates `deciding` for every principal and host that the rules name, and for the given resources. The
principal User:* represents all principals that no rule names, and the host * all hosts that no rule names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from chronik.metadata.access import EVERYBODY, LITERAL, WILDCARD, AccessRules
from chronik.security.deciding import Policy, decide

# The valid operations of each resource type, by Kafka's numbers.
OPERATIONS_OF: Final[Mapping[int, tuple[int, ...]]] = {
    2: (3, 4, 5, 6, 7, 8, 10, 11),
    3: (3, 6, 8, 10, 11),
    4: (5, 7, 8, 9, 10, 11, 12),
    5: (4, 8, 15),
    6: (8,),
    7: (13, 14),
}


class Resource(NamedTuple):
    kind: int
    name: str


class Change(NamedTuple):
    principal: str
    host: str
    resource: Resource
    operation: int
    is_allowed: bool  # after the change


def changes(before: AccessRules, after: AccessRules, existing: Iterable[Resource], policy: Policy) -> list[Change]:
    """Changed permissions in ascending order. Covers existing resources and those that rules name."""
    rules = {*before, *after}
    principals = sorted({EVERYBODY, *(rule.principal for rule in rules)} - set(policy.super_users))
    hosts = sorted({WILDCARD, *(rule.host for rule in rules)})
    touched = {rule.kind for rule in set(before) ^ set(after)}
    named = {Resource(rule.kind, rule.name) for rule in rules if rule.pattern == LITERAL and rule.name != WILDCARD}
    resources = sorted(each for each in {*existing, *named} if each.kind in touched)
    found = []
    for principal in principals:
        for resource in resources:
            for operation in OPERATIONS_OF.get(resource.kind, ()):
                by_host = {
                    host: (
                        decide(before, principal, host, operation, *resource, policy).allowed,
                        decide(after, principal, host, operation, *resource, policy).allowed,
                    )
                    for host in hosts
                }
                for host, (was, is_now) in by_host.items():
                    # A change for all other hosts is not repeated for each.
                    if was != is_now and (host == WILDCARD or by_host[host] != by_host[WILDCARD]):
                        found.append(Change(principal, host, resource, operation, is_now))
    return found
