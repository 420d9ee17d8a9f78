"""A node's view of its state: whether it is alive, whether it serves, and values that operators compare between nodes.

Read-only. The state hash is computed in steps, once per image, so that it never blocks requests in a large cluster.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from chronik import __version__
from chronik.broker.metrics import Histogram
from chronik.metadata.image import Image
from chronik.metadata.snapshot import StateHash
from chronik.runtime.alarms import Alarms

if TYPE_CHECKING:
    from chronik.broker.node import Node


def why_not_ready(node: Node) -> str | None:
    """None if clients may use this node."""
    if node.failure is not None:
        return node.failure
    if node.store.leader_id is None and node.store.raft.abstains:
        return "no controller is elected, and this node cannot vote: it is new, or has lost its metadata"
    if node.store.leader_id is None:
        return "no controller is elected: a majority of the voters does not answer"
    broker = node.store.image.brokers.get(node.node_id)
    if broker is None:
        return "the controller has not registered this broker yet"
    if broker.fenced:
        return "the controller has fenced this broker: it heard nothing of it in time"
    return None


def beginning(node_id: int, why_not: str | None, alarms: Alarms, now_ms: int) -> dict[str, Any]:
    """The beginning of every status page, also for a node that is starting. `now_ms` is wall time."""
    return {
        "node_id": node_id,
        "time_ms": now_ms,
        "software": f"chronik {__version__}",
        "ready": why_not is None,
        "not_ready_because": why_not,
        "alarms": [asdict(alarm) for alarm in alarms.active()],
    }


class StatusPage:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._hashed: tuple[Image, str] | None = None

    async def describe(self) -> dict[str, Any]:
        node = self._node
        image = node.store.image  # read once: the hash belongs to this version, even if more is applied meanwhile
        return beginning(node.node_id, why_not_ready(node), node.alarms, node.runtime.clock.wall_ms()) | {
            "cluster_id": image.cluster_id,
            "quorum": self._quorum(),
            "broker": _broker(image, node.node_id),
            "topics": len(image.topics),
            "version": image.version,
            "state_hash": await self._hash(image),
            "storage": self._storage(),
            "machine": self._machine(),
        }

    def _storage(self) -> dict[str, Any]:
        """Times are wall times in ms, None before the first."""
        node = self._node
        scrub = node.scrubber.progress
        return {
            "damaged_logs": sum(1 for log in node.logs.all() if log.lost is not None),
            "last_copies_damaged": len(node.replicas.losses.last_copies),
            "replicas_without_space": len(node.replicas.full.keys),
            "stray_logs": node.logs.strays.count,
            "scrub_started_ms": scrub.started_ms if scrub.started_ms >= 0 else None,
            "scrub_finished_ms": scrub.finished_ms if scrub.finished_ms >= 0 else None,
            "scrub_checked_bytes": node.scrubber.checked_bytes,
        }

    def _machine(self) -> dict[str, Any]:
        """The node's resources on its machine, and their use. Sizes are in bytes."""
        node = self._node
        directory, disk, settings = node.settings.log_dir, node.runtime.disk, node.settings
        sync_times = Histogram(node.logs.journal.sync_octaves)
        return {
            "log_dir": directory,
            "disk_free_bytes": disk.free_bytes(directory),
            "disk_total_bytes": disk.total_bytes(directory),
            "sync_p50_ms": sync_times.percentile_ms(50),
            "sync_p99_ms": sync_times.percentile_ms(99),
            "memory_bytes": settings.machine.memory_bytes,
            "memory_budget_bytes": node.memory.size_bytes,
            "memory_held_bytes": node.memory.size_bytes - node.memory.room_bytes,
            "connections": len(node.connections),
            "connections_max": node.runtime.network.connections_max,
            "segments_open": len(node.logs.open_files),
            "segments_open_max": node.logs.open_files.segments_max,
        }

    def _quorum(self) -> dict[str, Any]:
        raft = self._node.store.raft
        return {
            "leader_id": raft.leader_id,
            "term": raft.term,
            "role": raft.role.name.lower(),
            "voters": list(raft.members.voters),
            "learners": list(raft.members.learners),
            "commit_index": raft.commit_index,
            "applied_index": raft.applied_index,
            "abstains": raft.abstains,
            "reads_by_lease": self._node.store.current() is not None,
            "lag_ms": {str(peer): lag_ms for peer, lag_ms in sorted(raft.lag_ms().items())},
        }

    async def _hash(self, image: Image) -> str:
        if self._hashed is None or self._hashed[0] is not image:
            hashing = StateHash(image)
            is_done = False
            while not is_done:
                is_done = not hashing.step()
                await asyncio.sleep(0)
            self._hashed = image, hashing.result()
        return self._hashed[1]


def _broker(image: Image, node_id: int) -> dict[str, Any] | None:
    broker = image.brokers.get(node_id)
    if broker is None:
        return None
    return {
        "epoch": broker.epoch,
        "rack": broker.rack,
        "fenced": broker.fenced,
        "in_controlled_shutdown": broker.in_controlled_shutdown,
    }
