"""Kafka's error codes with Kafka 4.3.1's numbers, -1 to 133: the message, and what the receiver may do.

A code is an `int` everywhere, as on the wire. `retriable` means that the same request may succeed later;
`refreshes_metadata` implies that, and means that the sender must refresh its metadata first. This module never decides
which code an error gets: errors carry theirs (see `errors`).
"""

from __future__ import annotations

from enum import IntEnum

RETRY = 1  # the same request may succeed later
REFRESH = 2  # the same, after refreshing metadata


class ErrorCode(IntEnum):
    """`ErrorCode.NOT_CONTROLLER == 41`; `.message` is one short sentence for logs."""

    message: str
    retriable: bool
    refreshes_metadata: bool

    def __new__(cls, code: int, message: str, hint: int = 0) -> ErrorCode:
        made = int.__new__(cls, code)
        made._value_ = code
        made.message = message
        made.retriable = hint != 0
        made.refreshes_metadata = hint == REFRESH
        return made

    @classmethod
    def of(cls, code: int) -> ErrorCode:
        """The member with this number; UNKNOWN_SERVER_ERROR for an unknown one, as in Kafka's clients."""
        found = cls._value2member_map_.get(code)
        return found if isinstance(found, cls) else cls.UNKNOWN_SERVER_ERROR

    UNKNOWN_SERVER_ERROR = -1, "the server failed in a way it has no code for"
    NONE = 0, "no error"
    OFFSET_OUT_OF_RANGE = 1, "the log holds no such offset"
    CORRUPT_MESSAGE = 2, "a record batch fails its checksum or its layout is broken", RETRY
    UNKNOWN_TOPIC_OR_PARTITION = 3, "no such topic or partition here", REFRESH
    INVALID_FETCH_SIZE = 4, "the fetch size is invalid"
    LEADER_NOT_AVAILABLE = 5, "the partition has no leader at the moment", REFRESH
    NOT_LEADER_OR_FOLLOWER = 6, "this broker does not lead, or does not hold, the partition", REFRESH
    REQUEST_TIMED_OUT = 7, "not done within the time the request allowed", RETRY
    BROKER_NOT_AVAILABLE = 8, "the broker is not there"
    REPLICA_NOT_AVAILABLE = 9, "the replica is not there", REFRESH
    MESSAGE_TOO_LARGE = 10, "a record batch is larger than max.message.bytes"
    STALE_CONTROLLER_EPOCH = 11, "another controller has taken over"
    OFFSET_METADATA_TOO_LARGE = 12, "the text committed with an offset is too long"
    NETWORK_EXCEPTION = 13, "the connection ended before the answer came", REFRESH
    COORDINATOR_LOAD_IN_PROGRESS = 14, "the coordinator is still loading its state", RETRY
    COORDINATOR_NOT_AVAILABLE = 15, "there is no coordinator at the moment", RETRY
    NOT_COORDINATOR = 16, "another broker is the coordinator", RETRY
    INVALID_TOPIC_EXCEPTION = 17, "the topic's name is not allowed, or it may not be written to"
    RECORD_LIST_TOO_LARGE = 18, "a record batch does not fit into a segment"
    NOT_ENOUGH_REPLICAS = 19, "fewer replicas are in sync than min.insync.replicas; nothing was written", RETRY
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, "written, but to fewer replicas than min.insync.replicas", RETRY
    INVALID_REQUIRED_ACKS = 21, "acks must be 0, 1 or -1"
    ILLEGAL_GENERATION = 22, "the group has moved on to another generation"
    INCONSISTENT_GROUP_PROTOCOL = 23, "the group has no protocol in common with this member"
    INVALID_GROUP_ID = 24, "the group's name is not allowed"
    UNKNOWN_MEMBER_ID = 25, "the group has no such member"
    INVALID_SESSION_TIMEOUT = 26, "the session timeout is outside what the broker allows"
    REBALANCE_IN_PROGRESS = 27, "the group is rebalancing: join again"
    INVALID_COMMIT_OFFSET_SIZE = 28, "the committed offsets take too many bytes"
    TOPIC_AUTHORIZATION_FAILED = 29, "not allowed on this topic"
    GROUP_AUTHORIZATION_FAILED = 30, "not allowed on this group"
    CLUSTER_AUTHORIZATION_FAILED = 31, "not allowed on this cluster"
    INVALID_TIMESTAMP = 32, "a record's timestamp is outside what the topic allows"
    UNSUPPORTED_SASL_MECHANISM = 33, "the broker does not offer this SASL mechanism"
    ILLEGAL_SASL_STATE = 34, "not possible at this step of the login"
    UNSUPPORTED_VERSION = 35, "this version of the API is not served here"
    TOPIC_ALREADY_EXISTS = 36, "a topic of this name exists"
    INVALID_PARTITIONS = 37, "the number of partitions is not possible"
    INVALID_REPLICATION_FACTOR = 38, "the replication factor is below 1 or above the number of brokers"
    INVALID_REPLICA_ASSIGNMENT = 39, "the replica assignment is not possible"
    INVALID_CONFIG = 40, "a configuration value is not possible"
    NOT_CONTROLLER = 41, "another node is the controller", RETRY
    INVALID_REQUEST = 42, "the request contradicts itself or cannot be read"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "the record format of the topic is too old for this"
    POLICY_VIOLATION = 44, "a policy of the cluster forbids it"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "a producer's sequence number left a gap"
    DUPLICATE_SEQUENCE_NUMBER = 46, "a producer's sequence number was written before"
    INVALID_PRODUCER_EPOCH = 47, "the producer's epoch is old"
    INVALID_TXN_STATE = 48, "not possible in the transaction's present state"
    INVALID_PRODUCER_ID_MAPPING = 49, "the producer id does not belong to this transactional id"
    INVALID_TRANSACTION_TIMEOUT = 50, "the transaction timeout is above transaction.max.timeout.ms"
    CONCURRENT_TRANSACTIONS = 51, "the transaction's last change is still being written", RETRY
    TRANSACTION_COORDINATOR_FENCED = 52, "a newer transaction coordinator has taken over"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "not allowed on this transactional id"
    SECURITY_DISABLED = 54, "security is turned off here"
    OPERATION_NOT_ATTEMPTED = 55, "not tried, because an earlier part of the request failed"
    KAFKA_STORAGE_ERROR = 56, "the disk failed", REFRESH
    LOG_DIR_NOT_FOUND = 57, "the broker has no such log directory"
    SASL_AUTHENTICATION_FAILED = 58, "the login failed"
    UNKNOWN_PRODUCER_ID = 59, "nothing is known of this producer id any more"
    REASSIGNMENT_IN_PROGRESS = 60, "a reassignment of the partition is under way"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "delegation tokens are turned off"
    DELEGATION_TOKEN_NOT_FOUND = 62, "no such delegation token"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "the delegation token belongs to another owner"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, "delegation tokens cannot be requested over this kind of connection"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "not allowed on this delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, "this kind of principal is not supported"
    NON_EMPTY_GROUP = 68, "the group still has members"
    GROUP_ID_NOT_FOUND = 69, "no such group"
    FETCH_SESSION_ID_NOT_FOUND = 70, "no such fetch session", RETRY
    INVALID_FETCH_SESSION_EPOCH = 71, "the fetch session is at another epoch", RETRY
    LISTENER_NOT_FOUND = 72, "the leader has no listener of the name this request came in on", REFRESH
    TOPIC_DELETION_DISABLED = 73, "deleting topics is turned off"
    FENCED_LEADER_EPOCH = 74, "the request's leader epoch is older than the partition's", REFRESH
    UNKNOWN_LEADER_EPOCH = 75, "the request's leader epoch is newer than this broker knows", RETRY
    UNSUPPORTED_COMPRESSION_TYPE = 76, "the codec is unknown, or too new for this version of the API"
    STALE_BROKER_EPOCH = 77, "the broker has registered again since"
    OFFSET_NOT_AVAILABLE = 78, "the new leader does not know the high watermark yet", RETRY
    MEMBER_ID_REQUIRED = 79, "join again with the member id given in this answer"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "the preferred leader is not there", REFRESH
    GROUP_MAX_SIZE_REACHED = 81, "the group has as many members as it may have"
    FENCED_INSTANCE_ID = 82, "another member has joined under this group.instance.id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "no replica that may lead is there", REFRESH
    ELECTION_NOT_NEEDED = 84, "the partition has the right leader already", REFRESH
    NO_REASSIGNMENT_IN_PROGRESS = 85, "no reassignment is under way"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "the group still reads this topic"
    INVALID_RECORD = 87, "a record breaks a rule of the topic or of the format"
    UNSTABLE_OFFSET_COMMIT = 88, "an offset is part of a transaction that has not ended", RETRY
    THROTTLING_QUOTA_EXCEEDED = 89, "the quota is used up: try again after throttle_time_ms", RETRY
    PRODUCER_FENCED = 90, "a newer producer uses this transactional id"
    RESOURCE_NOT_FOUND = 91, "the request names something that does not exist"
    DUPLICATE_RESOURCE = 92, "the request names the same thing twice"
    UNACCEPTABLE_CREDENTIAL = 93, "the credential does not meet the rules"
    INCONSISTENT_VOTER_SET = 94, "sender and receiver disagree on who votes"
    INVALID_UPDATE_VERSION = 95, "the given version was not the expected one"
    FEATURE_UPDATE_FAILED = 96, "the feature could not be changed"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "the principal of a forwarded request cannot be read"
    SNAPSHOT_NOT_FOUND = 98, "no such snapshot"
    POSITION_OUT_OF_RANGE = 99, "the position lies outside the snapshot"
    UNKNOWN_TOPIC_ID = 100, "no topic of this id here", REFRESH
    DUPLICATE_BROKER_REGISTRATION = 101, "another broker runs under this id"
    BROKER_ID_NOT_REGISTERED = 102, "no broker of this id is registered"
    INCONSISTENT_TOPIC_ID = 103, "the topic has another id here", REFRESH
    INCONSISTENT_CLUSTER_ID = 104, "this is another cluster"
    TRANSACTIONAL_ID_NOT_FOUND = 105, "no such transactional id"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "the fetch session mixes topic names and ids", RETRY
    INELIGIBLE_REPLICA = 107, "a replica of the new ISR may not be in it"
    NEW_LEADER_ELECTED = 108, "done, and the partition has another leader now"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "the offset lies in tiered storage"
    FENCED_MEMBER_EPOCH = 110, "the member's epoch is fenced: give up all partitions and join again"
    UNRELEASED_INSTANCE_ID = 111, "another member still holds this instance id"
    UNSUPPORTED_ASSIGNOR = 112, "the group does not know this assignor"
    STALE_MEMBER_EPOCH = 113, "the member's epoch is old: try again after the next heartbeat"
    MISMATCHED_ENDPOINT_TYPE = 114, "asked at the wrong kind of listener"
    UNSUPPORTED_ENDPOINT_TYPE = 115, "this kind of listener is not supported"
    UNKNOWN_CONTROLLER_ID = 116, "no controller of this id"
    UNKNOWN_SUBSCRIPTION_ID = 117, "the telemetry subscription is unknown or out of date"
    TELEMETRY_TOO_LARGE = 118, "the telemetry is larger than the broker takes"
    INVALID_REGISTRATION = 119, "the controller refuses this broker's registration"
    TRANSACTION_ABORTABLE = 120, "the transaction failed: abort it and go on"
    INVALID_RECORD_STATE = 121, "the record cannot be acknowledged in its present state"
    SHARE_SESSION_NOT_FOUND = 122, "no such share session", RETRY
    INVALID_SHARE_SESSION_EPOCH = 123, "the share session is at another epoch", RETRY
    FENCED_STATE_EPOCH = 124, "the share group's state is at another epoch"
    INVALID_VOTER_KEY = 125, "the voter's key is not this replica's"
    DUPLICATE_VOTER = 126, "the voter is in the set already"
    VOTER_NOT_FOUND = 127, "the voter is not in the set"
    INVALID_REGULAR_EXPRESSION = 128, "the regular expression cannot be read"
    REBOOTSTRAP_REQUIRED = 129, "the client's metadata is out of date: start again from the bootstrap servers"
    STREAMS_INVALID_TOPOLOGY = 130, "the topology is not possible"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "the topology's epoch is not possible"
    STREAMS_TOPOLOGY_FENCED = 132, "the topology's epoch is old"
    SHARE_SESSION_LIMIT_REACHED = 133, "there are as many share sessions as there may be", RETRY
