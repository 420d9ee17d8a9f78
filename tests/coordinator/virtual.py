"""A machine for coordinator tests: virtual time, reproducible chance, a partition that commits when it is told to."""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from chronik.coordinator.groups.config import GroupsConfig
from chronik.coordinator.groups.coordinator import GroupCoordinator
from chronik.storage.transaction_guards import Guard
from chronik.wire import batches
from chronik.wire.error_codes import ErrorCode

T = TypeVar("T")
WALL_MS = 1_700_000_000_000  # when the tests begin


class FakeClock:
    def __init__(self) -> None:
        self.now_ns = 0

    def wall_ms(self) -> int:
        return WALL_MS + self.now_ns // 1_000_000

    def monotonic_ns(self) -> int:
        return self.now_ns


class Nothing(Exception):
    """Everybody waits and no timer is set: nothing would ever happen."""


class Unseen(Exception):
    """Something that the event loop would only have logged."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time jumps to the next timer when there is nothing else to do."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(_JumpingSelector(clock))
        self.clock = clock

    def time(self) -> float:
        return self.clock.now_ns / 1e9


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise Nothing
        # To whole microseconds: what floats lose must not add up, or deadlines would drift off the millisecond.
        self._clock.now_ns += max(1, round(timeout * 1e6)) * 1000 if timeout > 0 else 0
        return []


def run_virtually(work: Coroutine[Any, Any, T], clock: FakeClock) -> T:
    """What goes wrong in a callback, where nobody would see it, fails the run as well."""
    loop = VirtualLoop(clock)
    unseen: list[BaseException] = []
    loop.set_exception_handler(lambda _, context: unseen.append(context.get("exception") or Unseen(context["message"])))
    try:
        result = loop.run_until_complete(work)
        if unseen:
            raise unseen[0]
        return result
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


async def let_everything_happen() -> None:
    """Runs what is due now, without letting time pass."""
    for _ in range(20):
        await asyncio.sleep(0)


class FakeRandomness:
    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)

    def bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)


class Refused(Exception):
    def __init__(self, kafka_error: ErrorCode) -> None:
        super().__init__(kafka_error.name)
        self.kafka_error = kafka_error


class FakePartition:
    """A partition's log in memory. With `commits_at_once` off, nothing is committed before `commit`."""

    def __init__(
        self, index: int = 0, leader_epoch: int = 0, log: list[bytes] | None = None, *, commits_at_once: bool = True
    ) -> None:
        self.index = index
        self.leader_epoch = leader_epoch
        self.log: list[bytes] = list(log or [])
        self.start_offset = 0
        self.commits_at_once = commits_at_once
        self.committed_offset = self.end_offset
        self.refuses_with: Exception | None = None
        self.read_count = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    @property
    def end_offset(self) -> int:
        return batches.split(memoryview(self.log[-1]))[0].next_offset if self.log else 0

    def append(self, batch: bytes, transaction_version: int = 0, guard: Guard | None = None) -> int:
        if self.refuses_with is not None:
            raise self.refuses_with
        stamped = bytearray(batch)
        batches.patch(stamped, 0, self.end_offset, self.leader_epoch)
        self.log.append(bytes(stamped))
        if self.commits_at_once:
            self.committed_offset = self.end_offset
        return self.end_offset

    def when_committed(self, offset: int) -> asyncio.Future[None] | None:
        if offset <= self.committed_offset:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((offset, future))
        return future

    def commit(self, offset: int | None = None) -> None:
        """Everything before `offset` (or everything) survives from now on."""
        self.committed_offset = self.end_offset if offset is None else max(offset, self.committed_offset)
        still = []
        for end_offset, future in self._waiting:
            if end_offset <= self.committed_offset:
                if not future.done():
                    future.set_result(None)
            else:
                still.append((end_offset, future))
        self._waiting = still

    def fail_waiting(self, error: Exception) -> None:
        waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            future.set_exception(error)

    def read(self, offset: int, bytes_max: int) -> list[memoryview]:
        self.read_count += 1
        found: list[memoryview] = []
        for batch in self.log:
            if batches.split(memoryview(batch))[0].last_offset >= offset:
                found.append(memoryview(batch))
                if sum(map(len, found)) >= bytes_max:
                    break
        return found

    def delete_before(self, offset: int) -> None:
        assert offset <= self.committed_offset
        self.log = [batch for batch in self.log if batches.split(memoryview(batch))[0].next_offset > offset]
        self.start_offset = max(self.start_offset, offset)

    def after_failover(self, *, surviving_offset: int | None = None) -> FakePartition:
        """The same partition on a new leader: what was committed, and perhaps some of what was not."""
        kept = self.committed_offset if surviving_offset is None else max(surviving_offset, self.committed_offset)
        log = [batch for batch in self.log if batches.split(memoryview(batch))[0].next_offset <= kept]
        return FakePartition(self.index, self.leader_epoch + 1, log, commits_at_once=self.commits_at_once)


class FakeCaller:
    def __init__(self, version: int, client_id: str | None = "client", client_host: str = "/127.0.0.1") -> None:
        self.version = version
        self.client_id = client_id
        self.client_host = client_host


def make_coordinator(clock: FakeClock, config: GroupsConfig | None = None, seed: int = 0) -> GroupCoordinator:
    return GroupCoordinator(config or GroupsConfig(), clock, FakeRandomness(seed), partition_count=1)
