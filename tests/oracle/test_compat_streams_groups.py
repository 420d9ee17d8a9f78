"""Streams groups (KIP-1071): members that join, get tasks, give them up, get it wrong and leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from chronik.wire.messages.delete_groups import DeleteGroupsRequest
from chronik.wire.messages.describe_groups import DescribeGroupsRequest
from chronik.wire.messages.list_groups import ListGroupsRequest
from chronik.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from chronik.wire.messages.streams_group_heartbeat import (
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    TaskIds,
    Topology,
)
from tests.broker.apis.streams_apps import info, part
from tests.broker.apis.test_streams_groups import REFUSED
from tests.oracle.asking import create_topic, find_coordinator
from tests.oracle.comparison import Pair
from tests.oracle.test_compat_committed import commit

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("compat")]

SOONER: dict[str, Any] = {"erased": ("heartbeat_interval_ms",)}  # ours is asked to come back sooner while it waits
ANY_ORDER = ("members", "active_tasks", "standby_tasks", "partitions_by_user_endpoint", "active_partitions")
Owned = dict[str, list[int]]


def beat(group: str, who: str, epoch: int, owned: Owned | None = None, **more: Any) -> StreamsGroupHeartbeatRequest:
    more.setdefault("endpoint_information_epoch", 0)
    if owned is not None:
        ids = [TaskIds(subtopology_id=name, partitions=partitions) for name, partitions in owned.items()]
        more |= {"active_tasks": ids, "standby_tasks": [], "warmup_tasks": []}
    return StreamsGroupHeartbeatRequest(group_id=group, member_id=who, member_epoch=epoch, **more)


def first(group: str, who: str, topology: Topology, **more: Any) -> StreamsGroupHeartbeatRequest:
    fields = {"rebalance_timeout_ms": 60_000, "topology": topology, "process_id": who} | more
    return beat(group, who, 0, {}, **fields)


def one_part(*sources: str, epoch: int = 0, **more: Any) -> Topology:
    return Topology(epoch=epoch, subtopologies=[part("0", source_topics=list(sources), **more)])


def described(pair: Pair, *groups: str) -> None:
    request = StreamsGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=True)
    pair.ask(request, 0, unordered=ANY_ORDER)
    pair.ask(DescribeGroupsRequest(groups=list(groups)), 6)


def serves(pair: Pair) -> Sequence[int]:
    return pair.versions(StreamsGroupHeartbeatRequest)


def test_requests_that_no_group_takes(pair: Pair) -> None:
    find_coordinator(pair)
    for version in serves(pair):
        group = pair.name("g")
        for epoch, fields, _ in REFUSED:
            pair.case = f"{epoch} {fields}"
            fields = {"endpoint_information_epoch": 0, **fields}
            request = StreamsGroupHeartbeatRequest(group_id=group, member_id="a", member_epoch=epoch, **fields)
            strange = request.topology is not None and request.topology.subtopologies[0].copartition_groups
            pair.ask(request, version, differs="copartitioned-topic-that-is-not-there" if strange else None)
        described(pair, group)


def test_members_share_tasks(pair: Pair) -> None:
    """One step after the other: join, give up, take over, leave."""
    find_coordinator(pair)
    for version in serves(pair):
        topic, group = create_topic(pair, pair.name("t"), 2), pair.name("g")
        topology = one_part(topic)
        steps: list[tuple[str, Any]] = [
            ("the first gets everything", first(group, "a", topology)),
            ("it has it", beat(group, "a", 2, {"0": [0, 1]})),
            ("it joins again", first(group, "a", topology)),
            ("the second waits", first(group, "b", topology, rack_id="r", client_tags=[KeyValue(key="k", value="v")])),
            ("the first is asked for one", beat(group, "a", 2, {"0": [0, 1]})),
            ("it holds on to it", beat(group, "a", 2, {"0": [0, 1]})),
            ("it says nothing", beat(group, "a", 2)),
            ("the second waits still", beat(group, "b", 3, {})),
            ("the first gave it up", beat(group, "a", 2, {"0": [0]})),
            ("the second has it", beat(group, "b", 3, {})),
            ("nothing changes", beat(group, "b", 3, {"0": [1]})),
            ("a lost answer", beat(group, "a", 2, {"0": [0]})),
            ("a lost answer, with a task too many", beat(group, "a", 2, {"0": [0, 1]})),
            ("an old epoch", beat(group, "a", 1, {"0": [0]})),
            ("a new epoch", beat(group, "a", 9, {"0": [0]})),
            ("a stranger", beat(group, "c", 3, {})),
            ("a task that does not exist", beat(group, "a", 3, {"0": [2]})),
            ("a subtopology that does not exist", beat(group, "a", 3, {"1": [0]})),
            ("the topology of somebody else", first(group, "a", one_part(topic, epoch=1))),
            ("the second leaves", beat(group, "b", -1)),
            ("twice", beat(group, "b", -1)),
            ("the first gets its task back", beat(group, "a", 3, {"0": [0]})),
        ]
        for pair.case, request in steps:
            differs = "tasks-are-told-again" if pair.case == "it holds on to it" else None
            pair.ask(request, version, unordered=ANY_ORDER, differs=differs, **SOONER)
            described(pair, group)
        pair.ask(ListGroupsRequest(states_filter=[], types_filter=["streams"]), 5, unordered=("groups",))
        for pair.case, member, epoch, partition in (
            ("current", "a", 4, 0),
            ("older", "a", 3, 0),
            ("older than the task", "a", 3, 1),
            ("newer", "a", 9, 0),
            ("nobody", "x", 4, 0),
            ("an operator", "", -1, 0),
        ):
            for of_commit in (8, 9):
                asked = commit(of_commit, group, {topic: {partition: (5, -1, "")}}, who=member, generation=epoch)
                pair.ask(asked, of_commit)
        pair.case = "the end"
        pair.ask(DeleteGroupsRequest(groups_names=[group]), 2)
        pair.ask(beat(group, "a", -1), version)
        described(pair, group)
        pair.ask(DeleteGroupsRequest(groups_names=[group]), 2)
        described(pair, group)


def test_topics_that_a_topology_needs(pair: Pair) -> None:
    find_coordinator(pair)
    for version in serves(pair):
        two, three = create_topic(pair, pair.name("two"), 2), create_topic(pair, pair.name("three"), 3)
        together = {"source_topics": [0, 1], "source_topic_regex": [], "repartition_source_topics": []}
        absent = pair.name("absent")
        fixed, flexible, log = pair.name("fixed"), pair.name("flexible"), pair.name("log")
        wrong = create_topic(pair, pair.name("wrong"), 5)
        for number, topology in enumerate(
            (
                one_part(absent),
                one_part(two, absent, pair.name("b"), pair.name("c"), pair.name("d")),
                one_part(two, three, copartition_groups=[_copartition(**together)]),
                one_part(two, state_changelog_topics=[info(wrong)]),
                one_part(two, state_changelog_topics=[info(log)]),
                Topology(
                    epoch=0,
                    subtopologies=[
                        part("0", source_topics=[two], repartition_sink_topics=[fixed, flexible]),
                        part("1", repartition_source_topics=[info(fixed, 4), info(flexible)]),
                    ],
                ),
                Topology(
                    epoch=0,
                    subtopologies=[
                        part("0", repartition_source_topics=[info(fixed)], repartition_sink_topics=[flexible]),
                        part("1", repartition_source_topics=[info(flexible)], repartition_sink_topics=[fixed]),
                    ],
                ),
            )
        ):
            pair.case = f"topology {number}"
            group = pair.name(f"g{number}")
            pair.ask(first(group, "a", topology), version, **SOONER)
            described(pair, group)
        stale = pair.name("stale")
        pair.case = "an older topology"
        pair.ask(first(stale, "a", one_part(two, epoch=3)), version, **SOONER)
        pair.ask(first(stale, "b", one_part(three, epoch=2)), version, **SOONER)
        pair.ask(first(stale, "c", one_part(three, epoch=3)), version, **SOONER)
        described(pair, stale)


def test_applications_that_end_and_that_answer_queries(pair: Pair) -> None:
    find_coordinator(pair)
    for version in serves(pair):
        topic, group = create_topic(pair, pair.name("t"), 2), pair.name("g")
        endpoint = Endpoint(host="h", port=4711)
        steps: list[tuple[str, Any]] = [
            ("with an endpoint", first(group, "a", one_part(topic), user_endpoint=endpoint)),
            ("it learns of itself", beat(group, "a", 2, {"0": [0, 1]})),
            ("it joins again", first(group, "a", one_part(topic), user_endpoint=endpoint)),
            ("it knows", beat(group, "a", 2, {"0": [0, 1]}, endpoint_information_epoch=1)),
            ("the other asks for the end", first(group, "b", one_part(topic), shutdown_application=True)),
            ("the first hears of it", beat(group, "a", 2, {"0": [0, 1]})),
            ("both leave", beat(group, "a", -1)),
            ("both leave", beat(group, "b", -1)),
            ("it is over", first(group, "c", one_part(topic))),
        ]
        for pair.case, request in steps:
            pair.ask(request, version, unordered=ANY_ORDER, **SOONER)
            described(pair, group)


def _copartition(**fields: Any) -> Any:
    from chronik.wire.messages.streams_group_heartbeat import CopartitionGroup

    return CopartitionGroup(**fields)
