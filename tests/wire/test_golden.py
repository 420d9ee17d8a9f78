"""Fixed bytes, written by Kafka's own classes and stored in golden_messages.txt, compared with their values.

Other comparisons generate their instances; these bytes are constant. They need no JVM, and a reader can compare a
message in all its versions. One value serves all versions: a version omits the fields that it does not have.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from chronik.wire.compiler import decode, encode
from chronik.wire.errors import MalformedMessage
from chronik.wire.headers import RequestHeader, ResponseHeader
from chronik.wire.messages import fetch
from chronik.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from chronik.wire.messages.consumer_protocol import ConsumerProtocolSubscription, TopicPartition
from chronik.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from chronik.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from chronik.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue
from chronik.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from chronik.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from chronik.wire.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from chronik.wire.notation import Struct, Versions
from tests.oracle.kafka_schemas import RELEASES, kafka_message
from tests.oracle.message_oracle import MessageOracle, Question
from tests.wire.instances import layout, seen_at, to_json

if TYPE_CHECKING:
    from collections.abc import Iterator

ORDERS = bytes.fromhex("0123456789abcdef0123456789abcdef")  # a topic id
DIRECTORY = bytes(15) + b"\x07"

ONE_PRODUCED_PARTITION = ProduceResponse(
    responses=[
        TopicProduceResponse(
            name="test-topic",
            topic_id=ORDERS,
            partition_responses=[
                PartitionProduceResponse(
                    index=0,
                    error_code=0,
                    base_offset=7,
                    log_start_offset=0,
                    current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=5),
                )
            ],
        )
    ],
    throttle_time_ms=0,
    node_endpoints=[NodeEndpoint(node_id=2, host="b2", port=9092)],
)
ONE_BATCH = ProduceRequest(
    acks=-1,
    timeout_ms=1500,
    topic_data=[
        TopicProduceData(
            name="test-topic",
            topic_id=ORDERS,
            partition_data=[PartitionProduceData(index=0, records=b"records")],
        )
    ],
)
WHO_ASKS = ApiVersionsRequest(client_software_name="chronik", client_software_version="1.0")
TWO_APIS = ApiVersionsResponse(
    error_code=0,
    api_keys=[
        ApiVersion(api_key=0, min_version=0, max_version=13),
        ApiVersion(api_key=18, min_version=0, max_version=4),
    ],
    throttle_time_ms=100,
    supported_features=[SupportedFeatureKey(name="group.version", min_version=0, max_version=1)],
    finalized_features_epoch=9,
    finalized_features=[FinalizedFeatureKey(name="group.version", max_version_level=1, min_version_level=1)],
)
ONE_TOPIC_WANTED = MetadataRequest(
    topics=[MetadataRequestTopic(topic_id=ORDERS, name="orders")],
    allow_auto_topic_creation=False,
    include_cluster_authorized_operations=True,
    include_topic_authorized_operations=True,
)
ONE_TOPIC_ON_ONE_BROKER = MetadataResponse(
    throttle_time_ms=100,
    brokers=[MetadataResponseBroker(node_id=1, host="b1", port=9092, rack="r1")],
    cluster_id="C",
    controller_id=1,
    topics=[
        MetadataResponseTopic(
            error_code=0,
            name="orders",
            topic_id=ORDERS,
            partitions=[
                MetadataResponsePartition(
                    error_code=5,
                    partition_index=3,
                    leader_id=-1,
                    leader_epoch=8,
                    replica_nodes=[1, 2],
                    isr_nodes=[2],
                    offline_replicas=[1],
                )
            ],
            topic_authorized_operations=0x0DF8,
        )
    ],
    cluster_authorized_operations=0x0FF0,
    error_code=0,
)
ONE_PARTITION_WANTED = FetchRequest(
    cluster_id="C",
    replica_id=2,
    replica_state=ReplicaState(replica_id=2, replica_epoch=6),
    max_wait_ms=500,
    min_bytes=1,
    max_bytes=1 << 20,
    isolation_level=1,
    session_id=11,
    session_epoch=12,
    topics=[
        FetchTopic(
            topic="orders",
            topic_id=ORDERS,
            partitions=[
                FetchPartition(
                    partition=3,
                    current_leader_epoch=8,
                    fetch_offset=42,
                    last_fetched_epoch=7,
                    log_start_offset=40,
                    partition_max_bytes=4096,
                    replica_directory_id=DIRECTORY,
                    high_watermark=41,
                )
            ],
        )
    ],
    forgotten_topics_data=[ForgottenTopic(topic="old", topic_id=DIRECTORY, partitions=[0])],
    rack_id="r1",
)
ONE_FETCHED_PARTITION = FetchResponse(
    throttle_time_ms=100,
    error_code=0,
    session_id=11,
    responses=[
        FetchableTopicResponse(
            topic="orders",
            topic_id=ORDERS,
            partitions=[
                PartitionData(
                    partition_index=3,
                    error_code=6,
                    high_watermark=50,
                    last_stable_offset=49,
                    log_start_offset=40,
                    diverging_epoch=EpochEndOffset(epoch=7, end_offset=45),
                    current_leader=fetch.LeaderIdAndEpoch(leader_id=2, leader_epoch=9),
                    aborted_transactions=[AbortedTransaction(producer_id=1000, first_offset=44)],
                    preferred_read_replica=2,
                    records=b"records",
                )
            ],
        )
    ],
    node_endpoints=[fetch.NodeEndpoint(node_id=2, host="b2", port=9092, rack="r2")],
)
WHO_COORDINATES = FindCoordinatorRequest(key="tx", key_type=1, coordinator_keys=["tx", "ty"])
BROKER_2_COORDINATES = FindCoordinatorResponse(
    throttle_time_ms=100,
    error_code=0,
    error_message=None,
    node_id=2,
    host="b2",
    port=9092,
    coordinators=[Coordinator(key="tx", node_id=2, host="b2", port=9092, error_code=0, error_message=None)],
)
JOINING = JoinGroupRequest(
    group_id="g",
    session_timeout_ms=10_000,
    rebalance_timeout_ms=60_000,
    member_id="m-1",
    group_instance_id="i",
    protocol_type="consumer",
    protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\x00\x01")],
    reason="first",
)
JOINED = JoinGroupResponse(
    throttle_time_ms=100,
    error_code=0,
    generation_id=4,
    protocol_type="consumer",
    protocol_name="range",
    leader="m-1",
    skip_assignment=True,
    member_id="m-1",
    members=[JoinGroupResponseMember(member_id="m-1", group_instance_id="i", metadata=b"\x00\x01")],
)
COMMITTED_KEY = OffsetCommitKey(group="g", topic="orders", partition=3)
COMMITTED = OffsetCommitValue(
    offset=42, leader_epoch=8, metadata="", commit_timestamp=1_700_000_000_000, expire_timestamp=-1, topic_id=ORDERS
)
OLD_SUBSCRIPTION = ConsumerProtocolSubscription(
    topics=["orders"],
    user_data=None,
    owned_partitions=[TopicPartition(topic="orders", partitions=[3])],
    generation_id=4,
    rack_id="r1",
)
ASKED = RequestHeader(request_api_key=18, request_api_version=3, correlation_id=77, client_id="c")
ANSWERED = ResponseHeader(correlation_id=77)
VALUES = {type(value).__name__: value for value in list(globals().values()) if isinstance(value, Struct)}


class Golden(NamedTuple):
    message: str
    version: int
    data: bytes

    def __str__(self) -> str:
        return f"{self.message}-v{self.version}"


def read_golden() -> Iterator[Golden]:
    text = re.sub(r"#.*", "", Path(__file__).with_name("golden_messages.txt").read_text())
    for message, versions, data in re.findall(r"^(\w+) v(\S+)\n((?: .*\n?)*)", text, flags=re.MULTILINE):
        for version in Versions.parse(versions):
            yield Golden(message, version, bytes.fromhex(data))


GOLDEN = list(read_golden())
# Versions that a release has without a tagged field which the next one gave to them.
WITHOUT_TAGS_THAT_CAME_LATER = {("3.9.1", "OffsetCommitValue", 4)}
for_each_golden = pytest.mark.parametrize("golden", GOLDEN, ids=str)


@for_each_golden
def test_golden_bytes_are_what_we_write_and_read(golden: Golden) -> None:
    """Whatever is changed in the compiler or a schema, these must not change."""
    value = VALUES[golden.message]
    shape = layout(type(value), golden.version)
    assert encode(value, golden.version).hex() == golden.data.hex()
    assert decode(type(value), golden.version, golden.data) == seen_at(shape, value)


@for_each_golden
def test_golden_bytes_that_end_early_or_late_are_refused(golden: Golden) -> None:
    """A message is whole or it is malformed; half of one must never pass for a smaller one."""
    message = type(VALUES[golden.message])
    for size in range(len(golden.data)):
        with pytest.raises(MalformedMessage):
            decode(message, golden.version, golden.data[:size])
    with pytest.raises(MalformedMessage, match="1 bytes too many"):
        decode(message, golden.version, golden.data + b"\0")


def test_every_version_of_what_a_client_asks_first_is_golden() -> None:
    """Without these two no client gets as far as another request."""
    covered = {(golden.message, golden.version) for golden in GOLDEN}
    assert {(f"ApiVersions{kind}", version) for kind in ("Request", "Response") for version in range(5)} <= covered
    assert {(f"Metadata{kind}", version) for kind in ("Request", "Response") for version in range(14)} <= covered
    assert {message for message, _ in covered} == set(VALUES)


def test_throttle_time_stands_last_in_a_produce_response() -> None:
    """A client that finds it elsewhere waits for an acknowledgement that it already has, and times out."""
    body = bytes.fromhex(
        "00000001"  # one topic
        "000a 746573742d746f706963"  # test-topic
        "00000001"  # one partition
        "00000000"  # index 0
        "0000"  # error_code none
        "0000000000000007"  # base_offset 7
        "ffffffffffffffff"  # log_append_time_ms -1
        "00000000"  # throttle_time_ms 0
    )
    partition = PartitionProduceResponse(index=0, error_code=0, base_offset=7)
    response = ProduceResponse(
        responses=[TopicProduceResponse(name="test-topic", partition_responses=[partition])], throttle_time_ms=0
    )
    assert len(body) == 46
    assert encode(response, 2) == body
    assert decode(ProduceResponse, 2, body) == response


@pytest.mark.java
@pytest.mark.parametrize("release", RELEASES)
def test_golden_bytes_are_what_java_writes(release: str) -> None:
    """The file is evidence only as long as it was not edited to make a test pass."""
    asked, expected = [], []
    for golden in GOLDEN:
        value = VALUES[golden.message]
        kafka = kafka_message(release, type(value), golden.version)
        if kafka and (release, *golden[:2]) not in WITHOUT_TAGS_THAT_CAME_LATER:
            shape = layout(type(value), golden.version, kafka.fields)
            asked.append(Question("encode", kafka.name, kafka.version, json.dumps(to_json(shape, value))))
            expected.append(golden.data.hex())
    with MessageOracle(release) as oracle:
        assert oracle.ask(asked) == expected
