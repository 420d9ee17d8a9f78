"""Snapshots of clusters for tests of what is derived from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chronik.client.addresses import Address
from chronik.client.admin.nodes import Node
from chronik.client.admin.quorum import Quorum, QuorumNode
from chronik.client.admin.survey import Survey, Surveyed
from chronik.client.doctor.facts import StatusAt
from chronik.client.topology import Partition, Topic, Topology
from chronik.console.snapshot import Snapshot

NOW = 1_000_000


def quorum(leader_id: int = 1, silent: int | None = None) -> Quorum:
    members = tuple(
        QuorumNode(
            node_id, is_voter=True, end_offset=10, heard_ms=NOW - 60_000 if node_id == silent else NOW, caught_up_ms=NOW
        )
        for node_id in (1, 2, 3)
    )
    return Quorum(leader_id, 7, 10, members, {node_id: Address("127.0.0.1", 9640 + node_id) for node_id in (1, 2, 3)})


def survey() -> Survey:
    nodes = tuple(Surveyed(node_id, True, None, node_id == 1, None) for node_id in (1, 2, 3))
    return Survey(7, nodes)


def partition(leader_id: int = 1, isr: tuple[int, ...] = (1, 2, 3)) -> Partition:
    return Partition(0, leader_id, 4, (1, 2, 3), isr, ())


def topology(**partitions: Partition) -> Topology:
    return Topology(
        topics={name: Topic(name, name.encode(), False, {each.partition: each}) for name, each in partitions.items()}
    )


def page(**more: Any) -> StatusAt:
    return StatusAt({"version": 5, "state_hash": "aa", "alarms": [], **more}, NOW, NOW)


def snapshot(**more: Any) -> Snapshot:
    """Three nodes, all well; `more` replaces what is different."""
    brokers = tuple(Node(node_id, "127.0.0.1", 9090 + node_id, None, is_fenced=False) for node_id in (1, 2, 3))
    statuses: Mapping[int, StatusAt] = {node_id: page() for node_id in (1, 2, 3)}
    well = {
        "time_ms": NOW,
        "quorum": quorum(),
        "brokers": brokers,
        "statuses": statuses,
        "topology": topology(orders=partition()),
        "topology_ms": NOW,
        "is_reached": True,
    }
    return Snapshot(**{**well, **more})
