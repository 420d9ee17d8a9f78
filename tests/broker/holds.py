"""A real node on a measured event loop: how much CPU time one iteration of the loop takes at most.

It measures CPU time of the loop's thread, not wall time, so other load on the machine has no effect. A slower machine
has, so bounds are in units of a reference computation (`calibrate`) that is timed on the same machine.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from chronik.broker.node import Node
from chronik.broker.process import YOUNG_OBJECTS_MAX
from chronik.broker.settings import Settings
from chronik.runtime.real import real_runtime
from chronik.testing.cluster import FOR_TESTS
from chronik.testing.local_cluster import local_cluster
from chronik.wire.compiler import decode
from chronik.wire.error_codes import ErrorCode
from chronik.wire.headers import response_header_version
from chronik.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from chronik.wire.messages.find_coordinator import FindCoordinatorRequest
from chronik.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from chronik.wire.notation import Request, Response
from tests.broker.hostile import frame

REFERENCE_MS = 4.0  # what `calibrate` measures on the machine for which bounds are written in milliseconds
REFERENCE_ROUNDS = 5


class MeasuredLoop(asyncio.SelectorEventLoop):
    longest_ns = 0  # CPU time of one iteration, since it was last set to 0

    def _run_once(self) -> None:
        began_ns = time.thread_time_ns()
        super()._run_once()  # type: ignore[misc]
        took_ns = time.thread_time_ns() - began_ns
        if took_ns > self.longest_ns:
            self.longest_ns = took_ns


class MeasuredNode:
    """In a thread of this process, with real sockets; `with` stops it."""

    def __init__(self, **settings: str) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="chronik-holds-")
        [made] = local_cluster(Path(self._directory.name), [0], [])
        overrides = {**made, **FOR_TESTS, **{key.replace("_", "."): value for key, value in settings.items()}}
        self._settings = Settings.load(None, environment={}, overrides=overrides)
        self._gc_threshold = gc.get_threshold()
        self.loop = MeasuredLoop()
        self.node: Node
        self.port = 0
        self._is_ready = threading.Event()
        self._stopping: asyncio.Event
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="measured node", daemon=True)
        self._thread.start()
        self._is_ready.wait(60)
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        async def serve() -> None:
            self._stopping = asyncio.Event()
            try:
                self.node = await Node.start(real_runtime(), self._settings)
            except BaseException as fault:
                self._failure = fault
                raise
            finally:
                self._is_ready.set()
            await self._stopping.wait()
            await self.node.stop()

        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(serve())
        finally:
            self.loop.close()

    def __enter__(self) -> MeasuredNode:
        gc.freeze()  # as a process does; the test's own objects must not count
        gc.set_threshold(YOUNG_OBJECTS_MAX)
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(60)
        self._directory.cleanup()
        gc.set_threshold(*self._gc_threshold)
        gc.unfreeze()

    # --- clients

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.node.port()), 60)

    def ask(self, data: bytes) -> bytes:
        """The response to one frame on a separate connection; empty if the node closed it."""
        with self.connect() as connection:
            connection.sendall(data)
            return receive(connection)

    def ask_struct(self, request: Request, response: type[Response], version: int) -> Any:
        data = memoryview(self.ask(frame(request, version)))
        assert data, "the node hung up"
        header_bytes = 5 if response_header_version(response, version) else 4
        return decode(response, version, data[header_bytes:])

    def create(self, topics: dict[str, int]) -> None:
        asked = [
            CreatableTopic(name=name, num_partitions=count, replication_factor=1, assignments=[], configs=[])
            for name, count in topics.items()
        ]
        answer = self.ask_struct(CreateTopicsRequest(topics=asked), CreateTopicsResponse, 5)
        assert not any(topic.error_code for topic in answer.topics)

    def coordinate(self, group_id: str) -> None:
        """Returns when the node coordinates the group."""
        self.ask(frame(FindCoordinatorRequest(key_type=0, coordinator_keys=[group_id]), 4))
        error: int | None = None
        while error != ErrorCode.UNKNOWN_MEMBER_ID:  # not: no coordinator, or one that loads
            request = HeartbeatRequest(group_id=group_id, generation_id=1, member_id="nobody")
            error = self.ask_struct(request, HeartbeatResponse, 3).error_code
            time.sleep(0.01)

    def settle(self) -> None:
        """Returns when the node has nothing left to do for requests that were sent before."""
        while len(getattr(self.node, "turns", ())):
            time.sleep(0.01)
        self._next_iteration()

    def wait_until_quiet(self) -> None:
        """Returns when requests hold no memory any more; a test that leaves some hangs, and is ended."""
        memory = self.node.memory
        while memory.used_bytes or memory.small_bytes or memory.unsent_bytes:
            time.sleep(0.01)

    def _next_iteration(self) -> None:
        """An answer may arrive before the iteration that sent it has ended."""
        for _ in range(2):
            came = threading.Event()
            self.loop.call_soon_threadsafe(came.set)
            came.wait(60)

    def start_measuring(self) -> None:
        self.loop.longest_ns = 0

    def longest_ms(self) -> float:
        """Of one iteration, since `start_measuring`."""
        self._next_iteration()
        return self.loop.longest_ns / 1e6


def receive(connection: socket.socket) -> bytes:
    try:
        with connection.makefile("rb") as stream:
            return stream.read(int.from_bytes(stream.read(4), "big"))
    except ConnectionError:
        return b""


def calibrate() -> float:
    """How much slower than the reference machine this one is now: at least 1."""
    best_ns = 0
    for _ in range(REFERENCE_ROUNDS):
        began_ns = time.thread_time_ns()
        made = {str(n): [n, n.to_bytes(4, "big")] for n in range(10_000)}
        b"".join(pair[1] for pair in made.values())
        took_ns = time.thread_time_ns() - began_ns
        best_ns = took_ns if not best_ns else min(best_ns, took_ns)
    return max(1.0, best_ns / 1e6 / REFERENCE_MS)
