"""Short ways to write the requests of scenarios: one topic, one partition, Kafka's usual values for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chronik.wire.batches import build
from chronik.wire.compression import Codec
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from chronik.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from chronik.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from chronik.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from chronik.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from chronik.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from chronik.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from chronik.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from chronik.wire.notation import ZERO_UUID
from chronik.wire.records import Record
from tests.oracle.comparison import Pair, Server

TIME_MS = 1_600_000_000_000  # of records: long ago, and the same everywhere
TIMEOUT_MS = 30_000
GROUPS_ASKED = 32  # enough to reach every partition of __consumer_offsets


def creation(name: str, partitions: int = 1, replicas: int = 1, **configs: str | None) -> CreatableTopic:
    """`segment_bytes="1024"` is segment.bytes."""
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[],
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


def create_topic(pair: Pair, name: str, partitions: int = 1, **configs: str | None) -> str:
    """On both servers, whose ids for it are kept."""
    request = CreateTopicsRequest(topics=[creation(name, partitions, **configs)], timeout_ms=TIMEOUT_MS)
    for server, answer in zip(pair.servers, pair.do(request, 7), strict=True):
        (topic,) = answer.topics
        assert topic.error_code == 0, f"{server.name} did not create {name}: {topic.error_message}"
        server.topic_ids[name] = topic.topic_id
        server.names.of("topic", topic.topic_id)
    for server in pair.servers:
        wait_for_leaders(server, name)
    return name


def wait_for_leaders(server: Server, name: str) -> None:
    """Kafka answers the creation before its broker leads: asked until it does, however long that takes."""
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    while True:
        server.send(asked, 4)
        (topic,) = server.receive(MetadataResponse, 4).message.topics
        partitions = topic.partitions
        if not topic.error_code and all(p.leader_id >= 0 and not p.error_code for p in partitions):
            wanted = [ListOffsetsPartition(partition_index=p.partition_index, timestamp=-2) for p in partitions]
            server.send(ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=wanted)]), 3)
            answer = server.receive(ListOffsetsResponse, 3).message
            if not any(p.error_code for t in answer.topics for p in t.partitions):
                return


def find_coordinator(pair: Pair) -> None:
    """Until both serve groups: the first question makes Kafka create __consumer_offsets, and load it later."""
    loading = (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
    for server in pair.servers:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        while error:
            server.send(FindCoordinatorRequest(key=pair.name("g"), key_type=0), 2)
            error = server.receive(FindCoordinatorResponse, 2).message.error_code
        # Groups are spread over the topic's partitions: each of them has to be there.
        for index in range(GROUPS_ASKED):
            error = loading[0]
            while error in loading:
                server.send(HeartbeatRequest(group_id=f"nobody {index}", generation_id=1, member_id="x"), 1)
                error = server.receive(HeartbeatResponse, 1).message.error_code


def records(
    count: int, *, first: int = 0, size: int = 10, time_ms: int = TIME_MS, key: bytes | None = b"k"
) -> list[Record]:
    return [
        Record(index, time_ms + first + index, key, b"%06d" % (first + index) + b"x" * size) for index in range(count)
    ]


def batch(count: int = 1, codec: Codec = Codec.NONE, *, first: int = 0, size: int = 10, **more: Any) -> bytes:
    return build(records(count, first=first, size=size), codec, **more)


def produce(
    topic: str, data: bytes | None, *, partition: int = 0, acks: int = -1, topic_id: bytes = ZERO_UUID
) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=TIMEOUT_MS,
        topic_data=[
            TopicProduceData(
                name=topic, topic_id=topic_id, partition_data=[PartitionProduceData(index=partition, records=data)]
            )
        ],
    )


def begin_producer(pair: Pair) -> None:
    """Each server's `kept["producer"]` is the id it gave out; a Kafka that has just started may have none yet."""
    for server in pair.servers:
        while True:
            server.send(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), 1)
            answer = server.receive(InitProducerIdResponse, 1).message
            if answer.error_code == 0:
                break
        server.kept["producer"] = answer.producer_id


def produce_all(pair: Pair, topic: str, batches: Sequence[bytes], *, partition: int = 0) -> None:
    """The set-up of a scenario that reads."""
    for data in batches:
        for answer in pair.do(produce(topic, data, partition=partition), 8):
            assert answer.responses[0].partition_responses[0].error_code == 0


def fetch(
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    topic_id: bytes = ZERO_UUID,
    bytes_max: int = 1 << 20,
    partition_bytes_max: int = 1 << 20,
    max_wait_ms: int = 0,
    min_bytes: int = 0,
    isolation: int = 0,
    session: tuple[int, int] = (0, -1),
    leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    topics: list[FetchTopic] | None = None,
    **more: Any,
) -> FetchRequest:
    wanted = FetchPartition(
        partition=partition,
        fetch_offset=offset,
        partition_max_bytes=partition_bytes_max,
        current_leader_epoch=leader_epoch,
        last_fetched_epoch=last_fetched_epoch,
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=bytes_max,
        isolation_level=isolation,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic=topic, topic_id=topic_id, partitions=[wanted])] if topics is None else topics,
        **more,
    )
