"""Metadata (key 3): brokers, topics, and the leader of each partition; creates requested topics that do not exist.

The controller creates an unknown topic; the response is sent when it exists, or with the error code. Internal topics
are created even if auto.create.topics.enable is false, and never with fewer replicas than configured.
Versions: v0 an empty list means all topics, later null does; v1 controller and racks; v2 cluster_id; v4 the client may
forbid creation; v8 authorised operations; v10 topic ids in the response; v12 lookup by id; v13 top-level error.
"""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from chronik.broker.api import api
from chronik.broker.authorizer import Notes
from chronik.broker.creation import create_missing
from chronik.broker.linearizable_reads import reads_metadata
from chronik.broker.permissions import (
    CLUSTER,
    CLUSTER_NAME,
    CLUSTER_OPERATIONS,
    CREATE,
    DESCRIBE,
    TOPIC,
    TOPIC_OPERATIONS,
)
from chronik.broker.topics import INTERNAL_TOPICS
from chronik.metadata.commands.create_topics import why_not_a_topic_name
from chronik.metadata.image import NO_LEADER
from chronik.runtime.pieces import ITEMS_PER_PIECE, Work
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from chronik.wire.notation import ZERO_UUID, Shared

if TYPE_CHECKING:
    from chronik.broker.context import Context
    from chronik.metadata.image import Image, Partition, Topic

VERSION_NULL_MEANS_ALL, VERSION_TOPIC_IDS = 1, 12  # v10 and v11 responses need a name
TOPICS_AT_ONCE = 8  # most clients ask for fewer; more are described in slices


def _unconfirmed(request: MetadataRequest, context: Context) -> MetadataResponse | None:
    """Handles a request while no quorum leader is reachable: the topics that this node knows may be outdated, so it
    returns none. There is no error that fits either. An empty list would mean a cluster without topics. After an error
    for a topic, a client keeps asking this node, while other nodes may know the leader. Without a response, the client
    asks another node and keeps the leaders that it knows."""
    is_about_topics = request.topics or _asks_for_all(request, context)
    return None if is_about_topics else _response(request, context, [])


@api(
    MetadataRequest,
    MetadataResponse,
    needs=(DESCRIBE.on(TOPIC), CREATE.on(CLUSTER, "creates topics"), CREATE.on(TOPIC, "creates topics, instead")),
)
@partial(reads_metadata, otherwise=_unconfirmed)
def metadata(
    request: MetadataRequest, context: Context
) -> MetadataResponse | Work[MetadataResponse] | Coroutine[Any, Any, Work[MetadataResponse]]:
    image = context.services.store.image
    wanted = request.topics
    if wanted is None or _asks_for_all(request, context):
        return _describe_all(image, request, context)
    if context.version < VERSION_TOPIC_IDS and any(t.name is None or t.topic_id != ZERO_UUID for t in wanted):
        return _ids_too_early(wanted)
    request.topics = wanted = list({(topic.topic_id, topic.name): topic for topic in wanted}.values())
    denied: list[MetadataResponseTopic] = []
    if context.services.authorizer.restricts:
        wanted, denied = _permitted(wanted, image, context)
        request.topics = wanted
    missing = [topic.name for topic in wanted if topic.name and image.topic_named(topic.name) is None]
    may_create = request.allow_auto_topic_creation and context.services.settings.auto_create_topics_enable
    creatable = [name for name in missing if may_create or name in INTERNAL_TOPICS]
    refused: dict[str, ErrorCode] = {}
    if creatable and not context.allows_on_cluster(CREATE, Notes.ALLOWED):
        uncreatable = context.denied(CREATE, TOPIC, creatable)
        refused = dict.fromkeys(uncreatable, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        creatable = [name for name in creatable if name not in uncreatable]
    if creatable:
        return _after_creating(creatable, request, context, refused, denied)
    if len(wanted) > TOPICS_AT_ONCE:
        return _answer(request, context, refused, denied)
    found = [_find(asked, image, request, context, refused) for asked in wanted]
    return _response(request, context, found + denied)


def _permitted(
    wanted: list[MetadataRequestTopic], image: Image, context: Context
) -> tuple[list[MetadataRequestTopic], list[MetadataResponseTopic]]:
    """The topics that the caller may see, and the results for the others. These reveal neither whether a topic with a
    given name exists, nor the name of a topic with a given id."""
    permitted, denied = [], []
    for asked in wanted:
        by_id = asked.topic_id != ZERO_UUID and asked.name is None
        topic = image.topic(asked.topic_id) if by_id else None
        is_unknown = by_id and topic is None
        name = asked.name or "" if topic is None else topic.name
        if is_unknown or context.allows(DESCRIBE, TOPIC, name):
            permitted.append(asked)
        else:
            denied.append(
                MetadataResponseTopic(
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                    name=None if by_id else name,
                    topic_id=asked.topic_id if by_id else ZERO_UUID,
                    partitions=[],
                )
            )
    return permitted, denied


def _describe_all(image: Image, request: MetadataRequest, context: Context) -> Work[MetadataResponse]:
    described = []
    for topic in sorted(image.topics_by_name.values(), key=lambda each: each.name):
        if not context.allows(DESCRIBE, TOPIC, topic.name, Notes.NONE):
            yield 1
            continue
        described.append(_describe(topic, image, request, context))
        yield 1 + len(topic.partitions) // ITEMS_PER_PIECE
    return _response(request, context, described)


def _asks_for_all(request: MetadataRequest, context: Context) -> bool:
    return request.topics is None or (not request.topics and context.version < VERSION_NULL_MEANS_ALL)


def _ids_too_early(wanted: list[MetadataRequestTopic]) -> MetadataResponse:
    """The schema has ids from v10 on, but lookup by id only works from v12 on: the whole request is refused."""
    refused = [
        MetadataResponseTopic(
            error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id, partitions=[]
        )
        for topic in wanted
    ]
    return MetadataResponse(brokers=[], topics=refused)


async def _after_creating(
    names: list[str],
    request: MetadataRequest,
    context: Context,
    refused: dict[str, ErrorCode],
    denied: list[MetadataResponseTopic],
) -> Work[MetadataResponse]:
    return _answer(request, context, refused | await create_missing(context.services, names), denied)


def _answer(
    request: MetadataRequest, context: Context, refused: dict[str, ErrorCode], denied: list[MetadataResponseTopic]
) -> Work[MetadataResponse]:
    image = context.services.store.image
    topics = []
    for asked in request.topics or []:
        found = _find(asked, image, request, context, refused)
        topics.append(found)
        yield 1 + len(found.partitions) // ITEMS_PER_PIECE
    return _response(request, context, topics + denied)


def _find(
    asked: MetadataRequestTopic,
    image: Image,
    request: MetadataRequest,
    context: Context,
    refused: dict[str, ErrorCode],
) -> MetadataResponseTopic:
    if asked.topic_id != ZERO_UUID and asked.name is None:
        topic = image.topic(asked.topic_id)
        if topic is None:
            return _unknown(None, asked.topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
        return _describe(topic, image, request, context)
    name = asked.name or ""
    topic = image.topic_named(name)
    if topic is None:
        error = refused.get(name) or _why_unknown(name)
        return _unknown(name, ZERO_UUID, error)
    return _describe(topic, image, request, context)


def _why_unknown(name: str) -> ErrorCode:
    is_bad = why_not_a_topic_name(name) is not None
    return ErrorCode.INVALID_TOPIC_EXCEPTION if is_bad else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _unknown(name: str | None, topic_id: bytes, error: ErrorCode) -> MetadataResponseTopic:
    is_internal = name in INTERNAL_TOPICS
    return MetadataResponseTopic(error_code=error, name=name, topic_id=topic_id, is_internal=is_internal, partitions=[])


def _describe(topic: Topic, image: Image, request: MetadataRequest, context: Context) -> MetadataResponseTopic:
    if request.include_topic_authorized_operations:
        described = _describe_anew(topic, image)
        described.topic_authorized_operations = context.permitted(TOPIC_OPERATIONS, TOPIC, topic.name)
        return described
    kept = context.services.described_topics
    found = kept.get(topic, image)
    if found is None:
        found = _describe_anew(topic, image)
        kept.keep(topic, image, found)
    return found


def _describe_anew(topic: Topic, image: Image) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=Shared(_describe_partition(index, state, image) for index, state in enumerate(topic.partitions)),
    )


def _describe_partition(index: int, state: Partition, image: Image) -> MetadataResponsePartition:
    has_leader = state.leader != NO_LEADER
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        offline_replicas=[replica for replica in state.replicas if not image.is_live(replica)],
    )


def _response(request: MetadataRequest, context: Context, topics: list[MetadataResponseTopic]) -> MetadataResponse:
    services = context.services
    brokers = []
    for broker in services.store.image.live_brokers:
        endpoint = broker.endpoint(context.session.listener)
        if endpoint is not None:
            brokers.append(
                MetadataResponseBroker(
                    node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack
                )
            )
    response = MetadataResponse(
        brokers=brokers, cluster_id=services.cluster_id, controller_id=services.controller_id, topics=topics
    )
    if request.include_cluster_authorized_operations:
        is_seen = context.allows_on_cluster(DESCRIBE, Notes.NONE)
        permitted = context.permitted(CLUSTER_OPERATIONS, CLUSTER, CLUSTER_NAME)
        response.cluster_authorized_operations = permitted if is_seen else 0
    return response
