"""Conditions in SQL on records, evaluated in a process of its own that is started when it is first needed.

A condition that takes too long costs its process: it is killed, and the next condition gets a new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pickle
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from chronik.console.errors import ConsoleError

if TYPE_CHECKING:
    from chronik.console.calls import Call
    from chronik.console.reading import Filter
    from chronik.wire.records import Record

ANSWER_S: Final = 5.0
FIRST_ANSWER_S: Final = 15.0  # with the time that DuckDB takes to load
ROWS_AT_ONCE: Final = 2_000
WHERE_CHARS_MAX: Final = 4_096


class FilterProcess:
    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._lock = asyncio.Lock()

    async def matching(self, where: str, topic: str, rows: Sequence[tuple[int, Record]]) -> list[int]:
        """The places of the rows that match. Raises BAD_QUERY or TIMED_OUT."""
        found: list[int] = []
        for start in range(0, max(1, len(rows)), ROWS_AT_ONCE):
            some = [(partition, tuple(record)) for partition, record in rows[start : start + ROWS_AT_ONCE]]
            request = pickle.dumps((where, topic, some), protocol=5)
            found += [start + place for place in await self._asked(request)]
        return found

    async def _asked(self, request: bytes) -> list[int]:
        async with self._lock:
            limit_s = FIRST_ANSWER_S if self._process is None else ANSWER_S
            try:
                async with asyncio.timeout(limit_s):
                    answer = await self._exchange(request)
            except BaseException as fault:
                await self.close()  # a late answer must not be taken for that of the next request
                if isinstance(fault, TimeoutError):
                    raise ConsoleError("TIMED_OUT", f"the condition took longer than {limit_s:g} s") from fault
                if isinstance(fault, asyncio.IncompleteReadError | OSError):
                    raise ConsoleError("BAD_QUERY", "the condition needs too much memory") from fault
                raise
        if "error" in answer:
            raise ConsoleError("BAD_QUERY", answer["error"])
        places: list[int] = answer["places"]
        return places

    async def _exchange(self, request: bytes) -> dict[str, Any]:
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "chronik.console.filter_process",
                str(os.getpid()),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(len(request).to_bytes(4, "big") + request)
        await stdin.drain()
        size = int.from_bytes(await stdout.readexactly(4), "big")
        answer: dict[str, Any] = json.loads(await stdout.readexactly(size))
        return answer

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def filter_of(call: Call, topic: str, where: str) -> Filter | None:
    """None without a condition. Raises EXTRA_MISSING."""
    if not where.strip():
        return None
    for package in ("duckdb", "pyarrow"):
        if find_spec(package) is None:
            raise ConsoleError("EXTRA_MISSING", f"conditions need {package}", "pip install 'chronik[sql]'")
    process = call.console.extras.get("filter")
    if process is None:
        process = call.console.extras["filter"] = FilterProcess()
        call.console.at_close(process.close)

    async def matching(rows: Sequence[tuple[int, Record]]) -> list[int]:
        found: list[int] = await process.matching(where, topic, rows)
        return found

    return matching
