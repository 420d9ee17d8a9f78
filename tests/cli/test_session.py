"""One event loop for a command: what Ctrl-C does to it."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator

import pytest

from chronik.cli.session import run_loop


@pytest.fixture(autouse=True)
def _heeds_interrupts() -> Iterator[None]:
    """As a process that was started from a terminal; a CI run may be a background job, which ignores Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_is_heard_by_a_task_that_waits_with_a_timeout() -> None:
    """The signal arrives while the task runs, and the time is up before the task waits: neither may hide the other."""

    async def work() -> int:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            async with asyncio.timeout(0.01):
                time.sleep(0.02)  # noqa: ASYNC251 - the loop is to find the time up when it gets its turn
                await asyncio.Event().wait()
        except TimeoutError:
            await asyncio.sleep(0)  # a cancellation that comes now is not lost either
        return 0

    with pytest.raises(KeyboardInterrupt):
        run_loop(work())


def test_a_second_ctrl_c_ends_what_does_not_heed_the_first() -> None:
    """A command that cleans up for too long can be ended by hand."""

    async def work() -> int:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
        return 0

    with pytest.raises(KeyboardInterrupt):
        run_loop(work())


def test_the_handler_of_the_process_is_put_back() -> None:
    """Code after the loop, such as printing, is interrupted as before."""
    before = signal.getsignal(signal.SIGINT)

    async def work() -> int:
        return 7

    assert run_loop(work()) == 7
    assert signal.getsignal(signal.SIGINT) is before
