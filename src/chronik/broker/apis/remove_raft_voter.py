"""RemoveRaftVoter (key 81): removes a voter from the metadata quorum. Its broker keeps running.

Directory ids are ignored: a node is identified by its node id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.apis.add_raft_voter import require_cluster
from chronik.broker.permissions import ALTER, CLUSTER
from chronik.broker.topics import refused_by
from chronik.metadata.commands.remove_voter import RemoveVoter
from chronik.metadata.errors import MetadataError
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(RemoveRaftVoterRequest, RemoveRaftVoterResponse, needs=(ALTER.on(CLUSTER),))
async def remove_raft_voter(request: RemoveRaftVoterRequest, context: Context) -> RemoveRaftVoterResponse:
    if not context.allows_on_cluster(ALTER):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return RemoveRaftVoterResponse(throttle_time_ms=0, error_code=error, error_message=error.message)
    try:
        require_cluster(request.cluster_id, context)
        is_broker = request.voter_id in context.services.store.image.brokers
        await context.services.store.submit(RemoveVoter(node_id=request.voter_id, entirely=not is_broker))
    except MetadataError as fault:
        error, message = refused_by(fault)
        return RemoveRaftVoterResponse(throttle_time_ms=0, error_code=error, error_message=message)
    return RemoveRaftVoterResponse(throttle_time_ms=0, error_code=0, error_message=None)
