"""Produce (key 0): appends record batches to the partitions that this node leads.

Order of checks, per partition: acks, topic, partition, leader, in-sync replicas, batch, sequence, append. acks=all is
answered when the batch is committed: durable on every in-sync replica. acks=1 is answered after the append. acks=0 has
no answer; an error closes the connection instead, which is all that such a producer can notice. Transactional batches
are refused: there is no transaction coordinator yet, so no transaction that they could belong to.
Versions: v0-v2 carry message sets of magic 0 and 1, which are stored as magic 2; v13 names topics by id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from chronik.broker.api import Later, api
from chronik.broker.errors import REFUSALS, Unanswerable
from chronik.broker.permissions import TOPIC, TRANSACTIONAL_ID, WRITE
from chronik.broker.produce_reply import encoded_reply
from chronik.broker.produced import look_inside, plain_batch, read_produced, takes_long
from chronik.broker.topics import INTERNAL_TOPICS, find_replica, find_topic
from chronik.broker.turns import PIECES_FIRST
from chronik.metadata.image import Topic
from chronik.runtime.buggify import LONG_WAY
from chronik.runtime.invariants import broken
from chronik.runtime.pieces import Work, at_once, each_light
from chronik.wire.batches import BatchView
from chronik.wire.error_codes import ErrorCode
from chronik.wire.errors import InvalidRecord, NotOneBatch
from chronik.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context
    from chronik.metadata.errors import MetadataError
    from chronik.replication.errors import ReplicationError
    from chronik.replication.replica import Replica
    from chronik.replication.topic_settings import TopicSettings
    from chronik.storage.answers import Appended
    from chronik.storage.errors import StorageError
    from chronik.wire.errors import WireError

    Slow = list[tuple[PartitionProduceData, TopicSettings]]
    Produced = ProduceResponse | bytes | Later | None

VERSION_TOPIC_IDS = 13
PIECES_PER_APPEND = 4
PARTITIONS_AT_ONCE = PIECES_FIRST // PIECES_PER_APPEND
ACKS_ALL, ACKS_LEADER, ACKS_NONE = -1, 1, 0
# Refusals that come before the log is looked at, so that they do not tell where it starts.
START_UNTOLD = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
Waits = list[tuple[asyncio.Future[None], PartitionProduceResponse]]
Looked = dict[int, list[BatchView] | Exception]  # what was found in batches that were taken apart, by id of their data


@api(ProduceRequest, ProduceResponse, needs=(WRITE.on(TOPIC), WRITE.on(TRANSACTIONAL_ID, "in transactions")))
def produce(request: ProduceRequest, context: Context) -> Produced | Coroutine[Any, Any, Produced] | Work[Any]:
    if request.acks != ACKS_NONE and len(request.topic_data) == 1 and len(request.topic_data[0].partition_data) == 1:
        return _produce_one(request, request.topic_data[0], context)
    if sum([len(topic.partition_data) for topic in request.topic_data]) > PARTITIONS_AT_ONCE:
        return _produce_to_many(request, context)
    slow = at_once(_slow_partitions(request, context))
    if slow:
        return _look_first(request, slow, context)
    return at_once(_produce(request, context, {}))


def _produce_to_many(request: ProduceRequest, context: Context) -> Work[Any]:
    """Partition after partition, in turns. Each append is atomic, and nothing of this connection overtakes it."""
    slow = yield from _slow_partitions(request, context)
    if slow:
        return _look_first(request, slow, context)
    return (yield from _produce(request, context, {}))


def _produce(request: ProduceRequest, context: Context, looked: Looked) -> Work[Produced]:
    waits: Waits = []
    response = ProduceResponse(responses=[])
    for topic in request.topic_data:
        response.responses.append((yield from _produce_topic(topic, request, context, waits, looked)))
    if request.acks == ACKS_NONE:
        _refuse_silently(response)
        return None
    if not waits:
        return response
    futures = list(dict.fromkeys(future for future, _ in waits))
    future: asyncio.Future[Any] = futures[0] if len(futures) == 1 else asyncio.ensure_future(asyncio.wait(futures))
    return Later(future, lambda _: _settled(response, waits))


def _look_first(request: ProduceRequest, slow: Slow, context: Context) -> Coroutine[Any, Any, Any]:
    """Takes apart on a lane what would hold up the loop, then appends. Later requests of this connection wait."""
    context.connection.hold_back()  # now, not when the coroutine starts
    return _looked_into(request, slow, context)


async def _looked_into(request: ProduceRequest, slow: Slow, context: Context) -> Any:
    services, connection = context.services, context.connection
    looked: Looked = {}
    try:
        for partition, settings in slow:
            now_ms = services.runtime.clock.wall_ms()
            try:
                looked[id(partition)] = await services.record_lane.run(
                    partial(look_inside, partition.records, context.version, settings, now_ms)
                )
            except REFUSALS as fault:
                # Without the frames it came through: they hold what was decompressed, and we would keep them alive.
                fault.__context__ = fault.__cause__ = None
                looked[id(partition)] = fault.with_traceback(None)
        done = await services.turns.run(_produce(request, context, looked))
    finally:
        connection.go_on()
    if not isinstance(done, Later):
        return done
    await asyncio.wait([done.future])
    return done.respond(done.future)


def _slow_partitions(request: ProduceRequest, context: Context) -> Work[Slow]:
    """The batches that would hold up the loop, with the settings of their topics."""
    slow: Slow = []
    for data in request.topic_data:
        topic = _writable_topic(data, context)
        if isinstance(topic, ErrorCode):
            continue
        for partition in data.partition_data:
            replica = context.services.replicas.get(topic, partition.index)
            if replica is not None and _is_slow(partition, replica, context):
                slow.append((partition, replica.settings))
            yield 1
    return slow


def _is_slow(data: PartitionProduceData, replica: Replica, context: Context) -> bool:
    return takes_long(data.records, context.version, replica.settings, context.services.runtime.clock.wall_ms())


def _produce_one(
    request: ProduceRequest, data: TopicProduceData, context: Context
) -> Produced | Coroutine[Any, Any, Produced]:
    """One batch for one partition: what most requests are, and where the cost of a request shows."""
    [partition] = data.partition_data
    topic = _writable_topic(data, context)
    if not isinstance(topic, Topic):  # cheaper to ask than of an enumeration
        return _response_of_one(data, _refused(partition.index, topic))
    done = _append_plain(topic, partition, request, context)
    if done is None:
        found = context.services.replicas.get(topic, partition.index)
        if found is not None and _is_slow(partition, found, context):
            return _look_first(request, [(partition, found.settings)], context)
        done = _append(topic, partition, request, context, {})
    if isinstance(done, PartitionProduceResponse):
        return _response_of_one(data, done)
    replica, appended = done
    if appended.last_offset >= replica.log.end_offset:
        broken("8 an append has its offsets", partition=replica.name, last=appended.last_offset)
    body = encoded_reply(
        context.version,
        data,
        partition.index,
        appended.first_offset,
        appended.append_time_ms,
        replica.log.start_offset,
    )
    if request.acks != ACKS_ALL:
        replica.start_commit()  # readers see only what is committed, so somebody must start it
        return body
    future = replica.when_committed(appended.last_offset + 1, request.timeout_ms)
    if future is None:
        return body
    partition.records = None  # they are in the log: the next request is received into their memory
    return Later(future, partial(_settled_one, body, data, done))


def _settled_one(
    body: bytes, data: TopicProduceData, done: tuple[Replica, Appended], future: asyncio.Future[None]
) -> ProduceResponse | bytes:
    if future.exception() is None:
        return body
    made = _made(data.partition_data[0].index, *done)
    return _settled(_response_of_one(data, made), [(future, made)])


def _response_of_one(data: TopicProduceData, partition: PartitionProduceResponse) -> ProduceResponse:
    topic = TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=[partition])
    return ProduceResponse(responses=[topic])


def _settled(response: ProduceResponse, waits: Waits) -> ProduceResponse:
    """Every wait is over: those that failed say so."""
    for future, partition in waits:
        fault = future.exception()
        if fault is not None:
            partition.error_code = getattr(fault, "kafka_error", ErrorCode.KAFKA_STORAGE_ERROR)
            partition.base_offset, partition.error_message = -1, str(fault)
    return response


def _refuse_silently(response: ProduceResponse) -> None:
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                error = ErrorCode.of(partition.error_code).name
                raise Unanswerable(f"produce with acks=0 to {topic.name}-{partition.index} failed: {error}")


def _produce_topic(
    data: TopicProduceData, request: ProduceRequest, context: Context, waits: Waits, looked: Looked
) -> Work[TopicProduceResponse]:
    topic = _writable_topic(data, context)
    if isinstance(topic, ErrorCode):
        results = yield from each_light(lambda partition: _refused(partition.index, topic), data.partition_data)
    else:
        results = []
        for partition in data.partition_data:
            results.append(_produce_partition(topic, partition, request, context, waits, looked))
            yield PIECES_PER_APPEND
    return TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=results)


def _writable_topic(data: TopicProduceData, context: Context) -> Topic | ErrorCode:
    topic = find_topic(context.services, data.name, data.topic_id, by_id=context.version >= VERSION_TOPIC_IDS)
    if isinstance(topic, Topic) and topic.name in INTERNAL_TOPICS:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return topic


def _produce_partition(
    topic: Topic,
    data: PartitionProduceData,
    request: ProduceRequest,
    context: Context,
    waits: Waits,
    looked: Looked,
) -> PartitionProduceResponse:
    done = _append(topic, data, request, context, looked)
    if isinstance(done, PartitionProduceResponse):
        return done
    replica, appended = done
    made = _made(data.index, replica, appended)
    if request.acks != ACKS_ALL:
        replica.start_commit()
        return made
    future = replica.when_committed(appended.last_offset + 1, request.timeout_ms)
    if future is not None:
        waits.append((future, made))
    return made


def _append_plain(
    topic: Topic, data: PartitionProduceData, request: ProduceRequest, context: Context
) -> tuple[Replica, Appended] | PartitionProduceResponse | None:
    """As `_append`, where nothing needs a second look: the leader, all its replicas in sync, a batch that its header
    settles. None where something does."""
    services = context.services
    replica = services.replicas.get(topic, data.index)
    if replica is None or replica.is_gone or (LONG_WAY.is_on and LONG_WAY.fires()):
        return None
    state = replica.state
    if state.leader != replica.node_id or len(state.isr) < len(state.replicas):
        return None
    if request.acks not in (ACKS_ALL, ACKS_LEADER):
        return None
    now_ms = services.runtime.clock.wall_ms()
    batch = plain_batch(data.records, context.version, replica.settings, now_ms)
    if batch is None:
        return None
    try:
        appended = replica.append([batch], now_ms=now_ms, from_client=False)
    except REFUSALS as fault:
        return _not_appended(fault, topic, data, replica, context)
    traffic = services.metrics.topics[topic.name]
    traffic.messages_in += batch.record_count
    traffic.bytes_in += len(batch.data)
    return replica, appended


def _append(
    topic: Topic, data: PartitionProduceData, request: ProduceRequest, context: Context, looked: Looked
) -> tuple[Replica, Appended] | PartitionProduceResponse:
    """Where the batch was appended, or the answer that it was not."""
    if request.acks not in (ACKS_ALL, ACKS_LEADER, ACKS_NONE):
        return _refused(data.index, ErrorCode.INVALID_REQUIRED_ACKS)
    replica = find_replica(context.services, topic, data.index)
    if isinstance(replica, ErrorCode):
        return _refused(data.index, replica)
    try:
        replica.require_leader()
        if request.acks == ACKS_ALL:
            replica.require_in_sync()
        batches = looked.get(id(data))
        if isinstance(batches, Exception):
            raise batches
        is_checked = batches is not None
        if batches is None:
            batches = read_produced(data.records, context.version, replica.settings)
        if not batches:
            return PartitionProduceResponse(index=data.index, error_code=0, base_offset=-1)
        if any(batch.is_transactional for batch in batches):
            return _refused(data.index, _no_transaction(request))
        appended = replica.append(batches, now_ms=context.services.runtime.clock.wall_ms(), from_client=not is_checked)
    except REFUSALS as fault:
        return _not_appended(fault, topic, data, replica, context)
    traffic = context.services.metrics.topics[topic.name]
    traffic.messages_in += appended.last_offset - appended.first_offset + 1
    for batch in batches:
        traffic.bytes_in += batch.size_bytes
    return replica, appended


def _no_transaction(request: ProduceRequest) -> ErrorCode:
    """What Kafka answers where the transaction is not one that its coordinator knows. It would never end: nothing
    behind its first record could be read by those who read what is committed, or compacted."""
    if request.transactional_id is None:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return ErrorCode.INVALID_PRODUCER_ID_MAPPING


def _not_appended(
    fault: StorageError | ReplicationError | WireError | MetadataError,
    topic: Topic,
    data: PartitionProduceData,
    replica: Replica,
    context: Context,
) -> PartitionProduceResponse:
    refused = _refused(data.index, fault.kafka_error, str(fault))
    if fault.kafka_error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        refused.current_leader = LeaderIdAndEpoch(leader_id=replica.state.leader, leader_epoch=replica.leader_epoch)
    if fault.kafka_error not in START_UNTOLD and not isinstance(fault, NotOneBatch):
        refused.log_start_offset = replica.log.start_offset
    if isinstance(fault, InvalidRecord):
        refused.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=why)
            for index, why in fault.record_errors
        ]
    context.services.metrics.topics[topic.name].produces_failed += 1
    return refused


def _made(index: int, replica: Replica, appended: Appended) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=0,
        base_offset=appended.first_offset,
        log_append_time_ms=appended.append_time_ms,
        log_start_offset=replica.log.start_offset,
    )


def _refused(index: int, error: ErrorCode, message: str | None = None) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=index, error_code=error, base_offset=-1, error_message=message)
