"""Requests of any API from one node to others: one connection per node, back-off, and a bound on waiting requests.

A request waits for a connection with room for it, at most for its timeout. Then it waits for its response, again at
most for its timeout. It is sent once: if it was sent but not answered it may have been applied, so the caller decides
whether to repeat it. NotSent means that it was not sent.

An unreachable node is retried after a pause that doubles up to a second; after an answer, the pause is short again. The
directory is consulted before each attempt and each request, so a node that has moved is found at its new address after
at most one pause. An overdue response ends the connection, because nothing after it can arrive either.

Requests that the other node delays (a fetch that waits) do not belong here: they would delay all others.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

from chronik.peer.backoff import Backoff
from chronik.peer.connections import Connections, Login, no_login
from chronik.peer.errors import NotSent, QueueFull
from chronik.runtime.invariants import check
from chronik.runtime.units import NS_PER_MS
from chronik.wire.error_codes import ErrorCode
from chronik.wire.notation import VERSION_MAX, Request, Response
from chronik.wire.peer import Bounds
from chronik.wire.peer_errors import BadAnswer, Closed, PeerError, Refused, Unreachable

if TYPE_CHECKING:
    from chronik.peer.addresses import Address
    from chronik.peer.connection import Connection
    from chronik.peer.directory import Directory
    from chronik.runtime.interfaces import Runtime

A = TypeVar("A", bound=Response)

TIMEOUT_MS: Final = 10_000
CONNECT_MS_MAX: Final = 2_000
UNDER_WAY_MAX: Final = 1_000  # waiting or in-flight requests per node
BOUNDS: Final = Bounds(response_bytes_max=64 << 20, decode_bytes_max=1 << 30, in_flight_bytes_max=32 << 20)


class Peers:
    """Connections from one node to the others. Close it at the end."""

    def __init__(
        self,
        runtime: Runtime,
        directory: Directory,
        *,
        client_id: str,
        login: Login = no_login,
        bounds: Bounds = BOUNDS,
        under_way_max: int = UNDER_WAY_MAX,
        scratch: memoryview | None = None,
    ) -> None:
        self.directory = directory
        self.login = login
        self._runtime = runtime
        self._connections = Connections(
            runtime.network,
            client_id,
            connect_timeout_ms=CONNECT_MS_MAX,
            login=login,
            bounds=bounds,
            scratch=scratch,
        )
        self._under_way_max = under_way_max
        self._channels: dict[int, _Channel] = {}  # by node id; one per node ever seen

    async def ask(
        self,
        node_id: int,
        request: Request,
        answer: type[A],
        *,
        version_min: int = 0,
        version_max: int = VERSION_MAX,
        timeout_ms: int = TIMEOUT_MS,
    ) -> A:
        """The node's response; the caller checks its error codes. Raises PeerError; QueueFull immediately."""
        channel = self._channels.get(node_id)
        if channel is None:
            channel = self._channels[node_id] = _Channel(
                node_id, self._connections, self.directory, self._runtime, self._under_way_max
            )
        return await channel.ask(request, answer, version_min, version_max, timeout_ms)

    async def ask_leader(
        self,
        topic: str,
        partition: int,
        request: Request,
        answer: type[A],
        *,
        version_min: int = 0,
        version_max: int = VERSION_MAX,
        timeout_ms: int = TIMEOUT_MS,
    ) -> A:
        """`ask` for the current leader of a partition; Refused with LEADER_NOT_AVAILABLE if there is none."""
        leader_id = self.directory.leader_of(topic, partition)
        if leader_id is None:
            raise Refused(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {topic}-{partition}")
        return await self.ask(
            leader_id, request, answer, version_min=version_min, version_max=version_max, timeout_ms=timeout_ms
        )

    def under_way_count(self, node_id: int) -> int:
        """Waiting and in-flight requests to a node."""
        channel = self._channels.get(node_id)
        return 0 if channel is None else channel.under_way_count

    def close(self) -> None:
        """Waiting callers get Closed."""
        self._connections.close()
        for channel in self._channels.values():
            channel.wake()


class _Channel:
    """The connection to one node, and its waiting requests."""

    def __init__(
        self, node_id: int, connections: Connections, directory: Directory, runtime: Runtime, under_way_max: int
    ) -> None:
        self.under_way_count = 0
        self._node_id, self._connections, self._directory = node_id, connections, directory
        self._name = f"broker {node_id}"  # the key of connections: two nodes may have had the same address
        self._clock = runtime.clock
        self._under_way_max = under_way_max
        self._backoff = Backoff(runtime.randomness)
        self._not_before_ns = 0  # time of the next connection attempt
        self._connecting = asyncio.Lock()  # the holder connects, or waits to; others wait in order
        self._woken = asyncio.Event()  # ends a pause early, permanently
        self._address: Address | None = None  # of the last connection
        self._fault: PeerError | None = None  # of the last attempt to connect, if it failed

    async def ask(self, request: Request, answer: type[A], version_min: int, version_max: int, timeout_ms: int) -> A:
        name = type(request).__name__.removesuffix("Request")
        if self.under_way_count >= self._under_way_max:
            raise QueueFull(
                f"{self._under_way_max} requests to {self._place()} are waiting already; {name} was not sent"
            )
        self.under_way_count += 1
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                sent = await self._send(request, answer, version_min, version_max, timeout_ms)
            response = await sent
        except TimeoutError:
            reason = f": {self._fault}" if self._fault is not None else ", because it is slow"
            raise NotSent(f"{name} was not sent to {self._place()} within {timeout_ms} ms{reason}") from None
        finally:
            self.under_way_count -= 1
            check(self.under_way_count >= 0, "26 requests under way are counted", node_id=self._node_id)
        self._backoff.reset()
        self._not_before_ns = 0
        return response

    async def _send(
        self, request: Request, answer: type[A], version_min: int, version_max: int, timeout_ms: int
    ) -> asyncio.Future[A]:
        while True:
            connection = await self._connected()
            try:
                return await connection.send(
                    request, answer, version_min=version_min, version_max=version_max, timeout_ms=timeout_ms
                )
            except (Unreachable, BadAnswer, Closed):
                # The connection failed while the request waited for room: the next connection may take it.
                check(not connection.is_open, "30 a connection that fails has ended", address=connection.address)

    def wake(self) -> None:
        self._woken.set()

    def _place(self) -> str:
        return self._name + (f" at {self._address}" if self._address is not None else "")

    async def _connected(self) -> Connection:
        """Raises errors that retrying cannot fix: a refused login, closed connections."""
        address = self._directory.address_of(self._node_id)
        if address is not None and (present := self._connections.present(address, self._name)) is not None:
            return present
        async with self._connecting:
            while True:
                address = self._directory.address_of(self._node_id)
                if address != self._address and self._address is not None:
                    moved = Unreachable(f"{self._name} is no longer at {self._address}")
                    self._connections.drop(self._address, self._name, moved)
                    self._not_before_ns = 0  # the new address need not have the same problem
                self._address = address
                if address is not None and (present := self._connections.present(address, self._name)) is not None:
                    return present
                if self._not_before_ns > self._clock.monotonic_ns():
                    await self._pause()
                    continue
                self._not_before_ns = self._clock.monotonic_ns() + self._backoff.next_ms() * NS_PER_MS
                if address is None:
                    self._fault = Unreachable("its address is not known")
                    continue
                try:
                    connection = await self._connections.to(address, self._name)
                except PeerError as fault:
                    self._fault = fault
                    if not fault.retriable:
                        raise
                else:
                    self._fault = None
                    return connection

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout((self._not_before_ns - self._clock.monotonic_ns()) / 1e9):
                await self._woken.wait()
        except TimeoutError:
            return
        raise Closed(f"the connections of this node were closed while a request waited for {self._name}")
