"""What may be asked of the controller, and what it replies. In the wire notation: commands travel between nodes.

All that is random comes with the command (ids, seeds), drawn where the command is born: deciding it twice, on two
controllers, gives the same cluster. Commands for many items answer each item with a code of its own; commands for one
thing are refused as a whole.
"""

from __future__ import annotations

from typing import NamedTuple

from chronik.runtime.interfaces import Randomness
from chronik.wire.notation import (
    ZERO_UUID,
    Data,
    Struct,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)
from chronik.wire.uuids import uuid_text

SET, DELETE, APPEND, SUBTRACT = range(4)  # of ConfigChange.operation, by Kafka's numbers
PREFERRED, UNCLEAN = range(2)  # of ElectLeaders.election_type, by Kafka's numbers
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3  # of FeatureUpdate.upgrade_type, by Kafka's numbers


class RequestId(NamedTuple):
    """Names one command of one node for ever, so that a repeated one applies once."""

    node_id: int
    incarnation: int  # of the node's process: a later one has a higher number
    sequence: int  # counts the node's commands
    answered_below: int  # the node has all its answers below this sequence


class Command(Data, versions="0", flexible="0+"):
    """Base of all commands."""


class Reply(Data, versions="0", flexible="0+"):
    """Base of all replies."""


class CreateTopics(Command):
    topics: list[NewTopic]
    validate_only: boolean = False


class NewTopic(Struct):
    name: string
    topic_id: uuid = ZERO_UUID  # the store draws one
    partition_count: int32 = -1  # the cluster's default
    replication_factor: int16 = -1  # the cluster's default
    assignments: list[PartitionReplicas] = []  # noqa: RUF012 - the notation makes a new list each time
    configs: list[ConfigValue] = []  # noqa: RUF012


class PartitionReplicas(Struct):
    index: int32
    broker_ids: list[int32]


class ConfigValue(Struct):
    key: string
    value: string | None


class CreateTopicsReply(Reply):
    topics: list[CreatedTopic]


class CreatedTopic(Struct):
    name: string
    topic_id: uuid = ZERO_UUID
    error_code: int16 = 0
    error_message: string | None = None
    partition_count: int32 = -1
    replication_factor: int16 = -1


class DeleteTopics(Command):
    topics: list[TopicName]


class TopicName(Struct):
    """By name or by id, not both."""

    name: string | None = None
    topic_id: uuid = ZERO_UUID


class DeleteTopicsReply(Reply):
    topics: list[DeletedTopic]


class DeletedTopic(Struct):
    name: string | None
    topic_id: uuid
    error_code: int16 = 0
    error_message: string | None = None


class CreatePartitions(Command):
    topics: list[TopicGrowth]
    validate_only: boolean = False


class TopicGrowth(Struct):
    name: string
    partition_count: int32  # after, not the number to add
    assignments: list[ReplicaList] | None = None  # of the added ones, in order


class ReplicaList(Struct):
    broker_ids: list[int32]


class CreatePartitionsReply(Reply):
    topics: list[GrownTopic]


class GrownTopic(Struct):
    name: string
    error_code: int16 = 0
    error_message: string | None = None


class AlterConfigs(Command):
    resources: list[ResourceChange]
    incremental: boolean  # else the keys given are all that the resource has afterwards
    validate_only: boolean = False


class ResourceChange(Struct):
    resource_type: int8
    resource_name: string
    configs: list[ConfigChange]


class ConfigChange(Struct):
    key: string
    value: string | None
    operation: int8 = SET


class AlterConfigsReply(Reply):
    resources: list[AlteredResource]


class AlteredResource(Struct):
    resource_type: int8
    resource_name: string
    error_code: int16 = 0
    error_message: string | None = None


class RegisterBroker(Command):
    broker_id: int32
    cluster_id: string
    incarnation_id: uuid
    endpoints: list[EndpointAt]
    rack: string | None = None
    features: list[SupportedFeature] = []  # noqa: RUF012
    directory_ids: list[uuid] = []  # noqa: RUF012 - of the data directories, which one process at a time can lock
    # Processes before this one that the data directory knows of; None: it cannot tell.
    earlier_incarnation_ids: list[uuid] | None = None


class EndpointAt(Struct):
    name: string
    host: string
    port: uint16
    security_protocol: int16 = 0  # PLAINTEXT


class SupportedFeature(Struct):
    name: string
    level_min: int16
    level_max: int16


class RegisterBrokerReply(Reply):
    broker_epoch: int64


class BrokerHeartbeat(Command):
    """I am alive. A broker asks to be unfenced once its own image shows its registration in this epoch."""

    broker_id: int32
    broker_epoch: int64
    want_fence: boolean = False
    want_shut_down: boolean = False


class BrokerHeartbeatReply(Reply):
    is_fenced: boolean
    should_shut_down: boolean


class FenceBroker(Command):
    """Its session ran out. The controller says this to itself."""

    broker_id: int32
    broker_epoch: int64


class FenceBrokerReply(Reply):
    pass


class UnregisterBroker(Command):
    broker_id: int32


class UnregisterBrokerReply(Reply):
    pass


class AlterPartition(Command):
    """A leader changes the ISR of its partitions."""

    broker_id: int32
    broker_epoch: int64
    topics: list[TopicIsrs]


class TopicIsrs(Struct):
    topic_id: uuid
    partitions: list[NewIsr]


class NewIsr(Struct):
    index: int32
    leader_epoch: int32
    partition_epoch: int32
    isr: list[IsrMember]


class IsrMember(Struct):
    broker_id: int32
    broker_epoch: int64 = -1  # -1: the leader does not know it


class ReportLostReplicas(Command):
    """A broker says that some of its replicas lack records which they acknowledged: nobody may count on them."""

    broker_id: int32
    broker_epoch: int64
    partitions: list[PartitionId]


class PartitionId(Struct):
    topic_id: uuid
    index: int32


class ReportLostReplicasReply(Reply):
    last_copies: list[PartitionId]  # of which no other replica is known to have more: they stay as they are


class AlterPartitionReply(Reply):
    topics: list[AlteredTopic]


class AlteredTopic(Struct):
    topic_id: uuid
    partitions: list[AlteredPartition]


class AlteredPartition(Struct):
    index: int32
    error_code: int16 = 0
    leader: int32 = -1
    leader_epoch: int32 = -1
    partition_epoch: int32 = -1
    isr: list[int32] = []  # noqa: RUF012


class ElectLeaders(Command):
    """Elects now: the first replica where another leads, or any live one where nobody does."""

    election_type: int8
    topics: list[ElectionTopic] | None  # null: all, and only partitions are answered in which something was to be done


class ElectionTopic(Struct):
    name: string
    partitions: list[int32]


class ElectLeadersReply(Reply):
    topics: list[ElectedTopic]


class ElectedTopic(Struct):
    name: string
    partitions: list[ElectedPartition]


class ElectedPartition(Struct):
    index: int32
    error_code: int16 = 0
    error_message: string | None = None


class AlterReassignments(Command):
    """Moves replicas of partitions, or calls such a move off."""

    topics: list[ReassignedTopic]
    allows_other_factor: boolean = True  # whether a partition may end with more or fewer replicas than it has


class ReassignedTopic(Struct):
    name: string
    partitions: list[Reassignment]


class Reassignment(Struct):
    index: int32
    replicas: list[int32] | None  # the preferred leader first; null calls the move off


class AlterReassignmentsReply(Reply):
    topics: list[AlteredReassignments]


class AlteredReassignments(Struct):
    name: string
    partitions: list[AlteredReassignment]


class AlteredReassignment(Struct):
    index: int32
    error_code: int16 = 0
    error_message: string | None = None


class AllocateProducerIds(Command):
    broker_id: int32
    broker_epoch: int64


class AllocateProducerIdsReply(Reply):
    first_producer_id: int64
    count: int32


class UpdateFeatures(Command):
    updates: list[FeatureUpdate]
    validate_only: boolean = False


class FeatureUpdate(Struct):
    name: string
    level: int16
    upgrade_type: int8 = UPGRADE


class UpdateFeaturesReply(Reply):
    pass


class DescribeQuorum(Command):
    """How far each member has come. Changes nothing; only the leader knows."""


class DescribeQuorumReply(Reply):
    leader_id: int32
    term: int32
    commit_index: int64
    members: list[QuorumMember]  # ascending


class QuorumMember(Struct):
    node_id: int32
    is_voter: boolean
    match_index: int64  # known to be durable there
    lag_ms: int64  # for how long it has lacked an entry; 0: it lacks none
    silent_ms: int64  # since it was last heard; -1: never
    host: string
    port: uint16


class AddVoter(Command):
    """A node that listens there joins the quorum: it is brought up to date first, then it votes."""

    node_id: int32
    host: string
    port: uint16
    timeout_ms: int32


class AddVoterReply(Reply):
    pass


class RemoveVoter(Command):
    """The node votes no more. Its broker goes on reading the log, unless it leaves the quorum entirely."""

    node_id: int32
    entirely: boolean = False


class RemoveVoterReply(Reply):
    pass


REPLY_OF: dict[type[Command], type[Reply]] = {
    CreateTopics: CreateTopicsReply,
    DeleteTopics: DeleteTopicsReply,
    CreatePartitions: CreatePartitionsReply,
    AlterConfigs: AlterConfigsReply,
    RegisterBroker: RegisterBrokerReply,
    BrokerHeartbeat: BrokerHeartbeatReply,
    FenceBroker: FenceBrokerReply,
    UnregisterBroker: UnregisterBrokerReply,
    AlterPartition: AlterPartitionReply,
    AllocateProducerIds: AllocateProducerIdsReply,
    UpdateFeatures: UpdateFeaturesReply,
    ElectLeaders: ElectLeadersReply,
    AlterReassignments: AlterReassignmentsReply,
    DescribeQuorum: DescribeQuorumReply,
    AddVoter: AddVoterReply,
    RemoveVoter: RemoveVoterReply,
    ReportLostReplicas: ReportLostReplicasReply,
}


def draw_topic_id(randomness: Randomness) -> bytes:
    """16 random bytes that do not start with '-' in base64, as Kafka avoids: the id may stand in a command line."""
    while (drawn := randomness.bytes(16)) == ZERO_UUID or drawn[0] >> 2 == 62:
        pass
    return drawn


def draw_cluster_id(randomness: Randomness) -> str:
    """As Kafka writes one: 16 bytes in base64 for URLs, without its padding."""
    return uuid_text(draw_topic_id(randomness))


def draw_ids(command: Command, randomness: Randomness) -> None:
    """Completes a command with what it lacks, once, where it is born."""
    if isinstance(command, CreateTopics):
        for topic in command.topics:
            if topic.topic_id == ZERO_UUID:
                topic.topic_id = draw_topic_id(randomness)
