"""The keys of a node that Chronik acts on. Names, types, defaults and bounds are Kafka's; `chronik.` keys are ours.

What differs: the default of `log.dir`, because another broker's data may lie in Kafka's; those of heartbeats, so that a
hang is noticed in 3 s; `node.id`, `process.roles` and `controller.listener.names` may be left out; and listeners are
opened once, so their keys are read-only here.
"""

from __future__ import annotations

from chronik.broker.settings.definitions import read_table

ACTED_ON = read_table("""
[Node]
process.roles  list  -  read-only  broker|controller
    Roles of the node. Every node must be both broker and controller, which is also the default.
node.id  int  -  read-only  0..
    Id of the node, unique in the cluster. Default: broker.id, or 1 in a single-node cluster.
broker.id  int  -1  read-only
    Older name of node.id. If both are set, they must be equal.
broker.rack  string  -  read-only
    Rack of the node. The replicas of a partition are spread over racks.
log.dirs  list  -  read-only
    Directory for records. Only the first is used: on a machine with several disks, run a node on each.
log.dir  list  /tmp/chronik-logs  read-only
    Directory for records if log.dirs is not set.
metadata.log.dir  string  -  read-only
    Directory for the metadata log. Default: log.dirs.
controlled.shutdown.enable  boolean  true  read-only
    Transfer leadership to other nodes before a clean stop.

[Listeners]
listeners  list  PLAINTEXT://:9092  read-only
    Sockets to open, as NAME://host:port. No host: all interfaces. Port 0: any free port.
advertised.listeners  list  -  read-only
    Addresses that clients connect to. Default: listeners. Port 0 stands for the port that the listener got.
listener.security.protocol.map  string  SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT  read-only
    Protocol of each listener, as NAME:PROTOCOL. Only PLAINTEXT is supported; with any other the node does not start.
inter.broker.listener.name  string  -  read-only
    Listener for traffic between brokers. Default: the one named by security.inter.broker.protocol.
security.inter.broker.protocol  string  PLAINTEXT  read-only  PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL
    Name of the listener for traffic between brokers if inter.broker.listener.name is not set.
controller.listener.names  list  -  read-only
    Listeners of the metadata quorum. Clients do not use them.
chronik.admin.listener  string  -  read-only
    Address of health checks and metrics, as host:port, or `none`. Default: 127.0.0.1, first listener's port plus 552.
chronik.admin.hosts  list  ''  read-only
    Host names that requests to the admin listener may use, in addition to localhost, IP addresses, and the host names
    of this node's listeners. A request with another Host header is refused, so that web pages cannot read metrics.

[Security]
authorizer.class.name  string  ''  read-only
    Must be empty. Authorization is not implemented, so a node with an authorizer does not start.
chronik.insecure.listeners  boolean  false  read-only
    Allow listeners that other machines can reach, although there is no authentication. Without it, such a node does not start.
chronik.quorum.secret  password  -  read-only
    Shared secret of the quorum, the same on every node, 16 characters or more. Nodes prove to each other that they
    know it; it is never sent. Without it, the quorum listener must be on loopback.
chronik.quorum.secret.file  string  -  read-only
    File that contains the secret. Use it instead of chronik.quorum.secret.

[Metadata quorum]
controller.quorum.voters  list  ''  read-only
    Voters of the quorum, as id@host:port. Empty: a single-node quorum.
controller.quorum.bootstrap.servers  list  ''  read-only
    Nodes of an existing quorum, as host:port. The node waits until `chronik cluster add` adds it. If it lists only
    this node, the node founds a single-node quorum, as `--standalone` does in Kafka.
controller.quorum.request.timeout.ms  int  2000  read-only  0..
    Time that a node waits for an answer of the controller before it retries.
metadata.log.max.record.bytes.between.snapshots  long  20971520  read-only  1..
    Bytes of metadata log between two snapshots.
broker.heartbeat.interval.ms  int  500  read-only
    Interval between heartbeats of a broker to the controller.
broker.session.timeout.ms  int  3000  read-only
    A broker without heartbeats for this long loses leadership of its partitions.
initial.broker.registration.timeout.ms  int  60000  read-only
    A broker stops if it cannot register within this time.
auto.leader.rebalance.enable  boolean  true  read-only
    Return leadership to preferred replicas periodically.
leader.imbalance.check.interval.seconds  long  300  read-only  1..
    Interval of that check.
chronik.metadata.forwarding.enable  boolean  true  read-only
    Forward metadata writes to the controller. If false, other nodes answer NOT_CONTROLLER.
chronik.metadata.batching.enable  boolean  true  read-only
    Batch metadata writes into one append and one sync. If false, each write takes a round trip of its own.
chronik.metadata.leases.enable  boolean  true  read-only
    Let followers answer metadata reads while they hold a lease. If false, they forward such reads.

[Connections and requests]
socket.request.max.bytes  int  104857600  read-only  1..
    Largest request. A larger one closes the connection.
max.connections  int  2147483647  cluster-wide  0..
    Maximum number of connections. Further ones are closed.
max.connections.per.ip  int  2147483647  cluster-wide  0..
    Maximum number of connections from one address.
max.connections.per.ip.overrides  string  ''  cluster-wide
    Limits for single addresses, as host:count.
connections.max.idle.ms  long  600000  read-only
    Connections are closed after this time without a request.
max.incremental.fetch.session.cache.slots  int  1000  read-only  0..
    Maximum number of fetch sessions. The least recently used one is evicted.
fetch.max.bytes  int  57671680  read-only  1024..
    Maximum size of a fetch response, whatever the client asks for.
max.request.partition.size.limit  int  2000  read-only  1..
    Maximum number of partitions in one page of DescribeTopicPartitions.
chronik.memory.budget.bytes  long  -  read-only  16777216..
    Memory for requests, unread responses, fetch sessions and group members together. Clients wait when it is used up.
    Default: a quarter of the machine's memory, at most 1 GiB.

[Topics]
num.partitions  int  1  read-only  1..
    Default number of partitions of a new topic.
default.replication.factor  int  1  read-only  1..
    Default number of replicas of a new topic.
unclean.leader.election.enable  boolean  false  cluster-wide
    Elect a replica that is not in sync if no other is left. This loses records. Topics can override it.
min.insync.replicas  int  1  cluster-wide  1..
    Minimum number of in-sync replicas for a produce request with acks=all.
auto.create.topics.enable  boolean  true  read-only
    Create a topic when a client first requests it.
delete.topic.enable  boolean  true  read-only
    Allow topics to be deleted.
message.max.bytes  int  1048588  cluster-wide  0..
    Maximum size of a record batch.
compression.type  string  producer  cluster-wide  uncompressed|zstd|lz4|snappy|gzip|producer
    Compression of stored batches: as the producer sent them, or recompressed.
compression.gzip.level  int  -1  cluster-wide  -1|1..9
    Compression level of gzip; -1 is zlib's default.
compression.lz4.level  int  9  cluster-wide  1..17
    Compression level of lz4.
compression.zstd.level  int  3  cluster-wide  -131072..22
    Compression level of zstd.
log.message.timestamp.type  string  CreateTime  cluster-wide  CreateTime|LogAppendTime
    Timestamp of a record: set by the producer, or by the broker at append.
log.message.timestamp.before.max.ms  long  9223372036854775807  cluster-wide  0..
    How far a record's timestamp may be before the broker's time.
log.message.timestamp.after.max.ms  long  3600000  cluster-wide  0..
    How far a record's timestamp may be after the broker's time.

[Logs]
chronik.durability  string  fsync  cluster-wide  fsync|os
    When acks=all is acknowledged: after fsync on every in-sync replica, or from the page cache as in Kafka.
chronik.disk.hang.timeout.ms  long  6000  read-only  1000..
    A write to disk that takes longer makes the node give up its leaderships until the disk answers again.
chronik.lost.disk.accept  boolean  false  read-only
    Start with an empty log.dirs even if this node held the only copy of some partitions. They start empty.
chronik.stray.retention.ms  long  604800000  read-only  0..
    How long to keep a log that no topic owns. It is renamed to .stray.
chronik.scrub.interval.ms  long  604800000  read-only  1..
    Time in which the scrubber reads all records once, to find damage.
log.retention.ms  long  -  cluster-wide
    How long to keep records; -1 is forever. Overrides log.retention.minutes, which overrides log.retention.hours.
log.retention.minutes  int  -  read-only
    How long to keep records, in minutes.
log.retention.hours  int  168  read-only
    How long to keep records, in hours.
log.retention.bytes  long  -1  cluster-wide
    Maximum size of a partition; the oldest segments are deleted beyond it. -1: no limit.
log.retention.check.interval.ms  long  300000  read-only  1..
    Interval between retention checks.
log.segment.bytes  int  1073741824  cluster-wide  1048576..
    Maximum size of a segment.
log.roll.ms  long  -  cluster-wide
    Maximum age of the active segment. Overrides log.roll.hours.
log.roll.hours  int  168  read-only  1..
    Maximum age of the active segment, in hours.
log.segment.delete.delay.ms  long  60000  cluster-wide  0..
    How long the file of a deleted segment stays, for consumers that still read it.
log.index.interval.bytes  int  4096  cluster-wide  0..
    Bytes of records between two entries of the offset index.
log.cleanup.policy  list  delete  cluster-wide  compact|delete
    How to remove old records: delete by age and size, compact to the last record of each key, or both.
log.cleaner.enable  boolean  true  read-only
    Run compaction.
log.cleaner.delete.retention.ms  long  86400000  cluster-wide  0..
    How long to keep tombstones after compaction.
log.cleaner.min.cleanable.ratio  double  0.5  cluster-wide  0..1
    Minimum share of uncompacted records before a log is compacted.
log.cleaner.min.compaction.lag.ms  long  0  cluster-wide  0..
    Minimum age of records before they are compacted.
log.cleaner.max.compaction.lag.ms  long  9223372036854775807  cluster-wide  1..
    Maximum age of records before they are compacted, whatever the ratio.
producer.id.expiration.ms  int  86400000  cluster-wide  1..
    How long a partition remembers an idempotent producer that sends nothing.

[Replication]
replica.lag.time.max.ms  long  30000  read-only
    A follower that has not caught up for this long leaves the in-sync set.
replica.fetch.min.bytes  int  1  read-only
    Minimum bytes of a follower's fetch response.
replica.fetch.wait.max.ms  int  500  read-only
    Maximum time that a follower's fetch waits for the minimum.
replica.fetch.max.bytes  int  1048576  read-only  0..
    Maximum bytes per partition in a follower's fetch response.
replica.fetch.response.max.bytes  int  10485760  read-only  0..
    Maximum bytes of a follower's fetch response.
replica.fetch.backoff.ms  int  1000  read-only  0..
    Pause of a follower after a failed fetch.

[Groups and offsets]
group.initial.rebalance.delay.ms  int  3000  read-only
    How long the first rebalance of an empty group waits for more members.
group.min.session.timeout.ms  int  6000  read-only
    Minimum session timeout of a group member.
group.max.session.timeout.ms  int  1800000  read-only
    Maximum session timeout of a group member.
group.max.size  int  2147483647  read-only  1..
    Maximum number of members of a group.
offsets.topic.replication.factor  short  3  read-only  1..
    Replicas of __consumer_offsets. The topic is not created while there are fewer brokers.
offsets.topic.num.partitions  int  50  read-only  1..
    Partitions of __consumer_offsets. Do not change it after the topic exists.
offsets.topic.segment.bytes  int  104857600  read-only  1..
    Segment size of __consumer_offsets.
offsets.retention.minutes  int  10080  read-only  1..
    How long to keep the offsets of an empty group.
offsets.retention.check.interval.ms  long  600000  read-only  1..
    Interval between checks for expired offsets.
offsets.commit.timeout.ms  int  5000  read-only  1..
    How long an offset commit may wait to become durable.
offset.metadata.max.bytes  int  4096  read-only
    Maximum size of the metadata that a client stores with an offset.

[Transactions]
transaction.state.log.replication.factor  short  3  read-only  1..
    Replicas of the transaction topic. The topic is not created while there are fewer brokers.
transaction.state.log.num.partitions  int  50  read-only  1..
    Partitions of the transaction topic. Do not change it after the topic exists.
transaction.state.log.min.isr  int  2  read-only  1..
    min.insync.replicas of the transaction topic.
transaction.state.log.segment.bytes  int  104857600  read-only  1..
    Segment size of the transaction topic.
""")  # noqa: E501 - a row is one line
