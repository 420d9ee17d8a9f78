"""Groups: from finding the coordinator to deleting the group, with members that come, go, and get it wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.delete_groups import DeleteGroupsRequest
from chronik.wire.messages.describe_groups import DescribeGroupsRequest
from chronik.wire.messages.find_coordinator import FindCoordinatorRequest
from chronik.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from chronik.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from chronik.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from chronik.wire.messages.list_groups import ListGroupsRequest
from chronik.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.oracle.asking import find_coordinator
from tests.oracle.comparison import Pair, Server

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("compat")]

SESSION_MS = 60_000
RANGE = (("range", b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"),)
BOTH = (*RANGE, ("roundrobin", RANGE[0][1]))
VERSION_STATIC, VERSION_NEEDS_ID, VERSION_PROTOCOL_NAME = 5, 4, 7
JOIN_SETUP, SYNC_SETUP = 5, 3  # versions of requests that are not compared


@dataclass(frozen=True)
class Versions:
    """Versions of the group's APIs that came with one version of JoinGroup."""

    join: int
    sync: int
    heartbeat: int
    leave: int


# Along Kafka's history: each API is met in each of its versions.
TOGETHER = [
    Versions(*each)
    for each in (
        (0, 0, 0, 0),
        (1, 0, 0, 0),
        (2, 1, 1, 1),
        (3, 1, 1, 1),
        (4, 2, 2, 2),
        (5, 3, 3, 3),
        (6, 4, 4, 4),
        (7, 5, 4, 4),
        (8, 5, 4, 5),
        (9, 5, 4, 5),
    )
]


def served(pair: Pair) -> list[Versions]:
    """What this Kafka is the judge of; the newer one serves all but JoinGroup v0 and v1."""
    mine = pair.versions(JoinGroupRequest)
    return [each for each in TOGETHER if each.join in mine]


def member(server: Server, who: str) -> str:
    return str(server.kept.get(f"member {who}", who))


def join(
    group: str,
    who: str = "",
    *,
    instance: str | None = None,
    protocols: tuple[tuple[str, bytes], ...] = RANGE,
    session_ms: int = SESSION_MS,
    kind: str = "consumer",
) -> Callable[[Server], JoinGroupRequest]:
    """`who` is a member whose id `keep` has stored, or a literal id; without one the member is new."""
    return lambda server: JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=SESSION_MS,
        member_id=member(server, who),
        group_instance_id=instance,
        protocol_type=kind,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols],
    )


def sync(
    group: str, who: str, generation: int, given: dict[str, bytes] | None = None, **more: Any
) -> Callable[[Server], SyncGroupRequest]:
    return lambda server: SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member(server, who),
        assignments=[
            SyncGroupRequestAssignment(member_id=member(server, name), assignment=data)
            for name, data in (given or {}).items()
        ],
        **more,
    )


def heartbeat(
    group: str, who: str, generation: int, instance: str | None = None
) -> Callable[[Server], HeartbeatRequest]:
    return lambda server: HeartbeatRequest(
        group_id=group, generation_id=generation, member_id=member(server, who), group_instance_id=instance
    )


def leave(group: str, version: int, *members: tuple[str, str | None]) -> Callable[[Server], LeaveGroupRequest]:
    def request(server: Server) -> LeaveGroupRequest:
        if version < 3:
            return LeaveGroupRequest(group_id=group, member_id=member(server, members[0][0]))
        gone = [MemberIdentity(member_id=member(server, who), group_instance_id=instance) for who, instance in members]
        return LeaveGroupRequest(group_id=group, members=gone)

    return request


def keep(pair: Pair, who: str, answers: tuple[Any, Any]) -> None:
    for server, answer in zip(pair.servers, answers, strict=True):
        server.kept[f"member {who}"] = answer.member_id


def enter(pair: Pair, group: str, who: str, version: int, **more: Any) -> None:
    """A member alone enters a group: with or without the step in which it is given its id."""
    answers = pair.ask(join(group, **more), version)
    if version >= VERSION_NEEDS_ID and more.get("instance") is None:
        keep(pair, who, answers)
        answers = pair.ask(join(group, who, **more), version)
    keep(pair, who, answers)


def test_finding_coordinators(pair: Pair) -> None:
    """Of groups, one and many."""
    find_coordinator(pair)
    for version in pair.versions(FindCoordinatorRequest):
        if version < 4:
            pair.ask(FindCoordinatorRequest(key="some", key_type=0), version)
            pair.ask(FindCoordinatorRequest(key="", key_type=0), version)
        else:
            pair.ask(FindCoordinatorRequest(coordinator_keys=["some", "other", "some"], key_type=0), version)
            pair.ask(FindCoordinatorRequest(coordinator_keys=[], key_type=0), version)
        if version >= 1:
            for kind in (3, -1):
                pair.case = f"key type {kind}"
                pair.ask(FindCoordinatorRequest(key="k", coordinator_keys=["k"], key_type=kind), version)


def test_a_member_alone(pair: Pair) -> None:
    """Join, sync, heartbeat, leave; and everything a member may do wrong in between."""
    find_coordinator(pair)
    for at in served(pair):
        group = pair.name(f"g{at.join}")
        names = {"protocol_type": "consumer", "protocol_name": "range"} if at.sync >= 5 else {}
        enter(pair, group, "a", at.join)
        pair.ask(sync(group, "a", 1, {"a": b"all of it"}, **names), at.sync)
        pair.ask(sync(group, "a", 1, {"a": b"something else"}, **names), at.sync)
        pair.ask(heartbeat(group, "a", 1), at.heartbeat)
        for generation in (0, 2, -1):
            pair.case = f"generation {generation}"
            pair.ask(heartbeat(group, "a", generation), at.heartbeat)
            pair.ask(sync(group, "a", generation, **names), at.sync)
        pair.case = "a stranger"
        pair.ask(heartbeat(group, "stranger", 1), at.heartbeat)
        pair.ask(sync(group, "stranger", 1, **names), at.sync)
        pair.ask(join(group, "stranger"), at.join)
        pair.ask(leave(group, at.leave, ("stranger", None)), at.leave)
        pair.case = "an unknown group"
        pair.ask(heartbeat(pair.name("unknown"), "a", 1), at.heartbeat)
        pair.ask(sync(pair.name("unknown"), "a", 1), at.sync)
        pair.ask(leave(pair.name("unknown"), at.leave, ("a", None)), at.leave)
        pair.ask(join(pair.name("unknown"), "stranger"), at.join)
        if at.sync >= 5:
            pair.case = "another protocol"
            pair.ask(sync(group, "a", 1, protocol_type="connect", protocol_name="range"), at.sync)
            pair.ask(sync(group, "a", 1, protocol_type="consumer", protocol_name="roundrobin"), at.sync)
        pair.case = "joining again"
        pair.ask(join(group, "a"), at.join)
        pair.ask(heartbeat(group, "a", 2), at.heartbeat)
        pair.ask(sync(group, "a", 2, {"a": b"more"}, **names), at.sync)
        pair.ask(join(group, "a", protocols=BOTH), at.join)
        pair.ask(sync(group, "a", 3, {}, **names), at.sync)
        pair.case = "leaving"
        pair.ask(leave(group, at.leave, ("a", None)), at.leave)
        pair.ask(leave(group, at.leave, ("a", None)), at.leave)
        pair.ask(heartbeat(group, "a", 3), at.heartbeat)


def test_joining_badly(pair: Pair) -> None:
    """Session time-outs, names and protocols that a group does not accept."""
    find_coordinator(pair)
    for at in served(pair):
        group = pair.name(f"g{at.join}")
        for session_ms in (0, 50, 10_000_000):
            pair.case = f"session {session_ms}"
            pair.ask(join(group, session_ms=session_ms), at.join)
        pair.case = "names"
        pair.ask(join(""), at.join)
        pair.ask(join(group, kind=""), at.join)
        pair.ask(join(group, protocols=()), at.join)
        enter(pair, group, "a", at.join)
        pair.case = "other protocols"
        pair.ask(join(group, kind="connect"), at.join)
        pair.ask(join(group, protocols=(("sticky", b""),)), at.join)
        pair.ask(heartbeat("", "a", 1), at.heartbeat)
        pair.ask(sync("", "a", 1), at.sync)
        pair.ask(leave("", at.leave, ("a", None)), at.leave)


def test_two_members(pair: Pair) -> None:
    """A second member makes the first one join again; the leader hands out both parts."""
    find_coordinator(pair)
    for at in served(pair):
        group = pair.name(f"g{at.join}")
        names = {"protocol_type": "consumer", "protocol_name": "range"} if at.sync >= 5 else {}
        enter(pair, group, "a", at.join, protocols=BOTH)
        pair.ask(sync(group, "a", 1, {"a": b"all"}, **names), at.sync)
        if at.join >= VERSION_NEEDS_ID:
            keep(pair, "b", pair.ask(join(group), at.join, on="second"))
            pair.send(join(group, "b"), at.join, on="second")
        else:
            pair.send(join(group), at.join, on="second")
        until_rebalancing(pair, group, "a", 1)
        pair.ask(heartbeat(group, "a", 1), at.heartbeat)
        pair.ask(sync(group, "a", 1, **names), at.sync)
        pair.send(join(group, "a", protocols=BOTH), at.join)
        pair.receive(JoinGroupRequest, at.join, unordered=("members",))
        keep(pair, "b", pair.receive(JoinGroupRequest, at.join, on="second", unordered=("members",)))
        pair.send(sync(group, "b", 2, **names), at.sync, on="second")
        pair.ask(sync(group, "a", 2, {"a": b"first half", "b": b"second half"}, **names), at.sync)
        pair.receive(SyncGroupRequest, at.sync, on="second")
        pair.ask(DescribeGroupsRequest(groups=[group]), 4, unordered=("members",))
        pair.ask(leave(group, at.leave, ("b", None)), at.leave)
        pair.ask(heartbeat(group, "a", 2), at.heartbeat)
        pair.ask(join(group, "a", protocols=BOTH), at.join)
        pair.ask(leave(group, at.leave, ("a", None)), at.leave)


def until_rebalancing(pair: Pair, group: str, who: str, generation: int) -> None:
    """Returns when the second member's join has arrived, so that the first one must rejoin."""
    for server in pair.servers:
        told = ErrorCode.NONE
        while told != ErrorCode.REBALANCE_IN_PROGRESS:
            server.send(heartbeat(group, who, generation)(server), 2)
            told = server.receive(HeartbeatResponse, 2).message.error_code


def test_static_members(pair: Pair) -> None:
    """A static member returns without a rebalance; an older process with the same name is fenced."""
    find_coordinator(pair)
    for at in served(pair):
        if at.join < VERSION_STATIC:
            continue
        group = pair.name(f"g{at.join}")
        names = {"protocol_type": "consumer", "protocol_name": "range"} if at.sync >= 5 else {}
        enter(pair, group, "old", at.join, instance="one")
        pair.ask(sync(group, "old", 1, {"old": b"all"}, group_instance_id="one", **names), at.sync)
        pair.case = "back again"
        keep(pair, "new", pair.ask(join(group, instance="one"), at.join))
        pair.ask(sync(group, "new", 1, {}, group_instance_id="one", **names), at.sync)
        pair.case = "the old one"
        pair.ask(heartbeat(group, "old", 1, "one"), at.heartbeat)
        pair.ask(heartbeat(group, "old", 1), at.heartbeat)
        pair.ask(sync(group, "old", 1, {}, group_instance_id="one", **names), at.sync)
        pair.ask(join(group, "old", instance="one"), at.join)
        pair.ask(heartbeat(group, "new", 1, "two"), at.heartbeat)
        pair.ask(join(group, "new", instance="two"), at.join)
        pair.ask(DescribeGroupsRequest(groups=[group]), 4)
        pair.case = "leaving"
        pair.ask(leave(group, at.leave, ("old", "one"), ("stranger", None), ("", "two")), at.leave)
        pair.ask(leave(group, at.leave, ("", "one")), at.leave)
        pair.ask(DescribeGroupsRequest(groups=[group]), 4)


def test_describing_and_listing_groups(pair: Pair) -> None:
    """Groups in each of their states."""
    find_coordinator(pair)
    empty, stable, joining = (pair.name(each) for each in ("empty", "stable", "joining"))
    for group in (empty, stable, joining):
        enter(pair, group, group, JOIN_SETUP)
    for group in (empty, stable):
        pair.do(sync(group, group, 1, {group: b"all"}), SYNC_SETUP)
    pair.do(leave(empty, 3, (empty, None)), 3)
    for version in pair.versions(DescribeGroupsRequest):
        for group in (empty, stable, joining, pair.name("unknown"), ""):
            pair.case = group
            pair.ask(DescribeGroupsRequest(groups=[group]), version)
        if version >= 3:
            pair.ask(DescribeGroupsRequest(groups=[stable], include_authorized_operations=True), version)
            unknown = DescribeGroupsRequest(groups=[pair.name("unknown")], include_authorized_operations=True)
            pair.ask(unknown, version)
        pair.ask(DescribeGroupsRequest(groups=[]), version)
    for version in pair.versions(ListGroupsRequest):
        pair.case = "listing"
        pair.ask(ListGroupsRequest(), version, unordered=("groups",))
        if version >= 4:
            for states in (["Stable"], ["Empty", "stable"], ["CompletingRebalance"], ["Strange"], ["Dead"]):
                pair.case = str(states)
                pair.ask(ListGroupsRequest(states_filter=states), version, unordered=("groups",))
        if version >= 5:
            for types in (["classic"], ["Consumer"], ["strange"]):
                pair.case = str(types)
                pair.ask(ListGroupsRequest(types_filter=types), version, unordered=("groups",))


def test_deleting_groups(pair: Pair) -> None:
    """Only a group without members can go."""
    find_coordinator(pair)
    for version in pair.versions(DeleteGroupsRequest):
        empty, stable = pair.name(f"empty{version}"), pair.name(f"stable{version}")
        for group in (empty, stable):
            enter(pair, group, group, JOIN_SETUP)
            pair.do(sync(group, group, 1, {group: b"all"}), SYNC_SETUP)
        pair.do(leave(empty, 3, (empty, None)), 3)
        for names in ([stable], [pair.name("unknown")], [empty], [empty], [""], []):
            pair.case = str(names)
            pair.ask(DeleteGroupsRequest(groups_names=names), version)
        pair.ask(DescribeGroupsRequest(groups=[empty]), 4)
        pair.do(leave(stable, 3, (stable, None)), 3)
