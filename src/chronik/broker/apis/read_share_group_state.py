"""ReadShareGroupState (key 84): the state of share partitions, for their leader. Older leaders are fenced.

Asked by other nodes. The leader of the partition's place in `__share_group_state` answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from chronik.broker.api import api
from chronik.broker.permissions import CLUSTER, CLUSTER_ACTION
from chronik.broker.share.answering import answers_to, error_of
from chronik.coordinator.share.persister import ShareState
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.read_share_group_state import (
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context


NO_STATE: Final = ShareState(0, 0, [])  # beside an error


@api(ReadShareGroupStateRequest, ReadShareGroupStateResponse, needs=(CLUSTER_ACTION.on(CLUSTER),))
async def read_share_group_state(request: ReadShareGroupStateRequest, context: Context) -> ReadShareGroupStateResponse:
    told = await answers_to(
        request,
        context,
        lambda coordinator, key, asked: coordinator.read(key, asked.leader_epoch),
    )
    return ReadShareGroupStateResponse(
        results=[
            ReadStateResult(topic_id=topic_id, partitions=[_result(*each) for each in partitions])
            for topic_id, partitions in told
        ]
    )


def _result(partition: int, told: ShareState | ErrorCode) -> PartitionResult:
    error, message = error_of(told)
    state = NO_STATE if isinstance(told, ErrorCode) else told
    return PartitionResult(
        partition=partition,
        error_code=error,
        error_message=message,
        state_epoch=state.state_epoch,
        start_offset=state.start_offset,
        state_batches=[
            StateBatch(
                first_offset=each.first_offset,
                last_offset=each.last_offset,
                delivery_state=each.delivery_state,
                delivery_count=each.delivery_count,
            )
            for each in state.batches
        ],
    )
