"""ListConfigResources: the resources that can be described."""

from __future__ import annotations

import pytest

from chronik.metadata.commands.alter_configs import AlterConfigs, ConfigChange, ResourceChange
from chronik.metadata.image import ResourceType
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from tests.broker.small_node import SmallNode, run

TOPIC, BROKER, LOGGER, METRICS, GROUP = (int(each) for each in ResourceType)
ALL = [
    (TOPIC, "a"),
    (TOPIC, "b"),
    (BROKER, "1"),
    (BROKER, "2"),
    (LOGGER, "1"),
    (LOGGER, "2"),
    (METRICS, "m"),
    (GROUP, "g"),
]


@pytest.fixture
def node() -> SmallNode:
    made = SmallNode(others=(2,))
    made.create_topic("b", retention_ms="1")
    made.create_topic("a")
    resources = [
        ResourceChange(resource_type=kind, resource_name=name, configs=[ConfigChange(key=key, value="60000")])
        for kind, name, key in [
            (GROUP, "g", "consumer.session.timeout.ms"),
            (METRICS, "m", "interval.ms"),
            (BROKER, "", "log.retention.ms"),
        ]
    ]
    run(made.store.submit(AlterConfigs(resources=resources, incremental=True)))
    return made


def listed(node: SmallNode, *kinds: int, version: int = 1) -> list[tuple[int, str]]:
    request = ListConfigResourcesRequest()
    if version >= 1:
        request.resource_types = list(kinds)
    response = node.ask(request, ListConfigResourcesResponse, version)
    assert response.error_code == 0
    return [(each.resource_type, each.resource_name) for each in response.config_resources]


@pytest.mark.parametrize(
    "kinds", [(), (TOPIC,), (BROKER,), (LOGGER,), (METRICS,), (GROUP,), (GROUP, TOPIC), (TOPIC, TOPIC)]
)
def test_resources_of_the_types_asked_for_are_listed_once(node: SmallNode, kinds: tuple[int, ...]) -> None:
    """All types if none is named. The default of all brokers is not a separate resource."""
    wanted = kinds or (TOPIC, BROKER, LOGGER, METRICS, GROUP)
    assert listed(node, *kinds) == [each for kind in dict.fromkeys(wanted) for each in ALL if each[0] == kind]


def test_version_0_lists_metric_subscriptions(node: SmallNode) -> None:
    """It was made for them alone."""
    assert listed(node, version=0) == [(METRICS, "m")]


def test_a_type_that_nobody_knows_is_an_unsupported_version(node: SmallNode) -> None:
    """Kafka's answer to a client that is newer than the broker."""
    request = ListConfigResourcesRequest(resource_types=[TOPIC, 3])
    response = node.ask(request, ListConfigResourcesResponse, 1)
    assert (response.error_code, response.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])
