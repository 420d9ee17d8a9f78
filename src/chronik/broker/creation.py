"""Creates topics on first use: auto-created topics, and the internal topics of the coordinators.

Both are created by the controller, like any other topic. Two concurrent requests do not conflict: the later one finds
the topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.coordinators import INTERNAL
from chronik.metadata.commands.create_topics import ConfigValue, CreateTopics, NewTopic
from chronik.metadata.errors import MetadataError
from chronik.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from chronik.broker.services import Services
    from chronik.broker.settings import Settings


TOPICS_PER_COMMAND = 500  # the controller decides a command in one step


async def create_missing(services: Services, names: list[str]) -> dict[str, ErrorCode]:
    """Creates each topic with the node's defaults. Returns the error of each that was refused."""
    names = list(dict.fromkeys(names))
    refused: dict[str, ErrorCode] = {}
    for start in range(0, len(names), TOPICS_PER_COMMAND):
        some = names[start : start + TOPICS_PER_COMMAND]
        try:
            reply = await services.store.submit(
                CreateTopics(topics=[new_topic(name, services.settings) for name in some])
            )
        except MetadataError as fault:
            error = ErrorCode.LEADER_NOT_AVAILABLE if fault.kafka_error.retriable else fault.kafka_error
            refused |= dict.fromkeys(some, error)
            continue
        for topic in reply.topics:
            if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                refused[topic.name] = ErrorCode.of(topic.error_code)
    return refused


def new_topic(name: str, settings: Settings) -> NewTopic:
    row = INTERNAL.get(name)
    if row is not None:
        shape = row.shape(settings)
        return NewTopic(
            name=name,
            partition_count=shape.partition_count,
            replication_factor=shape.replication_factor,
            configs=[ConfigValue(key=key, value=value) for key, value in row.configs(settings).items()],
        )
    return NewTopic(
        name=name, partition_count=settings.num_partitions, replication_factor=settings.default_replication_factor
    )
