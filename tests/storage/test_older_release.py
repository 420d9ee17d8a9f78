"""An operator went back to a release that keeps no manifest, and upgraded again: what that one wrote is recognised."""

from __future__ import annotations

import asyncio

import pytest

from chronik.sim.disk import SimDisk
from chronik.storage.config import LogConfig
from chronik.storage.logs import Logs
from tests.storage.driving import append, batch, durable, open_logs, run, topic_id


async def one_process(disk: SimDisk, *, writes: bool, closes: bool) -> Logs:
    logs = await open_logs(disk)
    if writes:
        log = logs.create("t", topic_id(1), 0, LogConfig())
        append(log, batch([b"record"]))
        await durable(log)
    if closes:
        await logs.close()
    return logs


@pytest.mark.parametrize("closes", [False, True])
@pytest.mark.parametrize("writes", [False, True])
def test_what_a_release_without_a_manifest_wrote_since_shows(writes: bool, closes: bool) -> None:
    """Its process registered too, without a record in these files: without this check, the disk would look like an old
    copy."""

    async def scenario() -> None:
        disk = SimDisk(1)
        await one_process(disk, writes=True, closes=True)
        kept = disk.read_file("/data/manifest")
        await one_process(disk, writes=writes, closes=closes)
        disk = disk.process_killed()
        disk.replace_file("/data/manifest", kept)
        logs = await open_logs(disk)
        assert logs.older_release_wrote == (writes or closes)

    run(scenario)


@pytest.mark.parametrize("steps", range(0, 60, 3))
def test_a_release_with_a_manifest_is_never_taken_for_one_without(steps: int) -> None:
    """At any power cut. Otherwise the cluster would rely on an old copy of a disk."""

    async def work(logs: Logs) -> None:
        log = logs.create("u", topic_id(2), 0, LogConfig())
        for _ in range(2):
            append(log, batch([b"record"]))
            await logs.checkpoint()

    async def scenario() -> None:
        disk = SimDisk(steps)
        await one_process(disk, writes=True, closes=True)
        logs = await open_logs(disk)
        disk.cut_after(steps)
        working = asyncio.ensure_future(work(logs))
        for _ in range(300):  # the power cut leaves tasks that never end
            await asyncio.sleep(0)
        working.cancel()
        await asyncio.wait([working])
        if not working.cancelled():
            working.exception()
        assert not (await open_logs(disk.power_cut())).older_release_wrote

    run(scenario)
