"""At least one request of each API that needs a permission. The node has topic `t`, group `g`, transaction `open`.

Each row says what a caller gets who may do nothing: all error codes of the response, in the order of its fields, with 0
for those that its version does not have. Kafka 4.3 answers the same. `example` makes a request of an API without a row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from chronik.wire.messages import (
    alter_configs,
    delete_share_group_state,
    incremental_alter_configs,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    share_acknowledge,
    share_fetch,
    write_share_group_state,
)
from chronik.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from chronik.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from chronik.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from chronik.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntry,
    EntityData,
    OpData,
)
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
from chronik.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from chronik.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from chronik.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from chronik.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from chronik.wire.messages.create_acls import AclCreation, CreateAclsRequest
from chronik.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from chronik.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from chronik.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from chronik.wire.messages.delete_groups import DeleteGroupsRequest
from chronik.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from chronik.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from chronik.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from chronik.wire.messages.describe_acls import DescribeAclsRequest
from chronik.wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from chronik.wire.messages.describe_cluster import DescribeClusterRequest
from chronik.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from chronik.wire.messages.describe_groups import DescribeGroupsRequest
from chronik.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from chronik.wire.messages.describe_producers import DescribeProducersRequest
from chronik.wire.messages.describe_producers import TopicRequest as ProducersOf
from chronik.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
)
from chronik.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from chronik.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from chronik.wire.messages.describe_transactions import DescribeTransactionsRequest
from chronik.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from chronik.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from chronik.wire.messages.end_txn import EndTxnRequest
from chronik.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from chronik.wire.messages.find_coordinator import FindCoordinatorRequest
from chronik.wire.messages.heartbeat import HeartbeatRequest
from chronik.wire.messages.init_producer_id import InitProducerIdRequest
from chronik.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from chronik.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from chronik.wire.messages.list_config_resources import ListConfigResourcesRequest
from chronik.wire.messages.list_groups import ListGroupsRequest
from chronik.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from chronik.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from chronik.wire.messages.list_transactions import ListTransactionsRequest
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
from chronik.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from chronik.wire.messages.share_group_describe import ShareGroupDescribeRequest
from chronik.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from chronik.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from chronik.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from chronik.wire.messages.sync_group import SyncGroupRequest
from chronik.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from chronik.wire.messages.unregister_broker import UnregisterBrokerRequest
from chronik.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from chronik.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from chronik.wire.notation import ZERO_UUID, ListOf, Request, Scalar, Struct, zero_struct
from tests.broker.hostile import batch

TOPIC, GROUP, TRANSACTION = 29, 30, 53  # the errors *_AUTHORIZATION_FAILED
CLUSTER = 31
UNKNOWN_ID = 100
NOBODYS_ID = b"\x99" * 16
TOPIC_KIND, BROKER_KIND, LOGGER_KIND, METRICS_KIND, GROUP_KIND = 2, 4, 8, 16, 32


class Row(NamedTuple):
    what: str
    request: Request
    version: int
    denied: list[int]


def rows(topic_id: bytes) -> list[Row]:
    before = [
        *of_records(topic_id),
        *of_transactions(),
        *of_topics(topic_id),
        *of_groups(topic_id),
        *of_share_members(topic_id),
        *of_share_state(topic_id),
        *of_the_cluster(),
        *of_rules(),
    ]
    return before + of_deletions(topic_id)


def example(message: type[Struct]) -> Any:
    """One of an API that has no row: every list has an element, and every text is the name of the topic."""
    made = zero_struct(message)
    for field in message.fields:
        is_list = isinstance(field.type, ListOf)
        kind = field.type.element if is_list else field.type
        value = _of_scalar(kind) if isinstance(kind, Scalar) else example(kind)
        setattr(made, field.name, [value] if is_list else value)
    return made


def _of_scalar(kind: Scalar) -> Any:
    return "t" if kind.name == "string" else kind.zero


def of_records(topic_id: bytes) -> list[Row]:
    def produce(name: str = "", known_by: bytes = ZERO_UUID, *, transactional: bool = False) -> ProduceRequest:
        records = bytearray(batch(b"v"))
        records[22] |= 0x10 if transactional else 0
        data = PartitionProduceData(index=0, records=bytes(records))
        topics = [TopicProduceData(name=name, topic_id=known_by, partition_data=[data])]
        transactional_id = "x" if transactional else None
        return ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=1000, topic_data=topics)

    def fetch(name: str = "", known_by: bytes = ZERO_UUID, follower: int = -1, old_follower: int = -1) -> FetchRequest:
        asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        return FetchRequest(
            replica_id=old_follower,
            replica_state=ReplicaState(replica_id=follower),
            max_wait_ms=0,
            min_bytes=0,
            topics=[FetchTopic(topic=name, topic_id=known_by, partitions=[asked])],
            forgotten_topics_data=[],
        )

    def list_offsets(name: str, *indexes: int) -> ListOffsetsRequest:
        asked = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in indexes]
        return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=asked)])

    def epoch_end(name: str) -> OffsetForLeaderEpochRequest:
        asked = [OffsetForLeaderPartition(partition=0, leader_epoch=0)]
        return OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=name, partitions=asked)])

    def delete_records(name: str) -> DeleteRecordsRequest:
        asked = [DeleteRecordsPartition(partition_index=0, offset=0)]
        return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=name, partitions=asked)], timeout_ms=1000)

    def init_producer(transactional_id: str | None, *, two_phases: bool = False) -> InitProducerIdRequest:
        return InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=1000, enable_2pc=two_phases
        )

    return [
        Row("Produce", produce("t"), 9, [TOPIC]),
        Row("Produce to an absent topic", produce("absent"), 9, [TOPIC]),
        Row("Produce by id", produce(known_by=topic_id), 13, [TOPIC]),
        Row("Produce by an unknown id", produce(known_by=NOBODYS_ID), 13, [UNKNOWN_ID]),
        Row("Produce in a transaction", produce("t", transactional=True), 9, [TRANSACTION]),
        Row("Fetch", fetch("t"), 11, [0, TOPIC]),
        Row("Fetch of an absent topic", fetch("absent"), 11, [0, TOPIC]),
        Row("Fetch by id", fetch(known_by=topic_id), 17, [0, TOPIC]),
        Row("Fetch by an unknown id", fetch(known_by=NOBODYS_ID), 17, [0, UNKNOWN_ID]),
        Row("Fetch of a follower", fetch(known_by=topic_id, follower=2), 17, [0, TOPIC]),
        Row("Fetch of an old follower", fetch("t", old_follower=2), 11, [0, TOPIC]),
        Row("ListOffsets", list_offsets("t", 0), 7, [TOPIC]),
        Row("ListOffsets of an absent topic", list_offsets("absent", 0), 7, [TOPIC]),
        Row("ListOffsets of a partition twice", list_offsets("t", 0, 0), 7, [TOPIC, TOPIC]),
        Row("OffsetForLeaderEpoch", epoch_end("t"), 4, [TOPIC]),
        Row("OffsetForLeaderEpoch of an absent topic", epoch_end("absent"), 4, [TOPIC]),
        Row("DeleteRecords", delete_records("t"), 2, [TOPIC]),
        Row("DeleteRecords of an absent topic", delete_records("absent"), 2, [TOPIC]),
        Row(
            "DescribeProducers",
            DescribeProducersRequest(topics=[ProducersOf(name="t", partition_indexes=[0])]),
            0,
            [TOPIC],
        ),
        Row("InitProducerId", init_producer(None), 4, [CLUSTER]),
        Row("InitProducerId in a transaction", init_producer("x"), 4, [TRANSACTION]),
        Row("InitProducerId for a commit in two phases", init_producer("x", two_phases=True), 6, [TRANSACTION]),
    ]


def of_transactions() -> list[Row]:
    producer: dict[str, Any] = {"producer_id": 1, "producer_epoch": 0}
    topics = [AddPartitionsToTxnTopic(name="t", partitions=[0])]
    add = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=1,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=topics,
        transactions=[AddPartitionsToTxnTransaction(transactional_id="x", topics=topics, **producer)],
    )
    offset = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    commit = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[offset])],
        **producer,
    )
    marker = WritableTxnMarker(
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
        coordinator_epoch=0,
        **producer,
    )
    return [
        Row("AddPartitionsToTxn", add, 3, [0, TRANSACTION]),
        Row("AddPartitionsToTxn of a broker", add, 5, [CLUSTER]),
        Row(
            "AddOffsetsToTxn", AddOffsetsToTxnRequest(transactional_id="x", group_id="g", **producer), 3, [TRANSACTION]
        ),
        Row("EndTxn", EndTxnRequest(transactional_id="x", committed=True, **producer), 5, [TRANSACTION]),
        Row("TxnOffsetCommit", commit, 3, [TRANSACTION]),
        Row("WriteTxnMarkers", WriteTxnMarkersRequest(markers=[marker]), 1, [CLUSTER]),
        Row("DescribeTransactions", DescribeTransactionsRequest(transactional_ids=["open"]), 0, [TRANSACTION]),
        Row("ListTransactions", ListTransactionsRequest(state_filters=[], producer_id_filters=[]), 1, [0]),
    ]


def of_topics(topic_id: bytes) -> list[Row]:
    def metadata(*names: str, ids: tuple[bytes, ...] = ()) -> MetadataRequest:
        topics = [MetadataRequestTopic(name=name, topic_id=ZERO_UUID) for name in names]
        topics += [MetadataRequestTopic(name=None, topic_id=each) for each in ids]
        return MetadataRequest(topics=topics)

    def create(*names: str) -> CreateTopicsRequest:
        topics = [
            CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
            for name in names
        ]
        return CreateTopicsRequest(topics=topics, validate_only=True)

    grow = [CreatePartitionsTopic(name="t", count=2, assignments=None)]
    all_topics = MetadataRequest(
        topics=None, include_cluster_authorized_operations=True, include_topic_authorized_operations=True
    )
    return [
        Row("Metadata", metadata("t", "absent"), 12, [TOPIC, TOPIC, 0]),
        Row("Metadata by id", metadata(ids=(topic_id, NOBODYS_ID)), 12, [UNKNOWN_ID, TOPIC, 0]),
        Row("Metadata of all topics", all_topics, 10, [0]),
        Row(
            "DescribeTopicPartitions",
            DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t"), TopicRequest(name="absent")]),
            0,
            [TOPIC, TOPIC],
        ),
        Row("DescribeTopicPartitions of all topics", DescribeTopicPartitionsRequest(topics=[]), 0, []),
        Row("CreateTopics", create("new"), 7, [TOPIC]),
        Row("CreateTopics twice", create("new", "new"), 7, [42]),
        Row("CreatePartitions", CreatePartitionsRequest(topics=grow, timeout_ms=1000, validate_only=True), 3, [TOPIC]),
    ]


def of_deletions(topic_id: bytes) -> list[Row]:
    def delete(name: str | None = None, known_by: bytes = ZERO_UUID) -> DeleteTopicsRequest:
        return DeleteTopicsRequest(topics=[DeleteTopicState(name=name, topic_id=known_by)], timeout_ms=1000)

    return [
        Row("DeleteTopics", DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5, [TOPIC]),
        Row("DeleteTopics of an absent topic", delete("absent"), 6, [TOPIC]),
        Row("DeleteTopics by id", delete(known_by=topic_id), 6, [TOPIC]),
        Row("DeleteTopics by an unknown id", delete(known_by=NOBODYS_ID), 6, [UNKNOWN_ID]),
    ]


def of_groups(topic_id: bytes) -> list[Row]:
    def commit(name: str = "", known_by: bytes = ZERO_UUID) -> OffsetCommitRequest:
        asked = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")]
        topics = [OffsetCommitRequestTopic(name=name, topic_id=known_by, partitions=asked)]
        return OffsetCommitRequest(group_id="g", member_id="", topics=topics)

    def fetch(*topics: OffsetFetchRequestTopics) -> OffsetFetchRequest:
        groups = [OffsetFetchRequestGroup(group_id="g", topics=list(topics) or None)]
        return OffsetFetchRequest(groups=groups)

    by_name = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    by_id = OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0])
    one = OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])])
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
    join = JoinGroupRequest(
        group_id="new", session_timeout_ms=10_000, member_id="", protocol_type="consumer", protocols=[protocol]
    )
    member = ConsumerGroupHeartbeatRequest(
        group_id="c",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    describe = ConsumerGroupDescribeRequest(group_ids=["c"], include_authorized_operations=True)
    reads = Subtopology(
        subtopology_id="0",
        source_topics=["t"],
        source_topic_regex=[],
        state_changelog_topics=[TopicInfo(name="t-changelog", partitions=0, replication_factor=1, topic_configs=[])],
        repartition_sink_topics=[],
        repartition_source_topics=[],
        copartition_groups=[],
    )
    streaming = StreamsGroupHeartbeatRequest(
        group_id="a",
        member_id="m",
        member_epoch=0,
        endpoint_information_epoch=0,
        rebalance_timeout_ms=10_000,
        topology=Topology(epoch=0, subtopologies=[reads]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="p",
    )
    streamed = StreamsGroupDescribeRequest(group_ids=["a"], include_authorized_operations=True)
    sharing = ShareGroupHeartbeatRequest(group_id="s", member_id="m", member_epoch=0, subscribed_topic_names=["t"])
    shared = ShareGroupDescribeRequest(group_ids=["s"], include_authorized_operations=True)
    places = [DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=[0])]
    of_share = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id="s", topics=places)]
    )
    begin = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=0)
    moved = AlterShareGroupOffsetsRequest(
        group_id="s", topics=[AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=[begin])]
    )
    forgotten = DeleteShareGroupOffsetsRequest(
        group_id="s", topics=[DeleteShareGroupOffsetsRequestTopic(topic_name="t")]
    )
    asked = [OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=0)])]

    def sync(protocol_type: str | None) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id="g",
            generation_id=1,
            member_id="m",
            protocol_type=protocol_type,
            protocol_name="range",
            assignments=[],
        )

    return [
        Row("OffsetCommit", commit("t"), 8, [GROUP]),
        Row("OffsetCommit by id", commit(known_by=topic_id), 10, [GROUP]),
        Row("OffsetFetch", fetch(by_name), 8, [0, GROUP]),
        Row("OffsetFetch by id", fetch(by_id), 10, [0, GROUP]),
        Row("OffsetFetch of everything", fetch(), 8, [0, GROUP]),
        Row("OffsetFetch of one group", one, 7, [GROUP]),
        Row("OffsetFetch without an error of the group", one, 1, [GROUP, 0]),
        Row("FindCoordinator", FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4, [0, GROUP]),
        Row("FindCoordinator of one group", FindCoordinatorRequest(key="g", key_type=0), 3, [GROUP]),
        Row("FindCoordinator of a transaction", FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 4, [0, 53]),
        Row("JoinGroup", join, 5, [GROUP]),
        Row("JoinGroup where a protocol may be null", join, 7, [GROUP]),
        Row("SyncGroup", sync("consumer"), 5, [GROUP]),
        Row("SyncGroup without a protocol", sync(None), 5, [23]),
        Row("Heartbeat", HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4, [GROUP]),
        Row("LeaveGroup", LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m")]), 4, [GROUP]),
        Row("DescribeGroups", DescribeGroupsRequest(groups=["g"], include_authorized_operations=True), 5, [GROUP]),
        Row("ConsumerGroupHeartbeat", member, 1, [GROUP]),
        Row("ConsumerGroupDescribe", describe, 1, [GROUP]),
        Row("StreamsGroupHeartbeat", streaming, 0, [GROUP]),
        Row("StreamsGroupDescribe", streamed, 0, [GROUP]),
        Row("ShareGroupHeartbeat", sharing, 1, [GROUP]),
        Row("ShareGroupDescribe", shared, 1, [GROUP]),
        Row("DescribeShareGroupOffsets", of_share, 1, [GROUP]),
        Row("AlterShareGroupOffsets", moved, 0, [GROUP]),
        Row("DeleteShareGroupOffsets", forgotten, 0, [GROUP]),
        Row(
            "FindCoordinator of a share partition",
            FindCoordinatorRequest(key_type=2, coordinator_keys=["s:AAAAAAAAAAAAAAAAAAAAAQ:0"]),
            6,
            [0, CLUSTER],
        ),
        Row("ListGroups", ListGroupsRequest(states_filter=[], types_filter=[]), 5, [0]),
        Row("DeleteGroups", DeleteGroupsRequest(groups_names=["none"]), 2, [GROUP]),
        Row("OffsetDelete", OffsetDeleteRequest(group_id="g", topics=asked), 0, [GROUP]),
    ]


def of_share_members(topic_id: bytes) -> list[Row]:
    """The first opens the session that the second needs."""
    of_member = {"group_id": "s", "member_id": "m", "is_renew_ack": False}
    fetched = share_fetch.FetchPartition(partition_index=0, acknowledgement_batches=[])
    opening = share_fetch.ShareFetchRequest(
        **of_member,
        share_session_epoch=0,
        max_wait_ms=0,
        min_bytes=0,
        max_records=0,
        batch_size=1,
        share_acquire_mode=0,
        topics=[share_fetch.FetchTopic(topic_id=topic_id, partitions=[fetched])],
        forgotten_topics_data=[],
    )
    accepted = share_acknowledge.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[1])
    decided = share_acknowledge.AcknowledgePartition(partition_index=0, acknowledgement_batches=[accepted])
    deciding = share_acknowledge.ShareAcknowledgeRequest(
        **of_member,
        share_session_epoch=1,
        topics=[share_acknowledge.AcknowledgeTopic(topic_id=topic_id, partitions=[decided])],
    )
    return [Row("ShareFetch", opening, 2, [GROUP]), Row("ShareAcknowledge", deciding, 2, [GROUP])]


def of_share_state(topic_id: bytes) -> list[Row]:
    initialized = initialize_share_group_state.PartitionData(partition=0, state_epoch=0, start_offset=0)
    written = write_share_group_state.PartitionData(
        partition=0, state_epoch=0, leader_epoch=0, start_offset=0, state_batches=[]
    )
    read = read_share_group_state.PartitionData(partition=0, leader_epoch=0)
    summed = read_share_group_state_summary.PartitionData(partition=0, leader_epoch=0)
    deleted = delete_share_group_state.PartitionData(partition=0)

    def about(request: Any, topic: Any, partition: Any) -> Any:
        return request(group_id="s", topics=[topic(topic_id=topic_id, partitions=[partition])])

    requests = {
        "Initialize": about(
            initialize_share_group_state.InitializeShareGroupStateRequest,
            initialize_share_group_state.InitializeStateData,
            initialized,
        ),
        "Read": about(read_share_group_state.ReadShareGroupStateRequest, read_share_group_state.ReadStateData, read),
        "Write": about(
            write_share_group_state.WriteShareGroupStateRequest, write_share_group_state.WriteStateData, written
        ),
        "Delete": about(
            delete_share_group_state.DeleteShareGroupStateRequest, delete_share_group_state.DeleteStateData, deleted
        ),
        "Summary": about(
            read_share_group_state_summary.ReadShareGroupStateSummaryRequest,
            read_share_group_state_summary.ReadStateSummaryData,
            summed,
        ),
    }
    return [Row(f"{name} of share group state", request, 0, [CLUSTER]) for name, request in requests.items()]


def of_rules() -> list[Row]:
    rule = AclCreation(resource_type=2, resource_name="t", principal="User:u", host="*", operation=3, permission_type=3)
    fits = {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
    fits |= {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1}
    return [
        Row("DescribeAcls", DescribeAclsRequest(**fits), 3, [CLUSTER]),
        Row("CreateAcls", CreateAclsRequest(creations=[rule, rule]), 3, [CLUSTER, CLUSTER]),
        Row("DeleteAcls", DeleteAclsRequest(filters=[DeleteAclsFilter(**fits)]), 3, [CLUSTER]),
    ]


def of_the_cluster() -> list[Row]:
    kinds = [(TOPIC_KIND, "t"), (BROKER_KIND, "1"), (LOGGER_KIND, "1"), (METRICS_KIND, "m"), (GROUP_KIND, "g")]
    codes = [TOPIC, CLUSTER, CLUSTER, CLUSTER, GROUP]
    described = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[]) for kind, name in kinds
    ]
    old = [
        alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[])
        for kind, name in kinds
        if kind != LOGGER_KIND
    ]
    new = [
        incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[])
        for kind, name in kinds
    ]
    directory = AlterReplicaLogDir(path="/data", topics=[AlterReplicaLogDirTopic(name="t", partitions=[0])])
    move = [ReassignableTopic(name="t", partitions=[ReassignablePartition(partition_index=0, replicas=[1])])]
    moving = [ListPartitionReassignmentsTopics(name="t", partition_indexes=[0])]
    elections = [TopicPartitions(topic="t", partitions=[0])]
    quorum = DescribeQuorumRequestTopic(
        topic_name="__cluster_metadata", partitions=[DescribeQuorumRequestPartition(partition_index=0)]
    )
    quota = AlterClientQuotasRequestEntry(
        entity=[EntityData(entity_type="user", entity_name="u")],
        ops=[OpData(key="producer_byte_rate", value=1.0, remove=False)],
    )
    feature = FeatureUpdateKey(feature="none.such", max_version_level=1)
    listener = Listener(name="CONTROLLER", host="h", port=1)
    voter = AddRaftVoterRequest(
        cluster_id="another", timeout_ms=0, voter_id=9, voter_directory_id=ZERO_UUID, listeners=[listener]
    )
    user = ScramCredentialDeletion(name="u", mechanism=1)
    return [
        Row("DescribeUserScram", DescribeUserScramCredentialsRequest(users=[UserName(name="u")]), 0, [31, 31]),
        Row("AlterUserScram", AlterUserScramCredentialsRequest(deletions=[user], upsertions=[]), 0, [31]),
        Row("DescribeConfigs", DescribeConfigsRequest(resources=described), 4, codes),
        Row("AlterConfigs", alter_configs.AlterConfigsRequest(resources=old, validate_only=True), 2, [29, 31, 31, 30]),
        Row(
            "IncrementalAlterConfigs",
            incremental_alter_configs.IncrementalAlterConfigsRequest(resources=new, validate_only=True),
            1,
            codes,
        ),
        Row("DescribeClientQuotas", DescribeClientQuotasRequest(components=[], strict=False), 1, [CLUSTER]),
        Row("AlterClientQuotas", AlterClientQuotasRequest(entries=[quota], validate_only=True), 1, [CLUSTER]),
        Row("ListConfigResources", ListConfigResourcesRequest(resource_types=[TOPIC_KIND]), 1, [CLUSTER]),
        Row("AlterReplicaLogDirs", AlterReplicaLogDirsRequest(dirs=[directory]), 2, [CLUSTER]),
        Row("DescribeLogDirs", DescribeLogDirsRequest(topics=None), 4, [CLUSTER]),
        Row("AlterPartitionReassignments", AlterPartitionReassignmentsRequest(topics=move), 1, [CLUSTER, CLUSTER]),
        Row("ListPartitionReassignments", ListPartitionReassignmentsRequest(topics=moving), 0, [CLUSTER]),
        Row("ElectLeaders", ElectLeadersRequest(topic_partitions=elections), 2, [CLUSTER, CLUSTER]),
        Row("DescribeQuorum", DescribeQuorumRequest(topics=[quorum]), 2, [CLUSTER]),
        Row("UpdateFeatures", UpdateFeaturesRequest(feature_updates=[feature], validate_only=True), 1, [CLUSTER]),
        Row("UnregisterBroker", UnregisterBrokerRequest(broker_id=9), 0, [CLUSTER]),
        Row("AddRaftVoter", voter, 0, [CLUSTER]),
        Row(
            "RemoveRaftVoter",
            RemoveRaftVoterRequest(cluster_id="another", voter_id=9, voter_directory_id=ZERO_UUID),
            0,
            [CLUSTER],
        ),
        Row("DescribeCluster", DescribeClusterRequest(include_cluster_authorized_operations=True), 1, [0]),
    ]
