"""Syncs by the kernel: data reported as durable is durable, errors are reported, and no waiter waits forever."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from struct import pack_into
from typing import Any

import pytest

from chronik.runtime import kernel_sync
from chronik.runtime.errors import Refusals
from chronik.runtime.kernel_sync import KernelSync
from chronik.runtime.real_disk import RealDisk, RealLane
from chronik.runtime.real_file import RealFile

GET_EVENTS = {"x86_64": 208, "aarch64": 4}.get(os.uname().machine)


async def opened() -> KernelSync:
    made = KernelSync.open(asyncio.get_running_loop())
    if made is None:
        pytest.skip("this machine has no asynchronous fdatasync")
    return made


def files(directory: Path, count: int) -> list[RealFile]:
    made = [RealDisk().open(f"{directory}/{index}", create=True) for index in range(count)]
    for file in made:
        file.append([b"written"])
    return made


def telling(future: asyncio.Future[None]) -> Callable[[BaseException | None], None]:
    return lambda error: future.set_result(None) if error is None else future.set_exception(error)


def test_the_end_of_a_round_is_that_of_all_its_files(tmp_path: Path) -> None:
    """A round is answered when its last file is durable, and rounds do not wait for each other."""

    async def rounds() -> None:
        kernel = await opened()
        futures: list[asyncio.Future[None]] = [asyncio.Future() for _ in range(3)]
        counts = [
            kernel.sync(files(tmp_path, count), telling(future)).by_kernel_count
            for count, future in zip((1, 7, 3), futures, strict=True)
        ]
        assert counts == [1, 7, 3]
        await asyncio.wait_for(asyncio.gather(*futures), 30)
        kernel.close()

    asyncio.run(rounds())


def test_a_failed_sync_fails_its_round_and_no_other(tmp_path: Path) -> None:
    """The disk's error must reach the caller that would acknowledge, even if other files of the round were synced."""

    async def failing() -> None:
        kernel = await opened()
        real: Any = kernel._io._call

        def second_of_four_fails(number: int, *arguments: int) -> int:
            count: int = real(number, *arguments)
            for index in range(count if number == GET_EVENTS else 0):
                told.append(index)
                if len(told) == 2:
                    pack_into("=q", kernel._io.events, index * 32 + 16, -errno.EIO)
            return count

        told: list[int] = []
        kernel._io._call = second_of_four_fails  # type: ignore[assignment]
        first: asyncio.Future[None] = asyncio.Future()
        kernel.sync(files(tmp_path, 4), telling(first))
        with pytest.raises(OSError, match="Input/output error"):
            await asyncio.wait_for(first, 30)
        assert len(told) == 4, "a round has ended only when all its files have"
        after: asyncio.Future[None] = asyncio.Future()
        kernel.sync(files(tmp_path, 1), telling(after))
        await asyncio.wait_for(after, 30)
        kernel.close()

    asyncio.run(failing())


def test_what_the_kernel_does_not_take_is_synced_by_the_lane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More files than slots, a file system without it, a machine without it: durable all the same."""
    synced: list[int] = []
    plain = RealFile.sync
    monkeypatch.setattr(kernel_sync, "SLOTS", 4)
    monkeypatch.setattr(RealFile, "sync", lambda file: (synced.append(file.fileno()), plain(file)))

    async def more_than_slots() -> None:
        await opened()
        lane = RealDisk().lane("test")
        many = files(tmp_path, 10)
        await asyncio.wait_for(lane.sync(many), 30)
        assert synced == [file.fileno() for file in many[4:]]
        lane.close()

    asyncio.run(more_than_slots())
    synced.clear()
    monkeypatch.setattr(KernelSync, "open", lambda loop: None)

    async def no_kernel() -> None:
        lane = RealDisk().lane("test")
        many = files(tmp_path, 3)
        await asyncio.wait_for(lane.sync(many), 30)
        assert synced == [file.fileno() for file in many]
        lane.close()

    asyncio.run(no_kernel())


def test_a_sync_that_is_refused_at_once_is_not_taken_for_done() -> None:
    """A file that cannot be synced, such as a pipe, must not be reported as durable."""

    async def refused() -> None:
        await opened()
        lane = RealDisk().lane("test")
        reading, writing = os.pipe()
        with pytest.raises(OSError, match="Invalid argument"):
            await asyncio.wait_for(lane.sync([RealFile("a pipe", writing, Refusals())]), 30)
        lane.close()
        os.close(reading)

    asyncio.run(refused())


def test_who_asked_to_be_called_hears_of_the_end_once_with_the_error_if_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the kernel, and by the thread where the kernel has no room; a lane that is closed says so as well."""

    async def calling(lane: RealLane, made: list[RealFile]) -> list[BaseException | None]:
        heard: list[BaseException | None] = []
        ended = asyncio.Event()

        def done(error: BaseException | None) -> None:
            heard.append(error)
            ended.set()

        lane.sync_then(made, done)
        assert heard == []
        await asyncio.wait_for(ended.wait(), 30)
        await asyncio.sleep(0)
        return heard

    async def all_ways() -> None:
        lane = RealDisk().lane("test")
        assert await calling(lane, files(tmp_path, 3)) == [None]
        assert await calling(lane, []) == [None]
        lane.close()
        [error] = await calling(lane, files(tmp_path, 1))
        assert isinstance(error, RuntimeError)

    asyncio.run(all_ways())
    monkeypatch.setattr(KernelSync, "open", lambda loop: None)
    asyncio.run(all_ways())


def test_what_one_of_them_raises_when_it_is_told_keeps_no_other_from_being_told(tmp_path: Path) -> None:
    """A broken invariant stops the node, and a node that stops waits for its syncs."""

    async def telling_all() -> list[str]:
        told, raised, all_raised = list[str](), list[str](), asyncio.Event()

        def note(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            raised.append(str(context["exception"]))
            if len(raised) == 3:
                all_raised.set()

        asyncio.get_running_loop().set_exception_handler(note)
        kernel = await opened()

        def done(name: str, error: BaseException | None) -> None:
            assert error is None
            told.append(name)
            raise ArithmeticError(name)

        for name in "abc":
            kernel.sync(files(tmp_path, 1), partial(done, name))
        collect, first = kernel._io.collect, [3]  # all of them at once
        kernel._io.collect = lambda at_least: collect(first.pop() if first else at_least)  # type: ignore[method-assign]
        await asyncio.wait_for(all_raised.wait(), 30)
        kernel.close()
        assert sorted(raised) == ["a", "b", "c"]
        return sorted(told)

    assert asyncio.run(telling_all()) == ["a", "b", "c"]


def test_what_is_about_to_be_sent_leaves_before_a_sync_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting a sync takes the loop some time; a follower that could write meanwhile would wait for the leader's
    disk."""
    order: list[str] = []
    begin = RealLane._begin

    def told(lane: RealLane, *arguments: Any) -> None:
        order.append("sync")
        begin(lane, *arguments)

    monkeypatch.setattr(RealLane, "_begin", told)

    async def sending() -> None:
        loop = asyncio.get_running_loop()
        lane = RealDisk().lane("test")
        loop.call_soon(order.append, "send")
        await asyncio.wait_for(lane.sync(files(tmp_path, 1)), 30)
        assert order == ["send", "sync"]
        lane.close()

    asyncio.run(sending())


def test_a_lane_that_closes_has_synced_what_it_was_given(tmp_path: Path) -> None:
    """Including syncs that have not started; and a caller that comes too late does not wait forever."""

    async def closing() -> None:
        lane = RealDisk().lane("test")
        synced = lane.sync(files(tmp_path, 3))
        lane.close()
        await asyncio.wait_for(synced, 30)
        with pytest.raises(RuntimeError, match="closed"):
            await asyncio.wait_for(lane.sync(files(tmp_path, 1)), 30)

    asyncio.run(closing())


def test_a_sync_that_cannot_even_begin_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its waiters must get the error; otherwise a node would acknowledge nothing and report nothing."""

    def no_memory(kernel: KernelSync, *_: Any) -> None:
        raise MemoryError

    async def beginning() -> None:
        await opened()
        lane = RealDisk().lane("test")
        monkeypatch.setattr(KernelSync, "sync", no_memory)
        with pytest.raises(MemoryError):
            await asyncio.wait_for(lane.sync(files(tmp_path, 1)), 30)
        lane.close()

    asyncio.run(beginning())


def test_closing_waits_for_what_is_under_way_and_hands_the_context_on(tmp_path: Path) -> None:
    """A journal is closed between rounds, but a clean end must not depend on that; contexts are not leaked."""

    async def closing() -> None:
        kernel = await opened()
        future: asyncio.Future[None] = asyncio.Future()
        kernel.sync(files(tmp_path, 5), telling(future))
        context = kernel._io._context
        kernel.close()
        assert future.done()
        again = await opened()
        assert again._io._context == context
        assert ctypes.c_ulong(again._io._context).value
        again.close()

    asyncio.run(closing())
