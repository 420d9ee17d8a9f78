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
from chronik.broker.produced import Look, Verdict, judge
from chronik.broker.topics import INTERNAL_TOPICS, find_topic, why_no_replica
from chronik.broker.turns import PIECES_FIRST
from chronik.metadata.image import Topic
from chronik.runtime.buggify import LONG_WAY
from chronik.runtime.invariants import broken
from chronik.runtime.pieces import Work, at_once, each_light
from chronik.wire.batches import TRANSACTIONAL, BatchView
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
    from chronik.storage.answers import Appended
    from chronik.storage.errors import StorageError
    from chronik.wire.errors import WireError

    Produced = ProduceResponse | bytes | Later | None

VERSION_TOPIC_IDS = 13
PIECES_PER_JUDGEMENT, PIECES_PER_APPEND = 2, 3
PARTITIONS_AT_ONCE = PIECES_FIRST // (PIECES_PER_JUDGEMENT + PIECES_PER_APPEND)
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
Verdicts = dict[int, Verdict | Exception | None]  # by id of the data; None: there is nothing to append


@api(ProduceRequest, ProduceResponse, needs=(WRITE.on(TOPIC), WRITE.on(TRANSACTIONAL_ID, "in transactions")))
def produce(request: ProduceRequest, context: Context) -> Produced | Coroutine[Any, Any, Produced] | Work[Any]:
    topics = request.topic_data
    is_one = len(topics) == 1 and len(topics[0].partition_data) == 1 and request.acks != ACKS_NONE
    if is_one and not (LONG_WAY.is_on and LONG_WAY.fires()):
        return _produce_one(request, topics[0], context)
    work = _produce_to_many(request, context)
    partition_count = sum([len(topic.partition_data) for topic in topics])
    return work if partition_count > PARTITIONS_AT_ONCE else at_once(work)


def _produce_to_many(request: ProduceRequest, context: Context) -> Work[Any]:
    """Partition after partition, in turns. Each append is atomic, and nothing of this connection overtakes it."""
    verdicts: Verdicts = {}
    for data in request.topic_data:
        topic = _writable_topic(data, context)
        if isinstance(topic, ErrorCode):
            continue
        for partition in data.partition_data:
            replica = context.services.replicas.get(topic, partition.index)
            if replica is not None:
                now_ms = context.services.runtime.clock.wall_ms()
                verdicts[id(partition)] = judge(partition.records, context.version, replica.settings, now_ms)
            yield PIECES_PER_JUDGEMENT
    if any(isinstance(verdict, Look) and verdict.is_long for verdict in verdicts.values()):
        return _look_first(request, verdicts, context)
    return (yield from _produce(request, context, verdicts))


def _produce(request: ProduceRequest, context: Context, verdicts: Verdicts) -> Work[Produced]:
    waits: Waits = []
    response = ProduceResponse(responses=[])
    for topic in request.topic_data:
        response.responses.append((yield from _produce_topic(topic, request, context, waits, verdicts)))
    if request.acks == ACKS_NONE:
        _refuse_silently(response)
        return None
    if not waits:
        return response
    futures = list(dict.fromkeys(future for future, _ in waits))
    future: asyncio.Future[Any] = futures[0] if len(futures) == 1 else asyncio.ensure_future(asyncio.wait(futures))
    return Later(future, lambda _: _settled(response, waits))


def _look_first(request: ProduceRequest, verdicts: Verdicts, context: Context) -> Coroutine[Any, Any, Any]:
    """Takes apart on a lane what would hold up the loop, then appends. Later requests of this connection wait."""
    context.connection.hold_back()  # now, not when the coroutine starts
    return _looked_into(request, verdicts, context)


async def _looked_into(request: ProduceRequest, verdicts: Verdicts, context: Context) -> Any:
    services, connection = context.services, context.connection
    try:
        for key, verdict in verdicts.items():
            if isinstance(verdict, Look) and verdict.is_long:
                try:
                    verdicts[key] = await services.record_lane.run(verdict.inside)
                except REFUSALS as fault:
                    # Without its frames: they hold what was decompressed, and we would keep them alive.
                    fault.__context__ = fault.__cause__ = None
                    verdicts[key] = fault.with_traceback(None)
        done = await services.turns.run(_produce(request, context, verdicts))
    finally:
        connection.go_on()
    if not isinstance(done, Later):
        return done
    await asyncio.wait([done.future])
    return done.respond(done.future)


def _produce_one(
    request: ProduceRequest, data: TopicProduceData, context: Context
) -> Produced | Coroutine[Any, Any, Produced]:
    """One batch for one partition: what most requests are, and where the cost of a request shows."""
    [partition] = data.partition_data
    topic = _writable_topic(data, context)
    if not isinstance(topic, Topic):  # cheaper to ask than of an enumeration
        return _response_of_one(data, _refused(partition.index, topic))
    services = context.services
    replica = services.replicas.get(topic, partition.index)
    now_ms = services.runtime.clock.wall_ms()
    verdict = None
    if replica is not None and replica.state.leader == replica.node_id:
        verdict = judge(partition.records, context.version, replica.settings, now_ms)
        if isinstance(verdict, Look) and verdict.is_long:
            return _look_first(request, {id(partition): verdict}, context)
    done = _append(replica, topic, partition, request, context, verdict, now_ms)
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
    data: TopicProduceData, request: ProduceRequest, context: Context, waits: Waits, verdicts: Verdicts
) -> Work[TopicProduceResponse]:
    topic = _writable_topic(data, context)
    if isinstance(topic, ErrorCode):
        results = yield from each_light(lambda partition: _refused(partition.index, topic), data.partition_data)
    else:
        results = []
        for partition in data.partition_data:
            results.append(_produce_partition(topic, partition, request, context, waits, verdicts))
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
    verdicts: Verdicts,
) -> PartitionProduceResponse:
    services = context.services
    replica = services.replicas.get(topic, data.index)
    now_ms = services.runtime.clock.wall_ms()
    done = _append(replica, topic, data, request, context, verdicts.get(id(data)), now_ms)
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


def _append(
    replica: Replica | None,
    topic: Topic,
    data: PartitionProduceData,
    request: ProduceRequest,
    context: Context,
    verdict: Verdict | Exception | None,
    now_ms: int,
) -> tuple[Replica, Appended] | PartitionProduceResponse:
    """Where the batch was appended, or the answer that it was not."""
    if request.acks not in (ACKS_ALL, ACKS_LEADER, ACKS_NONE):
        return _refused(data.index, ErrorCode.INVALID_REQUIRED_ACKS)
    if replica is None:
        return _refused(data.index, why_no_replica(topic, data.index))
    state = replica.state
    try:
        if state.leader != replica.node_id or replica.is_gone:
            replica.require_leader()
        if request.acks == ACKS_ALL and len(state.isr) < len(state.replicas):  # with all of them there are enough
            replica.require_in_sync()
        if verdict is None:  # the replica came here, or began to lead, after the request
            verdict = judge(data.records, context.version, replica.settings, now_ms)
        verify = None
        if isinstance(verdict, BatchView):
            batch = verdict
        elif isinstance(verdict, Look):
            opened, verify = verdict.opened(), verdict.verify
            if opened is None:
                return PartitionProduceResponse(index=data.index, error_code=0, base_offset=-1)
            batch = opened
        else:
            raise verdict
        if batch.attributes & TRANSACTIONAL:
            return _refused(data.index, _no_transaction(request))
        appended = replica.append([batch], now_ms=now_ms, verify=verify)
    except REFUSALS as fault:
        return _not_appended(fault, topic, data, replica, context)
    traffic = context.services.metrics.topics[topic.name]
    traffic.messages_in += batch.record_count
    traffic.bytes_in += len(batch.data)
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
