"""Topics: created, described, grown and deleted, with every way to get it wrong."""

from __future__ import annotations

import pytest

from chronik.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from chronik.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from chronik.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from chronik.wire.messages.describe_cluster import DescribeClusterRequest
from chronik.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from chronik.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from chronik.wire.notation import ZERO_UUID
from tests.oracle.asking import TIMEOUT_MS, create_topic, creation, wait_for_leaders
from tests.oracle.comparison import Pair, Server

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("compat")]


def test_creating_topics(pair: Pair) -> None:
    """The response for each topic in the request: codes, counts, and from v5 on the whole configuration."""
    for version in pair.versions(CreateTopicsRequest):
        name = pair.name(f"v{version}")
        topics = [
            creation(name, 3),
            creation(f"{name}-configured", 1, cleanup_policy="compact", segment_bytes="1048576"),
            creation(f"{name}-assigned", -1, -1),
            creation("", 1),
            creation(".", 1),
            creation("..", 1),
            creation("a/b", 1),
            creation("x" * 250, 1),
            creation(f"{name}-no-partitions", 0),
            creation(f"{name}-negative", -2),
            creation(f"{name}-no-replicas", 1, 0),
            creation(f"{name}-many-replicas", 1, 3),
            creation(f"{name}-unknown-key", 1, no_such_key="1"),
            creation(f"{name}-bad-value", 1, retention_ms="soon"),
            creation(f"{name}-null-value", 1, retention_ms=None),
            creation(f"{name}-bad-choice", 1, cleanup_policy="burn"),
        ]
        topics[2].assignments = [
            CreatableReplicaAssignment(partition_index=0, broker_ids=[1]),
            CreatableReplicaAssignment(partition_index=1, broker_ids=[1]),
        ]
        for topic in topics:
            pair.ask(CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS), version)
        pair.ask(CreateTopicsRequest(topics=[creation(name, 3)], timeout_ms=TIMEOUT_MS), version)  # exists
        if version >= 4:
            pair.ask(CreateTopicsRequest(topics=[creation(f"{name}-default", -1, -1)], timeout_ms=TIMEOUT_MS), version)
        pair.ask(CreateTopicsRequest(topics=[], timeout_ms=TIMEOUT_MS), version)


def test_creating_topics_with_strange_assignments(pair: Pair) -> None:
    """A chosen assignment has to be whole and possible."""
    cases: dict[str, list[tuple[int, list[int]]]] = {
        "gap": [(0, [1]), (2, [1])],
        "unknown-broker": [(0, [7])],
        "no-brokers": [(0, [])],
        "twice": [(0, [1, 1])],
        "double-index": [(0, [1]), (0, [1])],
        "uneven": [(0, [1]), (1, [1, 2])],
    }
    for version in pair.versions(CreateTopicsRequest)[-1:]:
        for case, assigned in cases.items():
            topic = CreatableTopic(
                name=pair.name(case),
                num_partitions=-1,
                replication_factor=-1,
                assignments=[CreatableReplicaAssignment(partition_index=i, broker_ids=b) for i, b in assigned],
                configs=[],
            )
            pair.ask(CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS), version)
        both = creation(pair.name("both"), 2, 1)
        both.assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=[1])]
        pair.ask(CreateTopicsRequest(topics=[both], timeout_ms=TIMEOUT_MS), version)


def test_creating_topics_in_one_request(pair: Pair) -> None:
    """Topics of one request fail alone, one that is named twice fails as a whole; a trial makes nothing."""
    for version in pair.versions(CreateTopicsRequest, first=1):
        a, b = pair.name(f"a{version}"), pair.name(f"b{version}")
        several = [creation(a), creation("bad/name"), creation(b)]
        dry = CreateTopicsRequest(topics=several, timeout_ms=TIMEOUT_MS, validate_only=True)
        pair.ask(dry, version, unordered=("topics",))
        real = CreateTopicsRequest(topics=several, timeout_ms=TIMEOUT_MS)
        pair.ask(real, version, unordered=("topics",))
        pair.ask(real, version, unordered=("topics",))
        twice = [creation(pair.name(f"c{version}")), creation(pair.name(f"c{version}"), 2)]
        pair.ask(CreateTopicsRequest(topics=twice, timeout_ms=TIMEOUT_MS), version)


def test_metadata(pair: Pair) -> None:
    """Brokers, topics and partitions: the answer on which every client builds."""
    name = create_topic(pair, pair.name("known"), 3)
    unknown = pair.name("unknown")
    for version in pair.versions(MetadataRequest):
        flags = (
            {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": version <= 10}
            if version >= 8
            else {}
        )
        may_create = version < 4

        def asked(*names: str, version: int = version, **more: bool) -> MetadataRequest:
            more = {"allow_auto_topic_creation": False, **more} if version >= 4 else more
            return MetadataRequest(topics=[MetadataRequestTopic(name=each) for each in names], **more)

        pair.ask(asked(name, **flags), version)
        pair.ask(asked(name), version)
        pair.ask(asked("bad/name"), version)
        pair.ask(asked(name, name), version)
        if not may_create:
            pair.ask(asked(name, unknown), version, unordered=("topics",))
            pair.ask(asked(unknown), version)
        if version >= 1:
            pair.ask(asked(), version)


def test_metadata_by_id(pair: Pair) -> None:
    """From v12 on, a request may name a topic by its id alone."""
    name = create_topic(pair, pair.name("known"), 2)
    for version in pair.versions(MetadataRequest, first=10):
        by_id = [MetadataRequestTopic(topic_id=ZERO_UUID, name=None)]
        pair.ask(
            lambda server: MetadataRequest(topics=[MetadataRequestTopic(topic_id=server.topic_ids[name], name=None)]),
            version,
        )
        stranger = MetadataRequestTopic(topic_id=b"\x07" * 16, name=None)
        pair.ask(MetadataRequest(topics=[stranger]), version)
        if version >= 12:
            nobody = MetadataRequest(topics=by_id, allow_auto_topic_creation=False)
            pair.ask(nobody, version, differs="metadata-of-nothing")


def test_topics_that_metadata_creates(pair: Pair) -> None:
    """A request for a topic creates it; the client learns of the leader in this response or a later one."""
    for version in pair.versions(MetadataRequest):
        name = pair.name(f"auto{version}")
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        pair.ask(request, version, differs="auto-create-at-once")
        for server in pair.servers:
            wait_for_leaders(server, name)
        pair.ask(request, version)


def test_describe_topic_partitions(pair: Pair) -> None:
    """Partitions by pages: order, limits and cursors."""
    first, second = create_topic(pair, pair.name("a"), 3), create_topic(pair, pair.name("b"), 4)
    names = [TopicRequest(name=second), TopicRequest(name=first), TopicRequest(name=pair.name("unknown"))]
    for version in pair.versions(DescribeTopicPartitionsRequest):
        for limit in (2000, 1, 2, 3, 4, 7):
            pair.ask(DescribeTopicPartitionsRequest(topics=names, response_partition_limit=limit), version)
        for topic, index in ((first, 2), (second, 0), (second, 3), (pair.name("aa"), 0), (second, 9), (first, -1)):
            cursor = Cursor(topic_name=topic, partition_index=index)
            pair.ask(DescribeTopicPartitionsRequest(topics=names, response_partition_limit=3, cursor=cursor), version)
        pair.ask(DescribeTopicPartitionsRequest(topics=[TopicRequest(name="bad/name")]), version)
        pair.ask(DescribeTopicPartitionsRequest(topics=names, response_partition_limit=0), version)


def test_creating_partitions(pair: Pair) -> None:
    """A topic may grow, never shrink."""
    for version in pair.versions(CreatePartitionsRequest):
        name = create_topic(pair, pair.name(f"v{version}"), 2)

        def grow(
            count: int,
            topic: str = name,
            *,
            chosen: list[list[int]] | None = None,
            dry: bool = False,
            version: int = version,
        ) -> None:
            assignments = None if chosen is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in chosen]
            asked = CreatePartitionsTopic(name=topic, count=count, assignments=assignments)
            pair.ask(CreatePartitionsRequest(topics=[asked], timeout_ms=TIMEOUT_MS, validate_only=dry), version)

        grow(5, dry=True)
        for count in (3, 3, 2, 1, 0, -1):
            grow(count)
        grow(4, pair.name("unknown"))
        grow(4, chosen=[[1]])
        grow(6, chosen=[[1]])
        grow(5, chosen=[[7]])
        grow(5, chosen=[[]])
        grow(5, chosen=[[1, 1]])
        grow(5, "bad/name")
        twice = [CreatePartitionsTopic(name=name, count=9, assignments=None) for _ in range(2)]
        pair.ask(CreatePartitionsRequest(topics=twice, timeout_ms=TIMEOUT_MS, validate_only=False), version)
        pair.ask_until_equal(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 4)


def test_deleting_topics(pair: Pair) -> None:
    """Gone is gone, by name and by id."""
    for version in pair.versions(DeleteTopicsRequest):
        name = create_topic(pair, pair.name(f"v{version}"))
        if version < 6:
            for names in ([name], [name], ["bad/name"], [""], []):
                pair.ask(DeleteTopicsRequest(topic_names=names, timeout_ms=TIMEOUT_MS), version)
            continue
        by_id = create_topic(pair, pair.name(f"id{version}"))

        ids = {each: each.topic_ids[by_id] for each in pair.servers}
        nobody = dict.fromkeys(pair.servers, ZERO_UUID)
        stranger = dict.fromkeys(pair.servers, b"\x09" * 16)

        def delete(name: str | None, topic_ids: dict[Server, bytes], version: int = version) -> None:
            def request(server: Server) -> DeleteTopicsRequest:
                state = DeleteTopicState(name=name, topic_id=topic_ids[server])
                return DeleteTopicsRequest(topics=[state], timeout_ms=TIMEOUT_MS)

            pair.ask(request, version)

        delete(name, nobody)
        delete(name, nobody)
        delete(None, ids)
        delete(None, ids)
        delete(None, nobody)
        delete(name, stranger)
        delete(None, stranger)


def test_describe_cluster(pair: Pair) -> None:
    """The brokers of the cluster, and the authorized operations."""
    for version in pair.versions(DescribeClusterRequest):
        for operations in (False, True):
            pair.ask(DescribeClusterRequest(include_cluster_authorized_operations=operations), version)
        if version >= 1:
            for endpoint in (2, 3):
                pair.ask(
                    DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=endpoint), version
                )
