"""Requests that wait for one commit: all are answered by one call, in order, whatever one of them does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from chronik.broker.awaited import Awaited


async def _turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_all_who_wait_are_called_in_the_order_in_which_they_came() -> None:
    async def work() -> list[int]:
        awaited, called = Awaited(), list[int]()
        future = asyncio.get_running_loop().create_future()
        for number in range(4):
            awaited.when_done(future, lambda done, number=number: called.append(number + done.result()))  # type: ignore[misc]
        future.set_result(10)
        awaited.when_done(future, lambda done: called.append(99))  # between the end of the wait and the call
        assert called == []
        await _turns()
        return called

    assert asyncio.run(work()) == [10, 11, 12, 13, 99]


def test_who_comes_when_it_is_over_is_called_too() -> None:
    async def work() -> list[int]:
        awaited, called = Awaited(), list[int]()
        future = asyncio.get_running_loop().create_future()
        future.set_result(None)
        awaited.when_done(future, lambda done: called.append(1))
        await _turns()
        awaited.when_done(future, lambda done: called.append(2))
        await _turns()
        return called

    assert asyncio.run(work()) == [1, 2]


def test_what_one_raises_goes_to_the_loop_and_the_others_are_called() -> None:
    async def work() -> tuple[list[int], list[object]]:
        awaited, called, heard = Awaited(), list[int](), list[object]()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: heard.append(context.get("exception")))
        future = loop.create_future()

        def raising(fault: Exception) -> Callable[[object], None]:
            def call(done: object) -> None:
                raise fault

            return call

        faults = [ValueError("first"), ValueError("last")]
        awaited.when_done(future, raising(faults[0]))
        awaited.when_done(future, lambda done: called.append(1))
        awaited.when_done(future, raising(faults[1]))
        future.set_result(None)
        await _turns()
        assert heard == faults
        return called, heard

    assert asyncio.run(work())[0] == [1]


def test_who_comes_during_the_calls_is_not_lost_when_one_of_them_raises() -> None:
    async def work() -> list[str]:
        awaited, called = Awaited(), list[str]()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: called.append(str(context.get("exception"))))
        future = loop.create_future()

        def fail(done: object) -> None:
            raise ValueError("one fails")

        awaited.when_done(future, lambda done: awaited.when_done(future, lambda done: called.append("came meanwhile")))
        awaited.when_done(future, fail)
        awaited.when_done(future, lambda done: called.append("behind"))
        future.set_result(None)
        await _turns()
        return called

    assert asyncio.run(work()) == ["one fails", "behind", "came meanwhile"]
