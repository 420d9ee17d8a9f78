"""The broker keys that Chronik acts on, each beside the attribute that holds its value.

Names, types, defaults and limits are Kafka's; `chronik.` keys are Chronik's own. Deliberate differences: the default of
`log.dir`, because Kafka's directory may hold the data of a Kafka broker; the defaults of heartbeats, so that a hang is
noticed within 3 s; `node.id`, `process.roles` and `controller.listener.names` are optional; and listeners are opened
only at startup, so their keys are read-only.

A key without an attribute is combined with others by `chronik.broker.settings.resolving`, or the controller uses it as
the default of a topic's key.
"""

from __future__ import annotations

from chronik.catalogue.group_values import GROUPS, GroupValues
from chronik.catalogue.notation import Key, Rows
from chronik.catalogue.share_values import SHARE, ShareValues
from chronik.catalogue.streams_values import STREAMS, StreamsValues

_rows = Rows()
section, key = _rows.section, _rows.key


class BrokerValues(GroupValues, ShareValues, StreamsValues):
    """The values of single keys. Attributes are named like their keys, with `_` for `.`, without `chronik.`"""

    section("Node")
    key(
        "process.roles  list  -  read-only  broker|controller",
        "Roles of the node. Every node must be both broker and controller, which is also the default.",
    )
    key(
        "node.id  int  -  read-only  0..",
        "Id of the node, unique in the cluster. Default: broker.id, or 1 in a single-node cluster.",
    )
    key(
        "broker.id  int  -1  read-only",
        "Older name of node.id. If both are set, they must be equal.",
    )
    key(
        "broker.rack  string  -  read-only",
        "Rack of the node. The replicas of a partition are spread over racks.",
    )
    key(
        "log.dirs  list  -  read-only",
        "Directory for records. Only the first is used: on a machine with several disks, run a node on each.",
    )
    key(
        "log.dir  list  /tmp/chronik-logs  read-only",
        "Directory for records if log.dirs is not set.",
    )
    key(
        "metadata.log.dir  string  -  read-only",
        "Directory for the metadata log. Default: log.dirs.",
    )
    controlled_shutdown_enable: bool = key(
        "controlled.shutdown.enable  boolean  true  read-only",
        "Transfer leadership to other nodes before a clean stop.",
    )

    section("Listeners")
    key(
        "listeners  list  PLAINTEXT://:9092  read-only",
        "Sockets to open, as NAME://host:port. No host: all interfaces. Port 0: any free port.",
    )
    key(
        "advertised.listeners  list  -  read-only",
        "Addresses that clients connect to. Default: listeners. Port 0 stands for the port that the listener got.",
    )
    key(
        "listener.security.protocol.map  string  SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT  read-only",  # noqa: E501 - a row is one line
        "Protocol of each listener, as NAME:PROTOCOL. PLAINTEXT and SSL are supported; with any other the node does "
        "not start.",
    )
    key(
        "inter.broker.listener.name  string  -  read-only",
        "Listener for traffic between brokers. Default: the one named by security.inter.broker.protocol.",
    )
    key(
        "security.inter.broker.protocol  string  PLAINTEXT  read-only  PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL",
        "Name of the listener for traffic between brokers if inter.broker.listener.name is not set.",
    )
    key(
        "controller.listener.names  list  -  read-only",
        "Listeners of the metadata quorum. Clients do not use them.",
    )
    key(
        "chronik.admin.listener  string  -  read-only",
        "Address of health checks and metrics, as host:port, or `none`. Default: 127.0.0.1, first listener's port "
        "plus 552.",
    )
    admin_hosts: tuple[str, ...] = key(
        "chronik.admin.hosts  list  ''  read-only",
        "Host names that requests to the admin listener may use, in addition to localhost, IP addresses, and the "
        "host names of this node's listeners. A request with another Host header is refused, so that web pages "
        "cannot read metrics.",
    )

    section("Security")
    key(
        "authorizer.class.name  string  ''  read-only",
        "Empty: everybody may do everything. org.apache.kafka.metadata.authorizer.StandardAuthorizer: requests are "
        "allowed or denied by ACLs. Other authorizers are not supported.",
    )
    key(
        "super.users  string  ''  read-only",
        "Principals that may do everything, separated by semicolons, such as User:admin;User:broker. Must contain "
        "the principal of connections between brokers. Needs authorizer.class.name.",
    )
    key(
        "allow.everyone.if.no.acl.found  boolean  false  read-only",
        "Whether everybody may do everything to a resource to which no ACL applies. Needs authorizer.class.name.",
    )
    insecure_listeners: bool = key(
        "chronik.insecure.listeners  boolean  false  read-only",
        "Allow listeners that other machines can reach without authentication. Without it, such a node does not "
        "start. Logins (SASL), or TLS with ssl.client.auth=required, are authentication.",
    )
    key(
        "chronik.quorum.secret  password  -  read-only",
        "Shared secret of the quorum, the same on every node, 16 characters or more. Nodes prove to each other "
        "that they know it; it is never sent. Without it, the quorum listener must be on loopback, or require "
        "certificates.",
    )
    key(
        "chronik.quorum.secret.file  string  -  read-only",
        "File that contains the secret. Use it instead of chronik.quorum.secret.",
    )

    section("Metadata quorum")
    key(
        "controller.quorum.voters  list  ''  read-only",
        "Voters of the quorum, as id@host:port. Empty: a single-node quorum.",
    )
    key(
        "controller.quorum.bootstrap.servers  list  ''  read-only",
        "Nodes of an existing quorum, as host:port. The node waits until `chronik cluster add` adds it. If it "
        "lists only this node, the node founds a single-node quorum, as `--standalone` does in Kafka.",
    )
    controller_quorum_request_timeout_ms: int = key(
        "controller.quorum.request.timeout.ms  int  2000  read-only  0..",
        "Time that a node waits for an answer of the controller before it retries.",
    )
    metadata_log_max_record_bytes_between_snapshots: int = key(
        "metadata.log.max.record.bytes.between.snapshots  long  20971520  read-only  1..",
        "Bytes of metadata log between two snapshots.",
    )
    broker_heartbeat_interval_ms: int = key(
        "broker.heartbeat.interval.ms  int  500  read-only",
        "Interval between heartbeats of a broker to the controller.",
    )
    broker_session_timeout_ms: int = key(
        "broker.session.timeout.ms  int  3000  read-only",
        "A broker without heartbeats for this long loses leadership of its partitions.",
    )
    initial_broker_registration_timeout_ms: int = key(
        "initial.broker.registration.timeout.ms  int  60000  read-only",
        "A broker stops if it cannot register within this time.",
    )
    auto_leader_rebalance_enable: bool = key(
        "auto.leader.rebalance.enable  boolean  true  read-only",
        "Return leadership to preferred replicas periodically.",
    )
    leader_imbalance_check_interval_seconds: int = key(
        "leader.imbalance.check.interval.seconds  long  300  read-only  1..",
        "Interval of that check.",
    )
    metadata_forwarding_enable: bool = key(
        "chronik.metadata.forwarding.enable  boolean  true  read-only",
        "Forward metadata writes to the controller. If false, other nodes answer NOT_CONTROLLER.",
    )
    metadata_batching_enable: bool = key(
        "chronik.metadata.batching.enable  boolean  true  read-only",
        "Batch metadata writes into one append and one sync. If false, each write takes a round trip of its own.",
    )
    metadata_leases_enable: bool = key(
        "chronik.metadata.leases.enable  boolean  true  read-only",
        "Let followers answer metadata reads while they hold a lease. If false, they forward such reads.",
    )

    section("Connections and requests")
    socket_request_max_bytes: int = key(
        "socket.request.max.bytes  int  104857600  read-only  1..",
        "Largest request. A larger one closes the connection.",
    )
    max_connections: int = key(
        "max.connections  int  2147483647  cluster-wide  0..",
        "Maximum number of connections. Further ones are closed.",
    )
    max_connections_per_ip: int = key(
        "max.connections.per.ip  int  2147483647  cluster-wide  0..",
        "Maximum number of connections from one address.",
    )
    key(
        "max.connections.per.ip.overrides  string  ''  cluster-wide",
        "Limits for single addresses, as host:count.",
    )
    connections_max_idle_ms: int = key(
        "connections.max.idle.ms  long  600000  read-only",
        "Connections are closed after this time without a request.",
    )
    max_incremental_fetch_session_cache_slots: int = key(
        "max.incremental.fetch.session.cache.slots  int  1000  read-only  0..",
        "Maximum number of fetch sessions. The least recently used one is evicted.",
    )
    fetch_max_bytes: int = key(
        "fetch.max.bytes  int  57671680  read-only  1024..",
        "Maximum size of a fetch response, whatever the client asks for.",
    )
    max_request_partition_size_limit: int = key(
        "max.request.partition.size.limit  int  2000  read-only  1..",
        "Maximum number of partitions in one page of DescribeTopicPartitions.",
    )
    key(
        "chronik.memory.budget.bytes  long  -  read-only  16777216..",
        "Memory for requests, unread responses, fetch sessions and group members together. Clients wait when it "
        "is used up. Default: a quarter of the machine's memory, at most 1 GiB.",
    )

    section("Quotas")
    quota_window_num: int = key(
        "quota.window.num  int  11  read-only  1..",
        "Samples over which the rates of clients are measured.",
    )
    quota_window_size_seconds: int = key(
        "quota.window.size.seconds  int  1  read-only  1..",
        "Length of each of these samples.",
    )
    controller_quota_window_num: int = key(
        "controller.quota.window.num  int  11  read-only  1..",
        "With controller.quota.window.size.seconds: for how many seconds a client may save up changes of topics.",
    )
    controller_quota_window_size_seconds: int = key(
        "controller.quota.window.size.seconds  int  1  read-only  1..",
        "See controller.quota.window.num.",
    )

    section("Client metrics")
    telemetry_max_bytes: int = key(
        "telemetry.max.bytes  int  1048576  read-only  1..",
        "Maximum size of the metrics that a client pushes at once, before and after decompression.",
    )

    section("Topics")
    num_partitions: int = key(
        "num.partitions  int  1  read-only  1..",
        "Default number of partitions of a new topic.",
    )
    default_replication_factor: int = key(
        "default.replication.factor  int  1  read-only  1..",
        "Default number of replicas of a new topic.",
    )
    key(
        "unclean.leader.election.enable  boolean  false  cluster-wide",
        "Elect a replica that is not in sync if no other is left. This loses records. Topics can override it.",
    )
    min_insync_replicas: int = key(
        "min.insync.replicas  int  1  cluster-wide  1..",
        "Minimum number of in-sync replicas for a produce request with acks=all.",
    )
    auto_create_topics_enable: bool = key(
        "auto.create.topics.enable  boolean  true  read-only",
        "Create a topic when a client first requests it.",
    )
    delete_topic_enable: bool = key(
        "delete.topic.enable  boolean  true  read-only",
        "Allow topics to be deleted.",
    )
    message_max_bytes: int = key(
        "message.max.bytes  int  1048588  cluster-wide  0..",
        "Maximum size of a record batch.",
    )
    compression_type: str = key(
        "compression.type  string  producer  cluster-wide  uncompressed|zstd|lz4|snappy|gzip|producer",
        "Compression of stored batches: as the producer sent them, or recompressed.",
    )
    compression_gzip_level: int = key(
        "compression.gzip.level  int  -1  cluster-wide  -1|1..9",
        "Compression level of gzip; -1 is zlib's default.",
    )
    compression_lz4_level: int = key(
        "compression.lz4.level  int  9  cluster-wide  1..17",
        "Compression level of lz4.",
    )
    compression_zstd_level: int = key(
        "compression.zstd.level  int  3  cluster-wide  -131072..22",
        "Compression level of zstd.",
    )
    log_message_timestamp_type: str = key(
        "log.message.timestamp.type  string  CreateTime  cluster-wide  CreateTime|LogAppendTime",
        "Timestamp of a record: set by the producer, or by the broker at append.",
    )
    log_message_timestamp_before_max_ms: int = key(
        "log.message.timestamp.before.max.ms  long  9223372036854775807  cluster-wide  0..",
        "How far a record's timestamp may be before the broker's time.",
    )
    log_message_timestamp_after_max_ms: int = key(
        "log.message.timestamp.after.max.ms  long  3600000  cluster-wide  0..",
        "How far a record's timestamp may be after the broker's time.",
    )

    section("Logs")
    durability: str = key(
        "chronik.durability  string  fsync  cluster-wide  fsync|os",
        "When acks=all is acknowledged: after fsync on every in-sync replica, or from the page cache as in Kafka.",
    )
    disk_hang_timeout_ms: int = key(
        "chronik.disk.hang.timeout.ms  long  6000  read-only  1000..",
        "A write to disk that takes longer makes the node give up its leaderships until the disk answers again.",
    )
    lost_disk_accept: bool = key(
        "chronik.lost.disk.accept  boolean  false  read-only",
        "Start with an empty log.dirs even if this node held the only copy of some partitions. They start empty.",
    )
    stray_retention_ms: int = key(
        "chronik.stray.retention.ms  long  604800000  read-only  0..",
        "How long to keep a log that no topic owns. It is renamed to .stray.",
    )
    scrub_interval_ms: int = key(
        "chronik.scrub.interval.ms  long  604800000  read-only  1..",
        "Time in which the scrubber reads all records once, to find damage.",
    )
    key(
        "log.retention.ms  long  -  cluster-wide",
        "How long to keep records; -1 is forever. Overrides log.retention.minutes, which overrides "
        "log.retention.hours.",
    )
    key(
        "log.retention.minutes  int  -  read-only",
        "How long to keep records, in minutes.",
    )
    key(
        "log.retention.hours  int  168  read-only",
        "How long to keep records, in hours.",
    )
    log_retention_bytes: int = key(
        "log.retention.bytes  long  -1  cluster-wide",
        "Maximum size of a partition; the oldest segments are deleted beyond it. -1: no limit.",
    )
    log_retention_check_interval_ms: int = key(
        "log.retention.check.interval.ms  long  300000  read-only  1..",
        "Interval between retention checks.",
    )
    log_segment_bytes: int = key(
        "log.segment.bytes  int  1073741824  cluster-wide  1048576..",
        "Maximum size of a segment.",
    )
    key(
        "log.roll.ms  long  -  cluster-wide  1..",
        "Maximum age of the active segment. Overrides log.roll.hours.",
    )
    key(
        "log.roll.hours  int  168  read-only  1..",
        "Maximum age of the active segment, in hours.",
    )
    log_index_interval_bytes: int = key(
        "log.index.interval.bytes  int  4096  cluster-wide  0..",
        "Bytes of records between two entries of the offset index.",
    )
    log_cleanup_policy: tuple[str, ...] = key(
        "log.cleanup.policy  list  delete  cluster-wide  compact|delete",
        "How to remove old records: delete by age and size, compact to the last record of each key, or both.",
    )
    log_cleaner_enable: bool = key(
        "log.cleaner.enable  boolean  true  read-only",
        "Run compaction.",
    )
    log_cleaner_delete_retention_ms: int = key(
        "log.cleaner.delete.retention.ms  long  86400000  cluster-wide  0..",
        "How long to keep tombstones after compaction.",
    )
    log_cleaner_min_cleanable_ratio: float = key(
        "log.cleaner.min.cleanable.ratio  double  0.5  cluster-wide  0..1",
        "Minimum share of uncompacted records before a log is compacted.",
    )
    log_cleaner_min_compaction_lag_ms: int = key(
        "log.cleaner.min.compaction.lag.ms  long  0  cluster-wide  0..",
        "Minimum age of records before they are compacted.",
    )
    log_cleaner_max_compaction_lag_ms: int = key(
        "log.cleaner.max.compaction.lag.ms  long  9223372036854775807  cluster-wide  1..",
        "Maximum age of records before they are compacted, whatever the ratio.",
    )
    producer_id_expiration_ms: int = key(
        "producer.id.expiration.ms  int  86400000  cluster-wide  1..",
        "How long a partition remembers an idempotent producer that sends nothing.",
    )

    section("Replication")
    replica_lag_time_max_ms: int = key(
        "replica.lag.time.max.ms  long  30000  read-only",
        "A follower that has not caught up for this long leaves the in-sync set.",
    )
    replica_fetch_min_bytes: int = key(
        "replica.fetch.min.bytes  int  1  read-only",
        "Minimum bytes of a follower's fetch response.",
    )
    replica_fetch_wait_max_ms: int = key(
        "replica.fetch.wait.max.ms  int  500  read-only",
        "Maximum time that a follower's fetch waits for the minimum.",
    )
    replica_fetch_max_bytes: int = key(
        "replica.fetch.max.bytes  int  1048576  read-only  0..",
        "Maximum bytes per partition in a follower's fetch response.",
    )
    replica_fetch_response_max_bytes: int = key(
        "replica.fetch.response.max.bytes  int  10485760  read-only  0..",
        "Maximum bytes of a follower's fetch response.",
    )
    replica_fetch_backoff_ms: int = key(
        "replica.fetch.backoff.ms  int  1000  read-only  0..",
        "Pause of a follower after a failed fetch.",
    )

    section("Logins")
    key(
        "sasl.enabled.mechanisms  list  GSSAPI  per-broker",
        "Mechanisms of SASL listeners: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER. Can be set for one listener.",
    )
    key(
        "sasl.jaas.config  password  -  per-broker",
        "Users of PLAIN, and the user and password by which this broker logs in to others. Write it for a listener and "
        "a mechanism: listener.name.NAME.MECHANISM.sasl.jaas.config.",
    )
    key(
        "sasl.mechanism.inter.broker.protocol  string  GSSAPI  per-broker",
        "Mechanism by which brokers log in to each other, if inter.broker.listener.name is a SASL listener.",
    )
    sasl_server_max_receive_size: int = key(
        "sasl.server.max.receive.size  int  524288  read-only",
        "Maximum size of a request before its sender has logged in.",
    )
    key(
        "connections.max.reauth.ms  long  0  read-only",
        "How long a login is valid; 0: as long as the connection. Can be set for one listener and mechanism.",
    )
    connection_failed_authentication_delay_ms: int = key(
        "connection.failed.authentication.delay.ms  int  100  read-only  0..",
        "How long the answer to a failed login is held back.",
    )

    section("Logins by OAUTHBEARER: each key can be set for one listener, or for the mechanism on a listener")
    key(
        "sasl.oauthbearer.jwks.endpoint.url  string  -  read-only",
        "Where the keys are that sign tokens (JWKS): https://HOST/PATH or file:///PATH. OAUTHBEARER needs it.",
    )
    key(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms  long  3600000  read-only",
        "Interval at which the keys are read again. A token that names an unknown key causes it too, at most every "
        "10 seconds.",
    )
    key(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms  long  100  read-only",
        "Pause after an attempt to read the keys that failed. It doubles with each further one.",
    )
    key(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms  long  10000  read-only",
        "Longest pause between attempts to read the keys.",
    )
    key(
        "sasl.oauthbearer.expected.issuer  string  -  read-only",
        "Required value of the claim iss. Not set: any.",
    )
    key(
        "sasl.oauthbearer.expected.audience  list  ''  read-only",
        "Audiences of which the claim aud must name one. Not set: a token with an audience is refused.",
    )
    key(
        "sasl.oauthbearer.clock.skew.seconds  int  30  read-only",
        "How far the clock of the issuer may differ from this node's.",
    )
    key(
        "sasl.oauthbearer.scope.claim.name  string  scope  read-only",
        "Claim with the scopes of a token.",
    )
    key(
        "sasl.oauthbearer.sub.claim.name  string  sub  read-only",
        "Claim with the name of the user.",
    )
    key(
        "sasl.server.callback.handler.class  class  -  read-only",
        "Kafka needs it for OAUTHBEARER. Allowed is only its OAuthBearerValidatorCallbackHandler, which Chronik's own "
        "checks replace.",
    )
    key(
        "sasl.oauthbearer.token.endpoint.url  string  -  read-only",
        "Where this broker gets tokens to log in to others: https://HOST/PATH of a token endpoint, or file:///PATH of "
        "a token.",
    )
    key(
        "sasl.oauthbearer.client.credentials.client.id  string  -  read-only",
        "Client id for the token endpoint.",
    )
    key(
        "sasl.oauthbearer.client.credentials.client.secret  password  -  read-only",
        "Client secret for the token endpoint.",
    )
    key(
        "sasl.oauthbearer.scope  string  -  read-only",
        "Scope that is asked for at the token endpoint.",
    )
    key(
        "sasl.login.read.timeout.ms  int  -  read-only",
        "How long the token endpoint may take to answer. Default: 10 seconds.",
    )
    key(
        "sasl.login.callback.handler.class  class  -  read-only",
        "Kafka needs it where brokers log in by OAUTHBEARER. Allowed is only its OAuthBearerLoginCallbackHandler.",
    )

    section("Transactions")
    transaction_max_timeout_ms: int = key(
        "transaction.max.timeout.ms  int  900000  read-only  1..",
        "Longest transaction timeout that a producer may ask for.",
    )
    transactional_id_expiration_ms: int = key(
        "transactional.id.expiration.ms  int  604800000  read-only  1..",
        "How long to keep a transactional id that is not used.",
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = key(
        "transaction.remove.expired.transaction.cleanup.interval.ms  int  3600000  read-only  1..",
        "Interval between checks for expired transactional ids.",
    )
    transaction_partition_verification_enable: bool = key(
        "transaction.partition.verification.enable  boolean  true  cluster-wide",
        "Whether a leader asks the coordinator before it takes the first batch of an older producer's transaction.",
    )
    add_partitions_to_txn_retry_backoff_ms: int = key(
        "add.partitions.to.txn.retry.backoff.ms  int  20  read-only  1..",
        "Longest pause of a leader before it asks a coordinator again that is still ending the producer's transaction.",
    )
    add_partitions_to_txn_retry_backoff_max_ms: int = key(
        "add.partitions.to.txn.retry.backoff.max.ms  int  100  read-only  0..",
        "How long a leader asks again before it refuses the batch.",
    )
    transaction_two_phase_commit_enable: bool = key(
        "transaction.two.phase.commit.enable  boolean  false  read-only",
        "Whether producers may ask for transactions without a timeout, which only they can end.",
    )
    transaction_state_log_replication_factor: int = key(
        "transaction.state.log.replication.factor  short  3  read-only  1..",
        "Replicas of the transaction topic. The topic is not created while there are fewer brokers.",
    )
    transaction_state_log_num_partitions: int = key(
        "transaction.state.log.num.partitions  int  50  read-only  1..",
        "Partitions of the transaction topic. Do not change it after the topic exists.",
    )
    transaction_state_log_min_isr: int = key(
        "transaction.state.log.min.isr  int  2  read-only  1..",
        "min.insync.replicas of the transaction topic.",
    )
    transaction_state_log_segment_bytes: int = key(
        "transaction.state.log.segment.bytes  int  104857600  read-only  1..",
        "Segment size of the transaction topic.",
    )


ACTED_ON = {**_rows.definitions, **GROUPS, **SHARE, **STREAMS}
FIELDS: dict[str, str] = {}  # attribute: key
for _class in (BrokerValues, GroupValues, ShareValues, StreamsValues):
    for _field, _key in list(vars(_class).items()):
        if isinstance(_key, Key):
            FIELDS[_field] = _key.name
            delattr(_class, _field)  # the annotation stays; an instance without a value raises AttributeError
