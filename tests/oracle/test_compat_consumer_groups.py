"""Consumer groups (KIP-848): members that join, reconcile, get it wrong and leave; groups that change their protocol.

Kafka computes a target at most once in consumer.assignment.interval.ms, so the groups of these scenarios set it to 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from chronik.metadata.image import ResourceType
from chronik.wire.compiler import encode
from chronik.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from chronik.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from chronik.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from chronik.wire.messages.delete_groups import DeleteGroupsRequest
from chronik.wire.messages.describe_groups import DescribeGroupsRequest
from chronik.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from chronik.wire.messages.list_groups import ListGroupsRequest
from tests.oracle.asking import create_topic, find_coordinator
from tests.oracle.comparison import Pair, Server
from tests.oracle.test_compat_committed import commit
from tests.oracle.test_compat_groups import enter, heartbeat, join, keep, leave, member, sync

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("compat")]

REBALANCE_MS = 60_000
ANY_ORDER = ("members", "topic_partitions", "groups", "subscribed_topic_names")
COMMIT, FETCH, JOIN, SYNC, HEARTBEAT, LEAVE = 9, 9, 9, 5, 4, 5  # versions of what these scenarios do besides
Owned = dict[str, list[int]]


def beat(
    group: str, who: str, epoch: int, *, owned: Owned | None = None, **more: Any
) -> Callable[[Server], ConsumerGroupHeartbeatRequest]:
    def request(server: Server) -> ConsumerGroupHeartbeatRequest:
        parts = None
        if owned is not None:
            parts = [TopicPartitions(topic_id=server.topic_ids[name], partitions=owned[name]) for name in owned]
        return ConsumerGroupHeartbeatRequest(
            group_id=group, member_id=member(server, who), member_epoch=epoch, topic_partitions=parts, **more
        )

    return request


def first(group: str, who: str, topics: Sequence[str] | None, **more: Any) -> Callable[[Server], Any]:
    """The heartbeat with which a member joins."""
    names = None if topics is None else list(topics)
    settings = {"rebalance_timeout_ms": REBALANCE_MS, "subscribed_topic_names": names, "owned": {}, **more}
    return beat(group, who, 0, **settings)


def served(pair: Pair) -> list[int]:
    return pair.versions(ConsumerGroupHeartbeatRequest)


def new_group(pair: Pair, suffix: str) -> str:
    group = pair.name(suffix)
    config = AlterableConfig(name="consumer.assignment.interval.ms", config_operation=0, value="0")
    resource = AlterConfigsResource(resource_type=ResourceType.GROUP, resource_name=group, configs=[config])
    pair.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
    return group


def described(pair: Pair, *groups: str, unordered: tuple[str, ...] = ANY_ORDER) -> None:
    for version in pair.versions(ConsumerGroupDescribeRequest):
        request = ConsumerGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=False)
        pair.ask(request, version, unordered=unordered)
    pair.ask(DescribeGroupsRequest(groups=list(groups)), 6, unordered=ANY_ORDER)


def subscription(topics: Sequence[str], owned: Owned | None = None) -> bytes:
    parts = [TopicPartition(topic=name, partitions=indexes) for name, indexes in (owned or {}).items()]
    message = ConsumerProtocolSubscription(topics=list(topics), owned_partitions=parts)
    return b"\x00\x01" + encode(message, 1)


def assignment(owned: Owned) -> bytes:
    parts = [TopicPartition(topic=name, partitions=indexes) for name, indexes in owned.items()]
    return b"\x00\x01" + encode(ConsumerProtocolAssignment(assigned_partitions=parts), 1)


def test_requests_that_no_group_takes(pair: Pair) -> None:
    """Fields that are missing, empty or out of place."""
    find_coordinator(pair)
    topic = create_topic(pair, pair.name("t"), 2)
    for version in served(pair):
        group = new_group(pair, f"g{version}")
        whole = {"rebalance_timeout_ms": REBALANCE_MS, "subscribed_topic_names": [topic], "owned": {}}
        for case, request in {
            "no group": beat("", "a", 0, **whole),
            "a blank group": beat("  ", "a", 0, **whole),
            "no member id": beat(group, "", 0, instance_id="", **whole),
            "no member id later": beat(group, "", 1),
            "no member id that leaves": beat(group, "", -1),
            "no member id that leaves for a while": beat(group, "", -2, instance_id="i"),
            "an empty instance": beat(group, "a", 0, instance_id="", **whole),
            "an empty rack": beat(group, "a", 0, rack_id=" ", **whole),
            "no time-out": beat(group, "a", 0, **{**whole, "rebalance_timeout_ms": -1}),
            "no partitions": beat(group, "a", 0, **{**whole, "owned": None}),
            "partitions": beat(group, "a", 0, **{**whole, "owned": {topic: [0]}}),
            "no topics": beat(group, "a", 0, **{**whole, "subscribed_topic_names": None}),
            "leaving for a while without an instance": beat(group, "a", -2),
            "an epoch below": beat(group, "a", -3),
            "an assignor": beat(group, "a", 0, server_assignor="sticky", **whole),
            "an assignor later": beat(group, "a", 1, server_assignor=""),
            "an unknown group": beat(group, "a", 1),
            "an unknown group that is left": beat(group, "a", -1),
            "an unknown group that is left for a while": beat(group, "a", -2, instance_id="i"),
        }.items():
            pair.case = case
            pair.ask(request, version)
        described(pair, group)


def test_a_member_alone(pair: Pair) -> None:
    """It joins, says more or less about itself, misses an answer, has wrong epochs, and leaves."""
    find_coordinator(pair)
    topic, other = create_topic(pair, pair.name("t"), 3), create_topic(pair, pair.name("u"), 1)
    for version in served(pair):
        group = new_group(pair, f"g{version}")
        pair.case = "joining"
        pair.ask(first(group, "a", [topic]), version, unordered=ANY_ORDER)
        pair.ask(beat(group, "a", 2, owned={}), version)
        described(pair, group)
        pair.ask(beat(group, "a", 2, owned={topic: [0, 1, 2]}), version)
        pair.ask(beat(group, "a", 2), version)
        pair.case = "everything"
        full = {"rebalance_timeout_ms": REBALANCE_MS, "subscribed_topic_names": [topic]}
        pair.ask(beat(group, "a", 2, owned={topic: [0, 1, 2]}, **full), version)
        pair.case = "wrong epochs"
        for epoch in (1, 3, 2**31 - 1):
            pair.ask(beat(group, "a", epoch), version)
        pair.case = "a stranger"
        pair.ask(beat(group, "b", 2), version)
        pair.ask(beat(group, "b", -1), version)
        pair.ask(beat(group, "b", -2, instance_id="i"), version)
        pair.ask(beat(group, "a", 2, instance_id="i"), version)
        pair.case = "more topics"
        pair.ask(beat(group, "a", 2, subscribed_topic_names=[topic, other]), version, unordered=ANY_ORDER)
        described(pair, group)
        pair.case = "a lost answer"
        pair.ask(beat(group, "a", 2), version)
        pair.ask(beat(group, "a", 2, owned={topic: [0, 1, 2, 3]}), version)
        pair.ask(beat(group, "a", 2, owned={topic: [0, 1, 2]}), version)
        pair.ask(beat(group, "a", 3, owned={topic: [0, 1, 2], other: [0]}), version)
        pair.case = "fewer topics"
        pair.ask(beat(group, "a", 3, subscribed_topic_names=[topic]), version, unordered=ANY_ORDER)
        described(pair, group)
        pair.ask(beat(group, "a", 3), version)
        pair.ask(beat(group, "a", 3, owned={topic: [0, 1, 2], other: [0]}), version)
        pair.ask(beat(group, "a", 3, owned={topic: [0, 1, 2]}), version)
        described(pair, group)
        pair.case = "an unknown topic"
        pair.ask(beat(group, "a", 4, subscribed_topic_names=[topic, pair.name("none")]), version, unordered=ANY_ORDER)
        described(pair, group)
        pair.case = "joining again"
        pair.ask(first(group, "a", [topic]), version, unordered=ANY_ORDER)
        pair.case = "leaving"
        pair.ask(beat(group, "a", -1), version)
        described(pair, group)
        pair.ask(beat(group, "a", -1), version)
        pair.ask(beat(group, "a", 5), version)
        pair.case = "coming back"
        pair.ask(first(group, "a", [topic]), version, unordered=ANY_ORDER)
        pair.ask(first(group, "a", []), version, unordered=ANY_ORDER)
        described(pair, group)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_two_members(pair: Pair, assignor: str) -> None:
    """The second one waits until the first one has revoked the partitions assigned to it."""
    find_coordinator(pair)
    topic = create_topic(pair, pair.name("t"), 2)
    for version in served(pair):
        group = new_group(pair, f"g{version}")
        pair.ask(first(group, "a", [topic], server_assignor=assignor), version)
        pair.case = "the second one joins"
        waits = {"erased": ("heartbeat_interval_ms",)}  # ours is asked to come back sooner while it waits
        pair.ask(first(group, "b", [topic], server_assignor=assignor), version, **waits)
        described(pair, group)
        pair.ask(beat(group, "b", 3, owned={}), version, **waits)
        pair.case = "the first one is asked to give up"
        pair.ask(beat(group, "a", 2), version)
        described(pair, group)
        pair.ask(beat(group, "a", 2), version)
        pair.ask(beat(group, "a", 2, owned={topic: [0, 1]}), version)
        pair.ask(beat(group, "b", 3, owned={}), version, **waits)
        pair.case = "it has given up"
        pair.ask(beat(group, "a", 2, owned={topic: [0]}), version)
        described(pair, group)
        pair.ask(beat(group, "b", 3, owned={}), version)
        described(pair, group)
        pair.case = "a third one joins"
        pair.ask(
            first(group, "c", [topic], server_assignor=assignor),
            version,
            erased=("heartbeat_interval_ms", "assignment"),
        )
        pair.case = "the first one leaves"
        pair.ask(beat(group, "a", -1), version)
        pair.ask(beat(group, "c", 4), version, erased=("heartbeat_interval_ms",))
        pair.ask(beat(group, "b", 3), version, erased=("heartbeat_interval_ms",))
        described(pair, group)


def test_static_members(pair: Pair) -> None:
    """A process that comes back has its partitions; two at a time do not share a name."""
    find_coordinator(pair)
    topic = create_topic(pair, pair.name("t"), 2)
    for version in served(pair):
        group = new_group(pair, f"g{version}")
        pair.ask(first(group, "a", [topic], instance_id="one"), version)
        pair.ask(beat(group, "a", 2, owned={topic: [0, 1]}, instance_id="one"), version)
        pair.ask(beat(group, "a", 2, owned={topic: [0, 1]}), version)
        pair.case = "another process"
        pair.ask(first(group, "b", [topic], instance_id="one"), version)
        pair.ask(beat(group, "b", 2, instance_id="one"), version)
        pair.ask(beat(group, "b", -1, instance_id="one"), version)
        pair.ask(beat(group, "b", -2, instance_id="one"), version)
        pair.ask(beat(group, "b", -2, instance_id="two"), version)
        pair.case = "leaving for a while"
        pair.ask(beat(group, "a", -2, instance_id="one"), version)
        described(pair, group)
        pair.ask(beat(group, "a", 2, instance_id="one"), version)
        pair.case = "coming back"
        pair.ask(first(group, "b", [topic], instance_id="one"), version)
        described(pair, group)
        pair.ask(beat(group, "a", 2, instance_id="one"), version)
        pair.ask(beat(group, "a", 2), version)
        pair.case = "coming back with other topics"
        pair.ask(beat(group, "b", -2, instance_id="one"), version)
        pair.ask(first(group, "c", [], instance_id="one"), version)
        described(pair, group)
        pair.case = "leaving"
        pair.ask(beat(group, "c", -1, instance_id="one"), version)
        described(pair, group)


def test_regular_expressions(pair: Pair) -> None:
    """They are resolved later than the answer; the group's epoch rises when topics were found."""
    find_coordinator(pair)
    create_topic(pair, pair.name("t.one"), 1)
    create_topic(pair, pair.name("t.two"), 2)
    pattern = pair.name("t") + ".*"
    for version in served(pair):
        if version < 1:
            continue
        group = new_group(pair, f"g{version}")
        for wrong in ("(", "a**", "(?=a)b", r"(a)\1"):
            pair.case = wrong
            pair.ask(first(group, "a", None, subscribed_topic_regex=wrong), version)
        pair.case = "an empty one"
        pair.ask(first(group, "a", None, subscribed_topic_regex=""), version)
        described(pair, group)
        pair.ask(beat(group, "a", 0, owned={}, rebalance_timeout_ms=1, subscribed_topic_names=[]), version)
        pair.case = "one that matches two topics"
        pair.ask(first(group, "b", None, subscribed_topic_regex=pattern), version, erased=("heartbeat_interval_ms",))
        request = ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
        pair.ask_until_equal(request, 1, unordered=ANY_ORDER)
        for server in pair.servers:  # the answer that has the partitions
            epoch = 0
            while True:
                server.send(
                    beat(group, "b", epoch, owned={})(server)
                    if epoch
                    else first(group, "b", None, subscribed_topic_regex=pattern)(server),
                    version,
                )
                told = server.receive(_response(), version).message
                epoch = told.member_epoch
                if told.assignment is not None and told.assignment.topic_partitions:
                    break
        described(pair, group)
        pair.case = "another member of the same"
        pair.ask(first(group, "c", None, subscribed_topic_regex=pattern), version, erased=("heartbeat_interval_ms",))
        pair.ask(beat(group, "b", -1), version)
        pair.ask(beat(group, "c", -1), version)
        described(pair, group)


def _response() -> Any:
    from chronik.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

    return ConsumerGroupHeartbeatResponse


def test_commits_of_members(pair: Pair) -> None:
    """With their epoch; with an older one, of partitions that they have had since; with a wrong one."""
    from tests.oracle.test_compat_committed import committed

    find_coordinator(pair)
    topic, other = create_topic(pair, pair.name("t"), 2), create_topic(pair, pair.name("u"), 1)
    for version in served(pair):
        group = new_group(pair, f"g{version}")
        pair.ask(first(group, "a", [topic]), version)
        pair.ask(beat(group, "a", 2, subscribed_topic_names=[topic, other]), version, unordered=ANY_ORDER)
        for at in (8, 9, 10):
            for epoch in (-1, 0, 1, 2, 3, 4):
                pair.case = f"commit v{at}, epoch {epoch}"
                pair.ask(commit(at, group, {topic: {0: (5, 0, "")}}, who="a", generation=epoch), at)
                pair.ask(
                    commit(at, group, {topic: {0: (5, 0, "")}, other: {0: (6, 0, "")}}, who="a", generation=epoch), at
                )
            pair.ask(commit(at, group, {topic: {0: (5, 0, "")}}), at)
            pair.ask(commit(at, group, {topic: {0: (5, 0, "")}}, who="b", generation=3), at)
        for at in (8, 9, 10):
            pair.case = f"fetch v{at}"
            pair.ask(committed(at, group, {topic: [0, 1]}), at, unordered=ANY_ORDER)
            if at > 8:
                pair.ask(committed(at, group, {topic: [0, 1]}, who="a"), at, unordered=ANY_ORDER)
                pair.ask(committed(at, group, {topic: [0, 1]}, who="b"), at, unordered=ANY_ORDER)
        pair.case = "the group is not empty"
        pair.ask(DeleteGroupsRequest(groups_names=[group]), 2)
        pair.ask(ListGroupsRequest(types_filter=["consumer"]), 5, unordered=ANY_ORDER)
        pair.ask(beat(group, "a", -1), version)
        pair.case = "the group is empty"
        pair.ask(commit(COMMIT, group, {topic: {0: (7, 0, "")}}), COMMIT)
        pair.ask(ListGroupsRequest(types_filter=["consumer"]), 5, unordered=ANY_ORDER)
        pair.ask(DeleteGroupsRequest(groups_names=[group]), 2)
        pair.ask(ListGroupsRequest(types_filter=["consumer"]), 5, unordered=ANY_ORDER)
        described(pair, group)


def test_a_classic_group_becomes_a_consumer_group_and_back(pair: Pair) -> None:
    """While it has both kinds of members, each is served with its own requests."""
    find_coordinator(pair)
    topic = create_topic(pair, pair.name("t"), 2)
    for version in served(pair):
        group = new_group(pair, f"g{version}")
        names = {"protocol_type": "consumer", "protocol_name": "range"}
        mine = (("range", subscription([topic])),)
        enter(pair, group, "old", JOIN, protocols=mine)
        pair.ask(sync(group, "old", 1, {"old": assignment({topic: [0, 1]})}, **names), SYNC)
        pair.case = "an epoch that does not join"
        pair.ask(beat(group, "new", 1), version)
        pair.ask(beat(group, "new", -1), version)
        pair.case = "upgrade"
        pair.ask(first(group, "new", [topic]), version, erased=("heartbeat_interval_ms",))
        described(pair, group)
        pair.case = "the classic member is asked to join again"
        pair.ask(heartbeat(group, "old", 1), HEARTBEAT)
        pair.ask(sync(group, "old", 1, **names), SYNC)
        pair.ask(beat(group, "old", 1), version)
        pair.ask(heartbeat(group, "new", 2), HEARTBEAT)
        has = (("range", subscription([topic], {topic: [0, 1]})),)
        pair.ask(join(group, "old", protocols=has), JOIN)
        pair.ask(sync(group, "old", 1, **names), SYNC)
        described(pair, group)
        pair.ask(heartbeat(group, "old", 1), HEARTBEAT)
        less = (("range", subscription([topic], {topic: [0]})),)
        pair.case = "it has given up"
        pair.ask(join(group, "old", protocols=less), JOIN)
        pair.ask(sync(group, "old", 2, protocol_type="connect", protocol_name="range"), SYNC)
        pair.ask(sync(group, "old", 2, protocol_type="consumer", protocol_name="sticky"), SYNC)
        pair.ask(sync(group, "old", 3, **names), SYNC)
        pair.ask(sync(group, "old", 2, **names), SYNC)
        pair.ask(heartbeat(group, "old", 2), HEARTBEAT)
        pair.ask(beat(group, "new", 2, owned={}), version)
        described(pair, group)
        pair.ask(commit(COMMIT, group, {topic: {0: (5, 0, "")}}, who="old", generation=2), COMMIT)
        pair.ask(commit(COMMIT, group, {topic: {0: (5, 0, "")}}, who="old", generation=3), COMMIT)
        pair.ask(commit(COMMIT, group, {topic: {1: (5, 0, "")}}, who="old", generation=1), COMMIT)
        pair.case = "another classic member"
        pair.ask(join(group, protocols=(("sticky", subscription([topic])),)), JOIN)
        pair.ask(join(group, kind="connect", protocols=mine), JOIN)
        keep(pair, "second", pair.ask(join(group, protocols=mine), JOIN))
        pair.ask(join(group, "second", protocols=mine), JOIN)
        pair.ask(leave(group, LEAVE, ("second", None), ("stranger", None)), LEAVE)
        pair.case = "downgrade"
        pair.ask(beat(group, "new", -1), version)
        pair.ask(ListGroupsRequest(), 5, unordered=ANY_ORDER)
        pair.ask(heartbeat(group, "old", 2), HEARTBEAT)
        described(pair, group)
        pair.ask(beat(group, "new", 2), version)
        pair.ask(join(group, "old", protocols=less), JOIN)
        pair.ask(DescribeGroupsRequest(groups=[group]), 6)
        pair.ask(leave(group, LEAVE, ("old", None)), LEAVE)
        pair.case = "an empty classic group"
        pair.ask(first(group, "new", [topic]), version)
        described(pair, group)
        pair.ask(beat(group, "new", -1), version)
        pair.case = "an empty consumer group"
        pair.ask(join(group, "old", protocols=mine), JOIN)
        enter(pair, group, "old", JOIN, protocols=mine)
        pair.ask(ListGroupsRequest(), 5, unordered=ANY_ORDER)
        pair.ask(leave(group, LEAVE, ("old", None)), LEAVE)


def test_groups_that_cannot_be_converted(pair: Pair) -> None:
    """Groups of other clients, and of assignors that only the clients know."""
    find_coordinator(pair)
    topic = create_topic(pair, pair.name("t"), 2)
    for version in served(pair):
        group = new_group(pair, f"connect{version}")
        enter(pair, group, "connect", JOIN, kind="connect", protocols=(("range", b""),))
        pair.ask(first(group, "new", [topic]), version)
        custom = new_group(pair, f"custom{version}")
        enter(pair, custom, "custom", JOIN, protocols=(("own", subscription([topic])),))
        data = assignment({topic: [0]})[:-4] + b"\x00\x00\x00\x01x"
        pair.ask(sync(custom, "custom", 1, {"custom": data}), 3)
        pair.ask(first(custom, "new", [topic]), version)
        for name in (group, custom):
            pair.ask(DescribeGroupsRequest(groups=[name]), 6)
