"""How a follower proves its broker id on a listener that is open to clients.

Each process of a broker draws an incarnation id of 16 random bytes and registers with it. Nodes learn it from the
metadata; clients never see it. A follower's fetch carries it in a tagged field that Kafka's requests do not have. A
fetch in a broker's name without the incarnation id, or with another broker epoch than the registered one, reads nothing
and is not counted. Otherwise any client could read uncommitted records, or make a leader believe that a replica has
records it lacks.

The id is only as secret as the connections between nodes.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chronik.metadata.image import Broker
    from chronik.wire.messages.fetch import FetchRequest

TAG = 0x43_48_52  # "CHR": far from Kafka's own tags, which count from 0


def sign(request: FetchRequest, incarnation_id: bytes) -> None:
    request.unknown_tags = ((TAG, incarnation_id),)  # type: ignore[misc]


def is_signed_by(request: FetchRequest, broker: Broker) -> bool:
    """Whether the latest registered process of the broker sent the request."""
    if request.replica_state.replica_epoch != broker.epoch:
        return False
    for tag, data in request.unknown_tags:
        if tag == TAG:
            return hmac.compare_digest(data, broker.incarnation_id)
    return False
