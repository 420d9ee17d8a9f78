"""A whole configuration, from files, variables and overrides to the object a node is built from."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from chronik.broker.errors import BadSetting, CannotStart
from chronik.broker.opening import store_config
from chronik.broker.settings import Listener, Machine, Settings, Voter
from chronik.broker.settings.access import STANDARD
from chronik.broker.settings.listeners import Address
from chronik.catalogue.broker_values import ACTED_ON
from chronik.catalogue.without_effect import WITHOUT_EFFECT
from tests.broker.settings.values import another_value

FILES = Path(__file__).with_name("files")
MACHINE = Machine(memory_bytes=8 << 30, host_name="box")


def load(text: str = "", *, environment: dict[str, str] | None = None, **overrides: str) -> Settings:
    keys = dict(line.split("=", 1) for line in text.split())
    keys |= {name.replace("_", "."): value for name, value in overrides.items()}
    return Settings.load(None, environment=environment or {}, overrides=keys, machine=MACHINE)


def test_kafkas_quickstart_file_starts_a_node(caplog: pytest.LogCaptureFixture) -> None:
    """An unchanged file must do, without a warning about keys that Kafka itself wrote there."""
    with caplog.at_level(logging.WARNING):
        path = str(FILES / "quickstart.properties")
        settings = Settings.load(path, environment={}, overrides={}, machine=MACHINE)
    assert not caplog.records
    assert (settings.node_id, settings.is_broker, settings.is_controller) == (1, True, True)
    assert settings.listeners == (Listener("PLAINTEXT", "", 9092),)
    assert settings.advertised_listeners == (Listener("PLAINTEXT", "localhost", 9092),)
    assert settings.controller_listeners == (Listener("CONTROLLER", "", 9093),)
    assert settings.controller_quorum_bootstrap_servers == (Address("localhost", 9093),)
    assert settings.log_dir == settings.metadata_dir == "/tmp/kraft-combined-logs"
    assert settings.offsets_topic_replication_factor == settings.transaction_state_log_min_isr == 1
    assert settings.log_retention_ms == 7 * 24 * 3_600_000


def test_the_file_of_a_node_of_three_is_read(caplog: pytest.LogCaptureFixture) -> None:
    """The same text that a comparison with Kafka gives to both brokers."""
    with caplog.at_level(logging.WARNING):
        path = str(FILES / "three_nodes.properties")
        settings = Settings.load(path, environment={}, overrides={}, machine=MACHINE)
    assert not caplog.records
    assert settings.node_id == 2
    assert settings.voters == tuple(Voter(1 + index, "127.0.0.1", 19192 + index) for index in range(3))
    assert settings.controller_listeners == (Listener("CONTROLLER", "127.0.0.1", 19193),)
    assert settings.admin_listener == Address("127.0.0.1", 19093 + 552)
    assert (settings.default_replication_factor, settings.min_insync_replicas) == (3, 2)
    assert settings.group_initial_rebalance_delay_ms == 0


def test_defaults_are_kafkas() -> None:
    """Without settings, the values of Kafka's documentation apply; the offsets topic wants three replicas."""
    settings = load()
    assert settings.offsets_topic_replication_factor == settings.transaction_state_log_replication_factor == 3
    assert settings.offsets_topic_num_partitions == settings.transaction_state_log_num_partitions == 50
    assert (settings.num_partitions, settings.default_replication_factor, settings.min_insync_replicas) == (1, 1, 1)
    assert (settings.auto_create_topics_enable, settings.delete_topic_enable) == (True, True)
    assert settings.message_max_bytes == 1_048_588
    assert settings.socket_request_max_bytes == 100 << 20
    assert settings.group_initial_rebalance_delay_ms == 3_000
    assert settings.log_cleanup_policy == ("delete",)
    assert settings.durability == "fsync"
    assert settings.node_id == 1
    assert settings.metadata_forwarding_enable
    assert settings.metadata_batching_enable
    assert settings.metadata_leases_enable


def test_the_environment_wins_over_the_file_and_overrides_win_over_both(tmp_path: Path) -> None:
    """The nearer to the start of the process a value was given, the more it counts."""
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=1\nmessage.max.bytes=1000\nfetch.max.bytes=2000\n")
    environment = {"KAFKA_NUM_PARTITIONS": "2", "KAFKA_MESSAGE_MAX_BYTES": "1001"}
    settings = Settings.load(str(file), environment=environment, overrides={"num.partitions": "3"}, machine=MACHINE)
    assert (settings.num_partitions, settings.message_max_bytes, settings.fetch_max_bytes) == (3, 1001, 2000)


def test_a_file_that_is_not_utf_8_is_read_as_java_reads_it(tmp_path: Path) -> None:
    """Old files are Latin-1, and must not stop a node."""
    file = tmp_path / "server.properties"
    file.write_bytes("broker.rack=Zürich".encode("latin-1"))
    assert Settings.load(str(file), environment={}, overrides={}).rack == "Zürich"


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    """Starting with defaults instead would create an unwanted cluster."""
    with pytest.raises(CannotStart, match=r"absent\.properties: No such file"):
        Settings.load(str(tmp_path / "absent.properties"), environment={}, overrides={})


UNKNOWN = [
    ("num.partition", "did you mean num.partitions?"),
    ("offsets.topic.replication.facto", "did you mean offsets.topic.replication.factor?"),
    ("chronik.durabilty", "did you mean chronik.durability?"),
    ("log.retention.hour", "did you mean log.retention.hours?"),
    ("auto.create.topic.enable", "did you mean auto.create.topics.enable?"),
    ("foo", "no known name is near; it changes nothing"),
]


@pytest.mark.parametrize(("key", "advice"), UNKNOWN)
def test_an_unknown_key_warns_once_with_the_nearest_name(
    key: str, advice: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A typing error must be seen, and must not stop a node that Kafka would start."""
    with caplog.at_level(logging.WARNING):
        load(environment={f"KAFKA_{key.upper().replace('.', '_')}": "1"})
    variable = f"KAFKA_{key.upper().replace('.', '_')}"
    assert [record.getMessage() for record in caplog.records] == [f"unknown setting {key} in {variable}: {advice}"]


@pytest.mark.parametrize("key", ["num.io.threads", "zookeeper.connect", "listener.name.x.ssl.key.password"])
def test_a_key_without_effect_is_noted_for_those_who_debug(key: str, caplog: pytest.LogCaptureFixture) -> None:
    """Kafka's files are full of them; a warning for each would bury those that matter."""
    with caplog.at_level(logging.DEBUG):
        Settings.load(None, environment={}, overrides={key: "8"}, machine=MACHINE)
    (record,) = caplog.records
    assert record.levelno == logging.DEBUG
    assert f"{key} in the command line has no effect" in record.getMessage()


# Before and after, for keys whose values depend on other keys; for all others a value that is not the default will do.
TWO = "listeners=PLAINTEXT://:1,OTHER://:2 listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT"
SASL = f"{TWO.replace('OTHER:PLAINTEXT', 'OTHER:SASL_PLAINTEXT')} sasl.enabled.mechanisms=SCRAM-SHA-256"
BEARER = f"{SASL.replace('SCRAM-SHA-256', 'OAUTHBEARER')} sasl.oauthbearer.jwks.endpoint.url=file:///keys"
BY_TOKEN = (
    f"{BEARER} inter.broker.listener.name=OTHER sasl.mechanism.inter.broker.protocol=OAUTHBEARER"
    " sasl.oauthbearer.token.endpoint.url=https://h/token"
    " sasl.oauthbearer.client.credentials.client.id=i sasl.oauthbearer.client.credentials.client.secret=s"
)
GUARDED = f"authorizer.class.name={STANDARD}"
CHANGES = {
    "sasl.enabled.mechanisms": (SASL, SASL.replace("256", "512")),
    "sasl.jaas.config": (SASL, f"{SASL} sasl.jaas.config=?"),
    "sasl.mechanism.inter.broker.protocol": (
        f"{SASL} inter.broker.listener.name=OTHER",
        f"{SASL} inter.broker.listener.name=OTHER sasl.mechanism.inter.broker.protocol=SCRAM-SHA-256",
    ),
    "sasl.oauthbearer.jwks.endpoint.url": (BEARER, BEARER.replace("keys", "others")),
    "sasl.server.callback.handler.class": (BEARER, f"{BEARER} sasl.server.callback.handler.class=com.example.Handler"),
    "sasl.oauthbearer.token.endpoint.url": (BY_TOKEN, BY_TOKEN.replace("/token", "/other")),
    "sasl.oauthbearer.client.credentials.client.id": (BY_TOKEN, BY_TOKEN.replace("client.id=i", "client.id=j")),
    "sasl.oauthbearer.client.credentials.client.secret": (BY_TOKEN, BY_TOKEN.replace("secret=s", "secret=t")),
    "sasl.oauthbearer.scope": (BY_TOKEN, f"{BY_TOKEN} sasl.oauthbearer.scope=kafka"),
    "sasl.login.read.timeout.ms": (BY_TOKEN, f"{BY_TOKEN} sasl.login.read.timeout.ms=7"),
    "sasl.login.callback.handler.class": (BY_TOKEN, f"{BY_TOKEN} sasl.login.callback.handler.class=com.example.Other"),
    **{
        f"sasl.oauthbearer.{name}": (BEARER, f"{BEARER} sasl.oauthbearer.{name}={value}")
        for name, value in {
            "jwks.endpoint.refresh.ms": "7",
            "jwks.endpoint.retry.backoff.ms": "7",
            "jwks.endpoint.retry.backoff.max.ms": "7",
            "expected.issuer": "me",
            "expected.audience": "us,them",
            "clock.skew.seconds": "7",
            "scope.claim.name": "scp",
            "sub.claim.name": "azp",
        }.items()
    },
    "connections.max.reauth.ms": (SASL, f"{SASL} connections.max.reauth.ms=1000"),
    "process.roles": ("node.id=1 controller.quorum.bootstrap.servers=h:1 process.roles=broker", ""),
    "node.id": ("node.id=1", "node.id=2"),
    "broker.id": ("broker.id=1", "broker.id=2"),
    "listeners": ("listeners=PLAINTEXT://:1", "listeners=PLAINTEXT://:2"),
    "advertised.listeners": ("", "advertised.listeners=PLAINTEXT://h:1"),
    "listener.security.protocol.map": ("", "listener.security.protocol.map=PLAINTEXT:SSL"),
    "inter.broker.listener.name": (TWO, f"{TWO} inter.broker.listener.name=OTHER"),
    "security.inter.broker.protocol": ("", "security.inter.broker.protocol=SSL"),
    "controller.listener.names": (TWO, f"{TWO} controller.listener.names=OTHER"),
    "authorizer.class.name": ("", f"authorizer.class.name={STANDARD}"),
    "super.users": (GUARDED, f"{GUARDED} super.users=User:admin"),
    "allow.everyone.if.no.acl.found": (GUARDED, f"{GUARDED} allow.everyone.if.no.acl.found=true"),
    "chronik.admin.listener": ("", "chronik.admin.listener=h:1"),
    "controller.quorum.voters": ("node.id=1", "node.id=1 controller.quorum.voters=1@h:1"),
    "controller.quorum.bootstrap.servers": ("node.id=1", "node.id=1 controller.quorum.bootstrap.servers=h:1"),
    "max.connections.per.ip.overrides": ("", "max.connections.per.ip.overrides=h:1"),
    "chronik.memory.budget.bytes": ("", "chronik.memory.budget.bytes=33554432"),
}


UNCLEAN = "unclean.leader.election.enable"  # topics that do not set it have it from here, and only elections ask


def outcome(text: str) -> dict[str, object] | str:
    """The settings without their text, and the part that the controller uses; or the refused key."""
    try:
        settings = load(text)
        return {**without_layers(settings), UNCLEAN: settings.topic_default(UNCLEAN)}
    except BadSetting as refused:
        return refused.key


@pytest.mark.parametrize("name", ACTED_ON)
def test_every_key_that_is_said_to_act_reaches_the_settings(name: str) -> None:
    """A documented key that no code reads would silently break a promise."""
    before, after = CHANGES.get(name, ("", f"{name}={another_value(ACTED_ON[name])}"))
    assert outcome(before) != outcome(after)


@pytest.mark.parametrize("name", sorted(WITHOUT_EFFECT))
def test_a_key_without_effect_changes_nothing(name: str) -> None:
    """A key that is documented as having no effect must have none."""
    assert outcome("") == outcome(f"{name}={another_value(WITHOUT_EFFECT[name])}")


def without_layers(settings: Settings) -> dict[str, object]:
    return {name: value for name, value in vars(settings).items() if name != "layers"}


RETENTION = [
    ("", 604_800_000),
    ("log.retention.hours=1", 3_600_000),
    ("log.retention.hours=1 log.retention.minutes=2", 120_000),
    ("log.retention.hours=1 log.retention.minutes=2 log.retention.ms=3", 3),
    ("log.retention.hours=-1", -1),
    ("log.retention.ms=-1 log.retention.hours=1", -1),
    ("log.retention.minutes=-5", -1),
]


@pytest.mark.parametrize(("text", "expected"), RETENTION)
def test_the_finer_unit_of_retention_wins(text: str, expected: int) -> None:
    """The coarse key has a default, so a rule must define which one applies. Negative values mean forever."""
    assert load(text).log_retention_ms == expected


def test_segments_roll_by_milliseconds_before_hours() -> None:
    """As with retention."""
    assert load("log.roll.hours=2").log_roll_ms == 7_200_000
    assert load("log.roll.hours=2 log.roll.ms=5").log_roll_ms == 5


def test_what_is_set_at_run_time_wins_as_far_as_a_key_may_change() -> None:
    """One broker before all brokers before start-up; a read-only key keeps the value the node started with."""
    settings = load("message.max.bytes=1 log.retention.hours=1 num.partitions=2")
    changed = settings.with_dynamic(
        {"message.max.bytes": "2", "log.retention.ms": "5", "num.partitions": "9"}, {"message.max.bytes": "3"}
    )
    assert (changed.message_max_bytes, changed.log_retention_ms, changed.num_partitions) == (3, 5, 2)
    assert changed.with_dynamic({"message.max.bytes": "2"}, {}).message_max_bytes == 2
    assert changed.with_dynamic({}, {}) == settings


def test_what_one_node_cannot_use_of_what_is_set_for_all_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """It runs where metadata is applied, and must never stop a node: other nodes' files differ from this one's."""
    settings = load("log.cleaner.max.compaction.lag.ms=5")
    cluster = {"log.cleaner.min.compaction.lag.ms": "6", "message.max.bytes": "7", "log.retention.ms": "no"}
    with pytest.raises(BadSetting):
        settings.require_dynamic(cluster, {})
    with caplog.at_level(logging.WARNING):
        changed = settings.with_dynamic(cluster, {})
    assert (changed.message_max_bytes, changed.log_cleaner_min_compaction_lag_ms) == (7, 0)
    assert changed.log_retention_ms == settings.log_retention_ms
    assert [record.getMessage().split(": ")[1].split("=")[0] for record in caplog.records] == [
        "log.retention.ms",
        "log.cleaner.min.compaction.lag.ms",
    ]


def test_a_contradiction_with_the_file_gives_up_all_that_was_set_at_run_time() -> None:
    """The key at fault is in the file, so it is unknown which of the others should be ignored."""
    settings = load("log.cleaner.min.compaction.lag.ms=6")
    changed = settings.with_dynamic({"log.cleaner.max.compaction.lag.ms": "5", "message.max.bytes": "7"}, {})
    assert changed == settings


def test_the_memory_budget_is_a_quarter_of_the_machine_and_a_gibibyte_at_most() -> None:
    """Large requests must not fill a small machine, and a large machine needs no more."""
    small = Settings.load(None, environment={}, overrides={}, machine=Machine(1 << 30, "box"))
    assert small.memory_budget_bytes == 256 << 20
    assert load().memory_budget_bytes == 1 << 30
    assert load("chronik.memory.budget.bytes=33554432").memory_budget_bytes == 32 << 20


def test_default_settings_do_not_depend_on_the_machine_and_take_fields() -> None:
    """A simulation that replays a seed elsewhere must see the same node."""
    settings = Settings.default(num_partitions=3, durability="os", auto_create_topics_enable=False, rack="a")
    assert (settings.num_partitions, settings.durability, settings.auto_create_topics_enable) == (3, "os", False)
    assert settings.rack == "a"
    assert settings.memory_budget_bytes == 256 << 20
    assert settings.advertised_listeners[0].host == "localhost"
    with pytest.raises(KeyError, match=r"no setting is named num\.partition"):
        Settings.default(num_partition=1)


def test_several_directories_warn_and_the_first_is_used(caplog: pytest.LogCaptureFixture) -> None:
    """A file for a machine with many disks starts; that only one is used must not go unnoticed."""
    with caplog.at_level(logging.WARNING):
        settings = load("log.dirs=/a,/b")
    assert settings.log_dir == "/a"
    assert "only /a is used" in caplog.text


CONTRADICTIONS = [
    ("process.roles=", "process.roles", "allowed: broker, controller"),
    ("process.roles=broker,leader", "process.roles", "allowed: broker, controller"),
    ("node.id=-1", "node.id", "allowed: 0 or more"),
    ("node.id=1 broker.id=2", "broker.id", "node.id is 1"),
    ("controller.quorum.voters=1@h:1", "node.id", "needs a number"),
    ("node.id=2 controller.quorum.voters=1@h:1", "node.id", "must be among the voters"),
    ("node.id=1 process.roles=broker controller.quorum.voters=1@h:1", "node.id", "may not be among the voters"),
    ("node.id=1 process.roles=broker", "controller.quorum.voters", "must find the quorum"),
    ("node.id=1 controller.quorum.voters=1@h:1,2@h:2", "controller.listener.names", "need a listener"),
    ("log.dirs=/a,,/b", "log.dirs", "name a directory"),
    ("log.dir=", "log.dir", "name a directory"),
    ("log.retention.ms=0", "log.retention.ms", "1 or more, or -1"),
    ("log.retention.hours=0", "log.retention.hours", "1 or more, or -1"),
    ("log.roll.ms=0", "log.roll.ms", "allowed: 1 or more"),
    ("authorizer.class.name=x.Y", "authorizer.class.name", "not supported"),
    (f"authorizer.class.name={STANDARD} super.users=admin", "super.users", "write User:admin"),
    ("group.min.session.timeout.ms=7 group.max.session.timeout.ms=6", "group.min.session.timeout.ms", "may not exceed"),
    ("group.max.session.timeout.ms=6", "group.max.session.timeout.ms", "may not exceed"),
    ("broker.heartbeat.interval.ms=0", "broker.heartbeat.interval.ms", "allowed is 1 or more"),
    ("chronik.durability=page", "chronik.durability", "allowed: fsync, os"),
    ("max.connections.per.ip.overrides=h", "max.connections.per.ip.overrides", "host:count"),
    ("num.io.threads=many", "num.io.threads", "whole number"),
]


@pytest.mark.parametrize(("text", "key", "reason"), CONTRADICTIONS)
def test_what_cannot_be_meant_stops_with_the_key_to_change(text: str, key: str, reason: str) -> None:
    """A node that starts with half a configuration fails later and elsewhere."""
    with pytest.raises(BadSetting) as stopped:
        load(text)
    assert stopped.value.key == key
    assert reason in stopped.value.reason


def test_overrides_per_address_are_read() -> None:
    """IPv6 addresses contain colons; the count follows the last one."""
    settings = load("max.connections.per.ip.overrides=10.0.0.1:5,::1:7")
    assert settings.max_connections_per_ip_overrides == {"10.0.0.1": 5, "::1": 7}


def test_the_quorum_takes_snapshots_as_often_as_it_is_told() -> None:
    """A setting that is listed as one that acts, and does not, is worse than none."""
    settings = load("metadata.log.max.record.bytes.between.snapshots=5000")
    assert store_config(settings).raft.snapshot_every_bytes == 5000
