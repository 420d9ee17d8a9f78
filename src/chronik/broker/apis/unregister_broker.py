"""UnregisterBroker (key 64): removes the registration of a broker.

An observer also leaves the metadata quorum; a voter keeps its vote until it is removed from the quorum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.permissions import ALTER, CLUSTER
from chronik.broker.topics import refused_by
from chronik.metadata.commands.remove_voter import RemoveVoter
from chronik.metadata.commands.unregister_broker import UnregisterBroker
from chronik.metadata.errors import MetadataError
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(UnregisterBrokerRequest, UnregisterBrokerResponse, needs=(ALTER.on(CLUSTER),))
async def unregister_broker(request: UnregisterBrokerRequest, context: Context) -> UnregisterBrokerResponse:
    if not context.allows_on_cluster(ALTER):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return UnregisterBrokerResponse(throttle_time_ms=0, error_code=error, error_message=error.message)
    store = context.services.store
    try:
        await store.submit(UnregisterBroker(broker_id=request.broker_id))
        if request.broker_id in store.raft.members.learners:
            await store.submit(RemoveVoter(node_id=request.broker_id, entirely=True))
    except MetadataError as fault:
        error, message = refused_by(fault)
        return UnregisterBrokerResponse(throttle_time_ms=0, error_code=error, error_message=message)
    return UnregisterBrokerResponse(throttle_time_ms=0, error_code=0, error_message=None)
