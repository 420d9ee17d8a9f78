"""Nodes: quorum, leases, state hashes, machines; the matrix of replicas; moves with their progress."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from chronik.client.admin import balance, nodes, reassignments
from chronik.client.topology import NO_LEADER, Partition, TopicPartition
from chronik.console.attention import states_agree
from chronik.console.calls import Call, Change, change, get
from chronik.console.commands import Name, command_of
from chronik.console.errors import ConsoleError
from chronik.console.parameters import choice, text, whole
from chronik.console.seeing import require_cluster

if TYPE_CHECKING:
    from chronik.client.admin.quorum import QuorumNode
    from chronik.console.snapshot import Snapshot

MOVES_MAX: Final = 1_000


@get("/nodes")
async def show_nodes(call: Call) -> dict[str, Any]:
    await require_cluster(call.console, call.session)
    snapshot = call.console.observer.snapshot
    quorum, survey = snapshot.quorum, snapshot.survey
    call.missing += snapshot.missing
    voters = list(quorum.voters if quorum else survey.voters if survey else ())
    known = {each.node_id for each in (quorum.members if quorum else ())}
    learners = sorted(known - set(voters))
    held: dict[int, list[int]] = {}
    for topic in snapshot.topology.topics.values():
        for partition in topic.partitions.values():
            for node_id in partition.replicas:
                counts = held.setdefault(node_id, [0, 0])
                counts[0] += 1
                counts[1] += partition.leader_id == node_id
    return {
        "quorum": {
            "leader_id": quorum.leader_id if snapshot.has_quorum and quorum else None,
            "term": quorum.term if quorum else survey.term if survey else None,
            "has_quorum": snapshot.has_quorum,
            "voters": voters,
            "learners": learners,
            "votes_needed": len(voters) // 2 + 1 if voters else None,
            "high_watermark": quorum.high_watermark if quorum else None,
            "states_agree": states_agree(snapshot),
            "words": str(survey) if survey else None,
        },
        "nodes": [
            _node(snapshot, node_id, voters, held.get(node_id) if snapshot.topology_ms else None)
            for node_id in snapshot.node_ids
        ],
    }


def _node(snapshot: Snapshot, node_id: int, voters: list[int], counts: list[int] | None) -> dict[str, Any]:
    page, quorum = snapshot.page(node_id), snapshot.quorum
    broker = next((each for each in snapshot.brokers if each.node_id == node_id), None)
    member: QuorumNode | None = next(
        (each for each in (quorum.members if quorum else ()) if each.node_id == node_id), None
    )
    surveyed = next(
        (each for each in (snapshot.survey.nodes if snapshot.survey else ()) if each.node_id == node_id), None
    )
    raft = page.get("quorum") or {}
    admin = quorum.admin.get(node_id) if quorum else None
    leader_page = snapshot.page(quorum.leader_id) if quorum else {}
    lag_ms = ((leader_page.get("quorum") or {}).get("lag_ms") or {}).get(str(node_id))
    is_controller = quorum is not None and quorum.leader_id == node_id
    end_offset = member.end_offset if member and member.end_offset >= 0 else None
    at = snapshot.statuses.get(node_id)
    heard = "admin" if at is not None else "quorum" if member is not None else None
    return {
        "node_id": node_id,
        "host": broker.host if broker else surveyed.address.host if surveyed and surveyed.address else None,
        "port": broker.port if broker else surveyed.address.port if surveyed and surveyed.address else None,
        "rack": broker.rack if broker else None,
        "admin": str(admin) if admin else None,
        "is_answering": at is not None or (surveyed is not None and surveyed.answers),
        "heard_via": heard,
        "is_fenced": broker.is_fenced if broker else None,
        "is_controller": is_controller,
        "is_voter": node_id in voters,
        "role": raft.get("role"),
        "term": raft.get("term"),
        "reads_by_lease": raft.get("reads_by_lease"),
        "commit_index": raft.get("commit_index"),
        "applied_index": raft.get("applied_index"),
        "end_offset": end_offset,
        "lag_ms": 0 if is_controller else lag_ms,
        "lag_entries": max(0, quorum.high_watermark - end_offset) if quorum and end_offset is not None else None,
        "heard_ms": member.heard_ms if member and member.heard_ms >= 0 else None,
        "caught_up_ms": member.caught_up_ms if member and member.caught_up_ms >= 0 else None,
        "state_version": page.get("version"),
        "state_hash": page.get("state_hash"),
        "software": page.get("software"),
        "ready": page.get("ready"),
        "not_ready_because": page.get("not_ready_because"),
        "clock_ahead_ms": at.clock_ahead_ms if at is not None and at.asked_ms else None,
        "alarms": page.get("alarms", []),
        "machine": page.get("machine"),
        "storage": page.get("storage"),
        "partitions_led": counts[1] if counts else 0 if counts is not None else None,
        "partitions_held": counts[0] if counts else 0 if counts is not None else None,
    }


@get(
    "/nodes/isr",
    search=text(chars_max=256),
    problems=choice("0", "0", "1"),
    offset=whole(0, 0, 10**9),
    limit=whole(200, 1, 2_000),
)
async def isr(call: Call) -> dict[str, Any]:
    query, topics = call.query, (await call.topology()).topics
    moves = await call.part("moves", reassignments.under_way(call.cluster)) or {}
    node_ids = call.console.observer.snapshot.node_ids
    wanted = query["search"].lower()
    chosen: list[tuple[TopicPartition, Partition]] = [
        (TopicPartition(name, index), partition)
        for name in sorted(topics)
        if wanted in name.lower()
        for index, partition in topics[name].partitions.items()
        if query["problems"] == "0" or _is_problem(partition)
    ]
    page = chosen[query["offset"] : query["offset"] + query["limit"]]
    held = {node_id for _, partition in page for node_id in partition.replicas}
    columns = sorted(held | set(node_ids))
    return {
        "nodes": columns,
        "total": len(chosen),
        "rows": [
            {
                "topic": at.topic,
                "partition": at.partition,
                "leader_id": None if partition.leader_id == NO_LEADER else partition.leader_id,
                "cells": [cell(partition, moves.get(at), node_id) for node_id in columns],
            }
            for at, partition in page
        ],
    }


def _is_problem(partition: Partition) -> bool:
    return partition.leader_id == NO_LEADER or len(partition.isr) < len(partition.replicas)


def cell(partition: Partition, move: reassignments.Move | None, node_id: int) -> str | None:
    """What a node is for a partition; a move says more than the rest."""
    if node_id not in partition.replicas:
        return None
    if move is not None and node_id in move.removing:
        return "removing"
    if move is not None and node_id in move.adding:
        return "adding"
    if node_id == partition.leader_id:
        return "leader"
    if node_id in partition.offline:
        return "offline"
    return "isr" if node_id in partition.isr else "lagging"


@get("/nodes/moves")
async def moves(call: Call) -> dict[str, Any]:
    found, directories = await asyncio.gather(
        call.part("moves", reassignments.under_way(call.cluster)),
        call.part("sizes", nodes.log_directories(call.cluster)),
    )
    sizes: dict[TopicPartition, dict[int, int]] = {}
    for directory in directories or ():
        for at, size in directory.sizes_bytes.items():
            sizes.setdefault(at, {})[directory.node_id] = size
    rows = []
    for at, move in list((found or {}).items())[:MOVES_MAX]:
        here = sizes.get(at, {})
        whole_bytes = max((size for node_id, size in here.items() if node_id not in move.adding), default=None)
        rows.append(
            {
                "topic": at.topic,
                "partition": at.partition,
                "replicas": move.replicas,
                "adding": move.adding,
                "removing": move.removing,
                "copied_bytes": sum(here.get(node_id, 0) for node_id in move.adding)
                if directories is not None
                else None,
                "total_bytes": whole_bytes * len(move.adding) if whole_bytes is not None else None,
            }
        )
    return {"moves": rows, "is_truncated": len(found or {}) > MOVES_MAX}


# --- changes


@change("/nodes/rebalance")
async def rebalance(call: Call) -> Change:
    only_leaders = call.body.flag("only_leaders")
    call.body.done()
    topology = await call.cluster.refresh(None)
    partitions = {
        TopicPartition(name, index): partition
        for name, topic in topology.topics.items()
        for index, partition in topic.partitions.items()
    }
    if only_leaders:
        wrong = {at: each for at, each in partitions.items() if each.replicas and each.leader_id != each.replicas[0]}
        plan = [
            {"topic": at.topic, "partition": at.partition, "before": [each.leader_id], "after": [each.replicas[0]]}
            for at, each in wrong.items()
        ]
        if not call.is_dry and wrong:
            await reassignments.elect(call.cluster, wrong)
        names = sorted({at.topic for at in wrong})
        return Change(command_of(call, "topic", "elect", *map(Name, names)), plan, action="topic elect")
    racks = {node_id: broker.rack for node_id, broker in topology.brokers.items()}
    try:
        targets = balance.plan(racks, {at: each.replicas for at, each in partitions.items()})
    except balance.CannotPlace as fault:
        raise ConsoleError("REFUSED", str(fault)) from fault
    plan = [
        {"topic": at.topic, "partition": at.partition, "before": partitions[at].replicas, "after": replicas}
        for at, replicas in targets.items()
    ]
    if not call.is_dry and targets:
        answers = await reassignments.move(call.cluster, dict(targets))
        refused = next((each for each in answers.values() if each is not None), None)
        if refused is not None:
            raise refused
    return Change(command_of(call, "cluster", "rebalance"), plan, action="cluster rebalance")


@change("/nodes/moves/cancel")
async def cancel(call: Call) -> Change:
    call.body.done()
    found = await reassignments.under_way(call.cluster)
    plan = [{"topic": at.topic, "partition": at.partition, "adding": move.adding} for at, move in found.items()]
    if not call.is_dry and found:
        await reassignments.move(call.cluster, dict.fromkeys(found))
    return Change(command_of(call, "cluster", "rebalance", "--cancel"), plan, action="cluster rebalance --cancel")
