"""Reads partitions: keeps a position in each, has one fetch per leader in flight, and returns records in order.

Fetches run ahead of the caller: while it processes records, the next ones are fetched, at most one answer per
partition. An answer that arrives after its partition was moved (seek, revoke) is dropped. A position advances only when
records are returned, so it is always the offset to commit.

Never commits, and never decides where a partition starts or restarts: it reports OFFSET_OUT_OF_RANGE.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from chronik.client.errors import ClientError, Refused, Unreachable
from chronik.client.fetch_answers import Chunk, Fetched, FetchOptions, fetch
from chronik.peer.backoff import Backoff
from chronik.runtime.invariants import broken, check
from chronik.runtime.tasks import Tasks
from chronik.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient
    from chronik.client.topology import TopicPartition

LINES: Final = ("fetch", "fetch after a move")  # connections to a node; the second is opened only when needed
RECORDS_MAX: Final = 2_000  # per `take`, rounded up to whole batches: decoded without yielding to the loop
TOPIC_GONE_MS: Final = 500  # after pauses of this length, a topic that is still unknown was deleted
DAMAGED_S_MAX: Final = 15  # then the reader gets the leader's read error; replica repair takes less
# Errors that mean that the topic was deleted and created again, with a new id.
TOPIC_CHANGED: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID})


class Fetcher:
    def __init__(self, cluster: ClusterClient, options: FetchOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._partitions: dict[TopicPartition, _Position] = {}
        self._under_way: dict[tuple[int, str], int] = {}  # (node, line) -> number of the last move before it was sent
        self._move_count = 0
        self._arrived = asyncio.Event()
        self._tasks = Tasks("fetcher", self._broken)
        self._fault: Exception | None = None  # an unexpected error, that is, a bug

    # --- positions

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        return tuple(self._partitions)

    def positions(self) -> dict[TopicPartition, int]:
        """The position of each partition: the offset after the last returned record."""
        return {at: position.offset for at, position in self._partitions.items()}

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """The end of each partition at its last fetch; -1 before the first."""
        return {at: position.high_watermark for at, position in self._partitions.items()}

    def put(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Starts or continues reading these partitions at these offsets."""
        self._move_count += 1
        for at, offset in offsets.items():
            self._partitions[at] = _Position(offset, Backoff(self._cluster.randomness))

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        for at in partitions:
            self._partitions.pop(at, None)

    def pause(self, partitions: Iterable[TopicPartition], *, is_paused: bool = True) -> None:
        for at in partitions:
            self._partitions[at].is_paused = is_paused

    async def close(self) -> None:
        self._partitions.clear()
        await self._tasks.stop()

    # --- reading

    async def poll(self, timeout_ms: int) -> list[Fetched]:
        """Returns records as soon as there are some; an empty list at the timeout.

        Raises the permanent error of a partition; the other partitions continue with the next call.
        """
        end_s = asyncio.get_running_loop().time() + timeout_ms / 1000
        while True:
            self._arrived.clear()
            if self._fault is not None:
                raise self._fault
            taken = self._take()
            self._start_fetches()  # prefetches for the partitions just taken from
            if taken:
                return taken
            left_s = end_s - asyncio.get_running_loop().time()
            if left_s <= 0:
                return []
            try:
                async with asyncio.timeout(left_s):
                    await self._arrived.wait()
            except TimeoutError:
                return []

    def _take(self) -> list[Fetched]:
        taken: list[Fetched] = []
        records_left = RECORDS_MAX
        for position in self._partitions.values():
            if position.fault is not None:
                fault, position.fault = position.fault, None
                if taken:
                    position.fault = fault  # return the records taken before it first
                    break
                raise fault
            if position.chunk is None or position.is_paused:
                continue
            fetched = position.chunk.take(records_left)
            if position.chunk.is_empty:
                position.chunk = None
            if fetched.next_offset < position.offset:
                broken("12 a reader goes forward", at=fetched.at, before=position.offset, now=fetched.next_offset)
            position.offset, position.high_watermark = fetched.next_offset, fetched.high_watermark
            if fetched.records:
                taken.append(fetched)
                records_left -= len(fetched.records)
                if records_left <= 0:
                    break
        if taken:  # for fairness, the other partitions come first next time
            for fetched in taken:
                self._partitions[fetched.at] = self._partitions.pop(fetched.at)
        return taken

    def _start_fetches(self) -> None:
        by_leader: dict[int, dict[TopicPartition, int]] = {}
        with_records: set[int] = set()
        for at, position in list(self._partitions.items()):
            if position.is_busy or position.is_paused or position.fault is not None:
                continue
            try:
                leader_id = self._cluster.topology.leader(at)
            except Refused:
                self._hold_back(at, position)
                continue
            if position.chunk is not None:
                with_records.add(leader_id)
            else:
                by_leader.setdefault(leader_id, {})[at] = position.offset
        for node_id, offsets in by_leader.items():
            line = self._free_line(node_id)
            if line is None:
                continue
            check(
                (node_id, line) not in self._under_way, "27 one fetch of a line is under way", node=node_id, line=line
            )
            self._under_way[node_id, line] = self._move_count
            asked = {at: self._partitions[at] for at in offsets}
            for position in asked.values():
                position.is_busy = True
            # A partition with unread records is fetched from after they are taken. A long fetch of the others would
            # delay it.
            # would keep it waiting as well.
            max_wait_ms = 0 if node_id in with_records else self._options.max_wait_ms
            self._tasks.start(f"fetch-{node_id}", self._fetch(node_id, line, offsets, asked, max_wait_ms))

    def _free_line(self, node_id: int) -> str | None:
        """One fetch per line. After a move, the second line avoids waiting for an earlier long fetch."""
        if self._move_count in (self._under_way.get((node_id, line)) for line in LINES):
            return None
        return next((line for line in LINES if (node_id, line) not in self._under_way), None)

    async def _fetch(
        self,
        node_id: int,
        line: str,
        offsets: dict[TopicPartition, int],
        asked: dict[TopicPartition, _Position],
        max_wait_ms: int,
    ) -> None:
        answers: dict[TopicPartition, Chunk | ClientError]
        try:
            answers = await fetch(self._cluster, node_id, offsets, self._options, max_wait_ms=max_wait_ms, purpose=line)
        except ClientError as fault:
            answers = dict.fromkeys(offsets, fault)
        finally:
            del self._under_way[node_id, line]
            for position in asked.values():
                position.is_busy = False
        # A partition that was moved meanwhile has a new position object; updates of the old one are ignored.
        for at, position in asked.items():
            answer = answers.get(at)
            if isinstance(answer, ClientError):
                self._failed(at, position, answer)
            elif answer is not None:
                position.backoff.reset()
                position.damaged_since_s = None
                if position.offset != offsets[at] or position.chunk is not None:
                    broken(
                        "12 an answer is of where its reader stands", at=at, offset=position.offset, asked=offsets[at]
                    )
                position.high_watermark = answer.high_watermark
                position.chunk = None if answer.is_empty else answer
        self._arrived.set()

    def _failed(self, at: TopicPartition, position: _Position, fault: ClientError) -> None:
        error = fault.kafka_error if isinstance(fault, Refused) else None
        if error is ErrorCode.KAFKA_STORAGE_ERROR and self._is_damaged_long(position):
            position.fault = fault
        elif fault.retriable or error in TOPIC_CHANGED:
            self._hold_back(at, position)
        else:
            position.fault = fault

    def _is_damaged_long(self, position: _Position) -> bool:
        """A damaged replica hands over to another within seconds. If none takes over, no replica has these records."""
        now_s = asyncio.get_running_loop().time()
        if position.damaged_since_s is None:
            position.damaged_since_s = now_s
        return now_s - position.damaged_since_s > DAMAGED_S_MAX

    def _hold_back(self, at: TopicPartition, position: _Position) -> None:
        """Retries the partition after a pause, during which its leader is looked up again."""
        check(not position.is_busy, "27 one fetch or pause of a partition at a time", at=at, offset=position.offset)
        position.is_busy = True
        self._tasks.start(f"wait-{at}", self._wait(at, position))

    async def _wait(self, at: TopicPartition, position: _Position) -> None:
        known = self._cluster.topology.topics.get(at.topic)
        wait_ms = position.backoff.next_ms()
        await asyncio.sleep(wait_ms / 1000)
        try:
            if self._cluster.topology.topics.get(at.topic) is known:  # not refreshed by another caller meanwhile
                await self._cluster.refresh([at.topic])
            if wait_ms >= TOPIC_GONE_MS:
                self._cluster.topology.topic(at.topic)
        except Unreachable:
            pass  # the next attempt reports it, if it persists
        except ClientError as refusal:
            position.fault = refusal
        position.is_busy = False
        self._arrived.set()

    def _broken(self, name: str, fault: Exception) -> None:
        self._fault = fault
        self._arrived.set()


class _Position:
    __slots__ = ("backoff", "chunk", "damaged_since_s", "fault", "high_watermark", "is_busy", "is_paused", "offset")

    def __init__(self, offset: int, backoff: Backoff) -> None:
        self.offset = offset
        self.high_watermark = -1
        self.chunk: Chunk | None = None  # fetched but not yet taken
        self.fault: ClientError | None = None  # raised by the next poll
        self.damaged_since_s: float | None = None  # since when the leader cannot read the requested records
        self.is_busy = False  # a fetch is in flight, or paused before a retry
        self.is_paused = False
        self.backoff = backoff
