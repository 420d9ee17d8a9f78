"""Reads partitions: keeps a position in each, has one fetch per leader under way, and hands out records in order.

Fetches run ahead of whoever polls: while records are being worked on, the next ones are on their way, at most one
answer per partition. An answer that comes after its partition was moved (seek, revoke) is dropped. A position moves
only when records are handed out, so it is always what should be committed.

Never commits, and never decides where a partition starts or starts again: it reports OFFSET_OUT_OF_RANGE.
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

LINES: Final = ("fetch", "fetch after a move")  # connections to a node; the second is opened only when it is needed
RECORDS_MAX: Final = 2_000  # of one `take`, rounded up to whole batches: what the loop decodes without a break
TOPIC_GONE_MS: Final = 500  # a pause as long as this comes after several: a topic still unknown then was deleted
# The topic was deleted and made anew: its id is another one now.
DAMAGED_S_MAX: Final = 15  # until a reader is told that the leader cannot read its log; replicas are mended in less
TOPIC_CHANGED: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID})


class Fetcher:
    def __init__(self, cluster: ClusterClient, options: FetchOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._partitions: dict[TopicPartition, _Position] = {}
        self._under_way: dict[tuple[int, str], int] = {}  # (node, line) -> the move after which it was sent
        self._move_count = 0
        self._arrived = asyncio.Event()
        self._tasks = Tasks("fetcher", self._broken)
        self._fault: Exception | None = None  # a bug of ours

    # --- positions

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        return tuple(self._partitions)

    def positions(self) -> dict[TopicPartition, int]:
        """Where each partition goes on: the offset after the last record handed out."""
        return {at: position.offset for at, position in self._partitions.items()}

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """Where each partition ended when it was last read; -1 when it has not been."""
        return {at: position.high_watermark for at, position in self._partitions.items()}

    def put(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Starts reading these partitions at these offsets, or goes on there."""
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
        """Records as soon as there are some; an empty list when the time is up.

        Raises the error of a partition that trying again does not help; the others go on with the next call.
        """
        end_s = asyncio.get_running_loop().time() + timeout_ms / 1000
        while True:
            self._arrived.clear()
            if self._fault is not None:
                raise self._fault
            taken = self._take()
            self._start_fetches()  # those of partitions just taken from run ahead of the next call
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
                    position.fault = fault  # what was taken goes out first
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
        if taken:  # the others come first next time
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
            # A partition that still has records is fetched from after they are taken; a fetch that waits for others
            # would keep it waiting as well.
            max_wait_ms = 0 if node_id in with_records else self._options.max_wait_ms
            self._tasks.start(f"fetch-{node_id}", self._fetch(node_id, line, offsets, asked, max_wait_ms))

    def _free_line(self, node_id: int) -> str | None:
        """One fetch at a time; but what was moved does not wait for one sent before, which may itself be waiting."""
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
        # A partition that was moved meanwhile has another position by now; what is noted on this one is forgotten.
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
        """A damaged replica makes room for another within seconds. If none does, nobody has these records."""
        now_s = asyncio.get_running_loop().time()
        if position.damaged_since_s is None:
            position.damaged_since_s = now_s
        return now_s - position.damaged_since_s > DAMAGED_S_MAX

    def _hold_back(self, at: TopicPartition, position: _Position) -> None:
        """Fetches from it again after a pause, in which the leader is looked up anew."""
        check(not position.is_busy, "27 one fetch or pause of a partition at a time", at=at, offset=position.offset)
        position.is_busy = True
        self._tasks.start(f"wait-{at}", self._wait(at, position))

    async def _wait(self, at: TopicPartition, position: _Position) -> None:
        known = self._cluster.topology.topics.get(at.topic)
        wait_ms = position.backoff.next_ms()
        await asyncio.sleep(wait_ms / 1000)
        try:
            if self._cluster.topology.topics.get(at.topic) is known:  # nobody else has learnt it meanwhile
                await self._cluster.refresh([at.topic])
            if wait_ms >= TOPIC_GONE_MS:
                self._cluster.topology.topic(at.topic)
        except Unreachable:
            pass  # the next attempt says so, if it is still true
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
        self.chunk: Chunk | None = None  # fetched, not yet taken
        self.fault: ClientError | None = None  # to be raised by the next poll
        self.damaged_since_s: float | None = None  # since when the leader cannot read what is asked for
        self.is_busy = False  # a fetch is under way, or a pause before the next one
        self.is_paused = False
        self.backoff = backoff
