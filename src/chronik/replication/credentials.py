"""How a follower shows that it is the broker it says it is, on a listener where anybody may send a Fetch.

Each process of a broker draws an incarnation id, 16 random bytes, and registers with it; the nodes of the cluster learn
it through the metadata, and no client is ever told. A follower's fetch carries it in a tagged field of ours, which
Kafka's requests do not have. Without it, or with another broker epoch than the registered one, a fetch in a broker's
name reads nothing and counts for nothing: else a stranger could read what is not committed, and make a leader believe
that a replica holds what it does not.

It is as secret as the connection between the nodes is.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chronik.metadata.image import Broker
    from chronik.wire.messages.fetch import FetchRequest

TAG = 0x43_48_52  # "CHR": far from the numbers that Kafka gives its own tags, which count from 0


def sign(request: FetchRequest, incarnation_id: bytes) -> None:
    request.unknown_tags = ((TAG, incarnation_id),)  # type: ignore[misc]


def is_signed_by(request: FetchRequest, broker: Broker) -> bool:
    """Whether the newest registered process of the broker sent it."""
    if request.replica_state.replica_epoch != broker.epoch:
        return False
    shown = next((data for tag, data in request.unknown_tags if tag == TAG), b"")
    return hmac.compare_digest(shown, broker.incarnation_id)
