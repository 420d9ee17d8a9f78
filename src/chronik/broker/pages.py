"""The pages of the admin listener, for a node that is starting and for one whose data is open. Read-only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from chronik.broker.exposition import metrics_text, starting_metrics
from chronik.broker.status import StatusPage, beginning, why_not_ready

if TYPE_CHECKING:
    from chronik.broker.node import Node
    from chronik.broker.node_base import NodeBase

STARTING = "the node is starting: it reads its logs or waits for the metadata quorum"


class Pages(Protocol):
    def why_not_ready(self) -> str | None:
        """None if clients may use this node."""

    async def metrics(self) -> str: ...

    async def status(self) -> dict[str, Any]: ...


class StartingPages:
    def __init__(self, base: NodeBase) -> None:
        self._base = base

    def why_not_ready(self) -> str | None:
        return self._base.failure or STARTING

    async def metrics(self) -> str:
        return await starting_metrics(self._base)

    async def status(self) -> dict[str, Any]:
        base = self._base
        return beginning(base.node_id, self.why_not_ready(), base.alarms, base.runtime.clock.wall_ms())


class NodePages:
    def __init__(self, base: NodeBase, node: Node) -> None:
        self._base, self._node = base, node
        self._status = StatusPage(node)

    def why_not_ready(self) -> str | None:
        return why_not_ready(self._node)

    async def metrics(self) -> str:
        return await metrics_text(self._base, self._node)

    async def status(self) -> dict[str, Any]:
        return await self._status.describe()
