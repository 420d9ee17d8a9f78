"""The metrics subscriptions of a cluster (KIP-714), from its configs, and what they ask of one client.

A client gets the metrics of all subscriptions that match it, at the shortest of their intervals and at least every five
minutes. The id of what it was asked for changes with the metrics and the interval, so that a push for an old
subscription is noticed. Pure.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

from chronik.catalogue.client_selectors import Selectors, are_met, parse_selectors
from chronik.catalogue.group_keys import CLIENT_METRICS_CONFIGS
from chronik.catalogue.values import InvalidValue
from chronik.metadata.image import Image, ResourceType
from chronik.wire.checksums import crc32c

log = logging.getLogger("chronik.broker.telemetry")

ALL_METRICS: Final = "*"
INTERVAL_MS_DEFAULT: Final = int(CLIENT_METRICS_CONFIGS["interval.ms"].parsed_default())


class Subscription(NamedTuple):
    metrics: tuple[str, ...]
    interval_ms: int
    selectors: Selectors


class Wanted(NamedTuple):
    """Of one client."""

    metrics: tuple[str, ...]
    interval_ms: int
    subscription_id: int


class Subscriptions:
    """`version` counts the changes."""

    def __init__(self) -> None:
        self.version = 0
        self._subscriptions: tuple[Subscription, ...] = ()

    def follow(self, image: Image) -> None:
        self.version += 1
        found = []
        for resource, own in image.configs.items():
            if resource.type != ResourceType.CLIENT_METRICS or not own:
                continue
            try:
                found.append(_subscription(own))
            except InvalidValue as reason:  # an older release did not look at `match`
                log.warning("the metrics subscription %r is not used: %s", resource.name, reason)
        self._subscriptions = tuple(found)

    def wanted_from(self, instance_id: bytes, client: Mapping[str, str | None]) -> Wanted:
        """`client` has what selectors can look at."""
        matching = [each for each in self._subscriptions if are_met(each.selectors, client)]
        metrics = sorted({metric for each in matching for metric in each.metrics})
        if ALL_METRICS in metrics:
            metrics = [ALL_METRICS]
        interval_ms = min([INTERVAL_MS_DEFAULT, *(each.interval_ms for each in matching)])
        return Wanted(tuple(metrics), interval_ms, subscription_id(metrics, interval_ms, instance_id))


def subscription_id(metrics: list[str], interval_ms: int, instance_id: bytes) -> int:
    """CRC-32C of metrics and interval, combined with the hash that Java gives the id of the client."""
    halves = int.from_bytes(instance_id[:8], "big") ^ int.from_bytes(instance_id[8:], "big")
    mixed = crc32c(f"[{', '.join(metrics)}]{interval_ms}".encode()) ^ (halves >> 32) ^ (halves & 0xFFFFFFFF)
    return mixed - (1 << 32) if mixed >> 31 else mixed


def _subscription(own: Mapping[str, str]) -> Subscription:
    values = {
        key: definition.parse(own[key]) if key in own else definition.parsed_default()
        for key, definition in CLIENT_METRICS_CONFIGS.items()
    }
    return Subscription(values["metrics"], values["interval.ms"], parse_selectors(values["match"]))
