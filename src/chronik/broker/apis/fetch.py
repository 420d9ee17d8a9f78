"""Fetch (key 1): returns record batches from an offset, as stored in the log.

The response is sent at once if enough bytes are available, a partition has an error or the client does not wait;
otherwise when enough is committed or the wait is over. The first batch may begin before the requested offset, because
batches are returned whole. From v3 on, it is returned even if it exceeds the limits, because otherwise a consumer could
not get past it. Consumers that are catching up get smaller responses (`broker.portions`). Followers have separate
sessions, which read up to the log end offset: `replication`. Consumers read committed records from the leader or, from
v11 on, from any replica. If a consumer names its rack, the leader directs it to an in-sync replica there (KIP-392).
Versions: v0-v1 get magic 0, v2-v3 magic 1; v4 isolation; v7 sessions; v9 leader epochs are checked; v11 racks; v12
diverging_epoch if the log diverges from the client's; v13 topics by id; v15 followers send their broker epoch.

A fetch of many partitions reads them in slices. While it waits, it keeps the sum of the available bytes, and counts
again only partitions that have changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from chronik.broker import limits
from chronik.broker.api import api
from chronik.broker.errors import REFUSALS
from chronik.broker.fetch_sessions import NO_SESSION, FetchSession, Opened, Wanted
from chronik.broker.permissions import CLUSTER, CLUSTER_ACTION, READ, TOPIC
from chronik.broker.produced import takes_long_to_convert, to_old_magic
from chronik.broker.topics import find_replica, find_topic
from chronik.broker.turns import PIECES_FIRST
from chronik.replication.errors import NotLeader
from chronik.replication.replica import Replica
from chronik.runtime.buggify import FETCH_NOT_AWAITED, SMALL_PORTION
from chronik.runtime.invariants import broken, check
from chronik.runtime.pieces import Work, at_once
from chronik.storage.aborted_index import NotReady
from chronik.storage.errors import OffsetOutOfRange
from chronik.wire.error_codes import ErrorCode
from chronik.wire.errors import UnsupportedCompression
from chronik.wire.isolation import READ_COMMITTED
from chronik.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context
    from chronik.metadata.errors import MetadataError
    from chronik.metadata.image import Image, Topic
    from chronik.replication.errors import ReplicationError
    from chronik.replication.progress import FollowerProgress
    from chronik.storage.answers import LogRead
    from chronik.storage.errors import StorageError
    from chronik.wire.errors import WireError

    Refusal = StorageError | ReplicationError | WireError | MetadataError

VERSION_MAGIC_1, VERSION_WHOLE_BATCHES, VERSION_MAGIC_2, VERSION_RACKS, VERSION_TOPIC_IDS = 2, 3, 4, 11, 13


@api(FetchRequest, FetchResponse, needs=(READ.on(TOPIC), CLUSTER_ACTION.on(CLUSTER, "followers")))
def fetch(request: FetchRequest, context: Context) -> FetchResponse | Awaitable[FetchResponse] | Work[Any]:
    if context.services.authorizer.restricts and _is_denied_follower(request, context):
        return _denied_follower(request)
    if request.replica_state.replica_id >= 0:
        return context.services.replicas.sessions.fetch(request, context.connection.serve_follower)
    context.connection.portions.asked(context.connection.last_request_ns)
    sessions, by_id = context.services.fetch_sessions, context.version >= VERSION_TOPIC_IDS
    if sum([len(topic.partitions) for topic in request.topics]) > PIECES_FIRST:
        return _answered(sessions.opening(request, by_id=by_id), request, context)
    opened = sessions.open(request, by_id=by_id)
    if not isinstance(opened, tuple):  # cheaper than a check for the enumeration
        return FetchResponse(error_code=opened, responses=[])
    work = _Fetch(request, context, *opened)
    return work.answer() if work.is_long else work.answer_now()


def _is_denied_follower(request: FetchRequest, context: Context) -> bool:
    is_follower = max(request.replica_id, request.replica_state.replica_id) >= 0
    return is_follower and not context.allows_on_cluster(CLUSTER_ACTION)


def _denied_follower(request: FetchRequest) -> FetchResponse:
    """Returns an error for each requested partition. A full response without a session, because a denied follower gets
    none."""
    topics = []
    for topic in request.topics:
        partitions = [denied(each.partition) for each in topic.partitions]
        topics.append(FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=partitions))
    return FetchResponse(responses=topics)


def _answered(opening: Work[Opened], request: FetchRequest, context: Context) -> Work[Any]:
    opened = yield from opening
    if not isinstance(opened, tuple):
        return FetchResponse(error_code=opened, responses=[])
    return (yield from _Fetch(request, context, *opened).answer())


class _Fetch:
    """One request, from reading to its response. After a wait, everything is read again. A fetch that waits for more
    than one byte, or for many partitions, does not read the records each time; it counts their bytes by positions.

    `is_long` says that it is read in slices, so that partitions may change while others are read.
    """

    def __init__(
        self,
        request: FetchRequest,
        context: Context,
        session: FetchSession | None,
        wanted: list[Wanted],
    ) -> None:
        self.request, self.context, self.session = request, context, session
        portions = self.portions = context.connection.portions
        self.bytes_allowed = min(request.max_bytes, context.services.settings.fetch_max_bytes)
        quotas = context.services.quotas
        if quotas.restricts and (quota_bytes := quotas.fetch_bytes_max(context.session, context.client_id)) is not None:
            self.bytes_allowed = min(self.bytes_allowed, quota_bytes)
        if SMALL_PORTION.is_on and context.version >= VERSION_WHOLE_BATCHES and SMALL_PORTION.fires():
            self.bytes_allowed = 1
        self.wanted = wanted
        # Older clients cannot skip a batch that exceeds their limit, and a client with a large min_bytes wants one
        # large response.
        takes_portions = context.version >= VERSION_WHOLE_BATCHES and request.min_bytes <= 1
        if takes_portions and portions.size_bytes < self.bytes_allowed:
            self.bytes_allowed = portions.size_bytes
            if session is None and len(wanted) > 1:
                # The client requests more than it gets, in an order of its choice. It omits partitions of which it has
                # enough, so the broker cannot know which one is next. A random first partition prevents starvation.
                # Sessions rotate their partitions themselves.
                self.turned_by = context.services.runtime.randomness.below(len(wanted))
                self.wanted = wanted[self.turned_by :] + wanted[: self.turned_by]
        self.is_long = len(wanted) > PIECES_FIRST
        self.bytes_min = min(request.min_bytes, max(1, self.bytes_allowed))
        self.counted_bytes: dict[int, int] = {}  # by index in `wanted`; partitions without available bytes are missing

    turned_by = 0  # number of places by which `wanted` is rotated
    has_waited = False
    must_return = False  # after an error or a divergence: waiting for more data is pointless
    is_counting = False
    # State of the last read:
    bytes_max: int
    bytes_read: int  # or counted
    answers: list[tuple[Wanted, PartitionData]]
    replicas: list[Replica]  # in the order of `wanted`, without refused partitions
    sizes_bytes: list[tuple[str, int]]  # bytes read, by topic
    # (index in `answers`, replica, records) that must be converted for an old client.
    too_new: list[tuple[int, Replica, LogRead]]
    # State of the wait:
    moved_replicas: dict[Replica, None]  # changed since they were last counted
    moved: asyncio.Event  # set when a replica has changed

    def answer_now(self) -> FetchResponse | Coroutine[Any, Any, FetchResponse]:
        """For few partitions, as in most requests: avoids the overhead of slices."""
        self._begin_reading()
        for wanted in self.wanted:
            self.answers.append((wanted, self._read_partition(wanted)))
        if self.is_enough() or (self.bytes_read and at_once(self.is_all_that_fits())):
            return self._converted() if self.too_new else self.response_now()
        return self.wait()

    def answer(self) -> Work[FetchResponse | Coroutine[Any, Any, FetchResponse]]:
        yield from self.read()
        if self.is_enough() or (yield from self.is_all_that_fits()):
            if self.too_new:
                return self._converted()
            return (yield from self.response())
        return self.wait()

    def read_now(self) -> None:
        self._begin_reading()
        for wanted in self.wanted:
            self.answers.append((wanted, self._read_partition(wanted)))

    def read(self) -> Work[None]:
        """Reads in slices. Its memory is reserved first, so that concurrent fetches do not use the same room."""
        self._begin_reading()
        self.bytes_max = self.context.connection.reserve_answer(self.bytes_allowed)
        for wanted in self.wanted:
            self.answers.append((wanted, self._read_partition(wanted)))
            yield 1
        self.context.connection.hold_answer(self.bytes_read)

    def _begin_reading(self) -> None:
        self.is_counting = False
        self.answers, self.replicas, self.bytes_read, self.sizes_bytes, self.too_new = [], [], 0, [], []
        self.bytes_max = min(self.bytes_allowed, self.context.services.memory.room_bytes)

    def count(self, places: Iterable[int]) -> Work[None]:
        """Counts the available bytes of these partitions, without reading records. Other partitions keep their
        counts."""
        self.is_counting = True
        self.bytes_max = min(self.bytes_allowed, self.context.services.memory.room_bytes)
        for place in places:
            counted = self.bytes_read - self.counted_bytes.pop(place, 0)
            self.bytes_read = 0
            self._read_partition(self.wanted[place])
            if self.bytes_read:
                self.counted_bytes[place] = self.bytes_read
            if counted < 0:
                broken("26 what can be read is counted once", place=place, counted=counted)
            self.bytes_read += counted
            yield 1

    def is_enough(self) -> bool:
        if self.must_return or self.request.max_wait_ms <= 0 or not self.wanted:
            return True
        if FETCH_NOT_AWAITED.is_on and FETCH_NOT_AWAITED.fires():
            return True
        if self.is_long and self.context.services.memory.is_spent:
            return True  # other requests need the memory that a long request holds while it waits
        # Bytes beyond the available memory cannot be returned, however long the fetch waits.
        return self.bytes_read >= min(self.bytes_min, max(1, self.bytes_max))

    def is_all_that_fits(self) -> Work[bool]:
        """Whether waiting would add nothing to what was read, because more is available than fits into a response."""
        if not self.bytes_read:
            return False
        self.bytes_read = 0
        yield from self.count(range(len(self.wanted)))
        return self.is_enough()

    def wait(self) -> Coroutine[Any, Any, FetchResponse]:
        """Starts watching now, not when the coroutine starts: changes in between would be missed."""
        self.answers, self.sizes_bytes, self.too_new = [], [], []  # free the records, because the wait may be long
        self.context.connection.hold_answer(0)
        self.has_waited = True
        self.moved, self.moved_replicas = asyncio.Event(), {}
        places: dict[Replica, list[int]] = {}  # indexes in `wanted`
        for place, replica in enumerate(self.replicas):
            places.setdefault(replica, []).append(place)
        check(
            len(self.replicas) <= len(self.wanted),
            "27 a fetch watches what it was asked for",
            watched=len(self.replicas),
            wanted=len(self.wanted),
        )
        for replica in places:
            replica.watch(self._has_moved)
        if self.is_long:
            self.moved_replicas = dict.fromkeys(places)  # any may have changed since it was read
            self.moved.set()
        return self._wait(places)

    def _has_moved(self, replica: Replica) -> None:
        self.moved_replicas[replica] = None
        self.moved.set()

    async def _wait(self, watched: dict[Replica, list[int]]) -> FetchResponse:
        """Checks again whenever a partition has changed, until enough is available or the time is up."""
        is_over, counts_first = False, self.bytes_min > 1 or self.is_long
        turns = self.context.services.turns

        def time_is_up() -> None:
            nonlocal is_over
            is_over = True
            self.moved.set()

        on_lost = self.context.connection.on_lost
        on_lost[time_is_up] = None
        wait_ms = min(self.request.max_wait_ms, limits.FETCH_WAIT_MS_MAX)
        timer = asyncio.get_running_loop().call_later(wait_ms / 1000, time_is_up)
        try:
            while not is_over and not self.is_enough():
                await self.moved.wait()
                self.moved.clear()
                if counts_first:
                    moved, self.moved_replicas = self.moved_replicas, {}
                    await turns.run(self.count([place for replica in moved for place in watched[replica]]))
                else:
                    self.read_now()
        finally:
            timer.cancel()
            on_lost.pop(time_is_up, None)
            for replica in watched:
                replica.unwatch(self._has_moved)
        if self.context.connection.is_lost:
            return FetchResponse(responses=[])
        if counts_first:
            await turns.run(self.read())
        return await self._converted() if self.too_new else await turns.run(self.response())

    async def _converted(self) -> FetchResponse:
        """Converts records for old clients, on the lane if that takes long."""
        services = self.context.services
        self.context.connection.hold_answer(self.bytes_read)
        magic = 1 if self.context.version >= VERSION_MAGIC_1 else 0
        for index, replica, found in self.too_new:
            wanted, answer = self.answers[index]
            convert = partial(to_old_magic, found.buffers, magic, wanted.partition.fetch_offset)
            try:
                slow = takes_long_to_convert(found.buffers)
                answer.records = await services.record_lane.run(convert) if slow else convert()
            except REFUSALS as fault:
                self.answers[index] = wanted, self._refused(wanted, replica, fault)
                self.sizes_bytes.remove((replica.log.topic, found.size_bytes))
        return await services.turns.run(self.response())

    def response_now(self) -> FetchResponse:
        topics: list[FetchableTopicResponse] = []
        for wanted, answer in self._leaving():
            self._tell(topics, wanted, answer)
        return FetchResponse(session_id=self.session.session_id if self.session else NO_SESSION, responses=topics)

    def response(self) -> Work[FetchResponse]:
        topics: list[FetchableTopicResponse] = []
        for wanted, answer in self._leaving():
            self._tell(topics, wanted, answer)
            yield 1
        return FetchResponse(session_id=self.session.session_id if self.session else NO_SESSION, responses=topics)

    def _leaving(self) -> list[tuple[Wanted, PartitionData]]:
        """The partitions' responses in the order of the request."""
        self._count()
        now_ns = self.context.services.runtime.clock.monotonic_ns()
        self.portions.given(self.bytes_read, now_ns, has_waited=self.has_waited)
        if len(self.answers) != len(self.wanted):
            broken("27 a fetch answers what it was asked for", answers=len(self.answers), wanted=len(self.wanted))
        turned_by = self.turned_by
        return self.answers[-turned_by:] + self.answers[:-turned_by] if turned_by else self.answers

    def _tell(self, topics: list[FetchableTopicResponse], wanted: Wanted, answer: PartitionData) -> None:
        """In a session, only adds partitions with news; otherwise all."""
        if self.session is not None:
            is_news = self.session.is_news(wanted, answer)
            if answer.records:
                self.session.served(wanted)
            if self.request.session_epoch > 0 and not is_news:
                return
        if not topics or topics[-1].topic != wanted.name or topics[-1].topic_id != wanted.topic_id:
            topics.append(FetchableTopicResponse(topic=wanted.name, topic_id=wanted.topic_id, partitions=[]))
        topics[-1].partitions.append(answer)

    def _count(self) -> None:
        """Counts the bytes sent, by topic. An unknown topic in a request has no counter."""
        by_follower = max(self.request.replica_id, self.request.replica_state.replica_id) >= 0
        for name, size_bytes in self.sizes_bytes:
            traffic = self.context.services.metrics.topics[name]
            if by_follower:
                traffic.replication_bytes_out += size_bytes
            else:
                traffic.bytes_out += size_bytes

    def _read_partition(self, wanted: Wanted) -> PartitionData:
        services, asked = self.context.services, wanted.partition
        by_id = self.context.version >= VERSION_TOPIC_IDS
        topic = find_topic(services, wanted.name, wanted.topic_id, by_id=by_id)
        if services.authorizer.restricts and self._is_denied(topic, wanted.name):
            self.must_return = True
            return denied(asked.partition)
        replica = topic if isinstance(topic, ErrorCode) else find_replica(services, topic, asked.partition)
        if isinstance(replica, ErrorCode):
            self.must_return = True
            unknown = refused(asked.partition, replica)
            unknown.aborted_transactions = []
            return unknown
        try:
            if self.context.version < VERSION_RACKS:
                replica.require_leader(asked.current_leader_epoch)
                if asked.fetch_offset > replica.log.end_offset and replica.awaits_proof:
                    raise NotLeader(
                        replica.name, replica.state.leader
                    )  # these versions do not have OFFSET_NOT_AVAILABLE
            else:
                replica.require_readable(asked.fetch_offset, asked.current_leader_epoch)
            if not self.is_counting:
                self.replicas.append(replica)
            return self._read_replica(replica, wanted)
        except REFUSALS as fault:
            self.must_return = True
            return self._refused(wanted, replica, fault)

    def _is_denied(self, topic: Topic | ErrorCode, name: str) -> bool:
        """Followers were checked before. An unknown topic id has no name to check permissions for."""
        if topic is ErrorCode.UNKNOWN_TOPIC_ID or self.request.replica_id >= 0:
            return False
        return not self.context.allows(READ, TOPIC, name if isinstance(topic, ErrorCode) else topic.name)

    def _refused(self, wanted: Wanted, replica: Replica, fault: Refusal) -> PartitionData:
        if not self.is_counting:
            self.context.services.metrics.topics[replica.log.topic].fetches_failed += 1
        answer = refused(wanted.partition.partition, fault.kafka_error)
        if isinstance(fault, UnsupportedCompression):
            answer.records, answer.aborted_transactions = None, []
        if fault.kafka_error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
            answer.current_leader = LeaderIdAndEpoch(leader_id=replica.state.leader, leader_epoch=replica.leader_epoch)
        return answer

    def _read_replica(self, replica: Replica, wanted: Wanted) -> PartitionData:
        asked, log = wanted.partition, replica.log
        is_committed_only = self.request.isolation_level == READ_COMMITTED
        stable = replica.last_stable_offset
        limit = stable if is_committed_only else replica.high_watermark
        if not stable <= replica.high_watermark <= log.end_offset:
            broken(
                "16 stable offset <= high watermark <= log end",
                partition=replica.name,
                stable=stable,
                high_watermark=replica.high_watermark,
                end=log.end_offset,
            )
        answer = PartitionData(
            partition_index=asked.partition,
            error_code=0,
            high_watermark=replica.high_watermark,
            last_stable_offset=stable,
            log_start_offset=log.start_offset,
            aborted_transactions=[] if is_committed_only else None,
            records=b"",
        )
        if asked.last_fetched_epoch >= 0 and not replica.awaits_proof:
            end = log.epochs.end_of(asked.last_fetched_epoch, log.end_offset)
            if end.end_offset < 0:  # an epoch after this log's last one: there is nothing to compare with
                raise OffsetOutOfRange(asked.fetch_offset, log.start_offset, log.end_offset)
            if end.epoch < asked.last_fetched_epoch or end.end_offset < asked.fetch_offset:
                self.must_return = True
                answer.diverging_epoch = EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset)
                return answer
        if self.request.rack_id and replica.is_leader:
            nearest = replica_in_rack(replica, self.request.rack_id, node_image=self.context.services.store.image)
            if nearest is not None and nearest.end_offset >= asked.fetch_offset >= log.start_offset:
                self.must_return = True
                answer.preferred_read_replica = nearest.broker_id
                return answer
        bytes_max = max(0, min(asked.partition_max_bytes, self.bytes_max - self.bytes_read))
        if self.is_counting and is_committed_only and not log.aborted.is_whole:
            return answer
        if self.is_counting:
            self.bytes_read += min(bytes_max, log.readable_bytes(asked.fetch_offset, offset_limit=limit))
            return answer
        at_least_one = self.bytes_read == 0 and self.context.version >= VERSION_WHOLE_BATCHES
        if not bytes_max and not at_least_one:
            log.require_readable(asked.fetch_offset, offset_limit=limit)
            return answer
        found = log.read(
            asked.fetch_offset,
            bytes_max=bytes_max,
            offset_limit=limit,
            at_least_one=at_least_one,
            to_send=self.context.version >= VERSION_MAGIC_2,
        )
        if not found.buffers:
            return answer
        if is_committed_only:
            try:
                aborted = log.aborted_transactions(asked.fetch_offset, found.next_offset)
            except NotReady:
                self.context.services.index_mending.begin(replica)
                return answer
            answer.aborted_transactions = [
                AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset) for each in aborted
            ]
        answer.records = found.buffers
        if self.context.version < VERSION_MAGIC_2:
            self.too_new.append((len(self.answers), replica, found))
        self.bytes_read += found.size_bytes
        self.sizes_bytes.append((log.topic, found.size_bytes))
        return answer


def replica_in_rack(replica: Replica, rack: str, *, node_image: Image) -> FollowerProgress | None:
    """The in-sync follower in this rack with the highest end offset. None if there is none, or if the leader is in this
    rack."""
    own = node_image.brokers.get(replica.node_id)
    if own is None or own.rack == rack:
        return None
    there = [
        progress
        for broker_id, progress in replica.followers.items()
        if broker_id in replica.state.isr
        and (broker := node_image.brokers.get(broker_id)) is not None
        and broker.live
        and broker.rack == rack
    ]
    return max(there, key=lambda progress: progress.end_offset, default=None)


def denied(index: int) -> PartitionData:
    answer = refused(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    answer.aborted_transactions = []
    return answer


def refused(index: int, error: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=error,
        high_watermark=-1,
        aborted_transactions=None,
        records=b"",
    )
