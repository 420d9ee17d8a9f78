"""Causes and cures of errors, for docs/reference/error-codes.md. A name that no longer exists fails a test."""

from __future__ import annotations

from typing import Final

ACL: Final = "The principal lacks a permission. `chronik acl explain` shows why; `chronik acl add` allows it."
CAUSES: Final = {
    "UNKNOWN_SERVER_ERROR": "An error without a code of its own. The node's log has the details; report it as a bug.",
    "OFFSET_OUT_OF_RANGE": "Retention deleted the records before they were read, or the position is beyond the end. "
    "Reset the group with `chronik group reset`, or raise `retention.ms`.",
    "CORRUPT_MESSAGE": "Bytes changed between producer and broker. If it happens again, check network and memory.",
    "UNKNOWN_TOPIC_OR_PARTITION": "The name is wrong, the topic was deleted, or the partition does not exist. "
    "`chronik topic list` shows all names. A topic that was just created may not be known everywhere yet.",
    "LEADER_NOT_AVAILABLE": "No live replica may lead. Start the nodes that `chronik doctor` names.",
    "NOT_LEADER_OR_FOLLOWER": "The leader has moved. Clients find the new one by themselves.",
    "REQUEST_TIMED_OUT": "With `acks=all`: a replica is slow. `chronik doctor` names slow disks and missing replicas.",
    "BROKER_NOT_AVAILABLE": "The broker is down or fenced. `chronik cluster status` shows all nodes.",
    "REPLICA_NOT_AVAILABLE": "The replica is being moved or its node is down. Clients ask another one.",
    "MESSAGE_TOO_LARGE": "Raise `max.message.bytes` of the topic, or send smaller batches.",
    "OFFSET_METADATA_TOO_LARGE": "Commit shorter text, or raise `offset.metadata.max.bytes`.",
    "NETWORK_EXCEPTION": "The node stopped, or closed the connection. Its log says why.",
    "COORDINATOR_LOAD_IN_PROGRESS": "A new coordinator reads its state after a failover. It takes seconds at most.",
    "COORDINATOR_NOT_AVAILABLE": "The partition of `__consumer_offsets` or `__transaction_state` has no leader. "
    "Start the missing nodes.",
    "INVALID_TOPIC_EXCEPTION": "Use letters, digits, `.`, `_` and `-`, at most 249 characters. Internal topics "
    "cannot be written to.",
    "RECORD_LIST_TOO_LARGE": "Raise `segment.bytes` of the topic, or send smaller batches.",
    "NOT_ENOUGH_REPLICAS": "Fewer replicas are in sync than `min.insync.replicas`. Start the missing nodes; "
    "`chronik topic describe` names the replicas.",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": "A replica was lost while the record was written. Producers repeat it.",
    "ILLEGAL_GENERATION": "The member was too slow, and the group continued without it. It joins again.",
    "INCONSISTENT_GROUP_PROTOCOL": "Members of a group need a common assignor. Change `partition.assignment.strategy` "
    "in two rolling restarts.",
    "INVALID_GROUP_ID": "The name of the group is empty.",
    "UNKNOWN_MEMBER_ID": "The member's session timed out. It joins again; if it happens often, process fewer records "
    "per poll or raise `session.timeout.ms`.",
    "INVALID_SESSION_TIMEOUT": "Use a value between `group.min.session.timeout.ms` and `group.max.session.timeout.ms`.",
    "TOPIC_AUTHORIZATION_FAILED": ACL,
    "GROUP_AUTHORIZATION_FAILED": ACL,
    "CLUSTER_AUTHORIZATION_FAILED": ACL,
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": ACL,
    "INVALID_TIMESTAMP": "The clock of the producer is wrong, or the records are old: see "
    "`message.timestamp.before.max.ms` and `message.timestamp.after.max.ms`.",
    "UNSUPPORTED_SASL_MECHANISM": "Use a mechanism of `sasl.enabled.mechanisms`.",
    "ILLEGAL_SASL_STATE": "The client did not log in first, or the listener takes none: check `security.protocol`.",
    "UNSUPPORTED_VERSION": "`chronik compat` lists the versions that are served. The client asks for another one.",
    "TOPIC_ALREADY_EXISTS": "Choose another name, or use the topic that exists.",
    "INVALID_PARTITIONS": "The number must be positive, and greater than the present one. It cannot be reduced.",
    "INVALID_REPLICATION_FACTOR": "There are not enough live brokers. Start them, or use fewer replicas.",
    "INVALID_CONFIG": "The message names the key and the reason. See [configuration](configuration.md).",
    "NOT_CONTROLLER": "The controller has moved or none is elected. `chronik cluster status` shows it.",
    "POLICY_VIOLATION": "The change would break a rule of the cluster; the message names it.",
    "OUT_OF_ORDER_SEQUENCE_NUMBER": "An earlier batch of the producer was lost. The producer reports it and must be "
    "restarted if it does not recover.",
    "INVALID_PRODUCER_EPOCH": "A newer instance uses the same transactional id, or the transaction timed out.",
    "INVALID_TXN_STATE": "The program calls the methods of a transaction in a wrong order.",
    "INVALID_PRODUCER_ID_MAPPING": "The transactional id has expired. Close the producer and create it again.",
    "INVALID_TRANSACTION_TIMEOUT": "Lower the producer's timeout, or raise `transaction.max.timeout.ms`.",
    "CONCURRENT_TRANSACTIONS": "The previous transaction is being completed. Clients repeat the request.",
    "SECURITY_DISABLED": "The cluster has no authorizer: set `authorizer.class.name`. See [security](security.md).",
    "KAFKA_STORAGE_ERROR": "A disk fails, or a file is missing. See [data directories](storage.md) and the node's log.",
    "LOG_DIR_NOT_FOUND": "The broker has no directory of that name in `log.dirs`.",
    "SASL_AUTHENTICATION_FAILED": "User or password is wrong, or the token has expired. `chronik user list` shows "
    "users.",
    "UNKNOWN_PRODUCER_ID": "The records of the producer were deleted by retention. Producers continue by themselves.",
    "REASSIGNMENT_IN_PROGRESS": "Wait, or cancel moves with `chronik cluster rebalance --cancel`.",
    "NON_EMPTY_GROUP": "Stop the consumers of the group first.",
    "GROUP_ID_NOT_FOUND": "`chronik group list` shows all groups. Offsets expire after `offsets.retention.minutes`.",
    "TOPIC_DELETION_DISABLED": "Set `delete.topic.enable=true`.",
    "FENCED_LEADER_EPOCH": "The client's metadata is old. It refreshes by itself.",
    "OFFSET_NOT_AVAILABLE": "A new leader waits for its replicas. It takes seconds at most.",
    "GROUP_MAX_SIZE_REACHED": "Raise `group.max.size`, or start fewer consumers.",
    "FENCED_INSTANCE_ID": "Two consumers use the same `group.instance.id`. Give each one of its own.",
    "ELIGIBLE_LEADERS_NOT_AVAILABLE": "Start the nodes that hold the partition's in-sync replicas.",
    "GROUP_SUBSCRIBED_TO_TOPIC": "Stop the consumers of the group first.",
    "INVALID_RECORD": "The topic is compacted and the record has no key, or the batch is malformed.",
    "UNSTABLE_OFFSET_COMMIT": "A transaction with offsets of the group is open. `chronik txn list` shows it.",
    "THROTTLING_QUOTA_EXCEEDED": "A quota is used up. `chronik quota list` shows quotas.",
    "PRODUCER_FENCED": "A newer instance uses the same transactional id. Close this producer.",
    "UNACCEPTABLE_CREDENTIAL": "SCRAM needs at least 4,096 iterations and a name that is not empty.",
    "UNKNOWN_TOPIC_ID": "The topic was deleted and created again. Clients refresh their metadata.",
    "DUPLICATE_BROKER_REGISTRATION": "Another live broker has this `node.id`.",
    "BROKER_ID_NOT_REGISTERED": "No broker with this id exists. `chronik cluster status` shows all nodes.",
    "INCONSISTENT_CLUSTER_ID": "The node has the data of another cluster. Check `log.dirs` and the list of voters.",
    "TRANSACTIONAL_ID_NOT_FOUND": "It never existed, or has expired (`transactional.id.expiration.ms`).",
    "TRANSACTION_ABORTABLE": "Abort the transaction and repeat it.",
    "DUPLICATE_VOTER": "The node votes already.",
    "VOTER_NOT_FOUND": "The node is no voter. `chronik cluster status` shows all voters.",
    "INVALID_REGULAR_EXPRESSION": "The pattern is not valid RE2 syntax.",
    "REBOOTSTRAP_REQUIRED": "The client connects to its bootstrap servers again.",
}
FILE, DECLARATIONS, SPARK, PLACES, RUN = "the file", "declarations", "Spark", "cluster and storage", "the run"
PIPELINE_KINDS: Final = {
    **dict.fromkeys(
        (
            "FILE_NOT_FOUND",
            "FILE_NOT_READABLE",
            "FILE_FAILED",
            "NOTHING_DECLARED",
            "YAML_FIELD_UNKNOWN",
            "YAML_FIELD_MISSING",
            "YAML_MALFORMED",
            "COMMAND_CONFIG_INVALID",
        ),
        FILE,
    ),
    **dict.fromkeys(
        (
            "NAME_TAKEN",
            "NAME_INVALID",
            "TABLE_NOT_DECLARED",
            "NOTHING_READ",
            "TOO_MANY_READ",
            "CYCLE",
            "GOLD_IS_THE_END",
            "EXPECTATION_TAKEN",
            "OPTION_INVALID",
        ),
        DECLARATIONS,
    ),
    **dict.fromkeys(
        (
            "SCHEMA_INVALID",
            "FUNCTION_FAILED",
            "FUNCTION_RETURNS",
            "COLUMN_NOT_FOUND",
            "LINEAGE_LOST",
            "EXPECTATION_INVALID",
            "SPARK_MISSING",
            "JDK_MISSING",
            "SPARK_NOT_STARTED",
        ),
        SPARK,
    ),
    **dict.fromkeys(
        (
            "BROKER_NOT_REACHED",
            "TOPIC_NOT_FOUND",
            "TOPIC_DENIED",
            "TABLE_NOT_WRITABLE",
            "CHECKPOINT_NOT_WRITABLE",
            "CHECKPOINT_LOST",
            "STORAGE_NOT_A_FOLDER",
            "STORAGE_NOT_SHARED",
        ),
        PLACES,
    ),
    **dict.fromkeys(
        (
            "EXPECTATION_FAILED",
            "RECORD_REFUSED",
            "FLOW_NOT_FOUND",
            "FLOW_STOPPED",
            "RECORDS_DIFFER",
            "FIX_INVALID",
            "ROWS_FAILED",
        ),
        RUN,
    ),
}
