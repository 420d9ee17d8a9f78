"""Client quotas: reads all of them, and changes those of one entity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from chronik.client.errors import refuse
from chronik.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntry,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
)
from chronik.wire.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient

DEFAULT: Final = None  # as a name: every entity without a quota of its own
TYPES: Final = ("user", "client-id", "ip")


@dataclass(frozen=True, slots=True)
class Entity:
    """Names by type: user, client-id or ip. The name None is the default of the type."""

    names: Mapping[str, str | None]

    def __str__(self) -> str:
        ordered = [(kind, self.names[kind]) for kind in TYPES if kind in self.names]
        return ", ".join(f"default {kind}" if name is None else f"{kind} {name!r}" for kind, name in ordered)


@dataclass(frozen=True, slots=True)
class Quotas:
    entity: Entity
    limits: Mapping[str, float]


async def list_all(cluster: ClusterClient) -> list[Quotas]:
    """The quotas of all entities that have any."""

    async def attempt() -> list[Quotas]:
        request = DescribeClientQuotasRequest(components=[], strict=False)
        response = await (await cluster.to_any()).ask(request, DescribeClientQuotasResponse)
        refuse(response.error_code, "cannot read the quotas", response.error_message)
        return [
            Quotas(
                Entity({each.entity_type: each.entity_name for each in entry.entity}),
                {each.key: each.value for each in entry.values},
            )
            for entry in response.entries or []
        ]

    return await cluster.retrying(attempt)


async def alter(
    cluster: ClusterClient, entity: Entity, changes: Mapping[str, float | None], *, validate_only: bool = False
) -> None:
    """Sets quotas of the entity; None removes one. All or nothing."""
    entry = AlterClientQuotasRequestEntry(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.names.items()],
        ops=[OpData(key=key, value=limit or 0.0, remove=limit is None) for key, limit in changes.items()],
    )

    async def attempt() -> None:
        request = AlterClientQuotasRequest(entries=[entry], validate_only=validate_only)
        response = await (await cluster.to_controller()).ask(request, AlterClientQuotasResponse)
        [told] = response.entries
        refuse(told.error_code, f"cannot change the quotas of {entity}", told.error_message)

    await cluster.retrying(attempt)
