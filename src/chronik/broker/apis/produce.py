"""Produce (key 0): appends record batches to the partitions that this node leads.

Order of checks, per partition: acks, topic, partition, leader, in-sync replicas, batch, sequence, append. acks=all is
answered when the batch is committed: durable on every in-sync replica. acks=1 is answered after the append. acks=0 has
no answer; an error closes the connection instead, which is all that such a producer can notice. Before the first batch
of a transaction on a partition its coordinator is asked (`broker/produce_transactions.py`).
Versions: v0-v2 carry message sets of magic 0 and 1, which are stored as magic 2; v12 adds partitions to transactions;
v13 names topics by id.
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
from chronik.broker.produce_transactions import (
    ADMITTED,
    Admission,
    MustAsk,
    Transactional,
    admit,
    admitted_at_once,
    header_of,
    is_transactional,
    must_ask,
    refusal_of,
)
from chronik.broker.produced import Look, Verdict, judge
from chronik.broker.topics import INTERNAL_TOPICS, find_topic, why_no_replica
from chronik.broker.turns import PIECES_FIRST
from chronik.metadata.image import Topic
from chronik.runtime.buggify import LONG_WAY
from chronik.runtime.invariants import broken
from chronik.runtime.pieces import Work, at_once, each_light
from chronik.storage.origins import Origin
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
MAGIC_AT, ATTRIBUTES_AT, MAGIC_2 = 16, 22, b"\x02"  # in a batch; the low byte of its attributes
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
_new = tuple.__new__
CLIENT = Origin.CLIENT
Waits = list[tuple[asyncio.Future[None], PartitionProduceResponse]]
Verdicts = dict[int, Verdict | Exception | None]  # by id of the data; None: there is nothing to append


@api(ProduceRequest, ProduceResponse, needs=(WRITE.on(TOPIC), WRITE.on(TRANSACTIONAL_ID, "in transactions")))
def produce(request: ProduceRequest, context: Context) -> Produced | Coroutine[Any, Any, Produced] | Work[Any]:
    topics = request.topic_data
    if context.services.authorizer.restricts and _is_denied_transaction(request, context):
        return _denied_transaction(request)
    is_one = len(topics) == 1 and len(topics[0].partition_data) == 1 and request.acks != ACKS_NONE
    if is_one and not (LONG_WAY.is_on and LONG_WAY.fires()):
        return _produce_one(request, topics[0], context)
    work = _produce_to_many(request, context)
    partition_count = sum([len(topic.partition_data) for topic in topics])
    return work if partition_count > PARTITIONS_AT_ONCE else at_once(work)


def _is_denied_transaction(request: ProduceRequest, context: Context) -> bool:
    """Batches of no transaction need no permission for it, whatever id the request names."""
    name = request.transactional_id
    if name is None or context.allows(WRITE, TRANSACTIONAL_ID, name):
        return False
    return any(_is_transactional(each.records) for topic in request.topic_data for each in topic.partition_data)


def _is_transactional(records: object) -> bool:
    """Whether the first batch says so; a request has one batch for each partition, or is refused for that."""
    if not isinstance(records, bytes | memoryview) or len(records) <= ATTRIBUTES_AT:
        return False
    magic, attributes = bytes(records[MAGIC_AT : MAGIC_AT + 1]), bytes(records[ATTRIBUTES_AT : ATTRIBUTES_AT + 1])
    return magic == MAGIC_2 and bool(attributes[0] & TRANSACTIONAL)


def _denied_transaction(request: ProduceRequest) -> ProduceResponse | None:
    error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[_refused(each.index, error) for each in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )
    if request.acks == ACKS_NONE:
        _refuse_silently(response)
        return None
    return response


def _produce_to_many(request: ProduceRequest, context: Context) -> Work[Any]:
    """Partition after partition, in turns. Each append is atomic, and nothing of this connection overtakes it."""
    verdicts: Verdicts = {}
    has_transactional = False
    for data in request.topic_data:
        topic = _writable_topic(data, context)
        for partition in data.partition_data:
            replica = context.services.replicas.get(topic, partition.index) if isinstance(topic, Topic) else None
            verdict = None
            if replica is not None:
                now_ms = context.services.runtime.clock.wall_ms()
                verdict = judge(partition.records, context.version, replica.settings, now_ms)
                verdicts[id(partition)] = verdict
            if type(verdict) is BatchView:
                has_transactional = has_transactional or verdict.attributes & TRANSACTIONAL != 0
            else:
                has_transactional = has_transactional or is_transactional(partition.records)
            yield PIECES_PER_JUDGEMENT
    if has_transactional:
        error = refusal_of(request, filter(None, map(header_of, verdicts.values())))
        if error is not ErrorCode.NONE:
            return _answer(request, (yield from _refused_whole(request, error)))
    if any(isinstance(verdict, Look) and verdict.is_long for verdict in verdicts.values()):
        return _prepare(request, verdicts, context, has_transactional=has_transactional)
    if has_transactional and must_ask(_transactional_batches(request, verdicts, context), context):
        return _prepare(request, verdicts, context, has_transactional=True)
    return (yield from _produce(request, context, verdicts, ADMITTED))


def _refused_whole(request: ProduceRequest, error: ErrorCode) -> Work[ProduceResponse]:
    responses = []
    for topic in request.topic_data:
        results = yield from each_light(lambda partition: _refused(partition.index, error), topic.partition_data)
        made = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=results)
        responses.append(made)
    return ProduceResponse(responses=responses)


def _produce(request: ProduceRequest, context: Context, verdicts: Verdicts, admission: Admission) -> Work[Produced]:
    waits: Waits = []
    response = ProduceResponse(responses=[])
    for topic in request.topic_data:
        response.responses.append((yield from _produce_topic(topic, request, context, waits, verdicts, admission)))
    if not waits or request.acks == ACKS_NONE:
        return _answer(request, response)
    futures = list(dict.fromkeys(future for future, _ in waits))
    future: asyncio.Future[Any] = futures[0] if len(futures) == 1 else asyncio.ensure_future(asyncio.wait(futures))
    return Later(future, lambda _: _settled(response, waits))


def _answer(request: ProduceRequest, response: ProduceResponse) -> ProduceResponse | None:
    if request.acks != ACKS_NONE:
        return response
    _refuse_silently(response)
    return None


def _prepare(
    request: ProduceRequest, verdicts: Verdicts, context: Context, *, has_transactional: bool
) -> Coroutine[Any, Any, Any]:
    """What takes time before the append. Later requests of this connection wait."""
    context.connection.hold_back()  # now, not when the coroutine starts
    return _prepared(request, verdicts, context, has_transactional=has_transactional)


async def _prepared(request: ProduceRequest, verdicts: Verdicts, context: Context, *, has_transactional: bool) -> Any:
    """Takes apart on a lane what would hold up the loop, asks transactions' coordinators, then appends."""
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
        admission = ADMITTED
        if has_transactional:
            admission = await admit(request, _transactional_batches(request, verdicts, context), context)
        done = await services.turns.run(_produce(request, context, verdicts, admission))
    finally:
        connection.go_on()
    if not isinstance(done, Later):
        return done
    await asyncio.wait([done.future])
    return done.respond(done.future)


def _transactional_batches(request: ProduceRequest, verdicts: Verdicts, context: Context) -> list[Transactional]:
    """The batches that can be appended once their transaction is open. Only their partitions are added to it."""
    if request.acks not in (ACKS_ALL, ACKS_LEADER, ACKS_NONE):
        return []
    found = []
    for data in request.topic_data:
        topic = _writable_topic(data, context)
        if isinstance(topic, ErrorCode):
            continue
        for partition in data.partition_data:
            header = header_of(verdicts.get(id(partition)))
            replica = None if header is None else context.services.replicas.get(topic, partition.index)
            if header is None or replica is None or not replica.is_leader or replica.is_gone:
                continue
            if request.acks != ACKS_ALL or not replica.is_below_minimum:
                found.append(Transactional(id(partition), topic.name, header, replica))
    return found


def _produce_one(
    request: ProduceRequest, data: TopicProduceData, context: Context
) -> Produced | Coroutine[Any, Any, Produced]:
    """One batch for one partition: what most requests are, and where the cost of a request shows."""
    [partition] = data.partition_data
    topic = _writable_topic(data, context)
    if not isinstance(topic, Topic):  # cheaper to ask than of an enumeration
        return _refused_one(request, data, _refused(partition.index, topic))
    services = context.services
    replica = services.replicas.get(topic, partition.index)
    now_ms = services.runtime.clock.wall_ms()
    verdict = None
    if replica is not None and replica.is_leader:
        verdict = judge(partition.records, context.version, replica.settings, now_ms)
        if isinstance(verdict, Look) and verdict.is_long:
            return _prepare_one(request, partition, verdict, context)
    try:
        done = _append(replica, topic, partition, request, context, verdict, now_ms)
    except MustAsk:
        return _prepare(request, {id(partition): verdict}, context, has_transactional=True)
    if isinstance(done, PartitionProduceResponse):
        return _refused_one(request, data, done)
    replica, appended = done
    first_offset, last_offset, append_time_ms, _ = appended
    log = replica.log
    if last_offset >= log.end_offset:
        broken("8 an append has its offsets", partition=replica.name, last=last_offset)
    body = encoded_reply(context.version, data, partition.index, first_offset, append_time_ms, log.start_offset)
    if request.acks != ACKS_ALL:
        replica.start_commit()  # readers see only what is committed, so somebody must start it
        return body
    future = replica.when_committed(last_offset + 1, request.timeout_ms)
    if future is None:
        return body
    partition.records = None  # they are in the log: the next request is received into their memory
    return _new(Later, (future, partial(_failed_one, data, done), body))


def _prepare_one(
    request: ProduceRequest, partition: PartitionProduceData, verdict: Look, context: Context
) -> ProduceResponse | Coroutine[Any, Any, Any]:
    has_transactional = header_of(verdict) is not None
    if has_transactional and request.transactional_id is None:
        refused = _refused(partition.index, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return _response_of_one(request.topic_data[0], refused)
    return _prepare(request, {id(partition): verdict}, context, has_transactional=has_transactional)


def _refused_one(request: ProduceRequest, data: TopicProduceData, refused: PartitionProduceResponse) -> ProduceResponse:
    """Whether a transactional batch has a transaction at all comes before everything else."""
    if request.transactional_id is None and is_transactional(data.partition_data[0].records):
        refused = _refused(refused.index, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return _response_of_one(data, refused)


def _failed_one(
    data: TopicProduceData, done: tuple[Replica, Appended], future: asyncio.Future[None]
) -> ProduceResponse:
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
    data: TopicProduceData,
    request: ProduceRequest,
    context: Context,
    waits: Waits,
    verdicts: Verdicts,
    admission: Admission,
) -> Work[TopicProduceResponse]:
    topic = _writable_topic(data, context)
    if isinstance(topic, ErrorCode):
        results = yield from each_light(lambda partition: _refused(partition.index, topic), data.partition_data)
    else:
        results = []
        for partition in data.partition_data:
            results.append(_produce_partition(topic, partition, request, context, waits, verdicts, admission))
            yield PIECES_PER_APPEND
    return TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=results)


def _writable_topic(data: TopicProduceData, context: Context) -> Topic | ErrorCode:
    services = context.services
    topic = find_topic(services, data.name, data.topic_id, by_id=context.version >= VERSION_TOPIC_IDS)
    if services.authorizer.restricts and topic is not ErrorCode.UNKNOWN_TOPIC_ID:
        name = topic.name if isinstance(topic, Topic) else data.name
        if not context.allows(WRITE, TOPIC, name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
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
    admission: Admission,
) -> PartitionProduceResponse:
    services = context.services
    replica = services.replicas.get(topic, data.index)
    now_ms = services.runtime.clock.wall_ms()
    done = _append(replica, topic, data, request, context, verdicts.get(id(data)), now_ms, admission)
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
    admission: Admission | None = None,
) -> tuple[Replica, Appended] | PartitionProduceResponse:
    """Where the batch was appended, or the answer that it was not.

    Without an admission, raises MustAsk for a batch whose transaction's coordinator has to be asked first.
    """
    if request.acks not in (ACKS_ALL, ACKS_LEADER, ACKS_NONE):
        return _refused(data.index, ErrorCode.INVALID_REQUIRED_ACKS)
    if replica is None:
        return _refused(data.index, why_no_replica(topic, data.index))
    try:
        if not replica.takes_all:
            replica.require_leader()
            if request.acks == ACKS_ALL:
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
        guard = None
        if batch.attributes & TRANSACTIONAL:
            if request.transactional_id is None:
                return _refused(data.index, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            if admission is None:
                admission = admitted_at_once(batch, replica, context)
            guard = admission.guards.get(id(data))
            if id(data) in admission.refused:
                return _refused(data.index, *admission.refused[id(data)])
        appended = replica.append(batch, now_ms, verify, CLIENT, guard)
    except REFUSALS as fault:
        return _not_appended(fault, topic, data, replica, context)
    traffic = context.services.metrics.topics[topic.name]
    traffic.messages_in += batch.record_count
    traffic.bytes_in += len(batch.data)
    return replica, appended


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
    # A transaction's old epoch is found before the append, where Kafka does not look at the log.
    is_asked_before = fault.kafka_error == ErrorCode.INVALID_PRODUCER_EPOCH and is_transactional(data.records)
    if fault.kafka_error not in START_UNTOLD and not isinstance(fault, NotOneBatch) and not is_asked_before:
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
