"""Requests that name very many things, as a hostile or broken client would send them: one function each.

They are all valid, or nearly so. The state that they meet is small (`TOPICS`); what makes them long is how often they
name it. Each function sends and returns when the node has answered or hung up.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

from chronik.wire.batches import build
from chronik.wire.messages import share_fetch as sharing
from chronik.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from chronik.wire.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from chronik.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from chronik.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from chronik.wire.messages.api_versions import ApiVersionsRequest
from chronik.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from chronik.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from chronik.wire.messages.delete_groups import DeleteGroupsRequest
from chronik.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from chronik.wire.messages.delete_topics import DeleteTopicsRequest
from chronik.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from chronik.wire.messages.describe_groups import DescribeGroupsRequest
from chronik.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from chronik.wire.messages.describe_producers import DescribeProducersRequest
from chronik.wire.messages.describe_producers import TopicRequest as ProducersTopic
from chronik.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from chronik.wire.messages.describe_topic_partitions import TopicRequest as DescribedTopic
from chronik.wire.messages.describe_transactions import DescribeTransactionsRequest
from chronik.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from chronik.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from chronik.wire.messages.find_coordinator import FindCoordinatorRequest
from chronik.wire.messages.incremental_alter_configs import AlterableConfig as ChangedConfig
from chronik.wire.messages.incremental_alter_configs import AlterConfigsResource as ChangedResource
from chronik.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from chronik.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from chronik.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from chronik.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from chronik.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from chronik.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from chronik.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from chronik.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from chronik.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from chronik.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from chronik.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from chronik.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from chronik.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from chronik.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from chronik.wire.notation import Request
from chronik.wire.records import Record
from tests.broker.holds import MeasuredNode, receive
from tests.broker.hostile import frame

WIDE, PARTITIONS = "wide", 2_000
NARROW = [f"narrow-{n}" for n in range(200)]
TOPICS = {WIDE: PARTITIONS, **dict.fromkeys(NARROW, 1)}
MANY = 20_000
BATCH = build([Record(0, 1, None, b"v", ())])
ATTACKS: dict[str, Callable[[MeasuredNode], None]] = {}


def prepare(node: MeasuredNode) -> None:
    """The state that the attacks meet: topics, and groups with a coordinator."""
    gc.freeze()
    node.create(TOPICS)
    node.coordinate("one")
    node.coordinate("many")


def attack(send: Callable[[MeasuredNode], None]) -> Callable[[MeasuredNode], None]:
    ATTACKS[send.__name__.replace("_", " ")] = send
    return send


def one(name: str, make: Callable[[], Request], version: int) -> None:
    """An attack by one request, which is made when it is needed: it is large."""

    def send(node: MeasuredNode) -> None:
        node.ask(frame(make(), version))

    ATTACKS[name] = send


def cycle(values: Sequence[Any], count: int = MANY) -> list[Any]:
    return [values[n % len(values)] for n in range(count)]


INDEXES = cycle(range(PARTITIONS))
NAMES = [f"unknown-{n}" for n in range(30_000)]


def fetch(indexes: Sequence[int], *, topic: str = WIDE, min_bytes: int = 1, wait_ms: int = 0, epoch: int = -1) -> Any:
    partitions = [FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=1 << 20) for n in indexes]
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        session_epoch=epoch,
        topics=[FetchTopic(topic=topic, partitions=partitions)],
        forgotten_topics_data=[],
    )


def produce(topic: str, indexes: Sequence[int], acks: int = -1) -> ProduceRequest:
    data = [PartitionProduceData(index=n, records=BATCH) for n in indexes]
    return ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=data)])


one("fetch of 20,000 partitions", lambda: fetch(INDEXES), 11)
one("fetch of 20,000 partitions that waits for more", lambda: fetch(INDEXES, min_bytes=2, wait_ms=100), 11)
one("fetch of 20,000 unknown partitions", lambda: fetch(INDEXES, topic="unknown"), 11)
one("fetch session of 2,000 partitions", lambda: fetch(range(PARTITIONS), epoch=0), 11)
one("produce to 2,000 partitions", lambda: produce(WIDE, range(PARTITIONS)), 9)
one("produce to 10,000 partitions, acks=1", lambda: produce(WIDE, INDEXES[:10_000], acks=1), 9)
one("produce to 20,000 unknown partitions", lambda: produce("unknown", INDEXES), 9)
one("produce to 20,000 unknown partitions, acks=0", lambda: produce("unknown", INDEXES, acks=0), 9)
one(
    "metadata of 30,000 unknown names",
    lambda: MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in NAMES], allow_auto_topic_creation=False
    ),
    9,
)
one(
    "metadata of 200 names, each 100 times",
    lambda: MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in cycle(NARROW)]),
    1,
)
one("metadata of all topics", lambda: MetadataRequest(topics=None), 9)
one(
    "list offsets of 20,000 partitions",
    lambda: ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(name=WIDE, partitions=[ListOffsetsPartition(partition_index=n, timestamp=-1)])
            for n in INDEXES
        ],
    ),
    5,
)
one(
    "epochs of 20,000 partitions",
    lambda: OffsetForLeaderEpochRequest(
        topics=[
            OffsetForLeaderTopic(
                topic=WIDE, partitions=[OffsetForLeaderPartition(partition=n, leader_epoch=0) for n in INDEXES]
            )
        ]
    ),
    3,
)


def commit(group: str, topic: str, indexes: Sequence[int]) -> OffsetCommitRequest:
    parts = [
        OffsetCommitRequestPartition(partition_index=n, committed_offset=0, committed_metadata="") for n in indexes
    ]
    return OffsetCommitRequest(
        group_id=group, member_id="", topics=[OffsetCommitRequestTopic(name=topic, partitions=parts)]
    )


one("commit of 20,000 offsets", lambda: commit("many", WIDE, INDEXES), 7)
one("commit of 2,000 offsets", lambda: commit("one", WIDE, range(PARTITIONS)), 7)
one("commit of 20,000 unknown partitions", lambda: commit("unknown", "unknown", INDEXES), 7)


def commit_in_transaction(group: str, topic: str, indexes: Sequence[int]) -> TxnOffsetCommitRequest:
    parts = [
        TxnOffsetCommitRequestPartition(partition_index=n, committed_offset=0, committed_metadata="") for n in indexes
    ]
    return TxnOffsetCommitRequest(
        transactional_id="x",
        group_id=group,
        producer_id=7,
        producer_epoch=0,
        member_id="",
        topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=parts)],
    )


def add_to_transaction(topic: str, indexes: Sequence[int]) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=7,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(indexes))],
    )


def verify_transactions() -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=f"id-{number}",
                producer_id=7,
                producer_epoch=0,
                verify_only=True,
                topics=[AddPartitionsToTxnTopic(name=WIDE, partitions=[0])],
            )
            for number in range(20_000)
        ]
    )


def markers(topic: str, indexes: Sequence[int], *, producers: bool = False) -> WriteTxnMarkersRequest:
    """For one producer, or for as many producers as there are partitions."""
    groups = [[n] for n in indexes] if producers else [list(indexes)]
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=number,
                producer_epoch=0,
                transaction_result=False,
                topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=each)],
                coordinator_epoch=0,
                transaction_version=0,
            )
            for number, each in enumerate(groups)
        ]
    )


one("commit of 20,000 offsets in a transaction", lambda: commit_in_transaction("many", WIDE, INDEXES), 5)
one("commit of 20,000 unknown partitions in a transaction", lambda: commit_in_transaction("many", "un", INDEXES), 5)
one(
    "describe 60,000 transactions",
    lambda: DescribeTransactionsRequest(transactional_ids=[f"id-{number}" for number in range(60_000)]),
    0,
)
one("add 90,000 unknown partitions to a transaction", lambda: add_to_transaction("unknown", range(90_000)), 3)
one(
    "add 2,000 partitions 45 times to a transaction",
    lambda: add_to_transaction(WIDE, cycle(range(PARTITIONS), 90_000)),
    3,
)
one("verify 20,000 transactions", verify_transactions, 4)
one("markers for 2,000 partitions", lambda: markers(WIDE, range(PARTITIONS)), 1)
one("markers for 90,000 unknown partitions", lambda: markers("unknown", cycle(range(PARTITIONS), 90_000)), 1)
one("markers of 20,000 producers", lambda: markers("unknown", INDEXES, producers=True), 1)
one(
    "offsets of 90,000 partitions",
    lambda: OffsetFetchRequest(
        group_id="many", topics=[OffsetFetchRequestTopic(name=WIDE, partition_indexes=cycle(range(PARTITIONS), 90_000))]
    ),
    5,
)
one(
    "all offsets of a group, stable ones",
    lambda: OffsetFetchRequest(group_id="one", topics=None, require_stable=True),
    7,
)
one(
    "offsets of 80,000 partitions of an unknown id",
    lambda: OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id="one",
                topics=[OffsetFetchRequestTopics(topic_id=bytes(15) + b"x", partition_indexes=INDEXES * 4)],
            )
        ]
    ),
    10,
)
one(
    "offsets of 20,000 groups",
    lambda: OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=name, topics=None) for name in NAMES[:MANY]]),
    8,
)
one(
    "delete 8,000 offsets",
    lambda: OffsetDeleteRequest(
        group_id="one",
        topics=[
            OffsetDeleteRequestTopic(
                name=WIDE, partitions=[OffsetDeleteRequestPartition(partition_index=n) for n in INDEXES[:8_000]]
            )
        ],
    ),
    0,
)
one("describe 50,000 groups", lambda: DescribeGroupsRequest(groups=cycle(NAMES, 50_000)), 4)
one("delete 20,000 groups", lambda: DeleteGroupsRequest(groups_names=NAMES[:MANY]), 1)
one("find 20,000 coordinators", lambda: FindCoordinatorRequest(key_type=0, coordinator_keys=NAMES[:MANY]), 4)
one(
    "join with 30,000 protocols",
    lambda: JoinGroupRequest(
        group_id="joined",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name=name, metadata=b"") for name in NAMES],
    ),
    5,
)
one(
    "sync with 30,000 assignments",
    lambda: SyncGroupRequest(
        group_id="joined",
        generation_id=1,
        member_id="",
        assignments=[SyncGroupRequestAssignment(member_id=name, assignment=b"") for name in NAMES],
    ),
    3,
)
one(
    "30,000 members leave",
    lambda: LeaveGroupRequest(group_id="one", members=[MemberIdentity(member_id=name) for name in NAMES]),
    3,
)
one(
    "configs of 2,000 topics",
    lambda: DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=None)
            for name in cycle(NARROW, 2_000)
        ],
        include_synonyms=True,
    ),
    1,
)
one(
    "alter configs of 2,000 topics",
    lambda: AlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=2, resource_name=name, configs=[AlterableConfig(name="retention.ms", value="7")]
            )
            for name in cycle(NARROW, 2_000)
        ],
        validate_only=True,
    ),
    1,
)
one(
    "alter configs of 2,000 topics incrementally",
    lambda: IncrementalAlterConfigsRequest(
        resources=[
            ChangedResource(
                resource_type=2,
                resource_name=name,
                configs=[ChangedConfig(name="retention.ms", config_operation=0, value="7")],
            )
            for name in cycle(NARROW, 2_000)
        ],
        validate_only=True,
    ),
    0,
)
one(
    "describe partitions of 30,000 topics",
    lambda: DescribeTopicPartitionsRequest(topics=[DescribedTopic(name=name) for name in [WIDE, *NAMES]]),
    0,
)
one(
    "producers of 20,000 partitions",
    lambda: DescribeProducersRequest(topics=[ProducersTopic(name=WIDE, partition_indexes=INDEXES)]),
    0,
)
one(
    "log dirs of 20,000 partitions",
    lambda: DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=WIDE, partitions=INDEXES)]),
    1,
)
one(
    "move 20,000 partitions to a directory",
    lambda: AlterReplicaLogDirsRequest(
        dirs=[AlterReplicaLogDir(path="/x", topics=[AlterReplicaLogDirTopic(name=WIDE, partitions=INDEXES)])]
    ),
    1,
)
one(
    "delete records of 20,000 partitions",
    lambda: DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=WIDE, partitions=[DeleteRecordsPartition(partition_index=n, offset=0) for n in INDEXES]
            )
        ],
        timeout_ms=1_000,
    ),
    1,
)
one("delete 20,000 unknown topics", lambda: DeleteTopicsRequest(topic_names=NAMES[:MANY], timeout_ms=1_000), 3)
one(
    "create 5,000 topics, validate only",
    lambda: CreateTopicsRequest(
        topics=[
            CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
            for name in NAMES[:5_000]
        ],
        validate_only=True,
    ),
    4,
)
one(
    "create partitions of 20,000 unknown topics",
    lambda: CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=2, assignments=None) for name in NAMES[:MANY]],
        timeout_ms=1_000,
        validate_only=True,
    ),
    1,
)
one(
    "elect leaders of 200,000 partitions",
    lambda: ElectLeadersRequest(
        topic_partitions=[TopicPartitions(topic=WIDE, partitions=INDEXES * 10)], timeout_ms=1_000
    ),
    1,
)
one(
    "reassign 5,000 partitions",
    lambda: AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name=WIDE, partitions=[ReassignablePartition(partition_index=n, replicas=None) for n in INDEXES[:5_000]]
            )
        ]
    ),
    0,
)
one(
    "list reassignments of 100,000 partitions",
    lambda: ListPartitionReassignmentsRequest(
        topics=[ListPartitionReassignmentsTopics(name=WIDE, partition_indexes=INDEXES)] * 5
    ),
    0,
)


@attack
def malformed_at_the_end(node: MeasuredNode) -> None:
    """The last of very many elements is cut off."""
    request = OffsetCommitRequest(
        group_id="g",
        member_id="",
        topics=[OffsetCommitRequestTopic(name="", partitions=[])] * 20_000,
    )
    body = frame(request, 7)[4:-1]
    assert not node.ask(len(body).to_bytes(4, "big") + body)


@attack
def pipelined_by_300_connections(node: MeasuredNode) -> None:
    """Each sends 100 requests in one write."""
    connections = [node.connect() for _ in range(300)]
    try:
        for connection in connections:
            connection.sendall(frame(ApiVersionsRequest(), 0) * 100)
        for connection in connections:
            with connection.makefile("rb") as stream:
                for _ in range(100):
                    assert stream.read(int.from_bytes(stream.read(4), "big"))
    finally:
        for connection in connections:
            connection.close()


def share_fetch(
    node: MeasuredNode, partitions: Sequence[sharing.FetchPartition], *, epoch: int, wait_ms: int = 0
) -> sharing.ShareFetchRequest:
    topic = node.node.store.image.topic_named(WIDE)
    assert topic is not None
    return sharing.ShareFetchRequest(
        group_id="shared",
        member_id="m",
        share_session_epoch=epoch,
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_records=500,
        batch_size=500,
        share_acquire_mode=0,
        is_renew_ack=False,
        topics=[sharing.FetchTopic(topic_id=topic.topic_id, partitions=list(partitions))],
        forgotten_topics_data=[],
    )


def share_partition(index: int, *acknowledged: tuple[int, int, Sequence[int]]) -> sharing.FetchPartition:
    batches = [
        sharing.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
        for first, last, types in acknowledged
    ]
    return sharing.FetchPartition(partition_index=index, acknowledgement_batches=batches)


@attack
def share_fetches_of_2000_partitions(node: MeasuredNode) -> None:
    """The first one makes the node load the state of all of them; the others wait for records, and acknowledge."""
    all_of_them = [share_partition(index) for index in range(PARTITIONS)]
    with node.connect() as connection:
        connection.sendall(frame(share_fetch(node, all_of_them, epoch=0, wait_ms=3_000), 2))
        assert receive(connection)
        connection.sendall(frame(share_fetch(node, all_of_them, epoch=1, wait_ms=100), 2))
        assert receive(connection)
        accepting = [share_partition(index, (0, 9, [1])) for index in INDEXES]
        connection.sendall(frame(share_fetch(node, accepting, epoch=2), 2))
        assert receive(connection)


@attack
def acknowledgements_of_20000_batches_and_of_a_million_records(node: MeasuredNode) -> None:
    batches = [(2 * n, 2 * n, [1]) for n in range(MANY)]
    with node.connect() as connection:
        connection.sendall(frame(share_fetch(node, [share_partition(0)], epoch=0), 2))
        assert receive(connection)
        connection.sendall(frame(share_fetch(node, [share_partition(0, *batches)], epoch=1), 2))
        assert receive(connection)
        types = [1, 2] * 500_000
        connection.sendall(frame(share_fetch(node, [share_partition(0, (0, len(types) - 1, types))], epoch=2), 2))
        receive(connection)


@attack
def consumers_that_wait_while_others_write(node: MeasuredNode) -> None:
    """Twenty consumers of all partitions wait for more than there is, while each write makes them look."""
    connections = [node.connect() for _ in range(20)]
    try:
        waiting = fetch(range(PARTITIONS), min_bytes=1 << 24, wait_ms=60_000)
        for connection in connections:
            connection.sendall(frame(waiting, 11))
        node.settle()
        node.start_measuring()
        with node.connect() as writer:
            for n in range(50):
                writer.sendall(frame(produce(WIDE, [n]), 9))
                assert receive(writer)
    finally:
        for connection in connections:
            connection.close()
