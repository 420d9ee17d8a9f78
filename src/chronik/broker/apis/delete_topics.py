"""DeleteTopics (key 20): deletes topics by name or id (v6). No client sees them after the response; files are deleted
soon after."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.authorizer import Notes
from chronik.broker.command_splitting import some_at_a_time
from chronik.broker.permissions import CLUSTER, DELETE, DESCRIBE, TOPIC
from chronik.broker.quotas.mutations import MESSAGE, within_quota
from chronik.broker.topics import refused_by
from chronik.metadata.commands.delete_topics import DeleteTopics, TopicName
from chronik.metadata.errors import MetadataError
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from chronik.wire.notation import ZERO_UUID

if TYPE_CHECKING:
    from chronik.broker.context import Context
    from chronik.metadata.image import Image

VERSION_QUOTA = 5
VERSION_BY_ID = 6


@api(
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    needs=(DELETE.on(TOPIC), DESCRIBE.on(TOPIC), DELETE.on(CLUSTER, "instead")),
)
async def delete_topics(request: DeleteTopicsRequest, context: Context) -> DeleteTopicsResponse:
    if context.version >= VERSION_BY_ID:
        asked = [TopicName(name=topic.name, topic_id=topic.topic_id) for topic in request.topics]
    else:
        asked = [TopicName(name=name) for name in request.topic_names]
    if not context.services.settings.delete_topic_enable:
        return _all(asked, ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
    response = DeleteTopicsResponse(responses=[])
    if context.services.authorizer.restricts and not context.allows_on_cluster(DELETE, Notes.ALLOWED):
        asked, response.responses = _permitted(asked, context)
    if context.services.quotas.restricts:
        image = context.services.store.image
        asked, refused = within_quota(context, asked, partial(_partitions_of, image), refuses_since=VERSION_QUOTA)
        response.responses += _all(refused, ErrorCode.THROTTLING_QUOTA_EXCEEDED, MESSAGE).responses
    for some in some_at_a_time(asked, lambda topic: (topic.name, topic.topic_id)):
        try:
            reply = await context.services.store.submit(DeleteTopics(topics=some))
        except MetadataError as fault:
            response.responses += _all(some, *refused_by(fault)).responses
            continue
        response.responses += [
            DeletableTopicResult(
                name=topic.name,
                topic_id=topic.topic_id,
                error_code=topic.error_code,
                error_message=topic.error_message,
            )
            for topic in reply.topics
        ]
        await context.services.turns.piece(len(some))
    return response


def _partitions_of(image: Image, topic: TopicName) -> int:
    found = image.topic(topic.topic_id) if topic.name is None else image.topic_named(topic.name)
    return len(found.partitions) if found is not None else 0


def _permitted(asked: list[TopicName], context: Context) -> tuple[list[TopicName], list[DeletableTopicResult]]:
    """The topics that the caller may delete, and the results for the others. These reveal neither a name that the
    caller may not see, nor whether a topic with a given name exists."""
    permitted, denied, image = [], [], context.services.store.image
    times = Counter((topic.name, topic.topic_id) for topic in asked)
    for topic in asked:
        found = image.topic(topic.topic_id) if topic.name is None else image.topic_named(topic.name)
        name = topic.name if found is None else found.name
        is_wrong = times[topic.name, topic.topic_id] > 1 or (topic.name is not None and topic.topic_id != ZERO_UUID)
        if name is None or is_wrong:
            permitted.append(topic)  # the controller returns the error
            continue
        is_seen = context.allows(DESCRIBE, TOPIC, name)
        if is_seen and (found is None or context.allows(DELETE, TOPIC, name)):
            permitted.append(topic)
        else:
            shown = name if is_seen or topic.name is not None else None
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            denied.append(
                DeletableTopicResult(name=shown, topic_id=topic.topic_id, error_code=error, error_message=error.message)
            )
    return permitted, denied


def _all(asked: list[TopicName], error: ErrorCode, message: str) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=error, error_message=message)
            for topic in asked
        ]
    )
