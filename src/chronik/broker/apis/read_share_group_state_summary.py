"""ReadShareGroupStateSummary (key 87): how far share partitions have got. v1 counts records that are done with.

Asked by other nodes. The leader of the partition's place in `__share_group_state` answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from chronik.broker.api import api
from chronik.broker.permissions import CLUSTER, CLUSTER_ACTION
from chronik.broker.share.answering import answers_to, error_of
from chronik.coordinator.share.persister import ShareSummary
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.read_share_group_state_summary import (
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context


NO_SUMMARY: Final = ShareSummary(0, 0, 0, -1)  # beside an error


@api(ReadShareGroupStateSummaryRequest, ReadShareGroupStateSummaryResponse, needs=(CLUSTER_ACTION.on(CLUSTER),))
async def read_share_group_state_summary(
    request: ReadShareGroupStateSummaryRequest, context: Context
) -> ReadShareGroupStateSummaryResponse:
    told = await answers_to(
        request,
        context,
        lambda coordinator, key, asked: coordinator.summary(key),
    )
    return ReadShareGroupStateSummaryResponse(
        results=[
            ReadStateSummaryResult(topic_id=topic_id, partitions=[_result(*each) for each in partitions])
            for topic_id, partitions in told
        ]
    )


def _result(partition: int, told: ShareSummary | ErrorCode) -> PartitionResult:
    error, message = error_of(told)
    summary = NO_SUMMARY if isinstance(told, ErrorCode) else told
    return PartitionResult(
        partition=partition,
        error_code=error,
        error_message=message,
        state_epoch=summary.state_epoch,
        leader_epoch=summary.leader_epoch,
        start_offset=summary.start_offset,
        delivery_complete_count=summary.delivery_complete_count,
    )
