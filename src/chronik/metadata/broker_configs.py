"""Broker keys that can be changed while the broker runs: Kafka 4.3's, with types, defaults and limits.

Most of them are the defaults of topic configs and take their limits from there. A key of a broker's file that is not
here is read at start only. Keys of encryption and login may be set per listener, as `listener.name.<listener>.<key>`.
Whether a change has an effect is up to the part of the broker that it concerns.
"""

from __future__ import annotations

from chronik.metadata.config_definitions import (
    INT_MAX,
    LONG_MAX,
    ConfigType,
    Definition,
    Rule,
    at_least,
    not_empty,
)
from chronik.metadata.topic_configs import TOPIC_CONFIGS

BOOLEAN, STRING, INT, LONG = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.LONG
DOUBLE, LIST = ConfigType.DOUBLE, ConfigType.LIST

# A topic's key takes its default from the first of its synonyms; the others, in hours or minutes, are read at start.
_TOPIC_DEFAULTS = {
    topic.synonyms[0].key: topic._replace(name=topic.synonyms[0].key, synonyms=())
    for topic in TOPIC_CONFIGS.values()
    if topic.synonyms
}

_OWN: tuple[tuple[str, ConfigType, str, str, Rule | None], ...] = (
    ("background.threads", INT, "10", "Accepted for Kafka's sake; one loop does the work here.", at_least(1)),
    ("config.providers", LIST, "", "Accepted for Kafka's sake; values are taken as they are.", None),
    ("cordoned.log.dirs", LIST, "", "Data directories that get no new partitions.", None),
    ("follower.replication.throttled.rate", LONG, str(LONG_MAX), "Bytes a second, throttled followers.", at_least(0)),
    ("group.consumer.assignment.interval.ms", INT, "1000", "Pause between assignments of a group.", at_least(0)),
    ("group.coordinator.cached.buffer.max.bytes", INT, "1048588", "Largest buffer kept for reuse.", at_least(524_288)),
    ("group.share.assignment.interval.ms", INT, "1000", "Pause between assignments of a share group.", at_least(0)),
    ("group.streams.assignment.interval.ms", INT, "1000", "Pause between assignments of a streams group.", at_least(0)),
    ("leader.replication.throttled.rate", LONG, str(LONG_MAX), "Bytes a second for throttled leaders.", at_least(0)),
    ("listener.security.protocol.map", STRING, "", "Security protocol by listener name.", None),
    ("listeners", LIST, "PLAINTEXT://:9092", "Addresses the broker listens on.", not_empty),
    ("log.cleaner.backoff.ms", LONG, "15000", "Pause of compaction when there is nothing to do.", at_least(0)),
    ("log.cleaner.dedupe.buffer.size", LONG, "134217728", "Memory for the keys of one compaction.", None),
    ("log.cleaner.io.buffer.load.factor", DOUBLE, "0.9", "How full that memory may get.", None),
    ("log.cleaner.io.buffer.size", INT, "524288", "Read and write buffer of compaction.", at_least(0)),
    ("log.cleaner.io.max.bytes.per.second", DOUBLE, "1.7976931348623157E308", "Speed limit of compaction.", None),
    ("log.cleaner.threads", INT, "1", "Compactions at a time.", at_least(0)),
    ("max.connection.creation.rate", INT, str(INT_MAX), "New connections a second.", at_least(0)),
    ("max.connections", INT, str(INT_MAX), "Connections at a time.", at_least(0)),
    ("max.connections.per.ip", INT, str(INT_MAX), "Connections at a time from one address.", at_least(0)),
    ("max.connections.per.ip.overrides", STRING, "", "The same for single addresses, as address:number pairs.", None),
    ("metric.reporters", LIST, "", "Accepted for Kafka's sake; metrics are served over HTTP.", None),
    ("num.io.threads", INT, "8", "Accepted for Kafka's sake; one loop does the work here.", at_least(1)),
    ("num.network.threads", INT, "3", "Accepted for Kafka's sake; one loop does the work here.", at_least(1)),
    ("num.recovery.threads.per.data.dir", INT, "2", "Recoveries at a time.", at_least(1)),
    ("num.replica.fetchers", INT, "1", "Fetch sessions from one leader.", at_least(1)),
    ("producer.id.expiration.ms", INT, "86400000", "How long an idle producer's sequence is remembered.", at_least(1)),
    ("replica.alter.log.dirs.io.max.bytes.per.second", LONG, str(LONG_MAX), "Speed of disk moves.", at_least(0)),
    ("share.coordinator.cached.buffer.max.bytes", INT, "1048588", "Largest buffer kept for reuse.", at_least(524_288)),
    ("transaction.partition.verification.enable", BOOLEAN, "true", "Ties writes to open transactions.", None),
)  # fmt: skip

BROKER_CONFIGS: dict[str, Definition] = {
    **_TOPIC_DEFAULTS,
    **{row[0]: Definition(*row) for row in _OWN},
}

# They differ from broker to broker by their nature, so there is no value for all of them.
PER_BROKER = frozenset({"cordoned.log.dirs", "listener.security.protocol.map", "listeners"})

# Keys and certificates: without a listener's prefix they would change every listener under its open connections.
LISTENER_ONLY = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)

# Of login and encryption: set for one broker, with a listener's prefix or for all its listeners.
FOR_LISTENERS = frozenset(
    {
        "sasl.enabled.mechanisms",
        "sasl.jaas.config",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.principal.to.local.rules",
        "sasl.kerberos.service.name",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.mechanism.inter.broker.protocol",
        "ssl.cipher.suites",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    }
)

# Names of Java classes, of which there are none here.
CLASSES = frozenset({"principal.builder.class", "ssl.engine.factory.class"})

PER_LISTENER = LISTENER_ONLY | FOR_LISTENERS | CLASSES
