"""DeleteShareGroupState (key 86): removes the state of share partitions.

Asked by other nodes. The leader of the partition's place in `__share_group_state` answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.permissions import CLUSTER, CLUSTER_ACTION
from chronik.broker.share.answering import answers_to, error_of
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(DeleteShareGroupStateRequest, DeleteShareGroupStateResponse, needs=(CLUSTER_ACTION.on(CLUSTER),))
async def delete_share_group_state(
    request: DeleteShareGroupStateRequest, context: Context
) -> DeleteShareGroupStateResponse:
    told = await answers_to(
        request,
        context,
        lambda coordinator, key, asked: coordinator.delete(key),
    )
    return DeleteShareGroupStateResponse(
        results=[
            DeleteStateResult(topic_id=topic_id, partitions=[_result(*each) for each in partitions])
            for topic_id, partitions in told
        ]
    )


def _result(partition: int, told: ErrorCode) -> PartitionResult:
    error, message = error_of(told)
    return PartitionResult(partition=partition, error_code=error, error_message=message)
