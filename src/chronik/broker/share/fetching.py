"""One ShareFetch, from the session's partitions to the records that its member holds from now on.

It takes what can be acquired at once, partition after partition, beginning with another one each time. If that is
nothing, it waits, and looks again only at partitions that have moved: more was committed, a record was given back, the
state was loaded. With min_bytes above 1 it acquires nothing until this many bytes can be read.

A record is acquired only while the session is open, so that nobody holds it in the name of a member that is gone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from chronik.broker import limits
from chronik.broker.errors import REFUSALS
from chronik.broker.permissions import READ, TOPIC
from chronik.broker.share.reading import Taken, Wanted, take
from chronik.broker.share.sessions import Place, ShareSession
from chronik.broker.share.share_partition import SharePartition
from chronik.broker.topics import find_replica, find_topic
from chronik.runtime.pieces import Work
from chronik.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from chronik.broker.context import Context
    from chronik.wire.messages.share_fetch import ShareFetchRequest


class Fetched:
    """One partition of the request. `was_read`: it could have had records."""

    __slots__ = ("error", "partition", "place", "readable_bytes", "taken", "topic", "was_read")

    def __init__(self, place: Place) -> None:
        self.place = place
        self.topic = ""
        self.partition: SharePartition | None = None
        self.error = ErrorCode.NONE
        self.taken = Taken([], [], 0)
        self.was_read = False
        self.readable_bytes = 0  # as it was last counted


class ShareFetching:
    def __init__(self, request: ShareFetchRequest, context: Context, session: ShareSession) -> None:
        self._request, self._context, self._session = request, context, session
        services = context.services
        self._bytes_max = min(request.max_bytes, services.settings.fetch_max_bytes)
        quotas = services.quotas
        if quotas.restricts and (quota_bytes := quotas.fetch_bytes_max(context.session, context.client_id)) is not None:
            self._bytes_max = min(self._bytes_max, quota_bytes)
        self._bytes_min = min(request.min_bytes, self._bytes_max)
        self._bytes_left, self._records_left = self._bytes_max, request.max_records
        self._moved: dict[SharePartition, None] = {}
        self._has_moved = asyncio.Event()
        self._is_over = False
        self._must_return = False  # records were acquired, or a partition failed that could have had some
        self._readable_bytes = 0  # of all partitions, as they were last counted
        self._by_partition: dict[SharePartition, Fetched] = {}  # those that may have records
        self.all: list[Fetched] = []

    @property
    def _wants_records(self) -> bool:
        return self._request.max_records > 0 and self._request.max_bytes > 0

    def open(self) -> Work[None]:
        """Resolves what the session names, and begins to load what is not loaded."""
        places = list(self._session.partitions)
        if places:  # so that the first ones do not take all, each time
            turned_by = self._request.share_session_epoch % len(places) if self._request.share_session_epoch > 0 else 0
            places = places[turned_by:] + places[:turned_by]
        for place in places:
            fetched = Fetched(place)
            self._open_one(fetched)
            self.all.append(fetched)
            yield 1

    def _open_one(self, fetched: Fetched) -> None:
        services, place = self._context.services, fetched.place
        topic = find_topic(services, "", place.topic_id, by_id=True)
        if isinstance(topic, ErrorCode):
            fetched.error = topic
            return
        fetched.topic = topic.name
        if not self._context.allows(READ, TOPIC, topic.name):
            fetched.error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return
        replica = find_replica(services, topic, place.partition)
        if isinstance(replica, ErrorCode):
            fetched.error = replica
        elif not replica.is_leader or replica.is_gone:
            fetched.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif self._wants_records:
            partition = services.share_partitions.opened(self._session.group_id, place, replica)
            fetched.partition = partition
            self._by_partition[partition] = fetched

    async def run(self) -> None:
        """Returns when there is something to tell, or the time is up."""
        if not self._by_partition:
            return
        turns, connection, by_partition = self._context.services.turns, self._context.connection, self._by_partition
        wait_ms = min(self._request.max_wait_ms, limits.FETCH_WAIT_MS_MAX)
        for partition in by_partition:
            partition.watch(self._partition_moved)
        self._moved = dict.fromkeys(by_partition)
        connection.on_lost[self._time_is_up] = None
        timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._time_is_up) if wait_ms > 0 else None
        self._is_over = timer is None
        try:
            while True:
                moved, self._moved = self._moved, {}
                self._has_moved.clear()
                await turns.run(self._look([by_partition[each] for each in moved]))
                if self._is_done():
                    return
                await self._has_moved.wait()
        finally:
            if timer is not None:
                timer.cancel()
            connection.on_lost.pop(self._time_is_up, None)
            for partition in by_partition:
                partition.unwatch(self._partition_moved)

    def _is_done(self) -> bool:
        return self._must_return or (self._is_over and not self._moved) or not self._session.is_open

    def _partition_moved(self, partition: SharePartition) -> None:
        self._moved[partition] = None
        self._has_moved.set()

    def _time_is_up(self) -> None:
        """What is there is taken now, however little."""
        self._is_over = True
        self._moved = dict.fromkeys(self._by_partition)
        self._has_moved.set()

    # --- one look

    def _look(self, places: list[Fetched]) -> Work[None]:
        if self._bytes_min > 1 and not self._is_over:
            for fetched in places:
                self._count(fetched)
                yield 1
            if self._readable_bytes < self._bytes_min:
                return
            places = list(self._by_partition.values())
        able = [each for each in places if self._can_acquire(each)]
        if not able:
            return
        share_bytes = max(1, self._bytes_left // len(able))
        room_bytes = self._context.connection.reserve_answer(min(self._bytes_left, share_bytes * len(able)))
        held_bytes = 0
        for fetched in able:
            assert fetched.partition is not None
            wanted = Wanted(
                self._session.member_id,
                self._records_left,
                min(share_bytes, room_bytes - held_bytes),
                self._request.share_acquire_mode,
                max(1, self._request.batch_size),
                not held_bytes,
            )
            yield from self._take(fetched, fetched.partition, wanted)
            held_bytes += fetched.taken.size_bytes
            if self._records_left <= 0 or not self._session.is_open:
                break
            yield 1
        self._context.connection.hold_answer(held_bytes)

    def _can_acquire(self, fetched: Fetched) -> bool:
        partition = fetched.partition
        assert partition is not None
        if partition.error is not None:
            fetched.error, self._must_return = partition.error, True
            return False
        fetched.was_read = partition.next_fetch_offset(partition.settings.record_locks_max) is not None
        return fetched.was_read

    def _count(self, fetched: Fetched) -> None:
        partition = fetched.partition
        assert partition is not None
        self._readable_bytes -= fetched.readable_bytes
        fetched.readable_bytes = 0
        if not self._can_acquire(fetched):
            return
        offset = partition.next_fetch_offset(partition.settings.record_locks_max)
        limit = partition.end_of_reading
        if offset is not None and offset < limit:
            try:
                readable = partition.replica.log.readable_bytes(offset, offset_limit=limit)
            except REFUSALS:
                readable = self._bytes_min  # the error is told when it is read
            fetched.readable_bytes = min(readable, self._bytes_max)
            self._readable_bytes += fetched.readable_bytes

    def _take(self, fetched: Fetched, partition: SharePartition, wanted: Wanted) -> Work[None]:
        services = self._context.services
        try:
            fetched.taken = yield from take(
                partition,
                wanted,
                may_go_on=lambda: self._session.is_open and partition.error is None,
                mend_index=services.index_mending.begin,
            )
        except REFUSALS as fault:
            fetched.error, self._must_return = fault.kafka_error, True
            return
        if fetched.taken.acquired:
            self._must_return = True
            self._records_left -= fetched.taken.record_count
            self._bytes_left -= fetched.taken.size_bytes
            services.metrics.topics[fetched.topic].bytes_out += fetched.taken.size_bytes
