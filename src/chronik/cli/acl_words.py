"""The words of `chronik acl`: operations, principals and resources as users type them, and rules as rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from chronik.cli.errors import Misused
from chronik.cli.naming import did_you_mean

if TYPE_CHECKING:
    from chronik.metadata.access import AccessRule

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5  # Kafka's numbers
CLUSTER_NAME: Final = "kafka-cluster"


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Resources:
    """Which resources: by name, or with --prefix all whose names begin so. The name * means all of a kind."""

    topic: Annotated[tuple[str, ...], Parameter(name=["--topic", "-t"])] = ()
    """Topic; repeatable."""

    group: Annotated[tuple[str, ...], Parameter(name=["--group", "-g"])] = ()
    """Consumer group; repeatable."""

    transactional_id: tuple[str, ...] = ()
    """Transactional id; repeatable."""

    cluster: bool = False
    """The cluster itself."""

    @property
    def named(self) -> list[tuple[int, str]]:
        """(type, name) of each."""
        return [
            *((TOPIC, name) for name in self.topic),
            *((GROUP, name) for name in self.group),
            *((TRANSACTIONAL_ID, name) for name in self.transactional_id),
            *([(CLUSTER, CLUSTER_NAME)] if self.cluster else []),
        ]


NO_RESOURCES: Final = Resources()


def operation_of(word: str) -> int:
    """By Kafka's name, in any case: Read, DESCRIBE_CONFIGS, describe-configs, DescribeConfigs."""
    from chronik.security.words import OPERATIONS

    numbers = {_plain(name): number for number, name in OPERATIONS.items() if name != "ANY"}
    number = numbers.get(_plain(word))
    if number is None:
        known = [name.lower().replace("_", "-") for name in OPERATIONS.values() if name != "ANY"]
        raise Misused(f"operation {word!r} does not exist{did_you_mean(word.lower(), known)} Known: {', '.join(known)}")
    return number


def _plain(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")


def principal_of(word: str) -> str:
    """A name without a type is a user."""
    return word if ":" in word else f"User:{word}"


def row_of(rule: AccessRule) -> dict[str, Any]:
    from chronik.security.words import OPERATIONS, PATTERN_TYPES, PERMISSIONS, RESOURCE_TYPES

    return {
        "resource_type": _named(RESOURCE_TYPES, rule.kind),
        "resource_name": rule.name,
        "pattern": _named(PATTERN_TYPES, rule.pattern),
        "principal": rule.principal,
        "permission": _named(PERMISSIONS, rule.permission),
        "operation": _named(OPERATIONS, rule.operation),
        "host": rule.host,
    }


def _named(names: Mapping[int, str], number: int) -> str:
    return names.get(number, str(number)).lower()


def rules_of(
    principals: Sequence[str],
    operations: Iterable[int],
    resources: Iterable[tuple[int, str]],
    *,
    pattern: int,
    hosts: Sequence[str],
    permission: int,
) -> list[AccessRule]:
    """One rule for each combination."""
    from chronik.metadata.access import AccessRule

    numbers = list(operations)
    return [
        AccessRule(kind, name, pattern, principal, host, operation, permission)
        for kind, name in resources
        for principal in principals
        for operation in numbers
        for host in hosts
    ]
