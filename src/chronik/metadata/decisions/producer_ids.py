"""Blocks of producer ids, handed to brokers. An id is never given twice, also not after a broker lost its block."""

from __future__ import annotations

from chronik.metadata.commands import AllocateProducerIds, AllocateProducerIdsReply
from chronik.metadata.decisions.brokers import check_broker_epoch
from chronik.metadata.decisions.decision import Decision
from chronik.metadata.errors import refuse
from chronik.metadata.image import View
from chronik.metadata.records import ProducerIdsRecord
from chronik.wire.error_codes import ErrorCode
from chronik.wire.notation import INT64_MAX

BLOCK_IDS = 1000  # Kafka's; one consensus round for so many producers


def allocate_producer_ids(view: View, command: AllocateProducerIds) -> Decision[AllocateProducerIdsReply]:
    check_broker_epoch(view, command.broker_id, command.broker_epoch)
    first = view.next_producer_id
    if first > INT64_MAX - BLOCK_IDS:
        refuse(ErrorCode.UNKNOWN_SERVER_ERROR, f"no producer ids are left: the next would be {first}")
    record = ProducerIdsRecord(
        broker_id=command.broker_id, broker_epoch=command.broker_epoch, next_producer_id=first + BLOCK_IDS
    )
    return Decision([record], AllocateProducerIdsReply(first_producer_id=first, count=BLOCK_IDS))
