"""Kafka's operations and resources, and the permissions that each API requires.

An API declares its permissions where it declares its versions:

    @api(ProduceRequest, ProduceResponse, needs=(WRITE.on(TOPIC), WRITE.on(TRANSACTIONAL_ID)))

`table` returns the permissions of all APIs. Numbers are Kafka's AclOperation and ResourceType.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from chronik.broker.api import Api


class Resource(IntEnum):
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


CLUSTER_NAME = "kafka-cluster"  # the only resource of the kind CLUSTER


class Operation(IntEnum):
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15

    def on(self, kind: Resource, when: str = "") -> Need:
        return Need(self, kind, when)


class Need(NamedTuple):
    """One of the permissions that an API requires."""

    operation: Operation
    kind: Resource
    when: str = ""  # condition; empty: always

    def __str__(self) -> str:
        text = f"{self.operation.name} {self.kind.name}"
        return f"{text} ({self.when})" if self.when else text


READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = (
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
)
CREATE_TOKENS, DESCRIBE_TOKENS = Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS
CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE, TWO_PHASE_COMMIT = (
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
    Operation.TWO_PHASE_COMMIT,
)
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = (
    Resource.TOPIC,
    Resource.GROUP,
    Resource.CLUSTER,
    Resource.TRANSACTIONAL_ID,
)
DELEGATION_TOKEN, USER = Resource.DELEGATION_TOKEN, Resource.USER
NOTHING: tuple[Need, ...] = ()  # for APIs that need no permission


def table(apis: Iterable[Api]) -> list[tuple[str, str]]:
    """(API, required permissions), by API key."""
    return [(each.name, ", ".join(map(str, each.needs)) or "nothing") for each in sorted(apis, key=lambda one: one.key)]


def bits(*operations: Operation) -> int:
    """As sets in Metadata, DescribeCluster and DescribeGroups: bit n stands for operation n."""
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS = bits(READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
CLUSTER_OPERATIONS = bits(CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE)
GROUP_OPERATIONS = bits(READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
