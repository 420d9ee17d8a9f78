"""DescribeProducers (key 61): the active producers of a partition, and their open transactions.

Any replica responds, from its own log: a follower knows what it has fetched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.permissions import READ, TOPIC
from chronik.broker.topics import find_replica, find_topic
from chronik.runtime.pieces import Work, each_light
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from chronik.wire.notation import ZERO_UUID

if TYPE_CHECKING:
    from chronik.broker.context import Context
    from chronik.metadata.image import Topic
    from chronik.storage.producer_state import Producer


@api(DescribeProducersRequest, DescribeProducersResponse, needs=(READ.on(TOPIC),))
def describe_producers(request: DescribeProducersRequest, context: Context) -> Work[DescribeProducersResponse]:
    topics = []
    for asked in request.topics:
        topic: Topic | ErrorCode = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if context.allows(READ, TOPIC, asked.name):
            topic = find_topic(context.services, asked.name, ZERO_UUID)
        partitions = []
        for index in asked.partition_indexes:
            partitions.append((yield from _describe(topic, index, context)))
            yield 1
        topics.append(TopicResponse(name=asked.name, partitions=partitions))
    return DescribeProducersResponse(throttle_time_ms=0, topics=topics)


def _describe(topic: Topic | ErrorCode, index: int, context: Context) -> Work[PartitionResponse]:
    replica = topic if isinstance(topic, ErrorCode) else find_replica(context.services, topic, index)
    if isinstance(replica, ErrorCode):
        return PartitionResponse(partition_index=index, error_code=replica, active_producers=[])
    producers = yield from each_light(_described, sorted(replica.log.producers.producers.items()))
    return PartitionResponse(partition_index=index, error_code=0, active_producers=producers)


def _described(known: tuple[int, Producer]) -> ProducerState:
    producer_id, producer = known
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.last_timestamp_ms,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=producer.transaction_first_offset,
    )
