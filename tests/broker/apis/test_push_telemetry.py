"""From a subscription to /metrics: a client is asked for metrics, pushes them, and they are shown."""

from __future__ import annotations

import asyncio
import zlib
from typing import Any

import pytest

from chronik.broker.exposition import metrics_text
from chronik.broker.node import Node
from chronik.metadata.commands.alter_configs import AlterConfigs, ConfigChange, ResourceChange
from chronik.metadata.image import ResourceType
from chronik.sim.disk import SimDisk
from chronik.wire.compression import Codec
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from chronik.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from chronik.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from tests.broker.harness import Client, TestClock, start_node
from tests.wire.otlp_messages import gauge, metrics_data, part, point, total

INTERVAL_MS = 1_000
BYTES_MAX = 8_192


class World:
    """A node with a subscription for clients of the name `test`, and one such client."""

    def __init__(self, node: Node, clock: TestClock) -> None:
        self.node, self.clock = node, clock
        self.client = Client(node)
        self.subscription: Any = None

    async def subscribe(self) -> None:
        software = ApiVersionsRequest(client_software_name="our-client", client_software_version="1.2")
        await self.client.ask(software, ApiVersionsResponse, 3)
        request = GetTelemetrySubscriptionsRequest(client_instance_id=bytes(16))
        self.subscription = await self.client.ask(request, GetTelemetrySubscriptionsResponse, 0)

    async def push(self, payload: bytes, codec: Codec = Codec.NONE) -> int:
        self.clock.now_ms += INTERVAL_MS
        request = PushTelemetryRequest(
            client_instance_id=self.subscription.client_instance_id,
            subscription_id=self.subscription.subscription_id,
            terminating=False,
            compression_type=codec,
            metrics=payload,
        )
        return (await self.client.ask(request, PushTelemetryResponse, 0)).error_code

    async def shown(self) -> list[str]:
        text = await metrics_text(self.node._base, self.node)
        return [line for line in text.splitlines() if "client" in line and not line.startswith("# HELP")]


async def made() -> World:
    clock = TestClock()
    node = await start_node(SimDisk(1), clock=clock, telemetry_max_bytes=BYTES_MAX)
    configs = {"metrics": "*", "interval.ms": str(INTERVAL_MS), "match": "client_id=te.*"}
    changes = [ConfigChange(key=key, value=value) for key, value in configs.items()]
    resource = ResourceChange(resource_type=ResourceType.CLIENT_METRICS, resource_name="all", configs=changes)
    await node.store.submit(AlterConfigs(resources=[resource], incremental=True))
    return World(node, clock)


def test_what_a_client_pushes_is_shown_with_its_labels() -> None:
    async def scenario() -> tuple[Any, list[int], list[str]]:
        world = await made()
        await world.subscribe()
        payload = metrics_data(
            gauge("org.apache.kafka.producer.record.queue.time.max", point(float("inf"), topic='a"b')),
            total("org.apache.kafka.producer.record.send.total", point(3)),
        )
        codes = [await world.push(payload), await world.push(zlib.compress(payload, wbits=31), Codec.GZIP)]
        lines = await world.shown()
        await world.node.stop()
        return world.subscription, codes, lines

    subscription, codes, lines = asyncio.run(scenario())
    assert subscription.requested_metrics == ["*"]
    assert (subscription.push_interval_ms, subscription.telemetry_max_bytes) == (INTERVAL_MS, BYTES_MAX)
    assert subscription.accepted_compression_types == [4, 3, 1, 2]
    assert subscription.client_instance_id != bytes(16)
    assert codes == [0, 0]
    values = {line.partition("{")[0]: line for line in lines if "{" in line}
    assert 'client_software_name="our-client",client_software_version="1.2"' in values["chronik_client_info"]
    assert values["kafka_client_producer_record_send_total"].endswith(" 6.0")
    assert 'client_id="test",topic="a\\"b"} +Inf' in values["kafka_client_producer_record_queue_time_max"]
    assert "# TYPE kafka_client_producer_record_send_total counter" in lines
    assert "kafka_server_client_metrics_plugin_export_total 2" in lines
    assert "kafka_server_client_metrics_instance_count 1" in lines


@pytest.mark.parametrize(
    ("payload", "codec", "error"),
    [
        (b"no protobuf", Codec.NONE, ErrorCode.INVALID_RECORD),
        (b"no gzip", Codec.GZIP, ErrorCode.INVALID_RECORD),
        (zlib.compress(bytes(1 << 22), wbits=31), Codec.GZIP, ErrorCode.INVALID_RECORD),
        (bytes(BYTES_MAX + 1), Codec.NONE, ErrorCode.TELEMETRY_TOO_LARGE),
        (metrics_data(gauge("n" * 1_000, point(1.0))), Codec.NONE, ErrorCode.INVALID_RECORD),
        (
            part(1, part(2, part(2, part(1, b"\xff") + part(5, part(1, point(1.0)))))),
            Codec.NONE,
            ErrorCode.INVALID_RECORD,
        ),
    ],
)
def test_a_payload_that_cannot_be_read_changes_nothing(payload: bytes, codec: Codec, error: ErrorCode) -> None:
    async def scenario() -> tuple[int, list[str]]:
        world = await made()
        await world.subscribe()
        code = await world.push(payload, codec)
        lines = await world.shown()
        await world.node.stop()
        return code, lines

    code, lines = asyncio.run(scenario())
    assert code == error
    assert not [line for line in lines if line.startswith(("kafka_client_", "chronik_client_info"))]
    assert ("kafka_server_client_metrics_plugin_error_total 1" in lines) is (error is ErrorCode.INVALID_RECORD)


def test_more_payloads_than_are_read_at_once_are_read_all() -> None:
    async def scenario() -> list[int]:
        world = await made()
        worlds = [world, *(World(world.node, world.clock) for _ in range(9))]
        for each in worlds:
            await each.subscribe()
        payload = metrics_data(gauge("a", *[point(1.0, n=number) for number in range(50)]))
        codes = await asyncio.gather(*(each.push(payload) for each in worlds))
        assert len(world.node.telemetry.pushed.by_name()["kafka_client_a"][1]) == 500
        await world.node.stop()
        return codes

    assert asyncio.run(scenario()) == [0] * 10
