"""A blocking connection to one broker, for Spark's workers; requests can be pipelined.

A Spark task is one thread that reads one partition. Between a read and its decoding there is nothing to schedule, so it
needs no event loop. The protocol is `wire.peer.Peer`; this module owns the socket, its timeouts and TLS. It never
retries and never looks for another broker: `reading` does. All errors are ClientErrors.

A login that expires is not renewed here: `is_retired` reports early enough that a new connection is needed.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections import deque
from typing import TYPE_CHECKING, Final, Self, TypeVar, cast

from chronik.client.errors import ClientError, Closed, Unreachable
from chronik.peer.connection import CONNECT_TIMEOUT_MS, RETIRED_AT
from chronik.runtime.tls_contexts import ContextCache, in_words
from chronik.wire.notation import VERSION_MAX, Request, Response
from chronik.wire.peer import Peer

if TYPE_CHECKING:
    from chronik.peer.addresses import Address
    from chronik.runtime.tls import TlsClient
    from chronik.wire.calls import Buffer
    from chronik.wire.sasl import Mechanism

A = TypeVar("A", bound=Response)

ANSWER_TIMEOUT_MS: Final = 40_000
# Responses are megabytes, and data in the scratch buffer is copied once more: so it is small.
SCRATCH_BYTES: Final = 16 * 1024

_contexts = ContextCache()  # each task of a worker connects, and most use the same certificates


class BlockingConnection:
    """Connected once created. After an error it is closed."""

    def __init__(
        self,
        address: Address,
        client_id: str,
        *,
        connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
        mechanism: Mechanism | None = None,
        tls: TlsClient | None = None,
    ) -> None:
        """Logs in with `mechanism` and connects with `tls`, if given."""
        self.address = address
        scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._peer = Peer(address, client_id, mechanism=mechanism, scratch=scratch)
        self._arrived: deque[Response] = deque()  # responses not yet returned by `receive`
        self._timeout_ms = connect_timeout_ms
        self._retires_s: float | None = None  # on the monotonic clock; None: never
        try:
            self._socket = socket.create_connection(address, connect_timeout_ms / 1000)
        except OSError as error:
            raise Unreachable(f"{address}: {error.strerror or error}; is a broker running there?") from error
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                self._socket = self._secured(tls)
            self._write(self._peer.begin())
            while not self._peer.is_ready:
                self._read()
                self._write(self._peer.take_outgoing())
        except BaseException:
            self.close()
            raise
        if self._peer.session_lifetime_ms:
            self._retires_s = time.monotonic() + self._peer.session_lifetime_ms * RETIRED_AT / 1000
        self._timeout_ms = ANSWER_TIMEOUT_MS
        self._socket.settimeout(ANSWER_TIMEOUT_MS / 1000)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def is_retired(self) -> bool:
        """Whether its login expires soon, so that new requests may get no answer."""
        return self._retires_s is not None and time.monotonic() >= self._retires_s

    def close(self) -> None:
        self._peer.end(Closed(f"the connection to {self.address} was closed"))
        self._socket.close()

    def ask(self, request: Request, answer: type[A], *, version_min: int = 0, version_max: int = VERSION_MAX) -> A:
        self.send(request, answer, version_min=version_min, version_max=version_max)
        return cast(A, self.receive())

    def send(
        self, request: Request, answer: type[Response], *, version_min: int = 0, version_max: int = VERSION_MAX
    ) -> None:
        """Sends a request in the highest version that both sides support; `receive` returns its answer."""
        self._write(self._peer.send(request, answer, None, version_min, version_max))

    def receive(self) -> Response:
        """The answer to the oldest unanswered request."""
        while not self._arrived:
            if not self._peer.in_flight_count:
                raise self._peer.fault or Closed(f"{self.address} was asked nothing that is still to be answered")
            self._read()
        return self._arrived.popleft()

    def _secured(self, tls: TlsClient) -> socket.socket:
        try:
            return _contexts.of(tls).wrap_socket(self._socket, server_hostname=self.address.host)
        except (ssl.SSLEOFError, ConnectionResetError) as error:
            reason = "it closed the connection during the handshake; has this listener TLS?"
            raise Unreachable(f"cannot connect to {self.address} by TLS: {reason}") from error
        except OSError as error:  # includes TLS errors
            raise Unreachable(f"cannot connect to {self.address} by TLS: {in_words(error)}") from error

    def _write(self, parts: list[Buffer]) -> None:
        try:
            for part in parts:
                self._socket.sendall(part)
        except OSError as error:
            raise self._ended(self._peer.hung_up(error)) from error

    def _read(self) -> None:
        try:
            count = self._socket.recv_into(self._peer.room())
        except TimeoutError as error:
            raise self._ended(self._peer.overdue(self._timeout_ms)) from error
        except OSError as error:
            # With TLS 1.3 a server rejects our certificate only now.
            reason = in_words(error) if isinstance(error, ssl.SSLError) else error
            raise self._ended(self._peer.hung_up(reason)) from error
        if count == 0:
            raise self._ended(self._peer.hung_up())
        try:
            self._arrived += [response for _, response in self._peer.received(count)]
        except ClientError as fault:
            self._ended(fault)
            raise

    def _ended(self, fault: ClientError) -> ClientError:
        self._peer.end(fault)
        self._socket.close()
        return fault
