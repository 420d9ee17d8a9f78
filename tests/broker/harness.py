"""A whole node in memory: a disk that can lose power, a network without sockets, a client that speaks in structs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from struct import Struct as Packing
from typing import Any, TypeVar, cast

from chronik.broker.connection import ServerConnection
from chronik.broker.node import Node
from chronik.broker.settings import Settings
from chronik.runtime.interfaces import Runtime
from chronik.runtime.tls import TlsClient, TlsServer
from chronik.sim.disk import SimDisk
from chronik.sim.network import SimSends
from chronik.wire.compiler import decoder_of, encoder_of
from chronik.wire.headers import (
    RequestHeader,
    ResponseHeader,
    request_header_version,
    response_header_version,
)
from chronik.wire.notation import Request, Response

R = TypeVar("R", bound=Response)
NOW_MS = 1_700_000_000_000
LISTENER = "PLAINTEXT"


class TestClock:
    __test__ = False

    def __init__(self) -> None:
        self.now_ms = NOW_MS

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ns(self) -> int:
        return self.now_ms * 1_000_000


class SeededRandomness:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)

    def bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)


class MemoryListener:
    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port or 9092

    def close(self) -> None:
        pass


class MemoryNetwork:
    """Keeps what the node listens with; `Client` connects by calling it."""

    connections_max = 1 << 30

    def __init__(self) -> None:
        self.factories: list[Callable[[], asyncio.Protocol]] = []

    async def listen(
        self, host: str, port: int, factory: Callable[[], asyncio.Protocol], tls: TlsServer | None = None
    ) -> MemoryListener:
        self.factories.append(factory)
        return MemoryListener(host, port)

    def sends(self) -> SimSends:
        return SimSends()

    async def connect(
        self, host: str, port: int, factory: Callable[[], asyncio.Protocol], tls: TlsClient | None = None
    ) -> Any:
        raise OSError(f"nothing listens on {host}:{port}")


def memory_runtime(disk: SimDisk, seed: int = 0, clock: TestClock | None = None) -> Runtime:
    return Runtime(clock or TestClock(), disk, MemoryNetwork(), SeededRandomness(seed))


async def start_node(disk: SimDisk, *, seed: int = 0, clock: TestClock | None = None, **settings: object) -> Node:
    defaults: dict[str, object] = {
        "node_id": 1,
        "log_dirs": "/data",
        "listeners": f"{LISTENER}://127.0.0.1:9092",
        "admin_listener": "none",
        "offsets_topic_replication_factor": 1,
        "offsets_topic_num_partitions": 1,
        "transaction_state_log_replication_factor": 1,
        "transaction_state_log_min_isr": 1,
        "transaction_state_log_num_partitions": 1,
        "share_coordinator_state_topic_replication_factor": 1,
        "share_coordinator_state_topic_min_isr": 1,
        "share_coordinator_state_topic_num_partitions": 1,
        "group_initial_rebalance_delay_ms": 0,
    }
    return await Node.start(memory_runtime(disk, seed, clock), Settings.default(**(defaults | settings)))


CLIENT_ID = "test"


class Client:
    """One connection. `ask` sends a struct and returns the struct that answers it; what is cut off raises Closed."""

    def __init__(self, node: Node) -> None:
        network = cast(MemoryNetwork, node.runtime.network)
        self.connection = cast(ServerConnection, network.factories[0]())
        self._transport = _Transport(self)
        self.connection.connection_made(self._transport)
        self._waiting: list[asyncio.Future[bytes]] = []
        self._received = b""
        self._correlation_id = 0
        self.is_closed = False

    async def ask(self, request: Request, response: type[R], version: int) -> R:
        answered = self.start(request, version)
        data = memoryview(await answered)
        header_version = response_header_version(response, version)
        header, at = decoder_of(ResponseHeader, header_version)(data)
        assert header.correlation_id >= 0
        answer, end = decoder_of(response, version)(data, at)
        assert end == len(data), "bytes behind the response"
        return answer

    def start(self, request: Request, version: int) -> asyncio.Future[bytes]:
        """Sends without waiting."""
        self._correlation_id += 1
        header = RequestHeader(
            request_api_key=request.api_key,
            request_api_version=version,
            correlation_id=self._correlation_id,
            client_id=CLIENT_ID,
        )
        parts: list[Any] = []
        encoder_of(RequestHeader, request_header_version(type(request), version))(header, parts)
        encoder_of(type(request), version)(request, parts)
        return self.send_frame(b"".join(parts))

    def send_frame(self, body: bytes) -> asyncio.Future[bytes]:
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append(answered)
        self.send(len(body).to_bytes(4, "big") + body)
        return answered

    def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view and not self.is_closed:
            room = self.connection.get_buffer(-1)
            count = min(len(room), len(view))
            room[:count] = view[:count]
            self.connection.buffer_updated(count)
            view = view[count:]

    def got(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 4:
            (size,) = _size_of(self._received)
            if len(self._received) < 4 + size:
                return
            body, self._received = self._received[4 : 4 + size], self._received[4 + size :]
            answered = self._waiting.pop(0)
            if not answered.done():
                answered.set_result(body)

    def closed(self) -> None:
        self.is_closed = True
        self.connection.connection_lost(None)
        for answered in self._waiting:
            if not answered.done():
                answered.set_exception(Closed())
                answered.exception()


_size_of = Packing(">i").unpack_from


class Closed(Exception):
    """The node closed the connection."""


class _Transport(asyncio.Transport):
    def __init__(self, client: Client) -> None:
        super().__init__({"peername": ("127.0.0.1", 50_000)})
        self._client = client
        self._is_closing = False
        self.is_reading = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._client.got(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self._client.got(b"".join(list_of_data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def abort(self) -> None:
        self._is_closing = True
        self._client.closed()

    close = abort

    def is_closing(self) -> bool:
        return self._is_closing
