"""Server-sent events: one response that goes on until the browser, the session or the stream ends.

A stream is counted against its session. A browser that reads slowly holds its own stream up and nothing else: there is
no queue, the next event is made when the last one was taken.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import StreamingResponse

from chronik.console.errors import ConsoleError

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from chronik.console.calls import Call

STREAMS_MAX: Final = 8  # of one session
STREAMS_IN_ALL_MAX: Final = 64
KEEP_OPEN: Final = b": \n\n"
KEEP_OPEN_S: Final = 15.0


def event(name: str, data: Any, event_id: int | None = None) -> bytes:
    """JSON has no line breaks of its own, so the data is one line."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    number = f"id: {event_id}\n" if event_id is not None else ""
    return f"event: {name}\n{number}data: {text}\n\n".encode("utf-8", "replace")


class EventStream(StreamingResponse):
    """Counted from when it was made until it is over, so that many that begin at once are all counted."""

    def __init__(self, call: Call, events: AsyncGenerator[bytes, None]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(self._body(), media_type="text/event-stream", headers=headers)
        self._console, self._session, self._events = call.console, call.session, events
        self._session.streams += 1
        self._console.streams += 1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._session.streams -= 1
            self._console.streams -= 1
            await self._events.aclose()

    async def _body(self) -> AsyncIterator[bytes]:
        ended = asyncio.Event()
        end = asyncio.ensure_future(ended.wait())
        pending: asyncio.Task[bytes | None] | None = None
        self._session.at_end.add(ended.set)
        try:
            yield KEEP_OPEN
            while not self._session.is_over:
                if pending is None:
                    pending = asyncio.ensure_future(_next(self._events))
                done, _ = await asyncio.wait({pending, end}, timeout=KEEP_OPEN_S, return_when=asyncio.FIRST_COMPLETED)
                if end in done:
                    return
                if not done:
                    yield KEEP_OPEN
                    continue
                finished, pending = pending, None
                data = finished.result()
                if data is None:
                    return
                yield data
        finally:
            self._session.at_end.discard(ended.set)
            end.cancel()
            if pending is not None:
                pending.cancel()
                await asyncio.wait({pending})


def stream(call: Call, events: AsyncGenerator[bytes, None]) -> StreamingResponse:
    """Raises BUSY."""
    if call.session.streams >= STREAMS_MAX or call.console.streams >= STREAMS_IN_ALL_MAX:
        raise ConsoleError("BUSY", f"a session has at most {STREAMS_MAX} streams", "close another page of the console")
    return EventStream(call, events)


async def _next(events: AsyncGenerator[bytes, None]) -> bytes | None:
    try:
        return await anext(events)
    except StopAsyncIteration:
        return None
