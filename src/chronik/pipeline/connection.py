"""A blocking connection to one broker, for Spark's workers: a request may be sent before the last answer is read.

The twin of `chronik.client.connection` without an event loop: a task of Spark is one thread that reads one partition,
and between a read and the decoding of what was read there is nothing to schedule. Never retries, never looks for
another broker: `reading` does. All errors are the client's: Unreachable, BadAnswer, Unsupported.
"""

from __future__ import annotations

import socket
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, cast

from chronik import __version__
from chronik.client.connection import CONNECT_TIMEOUT_MS, DECODE_BYTES_MAX, FRAME_BYTES_MAX, TOO_NEW
from chronik.client.errors import BadAnswer, Unreachable, Unsupported, refuse
from chronik.wire.compiler import decoder_of, encoder_of
from chronik.wire.error_codes import ErrorCode
from chronik.wire.errors import Malformed
from chronik.wire.framing import SIZE_BYTES, pack_size
from chronik.wire.headers import RequestHeader, ResponseHeader, request_header_version, response_header_version
from chronik.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from chronik.wire.notation import VERSION_MAX, Request, Response, Versions

if TYPE_CHECKING:
    from chronik.client.addresses import Address

A = TypeVar("A", bound=Response)

ANSWER_TIMEOUT_MS: Final = 40_000


class Connection:
    """Ready when it is made. After an error it is closed."""

    def __init__(self, address: Address, client_id: str, *, connect_timeout_ms: int = CONNECT_TIMEOUT_MS) -> None:
        self.address = address
        self.client_id = client_id
        self.apis: dict[int, Versions] = {}
        self._waiting: deque[tuple[type[Response], int, int]] = deque()  # answer, version, correlation id
        self._correlation_id = 0
        try:
            self._socket = socket.create_connection(address, connect_timeout_ms / 1000)
        except OSError as error:
            raise Unreachable(f"{address}: {error.strerror or error}; is a broker running there?") from error
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._negotiate()
        except BaseException:
            self.close()
            raise
        self._socket.settimeout(ANSWER_TIMEOUT_MS / 1000)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def ask(self, request: Request, answer: type[A], *, version_min: int = 0, version_max: int = VERSION_MAX) -> A:
        self.send(request, answer, version_min=version_min, version_max=version_max)
        return cast(A, self.receive())

    def send(
        self,
        request: Request,
        answer: type[Response],
        *,
        version_min: int = 0,
        version_max: int = VERSION_MAX,
        version: int | None = None,
    ) -> None:
        """Sends a request in the highest version that both sides know; its answer is for `receive`."""
        if version is None:
            version = self._version_of(type(request), version_min, version_max)
        self._correlation_id += 1
        header = RequestHeader(
            request_api_key=request.api_key,
            request_api_version=version,
            correlation_id=self._correlation_id,
            client_id=self.client_id,
        )
        parts: list[Any] = [b""]
        encoder_of(RequestHeader, request_header_version(type(request), version))(header, parts)
        encoder_of(type(request), version)(request, parts)
        parts[0] = pack_size(sum(map(len, parts)))
        self._waiting.append((answer, version, self._correlation_id))
        try:
            self._socket.sendall(b"".join(parts))
        except OSError as error:
            raise self._lost(error) from error

    def receive(self) -> Response:
        """The answer to the oldest request that has none yet."""
        answer, version, correlation_id = self._waiting.popleft()
        size_bytes = int.from_bytes(self._read(SIZE_BYTES), "big", signed=True)
        if not SIZE_BYTES <= size_bytes <= FRAME_BYTES_MAX:
            raise self._nonsense(f"an answer of {size_bytes} bytes")
        frame = self._read(size_bytes)
        if answer is ApiVersionsResponse and bytes(frame[4:6]) == TOO_NEW:
            version = 0
        try:
            header, at = decoder_of(ResponseHeader, response_header_version(answer, version))(
                frame, 0, DECODE_BYTES_MAX
            )
            if header.correlation_id != correlation_id:
                raise self._nonsense(f"answer {header.correlation_id} where {correlation_id} is due")
            message, _ = decoder_of(answer, version)(frame, at, DECODE_BYTES_MAX)
        except Malformed as fault:
            raise self._nonsense(fault) from None
        return message

    def _read(self, size_bytes: int) -> memoryview:
        room = memoryview(bytearray(size_bytes))
        filled = 0
        while filled < size_bytes:
            try:
                count = self._socket.recv_into(room[filled:])
            except OSError as error:
                raise self._lost(error) from error
            if count == 0:
                raise self._lost("it closed the connection")
            filled += count
        return room

    def _negotiate(self) -> None:
        request = ApiVersionsRequest(client_software_name="chronik", client_software_version=__version__)
        self.send(request, ApiVersionsResponse, version=ApiVersionsRequest.versions.last)
        response = cast(ApiVersionsResponse, self.receive())
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:  # an older broker says so in v0
            self.send(request, ApiVersionsResponse, version=0)
            response = cast(ApiVersionsResponse, self.receive())
        refuse(response.error_code, f"cannot ask {self.address} for its API versions")
        self.apis = {each.api_key: Versions(each.min_version, each.max_version) for each in response.api_keys}

    def _version_of(self, request: type[Request], version_min: int, version_max: int) -> int:
        served = self.apis.get(request.api_key, Versions(1, 0))
        version = min(served.last, request.versions.last, version_max)
        if version < max(served.first, request.versions.first, version_min):
            name = request.__name__.removesuffix("Request")
            raise Unsupported(
                f"{self.address} serves {name} {served}, this needs {version_min} or later: upgrade the older one"
            )
        return version

    def _lost(self, reason: object) -> Unreachable:
        self.close()
        return Unreachable(f"{self.address} did not answer ({reason}): the broker stopped, is overloaded or cut off")

    def _nonsense(self, reason: object) -> BadAnswer:
        self.close()
        return BadAnswer(f"{self.address}: {reason}; is this a plaintext Kafka listener?")
