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
    What the node is: a broker that keeps records, a controller that votes on metadata; by default both.
node.id  int  -  read-only  0..
    The node's number, unique in the cluster. Without it broker.id; without both, 1 in a cluster of one.
broker.id  int  -1  read-only
    The older name of node.id. Where both are set they must be equal.
broker.rack  string  -  read-only
    Where the node stands. Replicas of a partition are spread over racks.
log.dirs  list  -  read-only
    Where records are kept. Only the first is used: a machine with several disks runs a node on each.
log.dir  list  /tmp/chronik-logs  read-only
    The same, when log.dirs is not set.
metadata.log.dir  string  -  read-only
    Where the metadata log is kept; by default beside the records.
controlled.shutdown.enable  boolean  true  read-only
    On a clean stop, hand leadership over first.

[Listeners]
listeners  list  PLAINTEXT://:9092  read-only
    NAME://host:port, one for each socket. No host means all interfaces, port 0 any free port.
advertised.listeners  list  -  read-only
    What clients are told to connect to; by default the listeners themselves. Port 0 stands for the port the listener got.
listener.security.protocol.map  string  SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT  read-only
    NAME:PROTOCOL for each listener's name. Only PLAINTEXT is served; any other protocol stops the node.
inter.broker.listener.name  string  -  read-only
    The listener by which brokers reach each other; by default the one named as security.inter.broker.protocol.
security.inter.broker.protocol  string  PLAINTEXT  read-only  PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL
    Names the listener between brokers when inter.broker.listener.name is not set.
controller.listener.names  list  -  read-only
    Which of the listeners belong to the metadata quorum. Clients are never sent there.
chronik.admin.listener  string  -  read-only
    host:port of health and metrics, or `none`. By default 127.0.0.1, at the port of the first listener plus 552.
chronik.admin.hosts  list  ''  read-only
    Names by which browsers and scrapers may ask for health and metrics, beside localhost, addresses, and the names of
    this node's listeners. A request with another Host header is refused, so that no web page can read them.

[Security]
authorizer.class.name  string  ''  read-only
    Must stay empty: nothing is authorised, and a node that is told to authorise does not start.
chronik.insecure.listeners  boolean  false  read-only
    Let listeners be reached from other machines though nobody has to log in. Without it such a node does not start.
chronik.quorum.secret  password  -  read-only
    What the nodes of the quorum prove to each other to know before anything else; the same on every node, 16 characters
    or more. It is never sent. Without it a listener of the quorum must be on loopback.
chronik.quorum.secret.file  string  -  read-only
    The file that holds it, instead of the key itself.

[Metadata quorum]
controller.quorum.voters  list  ''  read-only
    id@host:port of each voter. Empty: this node alone is the quorum.
controller.quorum.bootstrap.servers  list  ''  read-only
    host:port of nodes whose quorum a node without a list of voters joins, once `chronik cluster add` names it there.
    If this node is the only one listed, it founds a quorum of its own, as a file that Kafka formats `--standalone`.
controller.quorum.request.timeout.ms  int  2000  read-only  0..
    How long a node waits for the controller to answer before it asks again.
metadata.log.max.record.bytes.between.snapshots  long  20971520  read-only  1..
    So many bytes of metadata log make the next snapshot.
broker.heartbeat.interval.ms  int  500  read-only
    How often a broker tells the controller that it is alive.
broker.session.timeout.ms  int  3000  read-only
    A broker that was silent for this long loses its leaderships.
initial.broker.registration.timeout.ms  int  60000  read-only
    A broker that cannot register for this long stops.
auto.leader.rebalance.enable  boolean  true  read-only
    Move leadership back to preferred replicas.
leader.imbalance.check.interval.seconds  long  300  read-only  1..
    How often leadership is moved back.
chronik.metadata.forwarding.enable  boolean  true  read-only
    Pass metadata writes on to the controller. Off: nodes that are not the controller answer NOT_CONTROLLER.
chronik.metadata.batching.enable  boolean  true  read-only
    Let metadata writes share one append, one sync and one round. Off: each takes a round of its own.
chronik.metadata.leases.enable  boolean  true  read-only
    Let followers answer metadata reads while they hold a lease. Off: such reads are passed on.

[Connections and requests]
socket.request.max.bytes  int  104857600  read-only  1..
    The largest request; a larger one costs its connection.
max.connections  int  2147483647  cluster-wide  0..
    Connections to the node at any one time; one more is closed.
max.connections.per.ip  int  2147483647  cluster-wide  0..
    The same for one client address.
max.connections.per.ip.overrides  string  ''  cluster-wide
    host:count, for addresses that may have more or fewer.
connections.max.idle.ms  long  600000  read-only
    A connection without requests for this long is closed.
max.incremental.fetch.session.cache.slots  int  1000  read-only  0..
    Fetch sessions kept; the longest unused one makes room.
fetch.max.bytes  int  57671680  read-only  1024..
    The most records one fetch returns, whatever the client asks for.
max.request.partition.size.limit  int  2000  read-only  1..
    The most partitions one page of DescribeTopicPartitions returns.
chronik.memory.budget.bytes  long  -  read-only  16777216..
    The most that requests, unread replies, fetch sessions and group members may hold in memory together; beyond it
    clients wait. By default a quarter of the machine's memory, 1 GiB at most.

[Topics]
num.partitions  int  1  read-only  1..
    Partitions of a topic created without saying how many.
default.replication.factor  int  1  read-only  1..
    Replicas of a topic created without saying how many.
unclean.leader.election.enable  boolean  false  cluster-wide
    Let a replica that is not in sync lead when no other is left, which loses records; topics may say otherwise.
min.insync.replicas  int  1  cluster-wide  1..
    With fewer replicas in sync, a produce with acks=all is refused.
auto.create.topics.enable  boolean  true  read-only
    Create a topic when a client first asks for it by name.
delete.topic.enable  boolean  true  read-only
    Whether topics may be deleted.
message.max.bytes  int  1048588  cluster-wide  0..
    The largest batch of records that is accepted.
compression.type  string  producer  cluster-wide  uncompressed|zstd|lz4|snappy|gzip|producer
    How batches are kept: as the producer sent them, or recompressed.
compression.gzip.level  int  -1  cluster-wide  -1|1..9
    Effort of gzip; -1 leaves it to zlib.
compression.lz4.level  int  9  cluster-wide  1..17
    Effort of lz4.
compression.zstd.level  int  3  cluster-wide  -131072..22
    Effort of zstd.
log.message.timestamp.type  string  CreateTime  cluster-wide  CreateTime|LogAppendTime
    Whose time a record carries: the producer's, or the broker's at the append.
log.message.timestamp.before.max.ms  long  9223372036854775807  cluster-wide  0..
    How far behind the broker's clock a producer's time may be.
log.message.timestamp.after.max.ms  long  3600000  cluster-wide  0..
    How far ahead of the broker's clock a producer's time may be.

[Logs]
chronik.durability  string  fsync  cluster-wide  fsync|os
    When acks=all is answered: after fsync on every in-sync replica, or from the page cache as Kafka does.
chronik.disk.hang.timeout.ms  long  6000  read-only  1000..
    A write to disk that takes longer makes the node give up its leaderships until the disk answers again.
chronik.lost.disk.accept  boolean  false  read-only
    Start on an empty log.dirs though this node held the only copy of some partitions: they begin again without records.
chronik.stray.retention.ms  long  604800000  read-only  0..
    How long a log that the cluster's metadata does not know is kept, under a name that ends in .stray.
chronik.scrub.interval.ms  long  604800000  read-only  1..
    How long one pass over all records on disk takes, which looks for damaged bytes.
log.retention.ms  long  -  cluster-wide
    How long records are kept; -1 for ever. Wins over minutes, and minutes over hours.
log.retention.minutes  int  -  read-only
    The same in minutes.
log.retention.hours  int  168  read-only
    The same in hours.
log.retention.bytes  long  -1  cluster-wide
    How large a partition may grow before its oldest segments go; -1 without bound.
log.retention.check.interval.ms  long  300000  read-only  1..
    How often retention is enforced.
log.segment.bytes  int  1073741824  cluster-wide  1048576..
    The size at which a segment is closed and the next one begun.
log.roll.ms  long  -  cluster-wide
    The age at which a segment is closed. Wins over hours.
log.roll.hours  int  168  read-only  1..
    The same in hours.
log.segment.delete.delay.ms  long  60000  cluster-wide  0..
    How long a removed segment's file stays for readers that are still at it.
log.index.interval.bytes  int  4096  cluster-wide  0..
    So many bytes of records for one entry of the offset index.
log.cleanup.policy  list  delete  cluster-wide  compact|delete
    What happens to old records: delete them, or keep the last of each key, or both.
log.cleaner.enable  boolean  true  read-only
    Whether compaction runs at all.
log.cleaner.delete.retention.ms  long  86400000  cluster-wide  0..
    How long a tombstone is kept after compaction.
log.cleaner.min.cleanable.ratio  double  0.5  cluster-wide  0..1
    The share of a log that must be uncompacted before it is worth compacting.
log.cleaner.min.compaction.lag.ms  long  0  cluster-wide  0..
    Records younger than this are not compacted.
log.cleaner.max.compaction.lag.ms  long  9223372036854775807  cluster-wide  1..
    Records older than this are compacted, whatever the ratio.
producer.id.expiration.ms  int  86400000  cluster-wide  1..
    How long a partition remembers an idempotent producer that is silent.

[Replication]
replica.lag.time.max.ms  long  30000  read-only
    A follower that has not caught up for this long leaves the in-sync replicas.
replica.fetch.min.bytes  int  1  read-only
    The least a follower's fetch waits for.
replica.fetch.wait.max.ms  int  500  read-only
    How long a follower's fetch waits for it.
replica.fetch.max.bytes  int  1048576  read-only  0..
    The most a follower takes of one partition at a time.
replica.fetch.response.max.bytes  int  10485760  read-only  0..
    The most a follower takes at a time.
replica.fetch.backoff.ms  int  1000  read-only  0..
    How long a follower waits after a failed fetch.

[Groups and offsets]
group.initial.rebalance.delay.ms  int  3000  read-only
    How long the first rebalance of an empty group waits for more members.
group.min.session.timeout.ms  int  6000  read-only
    The shortest session time-out a member may ask for.
group.max.session.timeout.ms  int  1800000  read-only
    The longest.
group.max.size  int  2147483647  read-only  1..
    Members of one group.
offsets.topic.replication.factor  short  3  read-only  1..
    Replicas of the topic of committed offsets. It is not created while there are fewer brokers.
offsets.topic.num.partitions  int  50  read-only  1..
    Its partitions. Not to be changed once it exists.
offsets.topic.segment.bytes  int  104857600  read-only  1..
    The size of its segments.
offsets.retention.minutes  int  10080  read-only  1..
    How long the offsets of an empty group are kept.
offsets.retention.check.interval.ms  long  600000  read-only  1..
    How often expired offsets are looked for.
offsets.commit.timeout.ms  int  5000  read-only  1..
    How long a commit waits to become durable.
offset.metadata.max.bytes  int  4096  read-only
    The most text a client may store with an offset.

[Transactions]
transaction.state.log.replication.factor  short  3  read-only  1..
    Replicas of the topic of transactions. It is not created while there are fewer brokers.
transaction.state.log.num.partitions  int  50  read-only  1..
    Its partitions. Not to be changed once it exists.
transaction.state.log.min.isr  int  2  read-only  1..
    Its min.insync.replicas.
transaction.state.log.segment.bytes  int  104857600  read-only  1..
    The size of its segments.
""")  # noqa: E501 - a row is one line
