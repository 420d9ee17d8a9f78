"""Names that users type: what exists, what they probably meant, and settings written as key=value.

A name that does not exist is answered with the nearest one that does, as far as one is near.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING

from chronik.cli.errors import CommandFailed, Misused

if TYPE_CHECKING:
    from chronik.client.errors import Refused
    from chronik.client.routing import ClusterClient
    from chronik.client.topology import Topic, TopicPartition


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence: "; did you mean 'orders'?", or nothing."""
    near = get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


async def existing_topic(cluster: ClusterClient, name: str, *, hint: str = "") -> Topic:
    """The topic, or a complaint with the nearest name, or the hint if no name is near."""
    from chronik.client.errors import Refused
    from chronik.wire.error_codes import ErrorCode

    try:
        return await cluster.topic(name)
    except Refused as fault:
        if fault.kafka_error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
    known = (await cluster.refresh(None)).topics
    raise CommandFailed(f"topic {name!r} does not exist: UNKNOWN_TOPIC_OR_PARTITION{did_you_mean(name, known) or hint}")


async def existing_partitions(cluster: ClusterClient, name: str, only: Iterable[int]) -> list[TopicPartition]:
    """All partitions of a topic, or only these; a complaint if it has no such partition."""
    from chronik.client.topology import TopicPartition

    known = (await existing_topic(cluster, name)).partitions
    for index in only:
        if index not in known:
            raise CommandFailed(
                f"topic {name!r} has no partition {index}, only 0 to {len(known) - 1}: UNKNOWN_TOPIC_OR_PARTITION"
            )
    return [TopicPartition(name, index) for index in sorted(only or known)]


def parse_settings(pairs: Iterable[str], option: str) -> dict[str, str]:
    """Reads key=value; an empty value is a value."""
    settings = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise Misused(f"{option} {pair!r}: write key=value")
        settings[key] = value
    return settings


def nearest_topic_config(fault: Refused, keys: Iterable[str]) -> str:
    """The end of a sentence for a refused setting: the nearest key for one that does not exist."""
    from chronik.catalogue.topic_keys import TOPIC_CONFIGS
    from chronik.wire.error_codes import ErrorCode

    if fault.kafka_error not in (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST):
        return ""
    return "".join(did_you_mean(key, TOPIC_CONFIGS) for key in keys if key not in TOPIC_CONFIGS)
