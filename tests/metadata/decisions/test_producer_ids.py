"""Blocks of producer ids."""

from __future__ import annotations

import pytest

from chronik.metadata.commands.allocate_producer_ids import AllocateProducerIds
from chronik.metadata.errors import MetadataRefused
from chronik.wire.error_codes import ErrorCode
from tests.metadata.clusters import cluster


def test_blocks_of_a_thousand_never_overlap() -> None:
    """Two producers with one id would count as one, and records of the second one as duplicates."""
    on = cluster(2)
    given = []
    for broker_id in (1, 2, 1):
        on.change_controller()
        reply = on.ask(AllocateProducerIds(broker_id=broker_id, broker_epoch=on.epoch(broker_id)))
        given.append((reply.first_producer_id, reply.count))
    assert given == [(0, 1000), (1000, 1000), (2000, 1000)]
    assert on.image.next_producer_id == 3000


def test_a_broker_of_the_past_gets_none() -> None:
    """It is on its way out, and ids given to it are lost."""
    on = cluster(1)
    with pytest.raises(MetadataRefused) as refused:
        on.ask(AllocateProducerIds(broker_id=1, broker_epoch=7))
    assert refused.value.error_code == ErrorCode.STALE_BROKER_EPOCH
