"""Configuration of topics, brokers and groups: reads it with the source of each value, and changes single keys.

Queries about a broker go to that broker, all others to any. Values are text, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from chronik.client.errors import refuse
from chronik.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from chronik.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient
    from chronik.peer.connection import Connection


class ResourceKind(IntEnum):
    """Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


class Source(IntEnum):
    """The source of a value, by Kafka's numbers."""

    UNKNOWN = 0
    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    FILE = 4
    DEFAULT = 5
    LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigOperation(IntEnum):
    SET = 0
    DELETE = 1


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """A topic or group by name, a broker by its id; a broker without name means all of them."""

    kind: ResourceKind
    name: str

    def __str__(self) -> str:
        if self.kind is ResourceKind.BROKER:
            return f"broker {self.name}" if self.name else "all brokers"
        return f"{self.kind.name.lower()} {self.name!r}"

    @property
    def own_source(self) -> Source:
        """The source of values set on the resource itself."""
        if self.kind is ResourceKind.BROKER:
            return Source.BROKER if self.name else Source.ALL_BROKERS
        return Source[self.kind.name]


@dataclass(frozen=True, slots=True)
class Config:
    name: str
    value: str | None  # None when it is secret or unset
    source: Source
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None


async def describe(cluster: ClusterClient, resource: ConfigResource, keys: Sequence[str] | None = None) -> list[Config]:
    """The resource's configuration, sorted by key; only `keys` if given."""
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=resource.kind,
                resource_name=resource.name,
                configuration_keys=None if keys is None else list(keys),
            )
        ],
        include_synonyms=False,
        include_documentation=True,
    )

    async def attempt() -> list[Config]:
        connection = await _whom_to_ask(cluster, resource)
        response = await connection.ask(request, DescribeConfigsResponse, version_min=1)
        [told] = response.results
        refuse(told.error_code, f"cannot read the configuration of {resource}", told.error_message)
        found = [
            Config(
                each.name,
                each.value,
                Source(each.config_source) if each.config_source in set(Source) else Source.UNKNOWN,
                each.read_only,
                each.is_sensitive,
                each.documentation,
            )
            for each in told.configs
        ]
        return sorted(found, key=lambda config: config.name)

    return await cluster.retrying(attempt)


async def describe_topics(
    cluster: ClusterClient, names: Sequence[str], keys: Sequence[str]
) -> dict[str, dict[str, str | None]]:
    """Some keys of many topics, in one request. Topics with an error are missing from the result."""
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=ResourceKind.TOPIC, resource_name=name, configuration_keys=list(keys))
            for name in names
        ],
        include_synonyms=False,
        include_documentation=False,
    )

    async def attempt() -> dict[str, dict[str, str | None]]:
        connection = await cluster.to_any()
        response = await connection.ask(request, DescribeConfigsResponse, version_min=1)
        return {
            told.resource_name: {each.name: each.value for each in told.configs}
            for told in response.results
            if not told.error_code
        }

    return await cluster.retrying(attempt)


async def alter(
    cluster: ClusterClient,
    resource: ConfigResource,
    *,
    set_to: Mapping[str, str] | None = None,
    unset: Sequence[str] = (),
    validate_only: bool = False,
) -> None:
    """Changes the keys named and no others; all or nothing."""
    changes = [
        AlterableConfig(name=key, config_operation=ConfigOperation.SET, value=value)
        for key, value in (set_to or {}).items()
    ]
    changes += [AlterableConfig(name=key, config_operation=ConfigOperation.DELETE, value=None) for key in unset]
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=resource.kind, resource_name=resource.name, configs=changes)],
        validate_only=validate_only,
    )

    async def attempt() -> None:
        connection = await _whom_to_ask(cluster, resource)
        response = await connection.ask(request, IncrementalAlterConfigsResponse)
        [told] = response.responses
        refuse(told.error_code, f"cannot change the configuration of {resource}", told.error_message)

    await cluster.retrying(attempt)


async def _whom_to_ask(cluster: ClusterClient, resource: ConfigResource) -> Connection:
    if resource.kind is ResourceKind.BROKER and resource.name:
        return await cluster.to_node(int(resource.name))
    return await cluster.to_any()
