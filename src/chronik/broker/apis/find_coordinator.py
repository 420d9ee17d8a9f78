"""FindCoordinator (key 10): returns the broker that coordinates a group, a transactional id or a share partition.

The coordinator of a key is the leader of the key's partition in the internal topic for its key type
(`broker/coordinators.py`). The topic is created when first needed, with all the replicas
it is configured to have or not at all: until enough brokers live the answer is COORDINATOR_NOT_AVAILABLE.
The key of a share partition is `group:topic id:partition`; only nodes ask for it. Versions: v1 key_type; v4 many keys;
v6 share partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from chronik.broker.api import api
from chronik.broker.coordinators import BY_KEY_TYPE, GROUP_KEY, SHARE_KEY, TRANSACTION_KEY
from chronik.broker.creation import create_missing
from chronik.broker.linearizable_reads import reads_metadata
from chronik.broker.permissions import CLUSTER, CLUSTER_ACTION, DESCRIBE, GROUP, TRANSACTIONAL_ID
from chronik.runtime.buggify import NO_COORDINATOR
from chronik.runtime.pieces import Work, each
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from chronik.wire.uuids import uuid_bytes

if TYPE_CHECKING:
    from chronik.broker.context import Context

VERSION_MANY = 4
SHARE_PARTITIONS_SINCE = 6
UUID_BYTES = 16


def _unconfirmed(request: FindCoordinatorRequest, context: Context) -> Work[FindCoordinatorResponse]:
    """No leader of the quorum can be reached, so nobody knows who the coordinator is now."""
    return _respond(request, context, lambda key: _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE))


@api(
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    needs=(
        DESCRIBE.on(GROUP, "of groups"),
        DESCRIBE.on(TRANSACTIONAL_ID, "of transactions"),
        CLUSTER_ACTION.on(CLUSTER, "of share partitions"),
    ),
)
@partial(reads_metadata, otherwise=_unconfirmed)
def find_coordinator(
    request: FindCoordinatorRequest, context: Context
) -> Work[FindCoordinatorResponse] | Coroutine[Any, Any, Work[FindCoordinatorResponse]]:
    row = BY_KEY_TYPE.get(request.key_type)
    is_missing = row is not None and context.services.store.image.topic_named(row.topic) is None
    keys = request.coordinator_keys if context.version >= VERSION_MANY else [request.key]
    if row is not None and is_missing and any(_denial(key, request.key_type, context) is None for key in keys):
        return _after_creating(row.topic, request, context)
    return _answer(request, context)


async def _after_creating(
    topic: str, request: FindCoordinatorRequest, context: Context
) -> Work[FindCoordinatorResponse]:
    await create_missing(context.services, [topic])
    return _answer(request, context)


def _answer(request: FindCoordinatorRequest, context: Context) -> Work[FindCoordinatorResponse]:
    return _respond(request, context, lambda key: _find(key, request.key_type, context))


def _respond(
    request: FindCoordinatorRequest, context: Context, find: Callable[[str], Coordinator]
) -> Work[FindCoordinatorResponse]:
    if context.version >= VERSION_MANY:
        return FindCoordinatorResponse(coordinators=(yield from each(find, request.coordinator_keys)))
    one = find(request.key)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _denial(key: str, key_type: int, context: Context) -> ErrorCode | None:
    """Why the caller may not know this coordinator."""
    if key_type == GROUP_KEY and not context.allows(DESCRIBE, GROUP, key):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    if key_type == TRANSACTION_KEY and not context.allows(DESCRIBE, TRANSACTIONAL_ID, key):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if key_type == SHARE_KEY:
        if not context.allows_on_cluster(CLUSTER_ACTION):
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        if context.version < SHARE_PARTITIONS_SINCE or not _is_share_partition(key):
            return ErrorCode.INVALID_REQUEST
    return None


def _is_share_partition(key: str) -> bool:
    """A group id may hold colons."""
    rest, _, partition = key.rpartition(":")
    group_id, _, topic_id = rest.rpartition(":")
    try:
        return bool(group_id.strip()) and len(uuid_bytes(topic_id)) == UUID_BYTES and int(partition) >= 0
    except ValueError:
        return False


def _find(key: str, key_type: int, context: Context) -> Coordinator:
    if (denial := _denial(key, key_type, context)) is not None:
        return _none(key, denial)
    row = BY_KEY_TYPE.get(key_type)
    if row is None:
        return _none(key, ErrorCode.INVALID_REQUEST)
    coordinator = context.services.coordinators.by_topic[row.topic]
    image = context.services.store.image
    topic = image.topic_named(row.topic)
    if topic is None:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    leader = image.brokers.get(topic.partitions[coordinator.partition_for(key)].leader)
    endpoint = leader.endpoint(context.session.listener) if leader is not None else None
    if leader is None or endpoint is None or (NO_COORDINATOR.is_on and NO_COORDINATOR.fires()):
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return Coordinator(
        key=key,
        node_id=leader.broker_id,
        host=endpoint.host,
        port=endpoint.port,
        error_code=0,
        error_message="" if context.version >= VERSION_MANY else "NONE",
    )


def _none(key: str, error: ErrorCode, message: str | None = None) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message or error.message)
