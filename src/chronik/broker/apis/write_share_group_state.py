"""WriteShareGroupState (key 85): stores what became of records of share partitions. v1 counts finished ones.

Asked by other nodes. The leader of the partition's place in `__share_group_state` answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.permissions import CLUSTER, CLUSTER_ACTION
from chronik.broker.share.answering import answers_to, error_of
from chronik.broker.share.state_requests import batches_from
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.write_share_group_state import (
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(WriteShareGroupStateRequest, WriteShareGroupStateResponse, needs=(CLUSTER_ACTION.on(CLUSTER),))
async def write_share_group_state(
    request: WriteShareGroupStateRequest, context: Context
) -> WriteShareGroupStateResponse:
    told = await answers_to(
        request,
        context,
        lambda coordinator, key, asked: coordinator.write(
            key,
            asked.leader_epoch,
            asked.state_epoch,
            asked.start_offset,
            asked.delivery_complete_count,
            batches_from(asked.state_batches),
        ),
    )
    return WriteShareGroupStateResponse(
        results=[
            WriteStateResult(topic_id=topic_id, partitions=[_result(*each) for each in partitions])
            for topic_id, partitions in told
        ]
    )


def _result(partition: int, told: ErrorCode) -> PartitionResult:
    error, message = error_of(told)
    return PartitionResult(partition=partition, error_code=error, error_message=message)
