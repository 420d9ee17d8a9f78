"""Client metrics (KIP-714): subscriptions, the order of checks, and what a push is answered.

Kafka has no receiver here, so it does not advertise these APIs; it serves them all the same, and decompresses what it
is sent, but does not decode it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import pytest

from chronik.metadata.image import ResourceType
from chronik.wire.compression import Codec, compress
from chronik.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from chronik.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from chronik.wire.messages.push_telemetry import PushTelemetryRequest
from tests.oracle.comparison import Pair, Server
from tests.wire.otlp_messages import gauge, metrics_data, point

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("compat")]

SET, DELETE = 0, 1
LONG_MS, SHORT_MS = "3600000", "100"
PAYLOAD = metrics_data(gauge("a", point(1.0)))


def instance(number: int) -> bytes:
    """Not symmetric: its hash is part of the subscription's id."""
    return bytes([number, 7, 7, 7]) + bytes(11) + b"\x05"


def configure(pair: Pair, name: str, **configs: str | None) -> None:
    changes = [
        AlterableConfig(name=key.replace("_", "."), config_operation=DELETE if value is None else SET, value=value)
        for key, value in configs.items()
    ]
    resource = AlterConfigsResource(resource_type=ResourceType.CLIENT_METRICS, resource_name=name, configs=changes)
    pair.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)


def get(pair: Pair, number: int, **more: Any) -> Any:
    request = GetTelemetrySubscriptionsRequest(client_instance_id=instance(number))
    return pair.ask(request, 0, unordered=("requested_metrics",), **more)


def push(
    number: int, payload: bytes = PAYLOAD, *, codec: int = 0, last: bool = False, wrong: bool = False
) -> Callable[[Server], PushTelemetryRequest]:
    def request(server: Server) -> PushTelemetryRequest:
        return PushTelemetryRequest(
            client_instance_id=instance(number),
            subscription_id=server.kept["subscription"] ^ wrong,
            terminating=last,
            compression_type=codec,
            metrics=payload,
        )

    return request


def subscribe(pair: Pair, number: int) -> None:
    for server, answer in zip(pair.servers, get(pair, number), strict=True):
        server.kept["subscription"] = answer.subscription_id


def test_subscriptions_are_validated(pair: Pair) -> None:
    if pair.release != "4.3.1":
        pytest.skip("3.9.1 takes empty elements, and refuses an empty list")
    name = pair.name("s")
    for configs in (
        {"match": "client_id=a.*"},
        {"match": "client_id=a, client_software_name = b"},
        {"match": "client_id=a,client_id=b"},
        {"match": "client_id=a,client_id=a"},
        {"match": "client_id"},
        {"match": "client_id="},
        {"match": "=a"},
        {"match": "client_id=a=b"},
        {"match": "client_id=a="},
        {"match": "client_id=("},
        {"match": "no_such=a"},
        {"match": "client_id=a,,client_software_name=b"},
        {"match": ""},
        {"metrics": "a,b"},
        {"metrics": "a,a"},
        {"metrics": "a,,b"},
        {"metrics": "*"},
        {"metrics": ""},
        {"interval_ms": "99"},
        {"interval_ms": "100"},
        {"interval_ms": "3600001"},
        {"no_such": "1"},
    ):
        pair.case = str(configs)
        configure(pair, name, **configs)
    configure(pair, name, match=None, metrics=None, interval_ms=None)
    configure(pair, "", metrics="a")


def test_requests_in_every_order(pair: Pair) -> None:
    if pair.release != "4.3.1":
        pytest.skip("subscriptions of 3.9.1 have other defaults")
    name = pair.name("s")
    configure(pair, name, metrics="*", interval_ms=LONG_MS)
    pair.ask_until_equal(GetTelemetrySubscriptionsRequest(client_instance_id=instance(99)), 0)
    pair.case = "too early"
    subscribe(pair, 1)
    get(pair, 1)
    pair.ask(push(1), 0)
    pair.ask(push(1), 0)
    get(pair, 1)
    pair.case = "another subscription, then asking at once"
    subscribe(pair, 2)
    pair.ask(push(2, wrong=True), 0)
    get(pair, 2)
    get(pair, 2)
    pair.case = "codecs"
    for number, codec in enumerate((5, -1, 127), 3):
        subscribe(pair, number)
        pair.ask(push(number, codec=codec), 0)
        get(pair, number)
    for codec in Codec:
        subscribe(pair, 10 + codec)
        pair.ask(push(10 + codec, compress(codec, PAYLOAD), codec=codec), 0)
    pair.case = "nothing"
    subscribe(pair, 20)
    pair.ask(push(20, b""), 0)
    pair.case = "too large, before and after decompression"
    subscribe(pair, 21)
    pair.ask(push(21, bytes((1 << 20) + 1)), 0)
    get(pair, 21)
    subscribe(pair, 22)
    pair.ask(push(22, zlib.compress(bytes(1 << 24), wbits=31), codec=Codec.GZIP), 0)
    get(pair, 22)
    subscribe(pair, 23)
    pair.ask(push(23, b"no gzip", codec=Codec.GZIP), 0)
    pair.case = "the end"
    subscribe(pair, 24)
    pair.ask(push(24), 0)
    pair.ask(push(24, last=True), 0)
    pair.ask(push(24, last=True), 0)
    pair.ask(push(24), 0)
    pair.ask(push(24), 0)
    pair.case = "reserved ids"
    for reserved in (bytes(16), bytes(15) + b"\x01"):
        bare = PushTelemetryRequest(
            client_instance_id=reserved, subscription_id=1, terminating=False, compression_type=0, metrics=b""
        )
        pair.ask(bare, 0)
    pair.ask(GetTelemetrySubscriptionsRequest(client_instance_id=bytes(15) + b"\x01"), 0)
    pair.case = "a new id"
    erased = ("client_instance_id", "subscription_id")
    pair.ask(GetTelemetrySubscriptionsRequest(client_instance_id=bytes(16)), 0, erased=erased)
    pair.case = "a changed subscription is told at once"
    configure(pair, name, metrics="a", interval_ms=SHORT_MS)
    pair.ask_until_equal(GetTelemetrySubscriptionsRequest(client_instance_id=instance(98)), 0)
    subscribe(pair, 1)
    pair.ask(push(1), 0)
    configure(pair, name, metrics=None, interval_ms=None)
