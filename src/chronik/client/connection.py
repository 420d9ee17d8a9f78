"""One connection to one broker: requests out, answers back in the same order, each awaited by whoever asked.

A connection is ready when `connect` returns: the broker has told which versions it serves, and every request goes out
in the highest that both know. Never retries, never looks for another broker: `routing` does.

Requests share the connection in order, so one that the broker holds back (a fetch that waits, a join) holds back those
behind it: such requests get a connection of their own. A request that is overdue ends the connection, since nothing
behind it can arrive either. Whoever is cancelled while waiting leaves the connection in order; its answer is dropped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from chronik import __version__
from chronik.client.errors import BadAnswer, ClientError, Closed, Unreachable, Unsupported, refuse
from chronik.runtime.invariants import check
from chronik.wire.compiler import decoder_of, encoder_of
from chronik.wire.error_codes import ErrorCode
from chronik.wire.errors import Malformed
from chronik.wire.framing import FrameReader, pack_size
from chronik.wire.headers import RequestHeader, ResponseHeader, request_header_version, response_header_version
from chronik.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from chronik.wire.notation import VERSION_MAX, Request, Response, Versions

if TYPE_CHECKING:
    from chronik.client.addresses import Address
    from chronik.runtime.interfaces import Network

A = TypeVar("A", bound=Response)

CONNECT_TIMEOUT_MS: Final = 10_000
REQUEST_TIMEOUT_MS: Final = 30_000
IN_FLIGHT_MAX: Final = 64
# A fetch may bring 50 MiB and one batch more; beyond this the size is somebody else's protocol read as one.
FRAME_BYTES_MAX: Final = 512 << 20
# What a decoder may allocate: a client chose its broker and trusts it, so this only ends a runaway.
DECODE_BYTES_MAX: Final = 4 << 30
SMALL_REQUEST_BYTES: Final = 16 * 1024  # below, joining is cheaper than handing over several buffers
CORRELATION_ID_MAX: Final = 2**31 - 1


async def connect(
    network: Network,
    address: Address,
    *,
    client_id: str,
    timeout_ms: int = CONNECT_TIMEOUT_MS,
    scratch: memoryview | None = None,
) -> Connection:
    """A connection that is ready for use; raises Unreachable, BadAnswer or Unsupported.

    `scratch` is what connections of one event loop may share (see `wire.framing`).
    """
    connection = Connection(address, client_id, scratch)
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await network.connect(address.host, address.port, lambda: cast(asyncio.Protocol, connection))
            await connection.negotiate()
    except TimeoutError:
        connection.close()
        raise Unreachable(
            f"{address} did not answer within {timeout_ms} ms: is it a Kafka listener, and is no firewall in between?"
        ) from None
    except OSError as error:
        raise Unreachable(f"{error.strerror or error}; is a broker running there?") from error
    except BaseException:  # a caller that is cancelled leaves no connection behind either
        connection.close()
        raise
    return connection


class Connection(asyncio.BufferedProtocol):
    def __init__(self, address: Address, client_id: str, scratch: memoryview | None = None) -> None:
        self.address = address
        self.client_id = client_id
        self.apis: dict[int, Versions] = {}  # what the broker serves, by API key; filled by `negotiate`
        self._transport: asyncio.Transport | None = None  # from connection_made to connection_lost
        self._reader = FrameReader(FRAME_BYTES_MAX, scratch=scratch)
        self._waiting: deque[_Waiting] = deque()
        self._correlation_id = 0
        self._room = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._end: ClientError | None = None  # why there is no connection any more

    @property
    def is_open(self) -> bool:
        return self._transport is not None and self._end is None

    @property
    def in_flight_count(self) -> int:
        return len(self._waiting)

    # --- asking

    async def ask(
        self,
        request: Request,
        answer: type[A],
        *,
        version_min: int = 0,
        version_max: int = VERSION_MAX,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> A:
        """The broker's answer; its error codes are the caller's to read. `version_*` narrow what both sides know."""
        return await self._ask(request, answer, self.version_of(type(request), version_min, version_max), timeout_ms)

    async def tell(self, request: Request, *, version_max: int = VERSION_MAX) -> None:
        """Sends a request that has no answer: a produce with acks=0."""
        version = self.version_of(type(request), 0, version_max)
        await self._may_write.wait()
        self._write(request, version)

    def version_of(self, request: type[Request], version_min: int = 0, version_max: int = VERSION_MAX) -> int:
        """The highest version of this API that both sides know."""
        name = request.__name__.removesuffix("Request")
        served = self.apis.get(request.api_key)
        if served is None:
            raise Unsupported(f"{self.address} does not serve {name}; another broker version may")
        version = min(served.last, request.versions.last, version_max)
        if version < max(served.first, request.versions.first, version_min):
            known = Versions(max(request.versions.first, version_min), min(request.versions.last, version_max))
            raise Unsupported(
                f"{self.address} serves {name} {served}, this client needs {known}: upgrade the older one"
            )
        return version

    async def negotiate(self) -> None:
        """Learns what the broker serves. One that does not know our newest ApiVersions answers in v0, saying so."""
        version = ApiVersionsRequest.versions.last
        request = ApiVersionsRequest(client_software_name="chronik", client_software_version=__version__)
        response = await self._ask(request, ApiVersionsResponse, version, CONNECT_TIMEOUT_MS)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            response = await self._ask(request, ApiVersionsResponse, 0, CONNECT_TIMEOUT_MS)
        refuse(response.error_code, f"cannot ask {self.address} for its API versions")
        self.apis = {each.api_key: Versions(each.min_version, each.max_version) for each in response.api_keys}

    async def _ask(self, request: Request, answer: type[A], version: int, timeout_ms: int) -> A:
        await self._room.acquire()
        try:
            await self._may_write.wait()
            correlation_id = self._write(request, version)
        except BaseException:
            self._room.release()
            raise
        loop = asyncio.get_running_loop()
        waiting = _Waiting(correlation_id, answer, version, loop.create_future())
        waiting.timer = loop.call_later(timeout_ms / 1000, self._overdue, waiting, timeout_ms)
        self._waiting.append(waiting)
        check(
            len(self._waiting) <= IN_FLIGHT_MAX,
            "23 requests under way are bounded",
            address=self.address,
            count=len(self._waiting),
        )
        return cast(A, await waiting.future)

    def _write(self, request: Request, version: int) -> int:
        if self._transport is None or self._end is not None:
            raise self._end or Closed(f"the connection to {self.address} is not open")
        correlation_id = self._correlation_id
        self._correlation_id = 0 if correlation_id == CORRELATION_ID_MAX else correlation_id + 1
        header = RequestHeader(
            request_api_key=request.api_key,
            request_api_version=version,
            correlation_id=correlation_id,
            client_id=self.client_id,
        )
        parts: list[Any] = [b""]
        encoder_of(RequestHeader, request_header_version(type(request), version))(header, parts)
        encoder_of(type(request), version)(request, parts)
        size_bytes = sum(map(len, parts))
        parts[0] = pack_size(size_bytes)
        if size_bytes <= SMALL_REQUEST_BYTES:
            self._transport.write(b"".join(parts))
        else:
            self._transport.writelines(parts)
        return correlation_id

    def _overdue(self, waiting: _Waiting, timeout_ms: int) -> None:
        self._fail(
            Unreachable(
                f"{self.address} left a {waiting.name} request without answer for {timeout_ms} ms: "
                "the broker is overloaded, stopped, or cut off"
            )
        )

    # --- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.room()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._reader.received(nbytes):
                self._deliver(frame)
        except (Malformed, BadAnswer) as fault:
            self._fail(BadAnswer(f"{self.address}: {fault}; is this a plaintext Kafka listener?"))

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        reason = f": {exc}" if exc is not None else ""
        asked = f" before it answered {self._waiting[0].name}" if self._waiting else ""
        self._fail(
            Unreachable(
                f"{self.address} closed the connection{asked}{reason}; it stopped, or does not take this request"
            )
        )

    def _deliver(self, frame: memoryview) -> None:
        if not self._waiting:
            raise BadAnswer("an answer that nobody asked for")
        waiting = self._waiting[0]
        version = waiting.version
        if waiting.answer is ApiVersionsResponse and bytes(frame[4:6]) == TOO_NEW:
            version = 0
        header_version = response_header_version(waiting.answer, version)
        header, at = decoder_of(ResponseHeader, header_version)(frame, 0, DECODE_BYTES_MAX)
        if header.correlation_id != waiting.correlation_id:
            raise BadAnswer(f"answer {header.correlation_id} where {waiting.correlation_id} is due")
        message, _ = decoder_of(waiting.answer, version)(frame, at, DECODE_BYTES_MAX)
        self._waiting.popleft()
        self._room.release()
        waiting.settle(message)

    def close(self) -> None:
        """Ends the connection; whoever waits gets Closed."""
        self._fail(Closed(f"the connection to {self.address} was closed"))

    def _fail(self, reason: ClientError) -> None:
        if self._end is None:
            self._end = reason
        if self._transport is not None:
            self._transport.abort()
        while self._waiting:
            self._room.release()
            self._waiting.popleft().settle(self._end)
        self._may_write.set()


TOO_NEW: Final = int(ErrorCode.UNSUPPORTED_VERSION).to_bytes(2, "big")


class _Waiting:
    __slots__ = ("answer", "correlation_id", "future", "timer", "version")

    def __init__(
        self, correlation_id: int, answer: type[Response], version: int, future: asyncio.Future[Response]
    ) -> None:
        self.correlation_id = correlation_id
        self.answer = answer
        self.version = version
        self.future = future
        self.timer: asyncio.TimerHandle | None = None  # set right after creation

    @property
    def name(self) -> str:
        return self.answer.__name__.removesuffix("Response")

    def settle(self, outcome: Response | ClientError) -> None:
        if self.timer is not None:
            self.timer.cancel()
        if self.future.done():  # whoever asked was cancelled
            return
        if isinstance(outcome, Exception):
            self.future.set_exception(outcome)
        else:
            self.future.set_result(outcome)
