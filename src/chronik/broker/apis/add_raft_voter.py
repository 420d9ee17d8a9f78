"""AddRaftVoter (key 80): adds a voter to the metadata quorum; answered when it votes, or after a timeout.

The node must be running and reachable at its first listener. It catches up before it votes. Directory ids are ignored:
a node is identified by its node id. v1's ack_when_committed is always true here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.permissions import ALTER, CLUSTER
from chronik.broker.topics import refused_by
from chronik.metadata.commands.add_voter import AddVoter
from chronik.metadata.errors import MetadataError, refuse
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse

if TYPE_CHECKING:
    from chronik.broker.context import Context

TIMEOUT_MS_MAX = 60_000


@api(AddRaftVoterRequest, AddRaftVoterResponse, needs=(ALTER.on(CLUSTER),))
async def add_raft_voter(request: AddRaftVoterRequest, context: Context) -> AddRaftVoterResponse:
    if not context.allows_on_cluster(ALTER):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return AddRaftVoterResponse(throttle_time_ms=0, error_code=error, error_message=error.message)
    try:
        require_cluster(request.cluster_id, context)
        if not request.listeners:
            refuse(ErrorCode.INVALID_REQUEST, f"voter {request.voter_id} comes without a listener to reach it by")
        await context.services.store.submit(
            AddVoter(
                node_id=request.voter_id,
                host=request.listeners[0].host,
                port=request.listeners[0].port,
                timeout_ms=max(0, min(request.timeout_ms, TIMEOUT_MS_MAX)),
            )
        )
    except MetadataError as fault:
        error, message = refused_by(fault)
        return AddRaftVoterResponse(throttle_time_ms=0, error_code=error, error_message=message)
    return AddRaftVoterResponse(throttle_time_ms=0, error_code=0, error_message=None)


def require_cluster(cluster_id: str | None, context: Context) -> None:
    """Refuses a request that names another cluster."""
    own = context.services.cluster_id
    if cluster_id is not None and cluster_id != own:
        refuse(ErrorCode.INCONSISTENT_CLUSTER_ID, f"this is cluster {own!r}, not {cluster_id!r}")
