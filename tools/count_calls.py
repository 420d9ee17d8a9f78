"""Counts what one request costs: function calls, files, changes of file, and executed lines.

    tools/python tools/count_calls.py            # Produce and CreateTopics, after a warm-up
    tools/python tools/count_calls.py --trace    # and each call, in order

A node alone runs in this process and a client in another thread. Calls of functions in src/chronik count, on the node's
event loop, from the bytes that arrive to the bytes that leave, and the lines that these functions execute. Then three
nodes run, each in a thread of its own, and a client sends CreateTopics to a follower of the quorum: calls on the
follower and on the controller are counted apart. Of several requests the cheapest counts: others may have met a
heartbeat. tests/house/test_calls.py holds the figures, so that they rise only on purpose.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from struct import Struct
from types import FrameType
from typing import Any, NamedTuple

import uvloop

import chronik
from chronik import testing
from chronik.broker.node import Node
from chronik.broker.settings import Settings
from chronik.runtime.real import real_runtime
from chronik.wire.batches import build
from chronik.wire.compiler import encode
from chronik.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from chronik.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from chronik.wire.notation import Request
from chronik.wire.records import Record

ROOT = Path(chronik.__file__).parent
REPEATS = 7
PRODUCE_VERSION, CREATE_VERSION = 9, 7  # both flexible
QUIET = {"broker.heartbeat.interval.ms": "60000", "broker.session.timeout.ms": "120000"}  # nothing happens meanwhile
_header = Struct(">hhih").pack
_size = Struct(">i")


Called = list[tuple[str, str]]  # file and function


class Count(NamedTuple):
    calls: int
    files: int
    changes: int  # from one file to another
    lines: int


class Work(NamedTuple):
    """What one request made a node do."""

    called: Called
    lines: int


class Trace:
    """Functions of ours that are called on this thread while it is on, and the lines they execute."""

    def __init__(self) -> None:
        self.is_on = False
        self.called: Called = []
        self.lines = 0
        self._names: dict[str, str | None] = {}

    def on_this_thread(self) -> None:
        sys.settrace(self)

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Callable[..., Any] | None:
        if not self.is_on:
            return None
        path = frame.f_code.co_filename
        if path not in self._names:
            inside = Path(path).is_relative_to(ROOT)
            self._names[path] = str(Path(path).relative_to(ROOT)) if inside else None
        name = self._names[path]
        if name is None:
            return None
        self.called.append((name, frame.f_code.co_qualname))
        return self._inside

    def _inside(self, frame: FrameType, event: str, arg: Any) -> Callable[..., Any]:
        self.lines += event == "line"
        return self._inside

    def take(self) -> Work:
        taken = Work(self.called, self.lines)
        self.called, self.lines = [], 0
        return taken


def count(work: Work) -> Count:
    files = [file for file, _ in work.called]
    changes = sum(1 for before, after in pairwise(files) if before != after)
    return Count(len(files), len(set(files)), changes, work.lines)


def frame_of(request: Request, version: int, correlation_id: int) -> bytes:
    body = _header(request.api_key, version, correlation_id, -1) + b"\0" + encode(request, version)
    return _size.pack(len(body)) + body


def create(name: str) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    return CreateTopicsRequest(topics=[topic], timeout_ms=30_000)


def produce(topic: str) -> ProduceRequest:
    batch = build([Record(0, 1_700_000_000_000, None, b"value", ())])
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])


class Client:
    """Sends one request after the other, and notes what each traced node called for it."""

    def __init__(self, port: int, *traces: Trace) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._traces = traces
        self._correlation_id = 0

    def ask(self, request: Request, version: int) -> list[Work]:
        self._correlation_id += 1
        for trace in self._traces:
            trace.is_on = True
        self._socket.sendall(frame_of(request, version, self._correlation_id))
        self._take(_size.unpack(self._take(_size.size))[0])
        for trace in self._traces:
            trace.is_on = False
        return [trace.take() for trace in self._traces]

    def _take(self, size_bytes: int) -> bytes:
        data = b""
        while len(data) < size_bytes:
            part = self._socket.recv(size_bytes - len(data))
            if not part:
                raise ConnectionError("the node closed the connection; its log says why")
            data += part
        return data

    def cheapest(self, requests: Iterator[Request], version: int) -> list[Work]:
        """Of each node on its own: a heartbeat of one is nothing to the other."""
        asked = [self.ask(next(requests), version) for _ in range(REPEATS)]
        return [min(of_node, key=lambda work: len(work.called)) for of_node in zip(*asked, strict=True)]

    def close(self) -> None:
        self._socket.close()


def measure(port: int, trace: Trace) -> dict[str, Work]:
    client = Client(port, trace)
    with contextlib.closing(client):
        [created] = client.cheapest((create(f"topic-{number}") for number in range(REPEATS)), CREATE_VERSION)
        [produced] = client.cheapest((produce("topic-0") for _ in range(REPEATS)), PRODUCE_VERSION)
    return {"Produce": produced, "CreateTopics": created}


async def traced(work: Callable[[int, Trace], dict[str, Work]]) -> dict[str, Work]:
    with tempfile.TemporaryDirectory() as directory:
        overrides = {"log.dirs": directory, "listeners": "PLAINTEXT://127.0.0.1:0", "chronik.admin.listener": "none"}
        settings = Settings.load(None, environment={}, overrides=overrides)
        node = await Node.start(real_runtime(), settings)
        trace = Trace()
        trace.on_this_thread()
        try:
            return await asyncio.get_running_loop().run_in_executor(None, work, node.port(), trace)
        finally:
            sys.settrace(None)
            await node.stop()


def forwarded() -> dict[str, Work]:
    """A CreateTopics that a client sends to a follower of the quorum."""
    with testing.Cluster(nodes=3, settings=QUIET) as cluster:
        runners: list[Any] = list(cluster._runners)
        controller = next(each for each in runners if each._node.store.is_controller)
        follower = next(each for each in runners if each is not controller)
        traces = Trace(), Trace()
        for runner, trace in zip((follower, controller), traces, strict=True):
            runner._loop.call_soon_threadsafe(trace.on_this_thread)
        client = Client(follower._node.port(), *traces)
        with contextlib.closing(client):
            requests = (create(f"topic-{number}") for number in range(REPEATS))
            on_follower, on_controller = client.cheapest(requests, CREATE_VERSION)
        for runner in (follower, controller):
            runner._loop.call_soon_threadsafe(sys.settrace, None)
    return {"CreateTopics (follower)": on_follower, "CreateTopics (controller)": on_controller}


def traces() -> dict[str, Work]:
    return uvloop.run(traced(measure)) | forwarded()


def main() -> None:
    for api, work in traces().items():
        calls, files, changes, lines = count(work)
        print(f"{api}: {calls} calls, {files} files, {changes} changes of file, {lines} lines")
        if "--trace" in sys.argv:
            print(*[f"  {file}  {name}" for file, name in work.called], sep="\n")


if __name__ == "__main__":
    main()
