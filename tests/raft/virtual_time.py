"""An event loop whose clock jumps to the next timer, and a machine to go with it: minutes of a cluster in milliseconds.

Nothing waits, so nothing depends on how fast the computer is, and one seed gives one schedule.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

from chronik.runtime.interfaces import Runtime
from chronik.sim.disk import SimDisk

T = TypeVar("T")


class _Jump:
    """The selector of a loop without sockets: instead of sleeping it moves the clock."""

    def __init__(self, inner: Any, loop: VirtualLoop) -> None:
        self._inner, self._loop = inner, loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("everything waits and no timer is set: the test would hang")
        self._loop.now_s += max(0.0, timeout)
        return self._inner.select(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.now_s = 1000.0
        super().__init__()
        self._selector = _Jump(self._selector, self)
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self.now_s


def run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(asyncio.wait_for(work(), 10_000))
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


class LoopClock:
    """`rate` is how fast this node's clock runs against the others'."""

    def __init__(self, rate: float = 1.0) -> None:
        self.rate = rate

    def monotonic_ns(self) -> int:
        return int(asyncio.get_running_loop().time() * self.rate * 1e9)

    def wall_ms(self) -> int:
        return self.monotonic_ns() // 1_000_000


class SeededRandomness:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)

    def bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)


class NoNetwork:
    async def listen(self, *_: Any) -> Any:
        raise NotImplementedError

    connect = listen


def machine(disk: SimDisk, seed: int, rate: float = 1.0) -> Runtime:
    return Runtime(LoopClock(rate), disk, NoNetwork(), SeededRandomness(seed))
