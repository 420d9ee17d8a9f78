"""Tasks: nothing dies silently."""

from __future__ import annotations

import asyncio
import inspect
import logging

import pytest

from chronik.runtime.tasks import Tasks


def test_a_failed_task_is_logged_with_its_name_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    """A fetcher that failed unnoticed would never fetch its partitions again."""
    heard: list[tuple[str, str]] = []

    async def fail() -> None:
        raise ValueError("broken")

    async def run() -> None:
        tasks = Tasks("node-1", lambda name, error: heard.append((name, str(error))))
        await tasks.start("fetcher", fail())
        assert tasks.names() == []

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    assert heard == [("node-1.fetcher", "broken")]
    assert "task node-1.fetcher failed" in caplog.text


def test_stop_returns_when_every_task_has_ended() -> None:
    """A node closes its disk after stop(): a task still running would write to closed files."""
    ended: list[str] = []

    async def stubborn(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(name)

    async def run() -> None:
        tasks = Tasks("node-1")
        tasks.start("a", stubborn("a"))
        tasks.start("b", stubborn("b"))
        await asyncio.sleep(0)
        assert tasks.names() == ["node-1.a", "node-1.b"]
        await tasks.stop()
        assert sorted(ended) == ["a", "b"]
        assert tasks.names() == []

    asyncio.run(run())


def test_stopping_a_task_before_its_first_step_leaves_nothing_behind() -> None:
    """A task that is started and stopped within one loop iteration must not leave a coroutine that was never
    awaited."""

    async def never() -> None:
        raise AssertionError("it was stopped before it began")

    work = never()

    async def run() -> None:
        tasks = Tasks("node-1")
        tasks.start("late", work)
        await tasks.stop()
        await asyncio.sleep(0)

    asyncio.run(run())
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED
