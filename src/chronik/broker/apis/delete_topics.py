"""DeleteTopics (key 20): deletes topics by name or id (v6). No client sees them after the answer; files are deleted
soon after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.commands import some_at_a_time
from chronik.broker.permissions import DELETE, DESCRIBE, TOPIC
from chronik.broker.topics import refused_by
from chronik.metadata.commands import DeleteTopics, TopicName
from chronik.metadata.errors import MetadataError
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse

if TYPE_CHECKING:
    from chronik.broker.context import Context

VERSION_BY_ID = 6


@api(DeleteTopicsRequest, DeleteTopicsResponse, needs=(DELETE.on(TOPIC), DESCRIBE.on(TOPIC)))
async def delete_topics(request: DeleteTopicsRequest, context: Context) -> DeleteTopicsResponse:
    if context.version >= VERSION_BY_ID:
        asked = [TopicName(name=topic.name, topic_id=topic.topic_id) for topic in request.topics]
    else:
        asked = [TopicName(name=name) for name in request.topic_names]
    if not context.services.settings.delete_topic_enable:
        return _all(asked, ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
    response = DeleteTopicsResponse(responses=[])
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


def _all(asked: list[TopicName], error: ErrorCode, message: str) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=error, error_message=message)
            for topic in asked
        ]
    )
