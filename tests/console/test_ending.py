"""The console's end, by Ctrl-C, SIGTERM or SIGKILL: it leaves neither processes nor files."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from chronik.console import server
from chronik.console.sessions import Session, Sessions
from chronik.console.settings import ConsoleSettings, Listening
from chronik.console.streams import KEEP_OPEN, STREAMS_MAX, stream
from tests.console.served import TOKEN, Served, serving

ENDLESS = {"id": "q", "query": "SELECT max(sin(a.range + b.range)) FROM range(1000000) a, range(1000000) b"}


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


@pytest.fixture
def console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """Nothing listens at its bootstrap address: neither run nor query needs a cluster."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    with serving("127.0.0.1:1") as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_it_takes_its_processes_with_it(console: Served, tmp_path: Path, how: signal.Signals) -> None:
    pytest.importorskip("duckdb")
    pytest.importorskip("deltalake")
    console.post("/lab/runs", {"scenario": "quorum", "seed": 17})

    def ask() -> None:
        with suppress(OSError, ValueError, EOFError):
            console.request("POST", "/sql", ENDLESS)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    while len(started := children(console.pid)) < 2:
        time.sleep(0.05)
    os.kill(console.pid, how)
    while not all(is_gone(each) for each in (console.pid, *started)):  # the test's own time limit ends the wait
        time.sleep(0.05)
    asking.join()
    if how is not signal.SIGKILL:
        assert not list(tmp_path.glob("chronik-*"))


class Ticking:
    """What a stream needs of a call: a session, and a console that counts."""

    def __init__(self, session: Session) -> None:
        self.session, self.console, self.streams = session, self, 0


async def quiet() -> Any:
    await asyncio.Event().wait()
    yield b""


async def serve(response: Any, sent: asyncio.Queue[Any]) -> None:
    async def receive() -> Any:
        await asyncio.Event().wait()

    await response({"type": "http", "asgi": {"spec_version": "2.3"}}, receive, sent.put)


def test_a_stream_ends_at_once_when_its_session_does() -> None:
    """Not with the next event, which may be long in coming: what it shows may be no business of the reader any more."""

    async def run() -> None:
        sessions = Sessions(os.urandom)
        session = sessions.find(sessions.open(None, 0), 0)
        assert session is not None
        call: Any = Ticking(session)
        sent: asyncio.Queue[Any] = asyncio.Queue()
        streaming = asyncio.ensure_future(serve(stream(call, quiet()), sent))
        await sent.get()
        assert (await sent.get())["body"] == KEEP_OPEN
        sessions.close(session)
        assert (await sent.get())["more_body"] is False
        await streaming
        assert (session.streams, call.streams, session.at_end) == (0, 0, set())

    asyncio.run(run())


def test_streams_that_begin_at_once_are_all_counted() -> None:
    async def run() -> None:
        call: Any = Ticking(Session(None, 0))
        made = [stream(call, quiet()) for _ in range(STREAMS_MAX)]
        with pytest.raises(Exception, match="at most 8 streams"):
            stream(call, quiet())
        for each in made:
            sent: asyncio.Queue[Any] = asyncio.Queue()
            streaming = asyncio.ensure_future(serve(each, sent))
            await sent.get()
            streaming.cancel()
            await asyncio.wait({streaming})
        assert (call.session.streams, call.streams) == (0, 0)

    asyncio.run(run())


def test_connections_that_send_no_request_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that send nothing, little by little, or nothing after a first request; not one that is being answered."""
    monkeypatch.setattr(server, "HEAD_S", 0.2)

    async def run() -> None:
        settings = ConsoleSettings("127.0.0.1:1", script_token=TOKEN)
        listener = server.bind(Listening(port=0))
        port = listener.getsockname()[1]
        serving = asyncio.ensure_future(server.serve(settings, listener, lambda _: None))
        try:
            head = f"GET /api/v1/stream HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
            head += f"Authorization: Bearer {TOKEN}\r\n\r\n"
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head.encode())
            for sent in (b"", b"GET / HTTP/1.1\r\nX-Slow: ", head.replace("/api/v1/stream", "/").encode()):
                slow, its = await asyncio.open_connection("127.0.0.1", port)
                its.write(sent)
                with suppress(ConnectionError):
                    await slow.read()  # until it is closed
                its.close()
            assert not reader.at_eof()
            assert b"text/event-stream" in await reader.readuntil(b"\r\n\r\n")
            writer.close()
        finally:
            serving.cancel()
            await asyncio.wait({serving})

    asyncio.run(run())
