"""Fetch (key 1): record batches from an offset on, as they lie in the log.

Answers at once when enough bytes are there, anything went wrong or the client does not wait; otherwise when more is
committed or the wait is over. The first batch may begin before the offset asked for: a batch is never cut, and is
returned even when it alone exceeds the limits, or a consumer could never pass it (v3+). Who catches up gets portions.
Followers of this node's partitions have sessions of their own, which read up to the end of the log: `replication`.
Consumers read what is committed, from the leader, or from v11 on from any replica; the leader sends one that says its
rack to an in-sync replica there (KIP-392).
Versions: v0-v1 get magic 0, v2-v3 magic 1; v4 isolation; v7 sessions; v9 leader epochs are checked; v11 racks; v12 a
log that diverged from what the client has is told by diverging_epoch; v13 topics by id; v15 followers say their epoch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from chronik.broker import limits
from chronik.broker.api import api
from chronik.broker.fetch_sessions import NO_SESSION, Session, Wanted
from chronik.broker.produced import takes_long_to_convert, to_old_magic
from chronik.broker.topics import find_replica, find_topic
from chronik.replication.replica import Replica
from chronik.storage.errors import OffsetOutOfRange
from chronik.wire.error_codes import ErrorCode
from chronik.wire.errors import UnsupportedCompression
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
    from chronik.broker.portions import Portions
    from chronik.metadata.errors import MetadataError
    from chronik.metadata.image import Image
    from chronik.replication.errors import ReplicationError
    from chronik.replication.progress import Progress
    from chronik.storage.errors import StorageError
    from chronik.storage.log import LogRead
    from chronik.wire.errors import WireError

    Refusal = StorageError | ReplicationError | WireError | MetadataError

READ_COMMITTED = 1
VERSION_MAGIC_1, VERSION_WHOLE_BATCHES, VERSION_MAGIC_2, VERSION_RACKS, VERSION_TOPIC_IDS = 2, 3, 4, 11, 13


@api(FetchRequest, FetchResponse)
def fetch(request: FetchRequest, context: Context) -> FetchResponse | Awaitable[FetchResponse]:
    if request.replica_state.replica_id >= 0:
        followers = context.node.replicas.sessions
        if followers.knows(request):
            context.connection.serve_follower()
        return followers.fetch(request)
    opened = context.node.fetch_sessions.open(request, by_id=context.version >= VERSION_TOPIC_IDS)
    if isinstance(opened, ErrorCode):
        return FetchResponse(error_code=opened, responses=[])
    session, wanted = opened
    portions = context.connection.portions
    portions.asked(context.connection.last_request_ns)
    work = _Fetch(request, context, session, wanted, portions)
    work.read()
    return work.finish() if work.is_enough() or work.is_all_that_fits() else work.wait()


class _Fetch:
    """One request from reading to response. Reading again after a wait starts from nothing; a fetch that waits for more
    than a byte does not read what is there at each step of that, but counts it by positions."""

    def __init__(
        self,
        request: FetchRequest,
        context: Context,
        session: Session | None,
        wanted: list[Wanted],
        portions: Portions,
    ) -> None:
        self.request, self.context, self.session, self.portions = request, context, session, portions
        self.is_incremental = session is not None and request.session_epoch > 0
        self.bytes_allowed = min(request.max_bytes, context.node.settings.fetch_max_bytes)
        self.wanted, self.turned_by = wanted, 0
        # Older clients never pass a batch that is larger than allowed, and who waits for much wants much at once.
        takes_portions = context.version >= VERSION_WHOLE_BATCHES and request.min_bytes <= 1
        if takes_portions and portions.size_bytes < self.bytes_allowed:
            self.bytes_allowed = portions.size_bytes
            if session is None and len(wanted) > 1:
                # It asks in the order of its choice for more than it gets: so that nobody starves, any may come first.
                # Whose turn it is cannot be told, as it leaves out what it has enough of. A session turns by itself.
                self.turned_by = context.node.runtime.randomness.below(len(wanted))
                self.wanted = wanted[self.turned_by :] + wanted[: self.turned_by]
        self.has_waited = False
        self.bytes_min = min(request.min_bytes, max(1, self.bytes_allowed))
        self.bytes_max = 0  # as of the last reading
        self.answers: list[tuple[Wanted, PartitionData]] = []
        self.replicas: list[Replica] = []
        self.bytes_read = 0  # or counted
        self.sizes_bytes: list[tuple[str, int]] = []  # by topic, of what was read
        self.too_new: list[tuple[int, Replica, LogRead]] = []  # of answers, by index: what an old client cannot read
        self.must_return = False  # an error or a divergence, which no waiting will mend
        self.is_counting = False

    def read(self) -> None:
        self.is_counting = False
        self._go_through()

    def count(self) -> None:
        """As `read`, without the records. Answers made here are not for the client."""
        self.is_counting = True
        self._go_through()

    def _go_through(self) -> None:
        self.answers, self.replicas, self.bytes_read, self.sizes_bytes, self.too_new = [], [], 0, [], []
        self.bytes_max = min(self.bytes_allowed, self.context.node.memory.room_bytes)
        for wanted in self.wanted:
            self.answers.append((wanted, self._read_partition(wanted)))

    def is_enough(self) -> bool:
        nothing_to_wait_for = self.request.max_wait_ms <= 0 or not self.wanted
        # More than there is memory for cannot come, however long it waits.
        return self.must_return or nothing_to_wait_for or self.bytes_read >= min(self.bytes_min, max(1, self.bytes_max))

    def is_all_that_fits(self) -> bool:
        """Of what was read: whether waiting would add nothing, since more is there than a response may hold."""
        if not self.bytes_read:
            return False
        found = self.answers, self.sizes_bytes, self.too_new
        self.count()
        self.answers, self.sizes_bytes, self.too_new = found
        return self.is_enough()

    def wait(self) -> Coroutine[Any, Any, FetchResponse]:
        """Watches from now on, not from when the coroutine starts: what moves in between would not be seen."""
        self.answers, self.sizes_bytes, self.too_new = [], [], []  # a wait may be long, and what was read large
        self.has_waited = True
        moved = asyncio.Event()
        for replica in self.replicas:
            replica.watch(moved.set)
        return self._wait(moved, self.replicas)

    async def _wait(self, moved: asyncio.Event, watched: list[Replica]) -> FetchResponse:
        """Looks again whenever a partition moved, until it is enough or the time is up."""
        is_over, counts_first = False, self.bytes_min > 1

        def time_is_up() -> None:
            nonlocal is_over
            is_over = True
            moved.set()

        wait_ms = min(self.request.max_wait_ms, limits.FETCH_WAIT_MS_MAX)
        timer = asyncio.get_running_loop().call_later(wait_ms / 1000, time_is_up)
        try:
            while not is_over and not self.is_enough():
                await moved.wait()
                moved.clear()
                if counts_first:
                    self.count()
                else:
                    self.read()
        finally:
            timer.cancel()
            for replica in watched:
                replica.unwatch(moved.set)
        if counts_first:
            self.read()
        return await self._converted() if self.too_new else self.response()

    def finish(self) -> FetchResponse | Coroutine[Any, Any, FetchResponse]:
        return self._converted() if self.too_new else self.response()

    async def _converted(self) -> FetchResponse:
        """What lies in the log as old clients can read it; where that takes long, it is made away from the loop."""
        node = self.context.node
        magic = 1 if self.context.version >= VERSION_MAGIC_1 else 0
        for index, replica, found in self.too_new:
            wanted, answer = self.answers[index]
            convert = partial(to_old_magic, found.buffers, magic, wanted.partition.fetch_offset)
            try:
                slow = takes_long_to_convert(found.buffers)
                answer.records = await node.record_lane.run(convert) if slow else convert()
            except node.refusals as fault:
                self.answers[index] = wanted, self._refused(wanted, replica, fault)
                self.sizes_bytes.remove((replica.log.topic, found.size_bytes))
        return self.response()

    def response(self) -> FetchResponse:
        self._count()
        now_ns = self.context.node.runtime.clock.monotonic_ns()
        self.portions.given(self.bytes_read, now_ns, has_waited=self.has_waited)
        topics: list[FetchableTopicResponse] = []
        turned_by = self.turned_by
        as_asked = self.answers[-turned_by:] + self.answers[:-turned_by] if turned_by else self.answers
        for wanted, answer in as_asked:
            if self.session is not None:
                is_news = self.session.is_news(wanted, answer)
                if answer.records:
                    self.session.served(wanted)
                if self.is_incremental and not is_news:
                    continue
            if not topics or (topics[-1].topic, topics[-1].topic_id) != (wanted.name, wanted.topic_id):
                topics.append(FetchableTopicResponse(topic=wanted.name, topic_id=wanted.topic_id, partitions=[]))
            topics[-1].partitions.append(answer)
        session_id = self.session.session_id if self.session else NO_SESSION
        return FetchResponse(session_id=session_id, responses=topics)

    def _count(self) -> None:
        """Bytes as they leave, by topic. A partition that the client got wrong belongs to no topic we know."""
        by_follower = max(self.request.replica_id, self.request.replica_state.replica_id) >= 0
        for name, size_bytes in self.sizes_bytes:
            traffic = self.context.node.metrics.topics[name]
            if by_follower:
                traffic.replication_bytes_out += size_bytes
            else:
                traffic.bytes_out += size_bytes

    def _read_partition(self, wanted: Wanted) -> PartitionData:
        node, asked = self.context.node, wanted.partition
        by_id = self.context.version >= VERSION_TOPIC_IDS
        topic = find_topic(node, wanted.name, wanted.topic_id, by_id=by_id)
        replica = topic if isinstance(topic, ErrorCode) else find_replica(node, topic, asked.partition)
        if isinstance(replica, ErrorCode):
            self.must_return = True
            unknown = refused(asked.partition, replica)
            unknown.aborted_transactions = []
            return unknown
        try:
            if self.context.version < VERSION_RACKS:
                replica.require_leader(asked.current_leader_epoch)
            else:
                replica.require_readable(asked.fetch_offset, asked.current_leader_epoch)
            self.replicas.append(replica)
            return self._read_replica(replica, wanted)
        except node.refusals as fault:
            self.must_return = True
            return self._refused(wanted, replica, fault)

    def _refused(self, wanted: Wanted, replica: Replica, fault: Refusal) -> PartitionData:
        if not self.is_counting:
            self.context.node.metrics.topics[replica.log.topic].fetches_failed += 1
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
        answer = PartitionData(
            partition_index=asked.partition,
            error_code=0,
            high_watermark=replica.high_watermark,
            last_stable_offset=stable,
            log_start_offset=log.start_offset,
            aborted_transactions=[] if is_committed_only else None,
            records=b"",
        )
        if asked.last_fetched_epoch >= 0:
            end = log.epochs.end_of(asked.last_fetched_epoch, log.end_offset)
            if end.end_offset < 0:  # of an epoch that this log has not reached: there is nothing to compare with
                raise OffsetOutOfRange(asked.fetch_offset, log.start_offset, log.end_offset)
            if end.epoch < asked.last_fetched_epoch or end.end_offset < asked.fetch_offset:
                self.must_return = True
                answer.diverging_epoch = EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset)
                return answer
        if self.request.rack_id and replica.is_leader:
            nearest = replica_in_rack(replica, self.request.rack_id, node_image=self.context.node.store.image)
            if nearest is not None and nearest.end_offset >= asked.fetch_offset >= log.start_offset:
                self.must_return = True
                answer.preferred_read_replica = nearest.broker_id
                return answer
        bytes_max = max(0, min(asked.partition_max_bytes, self.bytes_max - self.bytes_read))
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
            answer.aborted_transactions = [
                AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
                for aborted in log.aborted_transactions(asked.fetch_offset, found.next_offset)
            ]
        answer.records = found.buffers
        if self.context.version < VERSION_MAGIC_2:
            self.too_new.append((len(self.answers), replica, found))
        self.bytes_read += found.size_bytes
        self.sizes_bytes.append((log.topic, found.size_bytes))
        return answer


def replica_in_rack(replica: Replica, rack: str, *, node_image: Image) -> Progress | None:
    """The in-sync follower in this rack that has most; None if there is none, or the leader itself is there."""
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


def refused(index: int, error: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=error,
        high_watermark=-1,
        aborted_transactions=None,
        records=b"",
    )
