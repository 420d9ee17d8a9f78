"""One connection to one broker, for coroutines: the caller awaits the response.

A connection is ready when `connect` returns: versions are negotiated, and a login, if any, has succeeded. It never
retries and never looks for another broker. Before its login expires, the connection is retired: new requests should use
a new connection, while this one still receives its pending responses.

Responses arrive in the order of requests, so a request that the broker delays (a fetch that waits, a join) delays those
after it: use a separate connection for such requests. An overdue response ends the connection, because nothing after it
can arrive either. Cancelling a caller does not affect the connection; its response is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from chronik.peer.protocol import PeerProtocol
from chronik.runtime.errors import TlsFailed
from chronik.runtime.invariants import check
from chronik.wire.notation import VERSION_MAX, Request, Response, Versions
from chronik.wire.peer import Bounds, Peer
from chronik.wire.peer_errors import Closed, PeerError, Unreachable

if TYPE_CHECKING:
    from chronik.peer.addresses import Address
    from chronik.runtime.interfaces import Network
    from chronik.wire.sasl import Mechanism

A = TypeVar("A", bound=Response)

CONNECT_TIMEOUT_MS: Final = 10_000
REQUEST_TIMEOUT_MS: Final = 30_000
RETIRED_AT, ENDED_AT = 0.85, 0.97  # shares of a login's lifetime
IN_FLIGHT_MAX: Final = Bounds().in_flight_max


async def connect(
    network: Network,
    address: Address,
    *,
    client_id: str,
    timeout_ms: int = CONNECT_TIMEOUT_MS,
    mechanism: Mechanism | None = None,
    bounds: Bounds | None = None,
    scratch: memoryview | None = None,
) -> Connection:
    """A connection that is ready for use; raises PeerError: Unreachable, BadAnswer, Unsupported, Refused, LoginFailed.

    Connections of one event loop may share `scratch` (see `wire.framing`).
    """
    connection = Connection(address, client_id, mechanism=mechanism, bounds=bounds, scratch=scratch)
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await network.connect(address.host, address.port, lambda: cast(asyncio.Protocol, connection))
            await connection.begin()
            connection.mind_login()
    except TimeoutError:
        connection.close()
        raise Unreachable(
            f"{address} did not answer within {timeout_ms} ms: is it a Kafka listener, and is no firewall in between?"
        ) from None
    except TlsFailed as error:
        raise Unreachable(str(error)) from error
    except OSError as error:
        raise Unreachable(f"{error.strerror or error}; is a broker running there?") from error
    except BaseException:  # a cancelled caller leaves no connection behind either
        connection.close()
        raise
    return connection


class Connection(PeerProtocol):
    def __init__(
        self,
        address: Address,
        client_id: str,
        *,
        mechanism: Mechanism | None = None,
        bounds: Bounds | None = None,
        scratch: memoryview | None = None,
    ) -> None:
        bounds = bounds or Bounds()
        super().__init__(Peer(address, client_id, mechanism=mechanism, bounds=bounds, scratch=scratch))
        self.address = address
        self.client_id = client_id
        self._in_flight_max = bounds.in_flight_max
        self._turns = asyncio.Semaphore(bounds.in_flight_max)  # held from before sending until the response
        self._has_room = asyncio.Event()  # for a request with a response; always set after the end
        self._has_room.set()
        self._may_write = asyncio.Event()  # the transport accepts more bytes; always set after the end
        self._may_write.set()
        self.is_retired = False  # its login expires soon
        self._login_timers: list[asyncio.TimerHandle] = []

    def mind_login(self) -> None:
        """Call this once it is ready. Brokers close a connection whose login has expired, and requests would be
        lost."""
        lifetime_s = self.peer.session_lifetime_ms / 1000
        if lifetime_s:
            loop = asyncio.get_running_loop()
            ended = Unreachable(f"the login at {self.address} has expired, which ends this connection")
            self._login_timers = [
                loop.call_later(lifetime_s * RETIRED_AT, self._retire),
                loop.call_later(lifetime_s * ENDED_AT, self.fail, ended),
            ]

    def _retire(self) -> None:
        self.is_retired = True

    @property
    def apis(self) -> Mapping[int, Versions]:
        """The version ranges that the broker serves, by API key."""
        return self.peer.served

    @property
    def features(self) -> Mapping[str, int]:
        """The cluster's finalized features, by name, as of the start of the connection."""
        return self.peer.features

    @property
    def in_flight_count(self) -> int:
        return self.peer.in_flight_count

    def version_of(self, request: type[Request], version_min: int = 0, version_max: int = VERSION_MAX) -> int:
        """The highest version of this API that both sides support."""
        return self.peer.version_of(request, version_min, version_max)

    async def ask(
        self,
        request: Request,
        answer: type[A],
        *,
        version_min: int = 0,
        version_max: int = VERSION_MAX,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> A:
        """The broker's response; the caller checks its error codes. `version_*` restrict the supported versions."""
        return await (
            await self.send(request, answer, version_min=version_min, version_max=version_max, timeout_ms=timeout_ms)
        )

    async def send(
        self,
        request: Request,
        answer: type[A],
        *,
        version_min: int = 0,
        version_max: int = VERSION_MAX,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> asyncio.Future[A]:
        """Returns the future of the response once the request is sent. If this raises, the request was not sent."""
        await self._turns.acquire()
        try:
            while not (self._may_write.is_set() and self._has_room.is_set()):
                await self._may_write.wait()
                await self._has_room.wait()
            loop = asyncio.get_running_loop()
            waiting = _Waiting(type(request).__name__.removesuffix("Request"), loop.create_future())
            self._require_open()
            self.write(self.peer.send(request, answer, waiting, version_min, version_max))
        except BaseException:
            self._turns.release()
            raise
        waiting.timer = loop.call_later(timeout_ms / 1000, self._overdue, waiting, timeout_ms)
        if not self.peer.has_room:
            self._has_room.clear()
        check(
            self.peer.in_flight_count <= self._in_flight_max,
            "23 requests under way are bounded",
            address=self.address,
            count=self.peer.in_flight_count,
        )
        return waiting.future

    async def tell(self, request: Request, *, version_max: int = VERSION_MAX) -> None:
        """Sends a request that has no answer: a produce with acks=0."""
        await self._may_write.wait()
        self._require_open()
        self.write(self.peer.send(request, None, None, 0, version_max))

    def close(self) -> None:
        """Ends the connection; waiting callers get Closed."""
        self.fail(Closed(f"the connection to {self.address} was closed"))

    def _require_open(self) -> None:
        if not self.is_open:
            raise self.peer.fault or Closed(f"the connection to {self.address} is not open")

    def _overdue(self, waiting: _Waiting, timeout_ms: int) -> None:
        self.fail(self.peer.overdue(timeout_ms, waiting.name))

    # --- the protocol's callbacks

    def deliver(self, tag: _Waiting, response: Response) -> None:
        self._turns.release()
        if self.peer.has_room:
            self._has_room.set()
        tag.settle(response)

    def ended(self, tags: list[_Waiting]) -> None:
        assert self.peer.fault is not None
        for timer in self._login_timers:
            timer.cancel()
        for waiting in tags:
            self._turns.release()
            waiting.settle(self.peer.fault)
        self._has_room.set()
        self._may_write.set()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()


class _Waiting:
    __slots__ = ("future", "name", "timer")

    def __init__(self, name: str, future: asyncio.Future[Any]) -> None:
        self.name = name
        self.future = future
        self.timer: asyncio.TimerHandle | None = None  # set immediately after creation

    def settle(self, outcome: Response | PeerError) -> None:
        if self.timer is not None:
            self.timer.cancel()
        if self.future.done():  # the caller was cancelled
            return
        if isinstance(outcome, Exception):
            self.future.set_exception(outcome)
        else:
            self.future.set_result(outcome)
