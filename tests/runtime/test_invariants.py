"""Checks of invariants: their messages, that no option of Python removes them, and how a broken one is reported."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable

import pytest

from chronik.runtime.invariants import InvariantBroken, broken, check, hear_of_broken
from chronik.runtime.tasks import Tasks


def test_a_broken_invariant_names_its_number_its_subject_and_the_values() -> None:
    """It is the last line in a node's log, and often all that is left to find the cause by."""
    with pytest.raises(InvariantBroken) as raised:
        check(False, "10 the high watermark lies in the log", partition="t-0", high_watermark=12, topic=b"\x01\xff")
    words = "invariant 10 the high watermark lies in the log (partition t-0, high_watermark 12, topic 01ff)"
    assert str(raised.value) == words
    with pytest.raises(InvariantBroken, match=r"^invariant 1 held$"):
        broken("1 held")
    check(True, "1 held", value=1)


def test_checks_stay_when_python_removes_assertions() -> None:
    """They must also run if an operator starts the broker with -O."""
    program = "from chronik.runtime.invariants import check\nassert False\ncheck(False, '1 held', term=3)"
    ended = subprocess.run([sys.executable, "-O", "-c", program], capture_output=True, text=True, check=False)
    assert "InvariantBroken: invariant 1 held (term 3)" in ended.stderr


def fail() -> None:
    broken("1 held")


async def fail_later() -> None:
    broken("1 held")


def by_timer(loop: asyncio.AbstractEventLoop) -> None:
    loop.call_later(0, fail)


def by_future(loop: asyncio.AbstractEventLoop) -> None:
    future: asyncio.Future[None] = loop.create_future()
    future.add_done_callback(lambda _: fail())
    future.set_result(None)


def by_tasks_without_an_owner(loop: asyncio.AbstractEventLoop) -> None:
    Tasks("nobody").start("work", fail_later())


@pytest.mark.parametrize("raises", [by_timer, by_future, by_tasks_without_an_owner])
def test_what_a_callback_of_the_loop_breaks_is_heard_of(raises: Callable[[asyncio.AbstractEventLoop], None]) -> None:
    """Python logs the error and continues, and the node would serve from a state that it cannot trust."""
    heard: list[str] = []

    async def test() -> None:
        loop = asyncio.get_running_loop()
        before: list[str] = []
        loop.set_exception_handler(lambda _, context: before.append(str(context["exception"])))
        end = hear_of_broken(loop, lambda error: heard.append(str(error)))
        raises(loop)
        await asyncio.sleep(0.01)
        assert before == ["invariant 1 held"], "whoever listened before still does"
        loop.call_soon(lambda: 1 / 0)
        await asyncio.sleep(0.01)
        end()
        raises(loop)
        await asyncio.sleep(0.01)
        assert len(before) == 3

    asyncio.run(test())
    assert heard == ["invariant 1 held"]
