"""Runs of the simulator: one at a time, each in a process of its own, its trace in a temporary file.

A trace is read by line numbers, so a page can be anywhere in it without the console holding it in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

from chronik.console.errors import ConsoleError

RUN_S: Final = 120.0
RUNS_KEPT: Final = 10
ERROR_BYTES: Final = 4_096


@dataclass(slots=True)
class Run:
    id: str
    scenario: str
    seed: int
    fault: str | None
    command: str
    trace: Path
    started_s: float = field(default_factory=time.monotonic)
    elapsed_ms: int | None = None
    state: str = "running"
    summary: dict[str, Any] = field(default_factory=dict)
    process: asyncio.subprocess.Process | None = None
    error: str = ""

    def document(self) -> dict[str, Any]:
        known = self.summary
        elapsed_ms = round(1_000 * (time.monotonic() - self.started_s)) if self.elapsed_ms is None else self.elapsed_ms
        return {
            "id": self.id,
            "scenario": self.scenario,
            "seed": self.seed,
            "fault": self.fault,
            "state": self.state,
            "elapsed_ms": elapsed_ms,
            "lanes": known.get("lanes", []),
            "end_us": known.get("end_us"),
            "events": known.get("events", 0),
            "is_truncated": known.get("is_truncated", False),
            "counts": known.get("counts", {}),
            "failure": known.get("failure") or ({"text": self.error} if self.error else None),
            "log_hash": known.get("log_hash"),
            "command": self.command,
            "test": known.get("test"),
        }


class Lab:
    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="chronik-lab-"))
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._task: asyncio.Task[None] | None = None
        self._next = 1

    def start(self, scenario: str, seed: int, fault: str | None, command: str) -> Run:
        """Raises BUSY."""
        if self._task is not None and not self._task.done():
            raise ConsoleError("BUSY", "a run is being played already", "wait, or cancel it")
        number, self._next = str(self._next), self._next + 1
        run = Run(number, scenario, seed, fault, command, self._folder / f"{number}.jsonl")
        self._runs[number] = run
        while len(self._runs) > RUNS_KEPT:
            _, old = self._runs.popitem(last=False)
            old.trace.unlink(missing_ok=True)
        self._task = asyncio.get_running_loop().create_task(self._play(run))
        return run

    async def _play(self, run: Run) -> None:
        process = run.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "chronik.console.lab_process",
            str(os.getpid()),
            str(run.trace),
            run.scenario,
            str(run.seed),
            run.fault or "",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        if run.state == "cancelled":
            await _kill(process)
        try:
            async with asyncio.timeout(RUN_S):
                out, err = await process.communicate()
        except TimeoutError:
            await _kill(process)
            run.state = "timed-out"
        else:
            if run.state == "cancelled":
                pass
            elif process.returncode == 0:
                run.summary = json.loads(out)["summary"]
                run.state = run.summary["state"]
            else:
                run.state, run.error = "failed", err[-ERROR_BYTES:].decode(errors="replace")
        run.elapsed_ms = round(1_000 * (time.monotonic() - run.started_s))

    def run(self, run_id: str) -> Run:
        if run_id not in self._runs:
            raise ConsoleError("RUN_NOT_FOUND", f"there is no run {run_id[:20]!r}; the last {RUNS_KEPT} are kept")
        return self._runs[run_id]

    def runs(self) -> list[dict[str, Any]]:
        documents = [run.document() for run in reversed(self._runs.values())]
        for each in documents:
            del each["test"]
        return documents

    async def events(self, run: Run, after: int, limit: int, kind: str, lane: str) -> tuple[list[Any], int | None]:
        """Events behind number `after` that match, and where to go on; None at the end."""
        if run.state == "running" or not run.summary:
            return [], None
        return await asyncio.to_thread(_read, run.trace, after, limit, kind, lane)

    async def cancel(self, run: Run) -> bool:
        if run.state != "running":
            return False
        run.state = "cancelled"
        if run.process is not None:
            await _kill(run.process)
        if self._task is not None:
            await asyncio.wait({self._task})  # so that the next run may start
        return True

    async def close(self) -> None:
        for run in self._runs.values():
            await self.cancel(run)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)


def _read(path: Path, after: int, limit: int, kind: str, lane: str) -> tuple[list[Any], int | None]:
    found: list[Any] = []
    with path.open(encoding="utf-8") as file:
        for line in islice(file, after, None):
            event = json.loads(line)
            if kind not in ("", event["kind"]) or (lane and lane not in (event["lane"], event["to"])):
                continue
            if len(found) == limit:
                return found, event["n"] - 1
            found.append(event)
    return found, None


async def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()
