"""The topics that the members of a consumer group read, from the metadata in their join requests.

The metadata is opaque to the coordinator, which reads it only to find out which topics' offsets are in use. Every
version of it begins like version 0, so it is read as version 0 and the rest is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from chronik.wire.compiler import decoder_of
from chronik.wire.errors import Malformed
from chronik.wire.messages.consumer_protocol import ConsumerProtocolSubscription

CONSUMER: Final = "consumer"  # the protocol type of consumers; Connect and others have other types
_VERSION_BYTES = 2


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """None if the metadata of any member cannot be read: then the group's topics are unknown."""
    decode = decoder_of(ConsumerProtocolSubscription, 0)
    topics: set[str] = set()
    for one in metadata:
        if len(one) < _VERSION_BYTES or one[0] >= 0x80:  # negative versions do not exist
            return None
        try:
            subscription, _ = decode(memoryview(one), _VERSION_BYTES)
        except Malformed:
            return None
        topics.update(subscription.topics)
    return frozenset(topics)
