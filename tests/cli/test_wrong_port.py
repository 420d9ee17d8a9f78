"""The port of an admin listener where a client listener is wanted: the commonest wrong address that answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from chronik.testing import Cluster
from chronik.testing.ports import free_ports
from tests.cli.conftest import Run

HOST = "127.0.0.1"


def test_the_admin_port_is_recognised_and_the_client_port_named(run_command: Run) -> None:
    """Each side waits for the other; only inspecting the data avoids the time-out."""
    [admin] = free_ports(1)
    with Cluster(settings={"chronik.admin.listener": f"{HOST}:{admin}"}):
        done = run_command("topic", "list", "--bootstrap", f"{HOST}:{admin}")
    assert (done.exit_code, done.out) == (3, "")
    assert f"{HOST}:{admin} is the admin listener of node 1" in done.err
    assert f"whose port is {admin - 552} unless" in done.err


@contextmanager
def web_server() -> Iterator[int]:
    """Responds to every HTTP request, and waits for the end of any other data."""
    loop, ready, ports = asyncio.new_event_loop(), threading.Event(), []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 404 Not Found\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def serve() -> None:
        server = await asyncio.start_server(answer, HOST, 0)
        ports.append(server.sockets[0].getsockname()[1])
        ready.set()

    def run() -> None:
        loop.run_until_complete(serve())
        loop.run_forever()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    ready.wait()
    try:
        yield ports[0]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0.01))
        loop.close()


@pytest.mark.slow
def test_any_other_web_server_is_recognised_too(run_command: Run) -> None:
    """8080 is as easily typed."""
    with web_server() as port:
        done = run_command("topic", "list", "--bootstrap", f"{HOST}:{port}")
    assert done.exit_code == 3
    assert f"{HOST}:{port} speaks HTTP, not the Kafka protocol" in done.err
