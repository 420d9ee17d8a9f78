"""Share groups (KIP-932): members that join, share partitions, get it wrong and leave; operators who move the group.

Partitions get their state in the background, so a scenario waits for that before it goes on. Kafka computes a target at
most once in share.assignment.interval.ms, so the groups of these scenarios set it to 0.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from chronik.metadata.image import ResourceType
from chronik.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from chronik.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from chronik.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from chronik.wire.messages.delete_groups import DeleteGroupsRequest
from chronik.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from chronik.wire.messages.describe_groups import DescribeGroupsRequest
from chronik.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
)
from chronik.wire.messages.find_coordinator import FindCoordinatorRequest
from chronik.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from chronik.wire.messages.list_groups import ListGroupsRequest
from chronik.wire.messages.share_group_describe import ShareGroupDescribeRequest
from chronik.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.oracle.asking import batch, create_topic, find_coordinator, produce_all
from tests.oracle.comparison import Pair, Server
from tests.oracle.test_compat_committed import commit, committed
from tests.oracle.test_compat_groups import heartbeat, join, leave, member, sync

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("compat")]

ANY_ORDER = ("members", "topic_partitions", "groups", "subscribed_topic_names", "topics", "partitions", "responses")
# Ours is asked to come back sooner while it waits.
SOONER: dict[str, Any] = {"erased": ("heartbeat_interval_ms",), "unordered": ANY_ORDER}
PATIENCE_S = 60
BEAT, DESCRIBE = 1, 1  # the only versions


def beat(group: str, who: str, epoch: int, *topics: str, **more: Any) -> Callable[[Server], ShareGroupHeartbeatRequest]:
    def request(server: Server) -> ShareGroupHeartbeatRequest:
        return ShareGroupHeartbeatRequest(
            group_id=group,
            member_id=member(server, who),
            member_epoch=epoch,
            subscribed_topic_names=list(topics) or None,
            **more,
        )

    return request


def new_group(pair: Pair, suffix: str) -> str:
    group = pair.name(suffix)
    config = AlterableConfig(name="share.assignment.interval.ms", config_operation=0, value="0")
    resource = AlterConfigsResource(resource_type=ResourceType.GROUP, resource_name=group, configs=[config])
    pair.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
    return group


def require_share_groups(pair: Pair) -> None:
    if not pair.versions(ShareGroupHeartbeatRequest):
        pytest.skip("this Kafka has no share groups")


def described(pair: Pair, *groups: str) -> None:
    request = ShareGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=True)
    pair.ask(request, DESCRIBE, unordered=ANY_ORDER)


def offsets(group: str, topics: Mapping[str, Sequence[int]] | None = None) -> DescribeShareGroupOffsetsRequest:
    asked = topics and [
        DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=list(parts)) for name, parts in topics.items()
    ]
    return DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=asked)]  # type: ignore[arg-type]
    )


def has_state(pair: Pair, group: str, count: int) -> None:
    """Waits until so many partitions of the group have state, on both servers."""
    for server in pair.servers:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            server.send(offsets(group), 1)
            answer = server.receive(DescribeShareGroupOffsetsResponse, 1).message
            if sum(len(topic.partitions) for topic in answer.groups[0].topics) == count:
                break
            time.sleep(0.05)
        else:
            pytest.fail(f"{server.name}: {group} has no state of {count} partitions: {answer}")


def joined(pair: Pair, group: str, topics: Sequence[str], count: int, who: str = "a", epoch: int = 0) -> None:
    pair.ask(beat(group, who, epoch, *topics), BEAT, **SOONER)
    has_state(pair, group, count)


def alter(group: str, topics: Mapping[str, Mapping[int, int]]) -> AlterShareGroupOffsetsRequest:
    return AlterShareGroupOffsetsRequest(
        group_id=group,
        topics=[
            AlterShareGroupOffsetsRequestTopic(
                topic_name=name,
                partitions=[
                    AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
                    for index, offset in wanted.items()
                ],
            )
            for name, wanted in topics.items()
        ],
    )


def forget(group: str, *topics: str) -> DeleteShareGroupOffsetsRequest:
    asked = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics]
    return DeleteShareGroupOffsetsRequest(group_id=group, topics=asked)


def test_requests_that_no_share_group_takes(pair: Pair) -> None:
    """Fields that are missing, empty or out of place."""
    require_share_groups(pair)
    find_coordinator(pair)
    topic = create_topic(pair, pair.name("t"), 2)
    group = new_group(pair, "g")
    for case, request in {
        "no group": beat("", "a", 0, topic),
        "a blank group": beat("  ", "a", 0, topic),
        "no member id": ShareGroupHeartbeatRequest(
            group_id=group, member_id="", member_epoch=0, subscribed_topic_names=[topic]
        ),
        "a long member id": ShareGroupHeartbeatRequest(
            group_id=group, member_id="m" * 37, member_epoch=0, subscribed_topic_names=[topic]
        ),
        "an empty rack": beat(group, "a", 0, topic, rack_id=" "),
        "no topics": beat(group, "a", 0),
        "an empty list of topics": ShareGroupHeartbeatRequest(
            group_id=group, member_id="m", member_epoch=0, subscribed_topic_names=[]
        ),
        "an epoch below": beat(group, "a", -2, topic),
        "an unknown group": beat(group, "a", 1, topic),
        "an unknown group that is left": beat(group, "a", -1),
    }.items():
        pair.case = case
        pair.ask(request, BEAT)
    described(pair, group, "")


def test_a_member_alone(pair: Pair) -> None:
    """It joins, gets partitions once these have state, has wrong epochs, changes its topics, and leaves."""
    require_share_groups(pair)
    find_coordinator(pair)
    topic, other = create_topic(pair, pair.name("t"), 3), create_topic(pair, pair.name("u"), 1)
    group = new_group(pair, "g")
    joined(pair, group, [topic], 3)
    described(pair, group)
    pair.ask(beat(group, "a", 2), BEAT, **SOONER)
    pair.ask(beat(group, "a", 3), BEAT)
    described(pair, group)
    pair.case = "a lost answer"
    pair.ask(beat(group, "a", 2), BEAT)
    pair.case = "wrong epochs"
    for epoch in (1, 4, 2**31 - 1):
        pair.ask(beat(group, "a", epoch), BEAT)
    pair.case = "a stranger"
    pair.ask(beat(group, "b", 3), BEAT)
    pair.ask(beat(group, "b", -1), BEAT)
    pair.case = "more topics"
    pair.ask(beat(group, "a", 3, topic, other), BEAT, **SOONER)
    has_state(pair, group, 4)
    pair.ask(beat(group, "a", 4), BEAT, **SOONER)
    described(pair, group)
    pair.case = "fewer topics"
    pair.ask(beat(group, "a", 5, other), BEAT, **SOONER)
    described(pair, group)
    pair.case = "an unknown topic"
    pair.ask(beat(group, "a", 6, other, pair.name("none")), BEAT, **SOONER)
    described(pair, group)
    pair.case = "everything again"
    pair.ask(beat(group, "a", 7, other, pair.name("none"), rack_id="r"), BEAT, **SOONER)
    pair.ask(beat(group, "a", 0, other), BEAT, **SOONER)
    described(pair, group)
    pair.case = "leaving"
    pair.ask(beat(group, "a", -1), BEAT)
    described(pair, group)
    pair.ask(beat(group, "a", -1), BEAT)
    pair.ask(beat(group, "a", 8), BEAT)
    pair.case = "coming back"
    pair.ask(beat(group, "a", 0, other), BEAT, **SOONER)
    described(pair, group)


def test_members_share_partitions(pair: Pair) -> None:
    """Of one partition, and of a partition less than there are members: who gets which is compared by numbers."""
    require_share_groups(pair)
    find_coordinator(pair)
    topic = create_topic(pair, pair.name("t"), 1)
    group = new_group(pair, "g")
    joined(pair, group, [topic], 1)
    pair.ask(beat(group, "a", 2), BEAT, **SOONER)
    pair.ask(beat(group, "b", 0, topic), BEAT, **SOONER)
    pair.ask(beat(group, "c", 0, topic), BEAT, **SOONER)
    described(pair, group)
    pair.ask(beat(group, "a", 3), BEAT)
    pair.ask(beat(group, "b", 4), BEAT)
    described(pair, group)
    pair.case = "one leaves"
    pair.ask(beat(group, "b", -1), BEAT)
    pair.ask(beat(group, "a", 5), BEAT)
    described(pair, group)


def test_where_a_group_is(pair: Pair) -> None:
    """Operators see it, move it and forget it, and are refused while it has members."""
    require_share_groups(pair)
    find_coordinator(pair)
    topic, other = create_topic(pair, pair.name("t"), 2), create_topic(pair, pair.name("u"), 1)
    produce_all(pair, topic, [batch(3)])
    group, none = new_group(pair, "g"), pair.name("none")
    versions = pair.versions(DescribeShareGroupOffsetsRequest)

    def asked() -> None:
        for version in versions:
            for topics in (None, {}, {topic: [0, 1]}, {other: [0], none: [0, 5]}):
                pair.ask(offsets(group, topics), version, unordered=ANY_ORDER)

    pair.case = "before the group exists"
    asked()
    pair.ask(forget(group, topic), 0)
    pair.ask(forget("", topic), 0)
    pair.ask(alter("", {topic: {0: 1}}), 0)
    pair.case = "altering makes it"
    pair.ask(alter(group, {none: {0: 1}}), 0)
    pair.ask(alter(group, {topic: {0: 1, 7: 1}, none: {0: 1}}), 0, unordered=ANY_ORDER)
    asked()
    described(pair, group)
    listed = pair.do(ListGroupsRequest(types_filter=["share"], states_filter=["Empty"]), 5)
    kafkas, ours = ([each for each in answer.groups if each.group_id == group] for answer in listed)
    assert kafkas == ours != []
    pair.case = "with members"
    joined(pair, group, [topic], 2)
    pair.ask(beat(group, "a", 2), BEAT, **SOONER)
    asked()
    pair.ask(alter(group, {topic: {0: 2}}), 0)
    pair.ask(forget(group, topic), 0)
    pair.ask(DeleteGroupsRequest(groups_names=[group]), 2)
    pair.case = "without members again"
    pair.ask(beat(group, "a", -1), BEAT)
    pair.ask(alter(group, {topic: {0: 2, 1: 0}}), 0, unordered=ANY_ORDER)
    asked()
    pair.ask(forget(group, other, none), 0, unordered=ANY_ORDER)
    pair.ask(forget(group, topic), 0)
    asked()
    pair.ask(forget(group, topic), 0)
    pair.ask(DeleteGroupsRequest(groups_names=[group]), 2)
    described(pair, group)
    pair.ask(DeleteGroupsRequest(groups_names=[group]), 2)


def test_groups_of_other_kinds(pair: Pair) -> None:
    """A name belongs to one kind of group: requests of the others are refused."""
    require_share_groups(pair)
    find_coordinator(pair)
    topic = create_topic(pair, pair.name("t"), 1)
    shared, consumers, classic = new_group(pair, "s"), pair.name("c"), pair.name("k")
    joined(pair, shared, [topic], 1)
    pair.case = "a consumer in a share group"
    consumer: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "topic_partitions": []}
    for group in (shared, consumers):
        request = ConsumerGroupHeartbeatRequest(
            group_id=group, member_id="m", member_epoch=0, subscribed_topic_names=[topic], **consumer
        )
        pair.ask(request, 1)
    pair.case = "a classic member in a share group"
    pair.ask(join(shared), 9)
    pair.ask(sync(shared, "x", 1, protocol_type="consumer", protocol_name="range"), 5)
    pair.ask(heartbeat(shared, "x", 1), 4)
    pair.ask(leave(shared, 5, ("x", None)), 5)
    pair.ask(commit(9, shared, {topic: {0: (1, -1, "")}}), 9)
    pair.ask(committed(9, shared, {topic: [0]}), 9)
    pair.case = "described as another kind"
    pair.ask(ConsumerGroupDescribeRequest(group_ids=[shared], include_authorized_operations=False), 1)
    pair.ask(DescribeGroupsRequest(groups=[shared]), 6)
    pair.case = "a share member in groups of other kinds"
    pair.ask(commit(9, classic, {topic: {0: (1, -1, "")}}), 9)
    for group in (consumers, classic):
        pair.ask(beat(group, "a", 0, topic), BEAT)
        pair.ask(beat(group, "a", 1), BEAT)
        pair.ask(alter(group, {topic: {0: 1}}), 0)
        pair.ask(forget(group, topic), 0)
        described(pair, group)


def test_coordinators_of_share_partitions(pair: Pair) -> None:
    """Only the key of a share partition has one."""
    require_share_groups(pair)
    find_coordinator(pair)
    for key in (
        "g:AAAAAAAAAAAAAAAAAAAAAQ:0",
        "g",
        "g:x:0",
        ":AAAAAAAAAAAAAAAAAAAAAQ:0",
        "a:b:AAAAAAAAAAAAAAAAAAAAAQ:0",
    ):
        for version in (4, 5, 6):
            pair.case = f"{key} v{version}"
            pair.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), version)
