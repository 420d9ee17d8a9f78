"""Kafka's keys that Chronik accepts and ignores. The title of a section says why.

Their types and bounds are still checked, so that Chronik refuses every file that Kafka refuses.
"""

from __future__ import annotations

from chronik.catalogue.notation import read_table

WITHOUT_EFFECT = read_table("""
[Security: not implemented; a node does not start if one of these keys differs from its default]
principal.builder.class  class  org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder  per-broker
sasl.client.callback.handler.class  class  -  read-only
sasl.kerberos.kinit.cmd  string  /usr/bin/kinit  per-broker
sasl.kerberos.min.time.before.relogin  long  60000  per-broker
sasl.kerberos.principal.to.local.rules  list  DEFAULT  per-broker
sasl.kerberos.service.name  string  -  per-broker
sasl.kerberos.ticket.renew.jitter  double  0.05  per-broker
sasl.kerberos.ticket.renew.window.factor  double  0.8  per-broker
sasl.login.class  class  -  read-only
sasl.login.connect.timeout.ms  int  -  read-only
sasl.login.refresh.buffer.seconds  short  300  per-broker
sasl.login.refresh.min.period.seconds  short  60  per-broker
sasl.login.refresh.window.factor  double  0.8  per-broker
sasl.login.refresh.window.jitter  double  0.05  per-broker
sasl.login.retry.backoff.max.ms  long  10000  read-only
sasl.login.retry.backoff.ms  long  100  read-only
sasl.mechanism.controller.protocol  string  GSSAPI  read-only
sasl.oauthbearer.assertion.algorithm  string  RS256  read-only
sasl.oauthbearer.assertion.claim.aud  string  -  read-only
sasl.oauthbearer.assertion.claim.exp.seconds  int  300  read-only  0..86400
sasl.oauthbearer.assertion.claim.iss  string  -  read-only
sasl.oauthbearer.assertion.claim.jti.include  boolean  false  read-only
sasl.oauthbearer.assertion.claim.nbf.seconds  int  60  read-only  0..3600
sasl.oauthbearer.assertion.claim.sub  string  -  read-only
sasl.oauthbearer.assertion.file  string  -  read-only
sasl.oauthbearer.assertion.private.key.file  string  -  read-only
sasl.oauthbearer.assertion.private.key.passphrase  password  -  read-only
sasl.oauthbearer.assertion.template.file  string  -  read-only
sasl.oauthbearer.jwt.retriever.class  class  org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever  read-only
sasl.oauthbearer.jwt.validator.class  class  org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator  read-only
ssl.engine.factory.class  class  -  per-broker

[TLS: details of Java's implementation; OpenSSL has its own]
security.providers  string  -  read-only
ssl.keymanager.algorithm  string  SunX509  per-broker
ssl.protocol  string  TLSv1.3  per-broker
ssl.provider  string  -  per-broker
ssl.secure.random.implementation  string  -  per-broker
ssl.trustmanager.algorithm  string  PKIX  per-broker

[Quotas of replication and of remote storage: not enforced]
alter.log.dirs.replication.quota.window.num  int  11  read-only  1..
alter.log.dirs.replication.quota.window.size.seconds  int  1  read-only  1..
client.quota.callback.class  class  -  read-only
max.connection.creation.rate  int  2147483647  cluster-wide  0..
remote.log.manager.copy.quota.window.num  int  11  read-only  1..
remote.log.manager.copy.quota.window.size.seconds  int  1  read-only  1..
remote.log.manager.fetch.quota.window.num  int  11  read-only  1..
remote.log.manager.fetch.quota.window.size.seconds  int  1  read-only  1..
replication.quota.window.num  int  11  read-only  1..
replication.quota.window.size.seconds  int  1  read-only  1..

[Tiered storage: not implemented]
follower.fetch.last.tiered.offset.enable  boolean  false  cluster-wide
log.local.retention.bytes  long  -2  cluster-wide  -2..
log.local.retention.ms  long  -2  cluster-wide  -2..
remote.fetch.max.wait.ms  int  500  cluster-wide  1..
remote.list.offsets.request.timeout.ms  long  30000  cluster-wide  1..
remote.log.index.file.cache.total.size.bytes  long  1073741824  cluster-wide  1..
remote.log.manager.copier.thread.pool.size  int  10  cluster-wide  1..
remote.log.manager.copy.max.bytes.per.second  long  9223372036854775807  cluster-wide  1..
remote.log.manager.expiration.thread.pool.size  int  10  cluster-wide  1..
remote.log.manager.fetch.max.bytes.per.second  long  9223372036854775807  cluster-wide  1..
remote.log.manager.follower.thread.pool.size  int  2  cluster-wide  1..
remote.log.manager.task.interval.ms  long  30000  read-only  1..
remote.log.manager.thread.pool.size  int  2  read-only  1..
remote.log.metadata.custom.metadata.max.bytes  int  128  read-only  0..
remote.log.metadata.manager.class.name  string  org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager  read-only
remote.log.metadata.manager.class.path  string  -  read-only
remote.log.metadata.manager.impl.prefix  string  rlmm.config.  read-only
remote.log.metadata.manager.listener.name  string  -  read-only
remote.log.reader.max.pending.tasks  int  100  read-only  1..
remote.log.reader.threads  int  10  cluster-wide  1..
remote.log.storage.manager.class.name  string  -  read-only
remote.log.storage.manager.class.path  string  -  read-only
remote.log.storage.manager.impl.prefix  string  rsm.config.  read-only
remote.log.storage.system.enable  boolean  false  read-only

[Group protocols: which are served follows from the cluster's features]
group.coordinator.rebalance.protocols  list  classic,consumer,streams  read-only  consumer|classic|share|streams

[Threads, queues and buffers: one event loop serves everything]
background.threads  int  10  cluster-wide  1..
controller.quorum.append.linger.ms  int  25  read-only  0..
controller.socket.timeout.ms  int  30000  read-only
delete.records.purgatory.purge.interval.requests  int  1  read-only
fetch.purgatory.purge.interval.requests  int  1000  read-only
group.coordinator.append.linger.ms  int  -1  read-only  -1..
group.coordinator.background.threads  int  2  read-only  1..
group.coordinator.cached.buffer.max.bytes  int  1048588  cluster-wide  524288..
group.coordinator.threads  int  4  read-only  1..
log.cleaner.dedupe.buffer.size  long  134217728  cluster-wide
log.cleaner.io.buffer.load.factor  double  0.9  cluster-wide
log.cleaner.io.buffer.size  int  524288  cluster-wide  0..
log.cleaner.threads  int  1  cluster-wide  0..
num.io.threads  int  8  cluster-wide  1..
num.network.threads  int  3  cluster-wide  1..
num.recovery.threads.per.data.dir  int  2  cluster-wide  1..
num.replica.alter.log.dirs.threads  int  -  read-only
num.replica.fetchers  int  1  cluster-wide  1..
offsets.load.buffer.size  int  5242880  read-only  1..
producer.purgatory.purge.interval.requests  int  1000  read-only
queued.max.request.bytes  long  -1  read-only
queued.max.requests  int  500  read-only  1..
replica.socket.receive.buffer.bytes  int  65536  read-only
replica.socket.timeout.ms  int  30000  read-only
request.timeout.ms  int  30000  read-only
share.coordinator.append.linger.ms  int  -1  read-only  -1..
share.coordinator.cached.buffer.max.bytes  int  1048588  cluster-wide  524288..
share.coordinator.load.buffer.size  int  5242880  read-only  1..
share.coordinator.threads  int  1  read-only  1..
share.fetch.purgatory.purge.interval.requests  int  1000  read-only
socket.connection.setup.timeout.max.ms  long  30000  read-only
socket.connection.setup.timeout.ms  long  10000  read-only
socket.listen.backlog.size  int  50  read-only  1..
socket.receive.buffer.bytes  int  102400  read-only
socket.send.buffer.bytes  int  102400  read-only
transaction.state.log.load.buffer.size  int  5242880  read-only  1..

[JMX, reporters and telemetry: metrics are served on the admin listener]
kafka.metrics.polling.interval.secs  int  10  read-only  1..
kafka.metrics.reporters  list  ''  read-only
metric.reporters  list  org.apache.kafka.common.metrics.JmxReporter  cluster-wide
metrics.num.samples  int  2  read-only  1..
metrics.recording.level  string  INFO  read-only
metrics.sample.window.ms  long  30000  read-only  1..

[Plugins: Java classes cannot be loaded]
alter.config.policy.class.name  class  -  read-only
config.providers  list  ''  cluster-wide
create.topic.policy.class.name  class  -  read-only
replica.selector.class  string  -  read-only

[When data reaches the disk: chronik.durability decides]
cordoned.log.dirs  list  ''  per-broker
log.dir.failure.timeout.ms  long  30000  read-only  1..
log.flush.interval.messages  long  9223372036854775807  cluster-wide  1..
log.flush.interval.ms  long  -  cluster-wide  0..
log.flush.offset.checkpoint.interval.ms  int  60000  read-only  0..
log.flush.scheduler.interval.ms  long  9223372036854775807  read-only  0..
log.flush.start.offset.checkpoint.interval.ms  int  60000  read-only  0..
log.preallocate  boolean  false  cluster-wide
replica.high.watermark.checkpoint.interval.ms  long  5000  read-only

[Deleted segments: their files are removed at once]
log.segment.delete.delay.ms  long  60000  cluster-wide  0..

[Kafka's implementation of the metadata log: Chronik has its own]
controller.quorum.auto.join.enable  boolean  false  read-only
controller.quorum.election.backoff.max.ms  int  1000  read-only  0..
controller.quorum.election.timeout.ms  int  1000  read-only  0..
controller.quorum.fetch.max.bytes  int  1048576  read-only  1..
controller.quorum.fetch.snapshot.max.bytes  int  1048576  read-only  1..
controller.quorum.fetch.timeout.ms  int  2000  read-only  0..
controller.quorum.retry.backoff.ms  int  20  read-only  0..
metadata.log.max.snapshot.interval.ms  long  3600000  read-only  0..
metadata.log.segment.bytes  int  1073741824  read-only  8388608..
metadata.log.segment.ms  long  604800000  read-only
metadata.max.idle.interval.ms  int  500  read-only  0..
metadata.max.retention.bytes  long  104857600  read-only
metadata.max.retention.ms  long  604800000  read-only

[Transactions: a timeout aborts them when it is due, not at the next check]
transaction.abort.timed.out.transaction.cleanup.interval.ms  int  10000  read-only  1..

[Replication throttles: not enforced]
leader.replication.throttled.rate  long  -  cluster-wide  0..
follower.replication.throttled.rate  long  -  cluster-wide  0..
replica.alter.log.dirs.io.max.bytes.per.second  long  -  cluster-wide  0..

[Details of Kafka's implementation]
early.start.listeners  list  -  read-only
log.cleaner.backoff.ms  long  15000  cluster-wide  0..
log.cleaner.io.max.bytes.per.second  double  1.7976931348623157E308  cluster-wide
log.index.size.max.bytes  int  10485760  cluster-wide  4..
log.roll.jitter.hours  int  0  read-only  0..
log.roll.jitter.ms  long  -  cluster-wide  0..
offsets.topic.compression.codec  int  0  read-only  0..4
share.coordinator.state.topic.compression.codec  int  0  read-only
""")  # noqa: E501 - a row is one line, also where Kafka's default is the name of a class

# Only set on a running broker; Kafka does not list them unless they are set.
DYNAMIC_ONLY = frozenset(
    {
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)

# Kafka's authorizer reads them from the file; Kafka does not count them as broker keys.
OF_AUTHORIZER = frozenset({"super.users", "allow.everyone.if.no.acl.found"})
LISTED_IF_SET = DYNAMIC_ONLY | OF_AUTHORIZER

# Names in existing configurations: Kafka 3.9 had them but 4.x does not, or they are
# internal to Kafka.
_former = """
auto.include.jmx.reporter broker.id.generation.enable control.plane.listener.name
controlled.shutdown.max.retries controlled.shutdown.retry.backoff.ms controller.performance.always.log.threshold.ms
controller.performance.sample.period.ms delegation.token.master.key eligible.leader.replicas.enable
group.consumer.regex.refresh.interval.ms group.coordinator.new.enable group.share.enable
group.share.initialize.retry.interval.ms group.share.max.groups group.share.persister.class.name
inter.broker.protocol.version internal.metadata.delete.delay.millis internal.metadata.log.segment.bytes
internal.metadata.max.batch.size.in.bytes leader.imbalance.per.broker.percentage log.initial.task.delay.ms
log.message.downconversion.enable log.message.format.version log.message.timestamp.difference.max.ms
metadata.log.segment.min.bytes offsets.commit.required.acks password.encoder.cipher.algorithm
password.encoder.iterations password.encoder.key.length password.encoder.keyfactory.algorithm
password.encoder.old.secret password.encoder.secret producer.id.expiration.check.interval.ms
remote.log.index.file.cache.ttl.ms remote.log.manager.task.retry.backoff.max.ms
remote.log.manager.task.retry.backoff.ms remote.log.manager.task.retry.jitter reserved.broker.max.id
server.max.startup.time.ms share.coordinator.cold.partition.snapshot.interval.ms
share.coordinator.state.topic.prune.interval.ms unstable.api.versions.enable unstable.feature.versions.enable
unclean.leader.election.interval.ms
zookeeper.clientCnxnSocket zookeeper.connect zookeeper.connection.timeout.ms zookeeper.max.in.flight.requests
zookeeper.metadata.migration.enable zookeeper.metadata.migration.min.batch.size zookeeper.session.timeout.ms
zookeeper.set.acl zookeeper.ssl.cipher.suites zookeeper.ssl.client.enable zookeeper.ssl.crl.enable
zookeeper.ssl.enabled.protocols zookeeper.ssl.endpoint.identification.algorithm zookeeper.ssl.keystore.location
zookeeper.ssl.keystore.password zookeeper.ssl.keystore.type zookeeper.ssl.ocsp.enable zookeeper.ssl.protocol
zookeeper.ssl.truststore.location zookeeper.ssl.truststore.password zookeeper.ssl.truststore.type
"""
FORMER = frozenset(_former.split())
