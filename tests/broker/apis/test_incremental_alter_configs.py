"""What IncrementalAlterConfigs changes and refuses. Error codes are those of Kafka 4.3.1 for the same requests."""

from __future__ import annotations

import logging

import pytest

from chronik.broker.settings import Settings
from chronik.metadata.errors import NotController
from chronik.metadata.image import ResourceType
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.broker.small_node import SmallNode

TOPIC, BROKER, LOGGER, METRICS, GROUP = (int(each) for each in ResourceType)
SET, DELETE, APPEND, SUBTRACT = range(4)
Change = tuple[str, int, str | None]
Asked = tuple[int, str, list[Change]]


def node_with_topic(**configs: str) -> SmallNode:
    node = SmallNode(Settings.default(node_id=1, log_retention_hours=100), others=(2,))
    node.create_topic("t", **configs)
    return node


def alter(
    node: SmallNode, *resources: Asked, validate_only: bool = False, version: int = 1
) -> list[AlterConfigsResourceResponse]:
    asked = [
        AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[
                AlterableConfig(name=key, config_operation=operation, value=value) for key, operation, value in changes
            ],
        )
        for kind, name, changes in resources
    ]
    request = IncrementalAlterConfigsRequest(resources=asked, validate_only=validate_only)
    return node.ask(request, IncrementalAlterConfigsResponse, version).responses


def kept(node: SmallNode, kind: int, name: str) -> dict[str, str]:
    return dict(node.store.image.config(kind, name))


STEPS: list[tuple[list[Change], dict[str, str]]] = [
    ([("retention.ms", SET, "5"), ("segment.ms", SET, "6")], {"retention.ms": "5", "segment.ms": "6"}),
    ([("retention.ms", DELETE, None)], {"segment.ms": "6"}),
    ([("nope.key", DELETE, None)], {"segment.ms": "6"}),
    ([("cleanup.policy", APPEND, "compact")], {"segment.ms": "6", "cleanup.policy": "delete,compact"}),
    ([("cleanup.policy", APPEND, "compact")], {"segment.ms": "6", "cleanup.policy": "delete,compact"}),
    ([("cleanup.policy", SUBTRACT, "delete")], {"segment.ms": "6", "cleanup.policy": "compact"}),
    ([], {"segment.ms": "6", "cleanup.policy": "compact"}),
    ([("segment.ms", DELETE, "ignored"), ("cleanup.policy", DELETE, None)], {}),
]


@pytest.mark.parametrize("version", [0, 1])
def test_single_keys_are_set_deleted_and_lists_changed(version: int) -> None:
    """Everything that is not named stays."""
    node = node_with_topic()
    for changes, expected in STEPS:
        (answer,) = alter(node, (TOPIC, "t", changes), version=version)
        assert (answer.error_code, answer.error_message) == (0, None)
        assert (answer.resource_type, answer.resource_name) == (TOPIC, "t")
        assert kept(node, TOPIC, "t") == expected


REFUSED: list[tuple[Asked, ErrorCode]] = [
    ((TOPIC, "t", [("retention.ms", SET, "abc")]), ErrorCode.INVALID_CONFIG),
    ((TOPIC, "t", [("retention.ms", SET, "-2")]), ErrorCode.INVALID_CONFIG),
    ((TOPIC, "t", [("retention.ms", SET, "9" * 19)]), ErrorCode.INVALID_CONFIG),
    ((TOPIC, "t", [("min.insync.replicas", SET, "0"), ("retention.ms", SET, "3")]), ErrorCode.INVALID_CONFIG),
    ((TOPIC, "t", [("nope.key", SET, "1")]), ErrorCode.INVALID_CONFIG),
    ((TOPIC, "t", [("num.partitions", SET, "1")]), ErrorCode.INVALID_CONFIG),
    ((TOPIC, "t", [("retention.ms", APPEND, "1")]), ErrorCode.INVALID_CONFIG),
    ((TOPIC, "t", [("cleanup.policy", APPEND, "x")]), ErrorCode.INVALID_CONFIG),
    ((TOPIC, "t", [("retention.ms", SET, None)]), ErrorCode.INVALID_REQUEST),
    ((TOPIC, "t", [("retention.ms", SET, "5"), ("retention.ms", DELETE, None)]), ErrorCode.INVALID_REQUEST),
    ((TOPIC, "absent", [("retention.ms", SET, "1")]), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ((TOPIC, "bad name!", [("retention.ms", SET, "1")]), ErrorCode.INVALID_TOPIC_EXCEPTION),
    ((TOPIC, "", [("retention.ms", SET, "1")]), ErrorCode.INVALID_REQUEST),
    ((BROKER, "1", [("num.partitions", SET, "3")]), ErrorCode.INVALID_REQUEST),
    ((BROKER, "", [("num.partitions", SET, "3")]), ErrorCode.INVALID_REQUEST),
    ((BROKER, "1", [("listeners", SET, "PLAINTEXT://:1")]), ErrorCode.INVALID_REQUEST),
    ((BROKER, "", [("ssl.keystore.location", SET, "/k")]), ErrorCode.INVALID_REQUEST),
    ((BROKER, "1", [("ssl.keystore.location", SET, "/k")]), ErrorCode.INVALID_REQUEST),
    ((BROKER, "1", [("ssl.truststore.type", SET, "PEM")]), ErrorCode.INVALID_REQUEST),
    ((BROKER, "", [("sasl.enabled.mechanisms", SET, "PLAIN")]), ErrorCode.INVALID_REQUEST),
    ((BROKER, "", [("ssl.cipher.suites", SET, "x")]), ErrorCode.INVALID_REQUEST),
    ((BROKER, "1", [("principal.builder.class", SET, "x")]), ErrorCode.INVALID_REQUEST),
    ((BROKER, "1", [("message.max.bytes", SET, "abc")]), ErrorCode.INVALID_REQUEST),
    ((BROKER, "1", [("message.max.bytes", SET, "-1")]), ErrorCode.INVALID_REQUEST),
    ((BROKER, "1", [("log.retention.ms", SET, "0")]), ErrorCode.INVALID_REQUEST),
    ((BROKER, "", [("max.connections.per.ip.overrides", SET, "h")]), ErrorCode.INVALID_REQUEST),
    ((BROKER, "2", [("message.max.bytes", SET, "1")]), ErrorCode.INVALID_REQUEST),
    ((BROKER, "x", [("message.max.bytes", SET, "1")]), ErrorCode.INVALID_REQUEST),
    ((3, "x", [("a", SET, "1")]), ErrorCode.INVALID_REQUEST),
    ((LOGGER, "1", [("root", SET, "LOUD")]), ErrorCode.INVALID_CONFIG),
    ((LOGGER, "1", [("chronik.nobody", SET, "INFO")]), ErrorCode.INVALID_CONFIG),
    ((LOGGER, "1", [("root", APPEND, "INFO")]), ErrorCode.INVALID_REQUEST),
    ((LOGGER, "1", [("root", DELETE, None)]), ErrorCode.INVALID_REQUEST),
    ((LOGGER, "2", [("root", SET, "INFO")]), ErrorCode.INVALID_REQUEST),
    ((LOGGER, "", [("root", SET, "INFO")]), ErrorCode.INVALID_REQUEST),
    ((METRICS, "m", [("nope", SET, "1")]), ErrorCode.INVALID_REQUEST),
    ((METRICS, "", [("interval.ms", SET, "1000")]), ErrorCode.INVALID_REQUEST),
    ((GROUP, "g", [("nope", SET, "1")]), ErrorCode.INVALID_CONFIG),
    ((GROUP, "", [("consumer.session.timeout.ms", SET, "50000")]), ErrorCode.INVALID_REQUEST),
]


@pytest.mark.parametrize(("asked", "error"), REFUSED)
@pytest.mark.parametrize("validate_only", [False, True])
def test_a_change_that_cannot_be_is_refused_and_changes_nothing(
    asked: Asked, error: ErrorCode, validate_only: bool
) -> None:
    """Neither the key at fault nor its neighbours; and the other resources of the request are not affected."""
    node = node_with_topic()
    node.create_topic("u")
    good: Asked = (TOPIC, "u", [("retention.ms", SET, "4")])
    refused, done = alter(node, asked, good, validate_only=validate_only)
    assert (refused.error_code, refused.resource_type, refused.resource_name) == (error, asked[0], asked[1])
    assert refused.error_message
    assert done.error_code == 0
    assert kept(node, TOPIC, "u") == ({} if validate_only else {"retention.ms": "4"})
    assert len(node.store.image.configs) == (0 if validate_only else 1)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sasl.enabled.mechanisms", "PLAIN"),
        ("sasl.login.refresh.min.period.seconds", "58"),
        ("sasl.login.refresh.buffer.seconds", "10"),
        ("ssl.client.auth", "none"),
    ],
)
def test_login_and_encryption_of_one_broker_need_no_listener(key: str, value: str) -> None:
    """Kafka only requires a listener's prefix where keys and certificates change; librdkafka's tests set these."""
    node = node_with_topic()
    (answer,) = alter(node, (BROKER, "1", [(key, SET, value)]))
    assert (answer.error_code, answer.error_message) == (0, None)
    assert kept(node, BROKER, "1") == {key: value}


def test_only_validating_changes_nothing() -> None:
    """The answer is as if it had been done."""
    node = node_with_topic(retention_ms="5")
    level = logging.root.level
    changes: list[Asked] = [
        (TOPIC, "t", [("retention.ms", SET, "77")]),
        (BROKER, "1", [("message.max.bytes", SET, "7")]),
        (LOGGER, "1", [("root", SET, "TRACE")]),
    ]
    assert [answer.error_code for answer in alter(node, *changes, validate_only=True)] == [0, 0, 0]
    assert kept(node, TOPIC, "t") == {"retention.ms": "5"}
    assert kept(node, BROKER, "1") == {}
    assert logging.root.level == level


def test_a_resource_named_twice_fails_both_times() -> None:
    """It is unknown which of the two the client wants."""
    node = node_with_topic()
    node.create_topic("u")
    twice: Asked = (TOPIC, "t", [("retention.ms", SET, "9")])
    answers = alter(node, twice, (TOPIC, "u", [("retention.ms", SET, "4")]), twice)
    assert [answer.error_code for answer in answers] == [ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST]
    assert kept(node, TOPIC, "t") == {}


def test_also_when_one_of_the_two_never_reaches_the_controller() -> None:
    """The broker refuses the one by itself; the other must not pass for being alone then."""
    node = node_with_topic()
    bad: Asked = (BROKER, "1", [("num.partitions", SET, "3")])
    good: Asked = (BROKER, "1", [("message.max.bytes", SET, "3")])
    assert [answer.error_code for answer in alter(node, bad, good)] == [ErrorCode.INVALID_REQUEST] * 2
    assert kept(node, BROKER, "1") == {}


def test_what_is_set_for_a_broker_holds_at_once() -> None:
    """The value for this broker precedes that for all brokers; deleting it reveals the earlier value."""
    node = node_with_topic()
    alter(node, (BROKER, "", [("message.max.bytes", SET, "3"), ("log.retention.ms", SET, "9")]))
    alter(node, (BROKER, "1", [("message.max.bytes", SET, "4")]))
    assert (node.settings.message_max_bytes, node.settings.log_retention_ms) == (4, 9)
    alter(node, (BROKER, "1", [("message.max.bytes", DELETE, None)]))
    assert node.settings.message_max_bytes == 3
    alter(node, (BROKER, "", [("message.max.bytes", DELETE, None), ("log.retention.ms", DELETE, None)]))
    assert (node.settings.message_max_bytes, node.settings.log_retention_ms) == (1_048_588, 360_000_000)


def test_a_key_that_would_contradict_another_is_refused() -> None:
    """Only the broker knows the rest of its configuration, so it judges before the controller does."""
    node = node_with_topic()
    lag: Asked = (BROKER, "1", [("log.cleaner.max.compaction.lag.ms", SET, "5")])
    assert alter(node, lag)[0].error_code == 0
    (refused,) = alter(node, (BROKER, "1", [("log.cleaner.min.compaction.lag.ms", SET, "6")]))
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert "may not exceed" in (refused.error_message or "")


def test_an_unknown_key_of_a_broker_is_kept_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Kafka keeps it for its plugins; here it is most likely a typing error."""
    node = node_with_topic()
    with caplog.at_level(logging.WARNING):
        (answer,) = alter(node, (BROKER, "1", [("message.max.byte", SET, "3")]))
    assert answer.error_code == 0
    assert kept(node, BROKER, "1") == {"message.max.byte": "3"}
    assert "did you mean message.max.bytes?" in caplog.text


def test_log_levels_change_on_this_node_and_are_kept_nowhere() -> None:
    """To look closer at a running broker."""
    node = node_with_topic()
    logger = logging.getLogger("chronik.broker.configs")
    before = logger.level
    try:
        assert alter(node, (LOGGER, "1", [("chronik.broker.configs", SET, "DEBUG")]))[0].error_code == 0
        assert logger.level == logging.DEBUG
        assert alter(node, (LOGGER, "1", [("chronik.broker.configs", DELETE, None)]))[0].error_code == 0
        assert logger.level == logging.NOTSET
    finally:
        logger.setLevel(before)
    assert not node.store.image.configs


def test_without_a_controller_the_clients_learn_so() -> None:
    """The code makes a client try again; what needs no controller is done."""
    node = node_with_topic()
    node.store.fails_with = NotController(None)
    answers = alter(node, (TOPIC, "t", [("retention.ms", SET, "1")]), (LOGGER, "1", []))
    assert [answer.error_code for answer in answers] == [ErrorCode.NOT_CONTROLLER, 0]


def test_groups_and_metric_subscriptions_keep_their_keys() -> None:
    """They need not exist beforehand."""
    node = node_with_topic()
    group: Asked = (GROUP, "g", [("consumer.session.timeout.ms", SET, "50000")])
    metrics: Asked = (METRICS, "m", [("interval.ms", SET, "1000")])
    assert [answer.error_code for answer in alter(node, group, metrics)] == [0, 0]
    assert kept(node, GROUP, "g") == {"consumer.session.timeout.ms": "50000"}
    assert kept(node, METRICS, "m") == {"interval.ms": "1000"}
