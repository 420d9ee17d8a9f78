"""SQL queries of the console, each in a process of its own, which is killed when it is cancelled or takes too long."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from chronik.console.errors import ConsoleError

if TYPE_CHECKING:
    from collections.abc import Mapping

QUERIES_MAX: Final = 2
QUERY_S: Final = 60.0
ANSWER_BYTES_MAX: Final = 16 << 20
LINE_BYTES_MAX: Final = 64 << 20


@dataclass(slots=True)
class Running:
    owner: object  # the session that may cancel it
    process: asyncio.subprocess.Process | None = None
    is_cancelled: bool = False


@dataclass(slots=True)
class Answer:
    columns: list[dict[str, str]] = field(default_factory=list)
    rows: list[list[Any]] = field(default_factory=list)
    is_truncated: bool = False
    row_count: int = 0


class Queries:
    def __init__(self) -> None:
        self._running: dict[tuple[int, str], Running] = {}

    async def ask(self, query_id: str, owner: object, order: Mapping[str, Any]) -> Answer:
        """Raises BUSY, BAD_QUERY, CANCELLED or TIMED_OUT."""
        key = (id(owner), query_id)
        if key in self._running:
            raise ConsoleError("BAD_BODY", f"query {query_id!r} runs already", "give each query an id of its own")
        if len(self._running) >= QUERIES_MAX:
            raise ConsoleError("BUSY", f"{QUERIES_MAX} queries run already", "wait, or cancel one")
        running = self._running[key] = Running(owner)
        try:
            async with asyncio.timeout(QUERY_S):
                return await self._answer(running, order)
        except TimeoutError as fault:
            raise ConsoleError("TIMED_OUT", f"the query took longer than {QUERY_S:g} s", "select less") from fault
        finally:
            del self._running[key]
            await _kill(running.process)

    async def _answer(self, running: Running, order: Mapping[str, Any]) -> Answer:
        process = running.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "chronik.console.query_process",
            str(os.getpid()),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            limit=LINE_BYTES_MAX,
        )
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None
        if not running.is_cancelled:
            with contextlib.suppress(OSError):
                stdin.write(json.dumps(order).encode() + b"\n")
                await stdin.drain()
        answer, size = Answer(), 0
        while not running.is_cancelled and (line := await stdout.readline()):
            size += len(line)
            told = json.loads(line)
            if "error" in told:
                raise bad_query(told["error"])
            if "columns" in told:
                answer.columns = told["columns"]
            if told.get("end"):
                answer.is_truncated |= told.get("is_truncated", False)
                answer.row_count = told.get("rows", len(answer.rows))
                return answer
            answer.rows += told.get("rows", [])
            if size > ANSWER_BYTES_MAX:
                answer.is_truncated = True
                return answer
        if running.is_cancelled:
            raise ConsoleError("CANCELLED", "the query was cancelled")
        raise ConsoleError("BAD_QUERY", "the query needs more memory than it may have", "select less, or aggregate")

    async def cancel(self, query_id: str, owner: object) -> bool:
        running = self._running.get((id(owner), query_id))
        if running is None:
            return False
        running.is_cancelled = True
        await _kill(running.process)
        return True

    async def close(self) -> None:
        for running in list(self._running.values()):
            await _kill(running.process)


def bad_query(message: str) -> ConsoleError:
    """DuckDB's marker below the line of the query is the hint."""
    words, line, mark = message.partition("\nLINE ")
    return ConsoleError("BAD_QUERY", words, f"LINE {mark}" if line else "")


async def _kill(process: asyncio.subprocess.Process | None) -> None:
    if process is not None and process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
