"""What DescribeConfigs answers. Tables hold what Kafka 4.3.1 answered to the same requests with the same file."""

from __future__ import annotations

import logging

import pytest

from chronik.broker.settings import Settings
from chronik.catalogue.broker_keys import BROKER_KEYS
from chronik.catalogue.topic_keys import TOPIC_CONFIGS
from chronik.catalogue.without_effect import LISTED_IF_SET
from chronik.metadata.commands.alter_configs import AlterConfigs, ConfigChange, ResourceChange
from chronik.metadata.image import ResourceType
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tests.broker.small_node import SmallNode, run

TOPIC, BROKER, LOGGER, METRICS, GROUP = (int(each) for each in ResourceType)

STATIC = {
    "node.id": "1",
    "log.retention.hours": "100",
    "log.roll.ms": "1000000",
    "message.max.bytes": "2000000",
    "ssl.key.password": "geheim",
    "foo.bar": "unknown",
}


def node_with(**topics: dict[str, str]) -> SmallNode:
    node = SmallNode(Settings.load(None, environment={}, overrides=STATIC))
    for name, configs in topics.items():
        node.create_topic(name, **{key.replace(".", "_"): value for key, value in configs.items()})
    return node


def set_at_run_time(node: SmallNode, kind: int, name: str, **configs: str) -> None:
    changes = [ConfigChange(key=key.replace("_", "."), value=value) for key, value in configs.items()]
    resource = ResourceChange(resource_type=kind, resource_name=name, configs=changes)
    reply = run(node.store.submit(AlterConfigs(resources=[resource], incremental=True)))
    assert not reply.resources[0].error_code, reply.resources[0].error_message


def describe(
    node: SmallNode,
    *resources: tuple[int, str] | tuple[int, str, list[str]],
    version: int = 4,
    synonyms: bool = True,
    documentation: bool = False,
) -> list[DescribeConfigsResult]:
    asked = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys[0] if keys else None)
        for kind, name, *keys in resources
    ]
    request = DescribeConfigsRequest(resources=asked)
    if version >= 1:
        request.include_synonyms = synonyms
    if version >= 3:
        request.include_documentation = documentation
    return node.ask(request, DescribeConfigsResponse, version).results


def entry(node: SmallNode, kind: int, name: str, key: str) -> DescribeConfigsResourceResult:
    ((found,),) = (result.configs for result in describe(node, (kind, name, [key])))
    return found


def row(found: DescribeConfigsResourceResult) -> tuple[object, ...]:
    synonyms = [(each.name, each.value, each.source) for each in found.synonyms]
    return found.value, found.config_source, found.read_only, found.is_sensitive, found.config_type, synonyms


# key: value, source, read only, sensitive, type, synonyms
TOPIC_ROWS = {
    "retention.ms": ("7", 1, False, False, 5, [("retention.ms", "7", 1)]),
    "cleanup.policy": ("compact,delete", 1, False, False, 7,
                       [("cleanup.policy", "compact,delete", 1), ("log.cleanup.policy", "delete", 5)]),
    "max.message.bytes": ("2000000", 4, False, False, 3,
                          [("message.max.bytes", "2000000", 4), ("message.max.bytes", "1048588", 5)]),
    "segment.ms": ("1000000", 4, False, False, 5, [("log.roll.ms", "1000000", 4), ("log.roll.hours", "168", 5)]),
    "segment.bytes": ("1073741824", 5, False, False, 3, [("log.segment.bytes", "1073741824", 5)]),
    "flush.ms": ("9223372036854775807", 5, False, False, 5, []),
    "segment.jitter.ms": ("0", 5, False, False, 5, []),
    "remote.storage.enable": ("false", 5, False, False, 1, []),
    "leader.replication.throttled.replicas": ("", 5, False, False, 7, []),
    "min.cleanable.dirty.ratio": ("0.5", 5, False, False, 6, [("log.cleaner.min.cleanable.ratio", "0.5", 5)]),
    "compression.type": ("producer", 5, False, False, 2, [("compression.type", "producer", 5)]),
    "chronik.durability": ("fsync", 5, False, False, 2, [("chronik.durability", "fsync", 5)]),
}  # fmt: skip


@pytest.mark.parametrize("key", TOPIC_ROWS)
def test_a_topics_key_is_shown_with_its_source_and_synonyms(key: str) -> None:
    """The source tells tools who has set a value."""
    node = node_with(t={"retention.ms": "7", "cleanup.policy": "compact, delete"})
    assert row(entry(node, TOPIC, "t", key)) == TOPIC_ROWS[key]


def test_hours_in_the_file_count_and_are_called_a_default() -> None:
    """As Kafka has it: synonyms begin at the key of the same unit, and the file has none."""
    node = node_with(t={})
    assert row(entry(node, TOPIC, "t", "retention.ms")) == ("360000000", 5, False, False, 5, [])


def test_what_is_set_at_run_time_comes_before_the_file() -> None:
    """The order of sources is the order in which they count."""
    node = node_with(t={})
    set_at_run_time(node, BROKER, "", message_max_bytes="3", log_retention_ms="9")
    set_at_run_time(node, BROKER, "1", message_max_bytes="4")
    sources = [("message.max.bytes", "4", 2), ("message.max.bytes", "3", 3), ("message.max.bytes", "2000000", 4),
               ("message.max.bytes", "1048588", 5)]  # fmt: skip
    assert row(entry(node, BROKER, "1", "message.max.bytes")) == ("4", 2, False, False, 3, sources)
    assert row(entry(node, TOPIC, "t", "max.message.bytes")) == ("4", 2, False, False, 3, sources)
    retention = [("log.retention.ms", "9", 3), ("log.retention.hours", "100", 4), ("log.retention.hours", "168", 5)]
    assert row(entry(node, TOPIC, "t", "retention.ms")) == ("9", 3, False, False, 5, retention)


BROKER_ROWS = {
    "num.partitions": ("1", 5, True, False, 3, [("num.partitions", "1", 5)]),
    "log.retention.ms": (None, 5, False, False, 5, []),
    "log.retention.hours": ("100", 4, True, False, 3,
                            [("log.retention.hours", "100", 4), ("log.retention.hours", "168", 5)]),
    "log.roll.ms": ("1000000", 4, False, False, 5, [("log.roll.ms", "1000000", 4), ("log.roll.hours", "168", 5)]),
    "log.roll.hours": ("168", 5, True, False, 3, [("log.roll.hours", "168", 5)]),
    "node.id": ("1", 4, True, False, 3, [("node.id", "1", 4)]),
    "broker.id": ("1", 4, True, False, 3, [("broker.id", "1", 4), ("broker.id", "-1", 5)]),
    "ssl.key.password": (None, 4, False, True, 9, [("ssl.key.password", None, 4)]),
    "sasl.jaas.config": (None, 5, False, True, 9, []),
    "foo.bar": (None, 4, True, True, 0, [("foo.bar", None, 4)]),
    "log.cleaner.io.max.bytes.per.second": ("1.7976931348623157E308", 5, False, False, 6,
                                            [("log.cleaner.io.max.bytes.per.second", "1.7976931348623157E308", 5)]),
    "advertised.listeners": (None, 5, True, False, 7, []),
}  # fmt: skip


@pytest.mark.parametrize("key", BROKER_ROWS)
def test_a_brokers_key_is_shown_with_its_source_and_synonyms(key: str) -> None:
    """Secrets and unknown keys are named and never shown."""
    assert row(entry(node_with(), BROKER, "1", key)) == BROKER_ROWS[key]


SPELLINGS = [
    ("min.cleanable.dirty.ratio", "0.50", "0.5"),
    ("min.cleanable.dirty.ratio", "1", "1.0"),
    ("min.cleanable.dirty.ratio", "1e-4", "1.0E-4"),
    ("preallocate", "TRUE", "true"),
    ("retention.ms", " +7 ", "7"),
    ("cleanup.policy", " compact , delete,compact", "compact,delete"),
]


@pytest.mark.parametrize(("key", "written", "shown"), SPELLINGS)
def test_a_value_is_shown_as_it_is_understood(key: str, written: str, shown: str) -> None:
    """Two spellings of one value must not look like two configurations."""
    assert entry(node_with(t={key: written}), TOPIC, "t", key).value == shown


def test_all_keys_are_shown_when_none_is_asked_for() -> None:
    """Null and the empty list are the same."""
    node = node_with(t={})
    for result in describe(node, (TOPIC, "t"), (TOPIC, "t", [])):
        assert [each.name for each in result.configs] == list(TOPIC_CONFIGS)
    (broker,) = describe(node, (BROKER, "1"))
    names = {each.name for each in broker.configs}
    assert len(names) == len(broker.configs) > 340
    assert names >= {each.name for each in BROKER_KEYS} - LISTED_IF_SET
    assert "foo.bar" in names
    assert "leader.replication.throttled.rate" not in names


def test_only_the_keys_asked_for_are_shown() -> None:
    """A key that does not exist is left out without a word."""
    (result,) = describe(node_with(t={}), (TOPIC, "t", ["retention.ms", "nope", "retention.ms"]))
    assert [each.name for each in result.configs] == ["retention.ms"]


REFUSED = [
    (TOPIC, "absent", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (TOPIC, "bad name!", ErrorCode.INVALID_TOPIC_EXCEPTION),
    (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
    (BROKER, "2", ErrorCode.INVALID_REQUEST),
    (BROKER, "x", ErrorCode.INVALID_REQUEST),
    (BROKER, "-1", ErrorCode.INVALID_REQUEST),
    (LOGGER, "", ErrorCode.INVALID_REQUEST),
    (LOGGER, "2", ErrorCode.INVALID_REQUEST),
    (METRICS, "", ErrorCode.INVALID_REQUEST),
    (GROUP, "", ErrorCode.INVALID_REQUEST),
]


@pytest.mark.parametrize(("kind", "name", "error"), REFUSED)
def test_what_cannot_be_described_is_refused_alone(kind: int, name: str, error: ErrorCode) -> None:
    """Another broker's configuration is that broker's to tell; the other resources of the request are answered."""
    good, bad = describe(node_with(t={}), (TOPIC, "t", ["retention.ms"]), (kind, name))
    assert (good.error_code, good.error_message, len(good.configs)) == (0, "", 1)
    assert (bad.error_code, bad.resource_type, bad.resource_name, bad.configs) == (error, kind, name, [])


def test_a_type_that_nobody_knows_fails_the_whole_request() -> None:
    """As in Kafka: the sender means something that this version does not."""
    for result in describe(node_with(t={}), (TOPIC, "t"), (3, "x")):
        assert (result.error_code, result.configs) == (ErrorCode.INVALID_REQUEST, [])


def test_a_resource_named_twice_is_answered_twice() -> None:
    """Each with its own keys."""
    first, second = describe(node_with(t={}), (TOPIC, "t", ["retention.ms"]), (TOPIC, "t", ["segment.ms"]))
    assert [first.configs[0].name, second.configs[0].name] == ["retention.ms", "segment.ms"]


def test_the_empty_broker_shows_what_is_set_for_all() -> None:
    """Nothing else: no file, no defaults, no broker's own configs."""
    node = node_with()
    assert describe(node, (BROKER, ""))[0].configs == []
    set_at_run_time(node, BROKER, "", message_max_bytes="3")
    set_at_run_time(node, BROKER, "1", message_max_bytes="4")
    (result,) = describe(node, (BROKER, ""))
    assert [(each.name, *row(each)) for each in result.configs] == [
        ("message.max.bytes", "3", 3, False, False, 3, [("message.max.bytes", "3", 3)])
    ]


def test_a_group_inherits_from_the_broker() -> None:
    """Its keys are the broker's without `group.`; those without a counterpart have a default of their own."""
    node = node_with()
    timeout = ("group.consumer.session.timeout.ms", "45000", 5)
    assert row(entry(node, GROUP, "g", "consumer.session.timeout.ms")) == ("45000", 5, False, False, 3, [timeout])
    reset = ("share.auto.offset.reset", "latest", 5)
    assert row(entry(node, GROUP, "g", "share.auto.offset.reset")) == ("latest", 5, False, False, 2, [reset])
    set_at_run_time(node, GROUP, "g", consumer_session_timeout_ms="50000")
    own = ("consumer.session.timeout.ms", "50000", 8)
    assert row(entry(node, GROUP, "g", "consumer.session.timeout.ms")) == ("50000", 8, False, False, 3, [own, timeout])


def test_a_metric_subscription_shows_its_three_keys() -> None:
    """Also one that does not exist."""
    node = node_with()
    (result,) = describe(node, (METRICS, "m"))
    assert {each.name: each.value for each in result.configs} == {"interval.ms": "300000", "match": "", "metrics": ""}
    set_at_run_time(node, METRICS, "m", interval_ms="1000")
    assert row(entry(node, METRICS, "m", "interval.ms")) == ("1000", 7, False, False, 3, [("interval.ms", "1000", 7)])


def test_loggers_show_the_level_that_holds() -> None:
    """A logger without its own level shows its parent's."""
    node = node_with()
    logger = logging.getLogger("chronik.broker.settings")
    before = logger.level
    try:
        logger.setLevel(logging.DEBUG)
        assert row(entry(node, LOGGER, "1", "chronik.broker.settings")) == ("DEBUG", 6, False, False, 0, [])
        logger.setLevel(logging.CRITICAL)
        assert entry(node, LOGGER, "1", "chronik.broker.settings").value == "FATAL"
    finally:
        logger.setLevel(before)
    names = [each.name for each in describe(node, (LOGGER, "1"))[0].configs]
    assert names[0] == "root"
    assert all(name.startswith("chronik") for name in names[1:])


@pytest.mark.parametrize("version", range(5))
def test_every_version_is_answered(version: int) -> None:
    """v1 adds sources and synonyms, v3 types and documentation; is_default of v0 is false, as Kafka leaves it."""
    (result,) = describe(
        node_with(t={}), (TOPIC, "t", ["segment.bytes"]), version=version, synonyms=True, documentation=True
    )
    (found,) = result.configs
    assert (found.name, found.value, found.is_default) == ("segment.bytes", "1073741824", False)
    assert found.config_source == (5 if version >= 1 else -1)
    assert len(found.synonyms) == (1 if version >= 1 else 0)
    assert found.config_type == (3 if version >= 3 else 0)
    assert bool(found.documentation) == (version >= 3)


def test_synonyms_and_documentation_come_when_asked_for() -> None:
    """They are the larger part of an answer."""
    node = node_with(t={})
    (bare,) = describe(node, (TOPIC, "t"), synonyms=False)[0].configs[:1]
    assert (bare.synonyms, bare.documentation) == ([], None)
    for result in describe(node, (TOPIC, "t"), (BROKER, "1"), (GROUP, "g"), documentation=True):
        assert all(each.documentation for each in result.configs if each.name != "foo.bar")
