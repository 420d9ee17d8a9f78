"""What `chronik cluster status` shows: the quorum as its leader sees it, or as each node says where there is no leader.

Both views are the same document, so programs read one form. What nobody can know without a leader is None.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from chronik.cli.output import Column, Row, human_count, human_duration, print_rows, yes_or_no

if TYPE_CHECKING:
    from chronik.client.admin.quorum import Quorum, QuorumNode
    from chronik.client.admin.survey import Survey, Surveyed
    from chronik.client.routing import ClusterClient

LOOK_EVERY_S: Final = 0.5  # a leader answers within milliseconds
HASH_DIGITS: Final = 8  # of 32: enough to compare by eye; --format json has all

COLUMNS: Final = (
    Column("node", "NODE", is_number=True),
    Column("role", "ROLE"),
    Column("state", "STATE"),
    Column("applied_index", "APPLIED", human_count, is_number=True),
    Column("lag_entries", "BEHIND", human_count, is_number=True),
    Column("lag_ms", "LAG", human_duration, is_number=True),
    Column("reads_by_lease", "LEASE", yes_or_no),
    Column("version", "VERSION", human_count, is_number=True),
    Column("state_hash", "STATE HASH", lambda digits: str(digits)[:HASH_DIGITS]),
)
LEADERLESS_COLUMNS: Final = (
    *COLUMNS[:3],
    Column("address", "ADDRESS"),
    *(column for column in COLUMNS if column.key in ("applied_index", "version", "state_hash")),
)


async def look(cluster: ClusterClient) -> dict[str, Any]:
    """The leader's view, or the nodes' own as soon as it is known that no leader can be elected."""
    from chronik.client.admin.survey import survey

    asking = asyncio.ensure_future(describe(cluster))
    try:
        while True:
            await asyncio.wait([asking], timeout=LOOK_EVERY_S)
            if asking.done() and asking.exception() is None:
                return asking.result()
            seen = await survey(cluster)
            if seen is not None and (seen.is_lost or asking.done()):
                return leaderless(seen)
            if asking.done():
                return await asking  # raises
    finally:
        asking.cancel()
        await asyncio.wait([asking])


async def describe(cluster: ClusterClient) -> dict[str, Any]:
    """What the leader and the brokers say. Fails where there is no leader."""
    from chronik.client.admin import nodes, quorum
    from chronik.client.admin.status import status as status_of

    described, told = await nodes.describe(cluster), await quorum.describe(cluster)
    topology = await cluster.retrying(lambda: cluster.refresh(None))
    asked = list(told.admin.items())
    pages = await asyncio.gather(
        *(status_of(cluster.network, at, cluster_id=described.cluster_id, node_id=node_id) for node_id, at in asked)
    )
    page_of = {node_id: page for (node_id, _), page in zip(asked, pages, strict=True) if page is not None}
    members = {member.node_id: member for member in told.members}
    brokers = {node.node_id: node for node in described.nodes}
    now_ms = time.time_ns() // 1_000_000
    rows: list[Row] = []
    for node_id in sorted({*members, *brokers}):
        member, broker, page = members.get(node_id), brokers.get(node_id), page_of.get(node_id)
        rows.append(
            {
                "node": node_id,
                "role": _role(node_id, told.leader_id, is_voter=member is not None and member.is_voter),
                "state": _state(
                    is_broker=broker is not None, is_fenced=broker is not None and broker.is_fenced, page=page
                ),
                "host": broker.host if broker else None,
                "port": broker.port if broker else None,
                "rack": broker.rack if broker else None,
                "lag_entries": max(0, told.high_watermark - member.end_offset) if member else None,
                "lag_ms": max(0, now_ms - member.caught_up_ms) if member and _is_behind(told, member) else 0,
                **_own_words(page),
            }
        )
    partitions = [each for topic in topology.topics.values() for each in topic.partitions.values()]
    return {
        "cluster_id": described.cluster_id,
        "leader": told.leader_id,
        "term": told.term,
        "committed_index": told.high_watermark - 1,
        "voters": list(told.voters),
        "partitions": len(partitions),
        "offline_partitions": sum(each.leader_id < 0 for each in partitions),
        "under_replicated_partitions": sum(len(each.isr) < len(each.replicas) for each in partitions),
        "nodes": rows,
        "diverged": diverged(rows),
    }


def leaderless(seen: Survey) -> dict[str, Any]:
    rows: list[Row] = [
        {
            "node": node.node_id,
            "role": "voter" if node.is_voter else "observer",
            "state": _state_without_leader(node),
            "address": str(node.address) if node.address else None,
            "host": node.address.host if node.address else None,
            "port": node.address.port if node.address else None,
            "rack": _rack(node),
            "lag_entries": None,
            "lag_ms": None,
            **_own_words(node.page),
        }
        for node in seen.nodes
    ]
    return {
        "cluster_id": next((node.page["cluster_id"] for node in seen.nodes if node.page), None),
        "leader": None,
        "term": seen.term,
        "committed_index": None,
        "voters": list(seen.voters),
        "voters_answering": list(seen.answering),
        "voters_abstaining": list(seen.abstaining),
        "voters_needed": seen.needed,
        "why": str(seen),
        "partitions": None,
        "offline_partitions": None,
        "under_replicated_partitions": None,
        "nodes": rows,
        "diverged": diverged(rows),
    }


def print_status(document: dict[str, Any]) -> None:
    print(f"cluster    {document['cluster_id'] or '-'}")
    if document["leader"] is None:
        print(f"leader     none in term {document['term']}")
        answering, voters = document["voters_answering"], document["voters"]
        cannot = f", {len(document['voters_abstaining'])} cannot vote" if document["voters_abstaining"] else ""
        needed = document["voters_needed"]
        print(f"votes      {len(answering)} of {len(voters)} voters answer{cannot}, {needed} are needed")
        print_rows(document["nodes"], LEADERLESS_COLUMNS, as_json=False)
        return
    print(f"leader     node {document['leader']} in term {document['term']}")
    offline, behind = document["offline_partitions"], document["under_replicated_partitions"]
    print(f"partitions {document['partitions']}, {behind} under-replicated, {offline} without a leader")
    print_rows(document["nodes"], COLUMNS, as_json=False)


def why_bad(document: dict[str, Any]) -> list[str]:
    """What the exit code is 1 for, one sentence each."""
    faults = [document["why"]] if document["leader"] is None else []
    return faults + [
        f"nodes report different metadata at version {version}: {hashes}; stop the node that differs and restore it"
        for version, hashes in document["diverged"].items()
    ]


def diverged(rows: list[Row]) -> dict[int, dict[int, str]]:
    """By version at which nodes have different hashes: the hash of each node."""
    by_version: dict[int, dict[int, str]] = {}
    for row in rows:
        if row["state_hash"] is not None:
            by_version.setdefault(row["version"], {})[row["node"]] = row["state_hash"]
    return {version: hashes for version, hashes in by_version.items() if len(set(hashes.values())) > 1}


def _own_words(page: dict[str, Any] | None) -> dict[str, Any]:
    """What only the node itself knows."""
    own = page["quorum"] if page else {}
    return {
        "applied_index": own.get("applied_index"),
        "reads_by_lease": own.get("reads_by_lease"),
        "version": page["version"] if page else None,
        "state_hash": page["state_hash"] if page else None,
    }


def _rack(node: Surveyed) -> str | None:
    broker = node.page["broker"] if node.page else None
    return broker["rack"] if broker else None


def _is_behind(told: Quorum, member: QuorumNode) -> bool:
    return member.end_offset < told.high_watermark and member.caught_up_ms >= 0


def _role(node_id: int, leader_id: int, *, is_voter: bool) -> str:
    if node_id == leader_id:
        return "leader"
    return "voter" if is_voter else "observer"


def _state_without_leader(node: Surveyed) -> str:
    if node.abstains:
        return "cannot vote"
    return "answers" if node.answers else "no answer"


def _state(*, is_broker: bool, is_fenced: bool, page: dict[str, Any] | None) -> str:
    if page is not None and not page["ready"]:
        return str(page["not_ready_because"])
    if not is_broker:
        return "no broker"
    return "fenced" if is_fenced else "alive"
