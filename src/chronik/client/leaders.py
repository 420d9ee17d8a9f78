"""Queries the leaders of many partitions: one request per leader, with retries where leaders have moved.

The result holds every requested partition: an answer, or the last error at the timeout. A topic or partition that does
not exist fails immediately. Exceptions concern only the cluster as a whole, never one partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from chronik.client.errors import ClientError, Refused
from chronik.client.routing import RETRY_TIMEOUT_MS
from chronik.peer.backoff import Backoff
from chronik.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient
    from chronik.client.topology import TopicPartition

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
T = TypeVar("T")
Ask = Callable[[int, list["TopicPartition"]], Awaitable[dict["TopicPartition", "T | ClientError"]]]


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    grouped: dict[str, list[TopicPartition]] = {}
    for at in partitions:
        grouped.setdefault(at.topic, []).append(at)
    return grouped


async def ask_leaders(
    cluster: ClusterClient, partitions: Iterable[TopicPartition], ask: Ask[T], *, timeout_ms: int = RETRY_TIMEOUT_MS
) -> dict[TopicPartition, T | ClientError]:
    """Calls `ask(node_id, partitions it leads)` for every leader, concurrently."""
    left = list(dict.fromkeys(partitions))
    found: dict[TopicPartition, T | ClientError] = {}
    end_ns = cluster.clock.monotonic_ns() + timeout_ms * 1_000_000
    backoff = Backoff(cluster.randomness)
    while True:
        led, unknown = await _by_leader(cluster, left)
        found |= unknown
        rounds = await asyncio.gather(*(_guarded(ask, node_id, some) for node_id, some in led.items()))
        left = []
        for answers in rounds:
            found |= answers
            left += [at for at, answer in answers.items() if isinstance(answer, ClientError) and answer.retriable]
        left += [at for at, fault in unknown.items() if fault.retriable and fault.kafka_error is not UNKNOWN]
        wait_ms = backoff.next_ms()
        if not left or cluster.clock.monotonic_ns() + wait_ms * 1_000_000 >= end_ns:
            return found
        for topic in by_topic(left):
            cluster.forget(topic)
        await asyncio.sleep(wait_ms / 1000)


async def _by_leader(
    cluster: ClusterClient, partitions: list[TopicPartition]
) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, Refused]]:
    """Partitions by leader node, and those without a leader."""
    unknown: dict[TopicPartition, Refused] = {}
    led: dict[int, list[TopicPartition]] = {}
    missing = [topic for topic in by_topic(partitions) if topic not in cluster.topology.topics]
    if missing:
        await cluster.retrying(lambda: cluster.refresh(missing))
    for at in partitions:
        try:
            led.setdefault(cluster.topology.leader(at), []).append(at)
        except Refused as fault:
            unknown[at] = fault
    return led, unknown


async def _guarded(ask: Ask[T], node_id: int, some: list[TopicPartition]) -> dict[TopicPartition, T | ClientError]:
    try:
        return await ask(node_id, some)
    except ClientError as fault:
        return dict.fromkeys(some, fault)
