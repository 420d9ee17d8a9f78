"""Allocates a block of producer ids to a broker. No id is allocated twice, even if a broker loses its block."""

from __future__ import annotations

from typing import ClassVar

from chronik.metadata.commands.command import ControllerCommand, Reply
from chronik.metadata.decisions.broker_epochs import check_broker_epoch
from chronik.metadata.decisions.decision import ControllerState, Decision
from chronik.metadata.errors import refuse
from chronik.metadata.records import ProducerIdsRecord
from chronik.wire.error_codes import ErrorCode
from chronik.wire.notation import INT64_MAX, int32, int64

BLOCK_IDS = 1000  # as in Kafka: one consensus round serves 1000 producers


class AllocateProducerIdsReply(Reply):
    first_producer_id: int64
    count: int32


class AllocateProducerIds(ControllerCommand[AllocateProducerIdsReply]):
    is_own_duty: ClassVar[bool] = True

    broker_id: int32
    broker_epoch: int64

    def decide(self, state: ControllerState) -> Decision[AllocateProducerIdsReply]:
        view = state.view
        check_broker_epoch(view, self.broker_id, self.broker_epoch)
        first = view.next_producer_id
        if first > INT64_MAX - BLOCK_IDS:
            refuse(ErrorCode.UNKNOWN_SERVER_ERROR, f"no producer ids are left: the next would be {first}")
        record = ProducerIdsRecord(
            broker_id=self.broker_id, broker_epoch=self.broker_epoch, next_producer_id=first + BLOCK_IDS
        )
        return Decision([record], AllocateProducerIdsReply(first_producer_id=first, count=BLOCK_IDS))
