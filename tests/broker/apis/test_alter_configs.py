"""AlterConfigs replaces everything that is set on a resource. Its rules are those of IncrementalAlterConfigs."""

from __future__ import annotations

import pytest

from chronik.metadata.image import ResourceType
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from tests.broker.small_node import SmallNode

TOPIC, BROKER, LOGGER, METRICS, GROUP = (int(each) for each in ResourceType)
Asked = tuple[int, str, dict[str, str | None]]


def alter(
    node: SmallNode, *resources: Asked, validate_only: bool = False, version: int = 2
) -> list[AlterConfigsResourceResponse]:
    asked = [
        AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[AlterableConfig(name=key, value=value) for key, value in configs.items()],
        )
        for kind, name, configs in resources
    ]
    request = AlterConfigsRequest(resources=asked, validate_only=validate_only)
    return node.ask(request, AlterConfigsResponse, version).responses


def node_with_topic(**configs: str) -> SmallNode:
    node = SmallNode()
    node.create_topic("t", **configs)
    return node


@pytest.mark.parametrize("version", [0, 1, 2])
def test_what_is_not_named_is_gone(version: int) -> None:
    """That is the difference to IncrementalAlterConfigs, and why that one exists."""
    node = node_with_topic(retention_ms="5")
    (answer,) = alter(node, (TOPIC, "t", {"segment.ms": "6"}), version=version)
    assert (answer.error_code, answer.error_message, answer.resource_name) == (0, None, "t")
    assert dict(node.store.image.config(TOPIC, "t")) == {"segment.ms": "6"}
    alter(node, (TOPIC, "t", {}), version=version)
    assert dict(node.store.image.config(TOPIC, "t")) == {}


def test_only_validating_changes_nothing() -> None:
    """The answer is as if it had been done."""
    node = node_with_topic(retention_ms="5")
    assert alter(node, (TOPIC, "t", {}), validate_only=True)[0].error_code == 0
    assert dict(node.store.image.config(TOPIC, "t")) == {"retention.ms": "5"}


REFUSED: list[tuple[Asked, ErrorCode]] = [
    ((TOPIC, "t", {"segment.ms": None}), ErrorCode.INVALID_REQUEST),
    ((TOPIC, "t", {"segment.ms": "x"}), ErrorCode.INVALID_CONFIG),
    ((TOPIC, "t", {"nope": "1"}), ErrorCode.INVALID_CONFIG),
    ((TOPIC, "absent", {"segment.ms": "1"}), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ((TOPIC, "bad name!", {"segment.ms": "1"}), ErrorCode.INVALID_TOPIC_EXCEPTION),
    ((BROKER, "1", {"num.partitions": "5"}), ErrorCode.INVALID_REQUEST),
    ((BROKER, "2", {"message.max.bytes": "5"}), ErrorCode.INVALID_REQUEST),
    ((LOGGER, "1", {"root": "INFO"}), ErrorCode.INVALID_REQUEST),
    ((3, "1", {"root": "INFO"}), ErrorCode.INVALID_REQUEST),
]


@pytest.mark.parametrize(("asked", "error"), REFUSED)
def test_what_cannot_be_is_refused_and_nothing_is_lost(asked: Asked, error: ErrorCode) -> None:
    """A refused replacement must not clear existing configs."""
    node = node_with_topic(retention_ms="5")
    (answer,) = alter(node, asked)
    assert answer.error_code == error
    assert dict(node.store.image.config(TOPIC, "t")) == {"retention.ms": "5"}


def test_a_brokers_own_configuration_is_replaced_and_holds_at_once() -> None:
    """Broker and topic configs take the same way."""
    node = node_with_topic()
    alter(node, (BROKER, "1", {"message.max.bytes": "5", "log.retention.ms": "9"}))
    assert (node.settings.message_max_bytes, node.settings.log_retention_ms) == (5, 9)
    alter(node, (BROKER, "1", {"message.max.bytes": "6"}))
    assert (node.settings.message_max_bytes, node.settings.log_retention_ms) == (6, 604_800_000)


def test_a_key_that_goes_away_takes_its_contradiction_with_it() -> None:
    """The configuration that would result is validated, not the current one."""
    node = node_with_topic()
    assert alter(node, (BROKER, "1", {"log.cleaner.max.compaction.lag.ms": "5"}))[0].error_code == 0
    assert alter(node, (BROKER, "1", {"log.cleaner.min.compaction.lag.ms": "6"}))[0].error_code == 0
