"""The topics that the members of a consumer group read, from the metadata in their join requests.

The metadata is the clients' own business; the coordinator looks into it only to know which topics' offsets are in use.
Every version of it begins like version 0, so version 0 is what is read, and what follows is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from chronik.wire.compiler import decoder_of
from chronik.wire.errors import Malformed
from chronik.wire.messages.consumer_protocol import ConsumerProtocolSubscription

CONSUMER: Final = "consumer"  # the protocol type of consumers; Connect and others have their own
_VERSION_BYTES = 2


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """None when one of them cannot be read: then nothing is known about the group."""
    decode = decoder_of(ConsumerProtocolSubscription, 0)
    topics: set[str] = set()
    for one in metadata:
        if len(one) < _VERSION_BYTES or one[0] >= 0x80:  # a negative version has never been written by anybody
            return None
        try:
            subscription, _ = decode(memoryview(one), _VERSION_BYTES)
        except Malformed:
            return None
        topics.update(subscription.topics)
    return frozenset(topics)
