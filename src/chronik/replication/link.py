"""A follower's connection to one leader: it sends Fetch requests and receives responses in order. It never retries.

It uses one version of one API, which every node of this release serves. `closed` completes with the reason when the
connection ends. A leader that does not answer a request for too long is disconnected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from chronik.replication.errors import LeaderLost
from chronik.runtime.invariants import check
from chronik.wire.compiler import decoder_of, encoder_of
from chronik.wire.errors import Malformed
from chronik.wire.framing import FrameReader, pack_size
from chronik.wire.headers import RequestHeader, ResponseHeader
from chronik.wire.messages.fetch import FetchRequest, FetchResponse

FETCH_VERSION = 18
REQUEST_HEADER_VERSION, RESPONSE_HEADER_VERSION = 2, 1  # of a flexible version
FRAME_BYTES_MAX = 256 << 20  # a response is bounded by what the follower asks for, and one batch more
DECODE_BYTES_MAX = 1 << 30  # the leader is one of us, so this only ends a runaway
SILENCE_MS_MAX = 10_000  # beyond the time that a fetch may wait

_encode_header = encoder_of(RequestHeader, REQUEST_HEADER_VERSION)
_encode_request = encoder_of(FetchRequest, FETCH_VERSION)
_decode_header = decoder_of(ResponseHeader, RESPONSE_HEADER_VERSION)
_decode_response = decoder_of(FetchResponse, FETCH_VERSION)


class LeaderLink(asyncio.BufferedProtocol):
    def __init__(self, client_id: str, receive: Callable[[FetchResponse, int], None]) -> None:
        self._client_id = client_id
        self._receive = receive  # called with each answer and the number of the request it answers
        self._reader = FrameReader(FRAME_BYTES_MAX)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None  # from connection_made until the end
        self._timer: asyncio.TimerHandle | None = None
        self.sent_count = self.received_count = 0
        self.closed: asyncio.Future[None] = self._loop.create_future()

    @property
    def in_flight_count(self) -> int:
        return self.sent_count - self.received_count

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self.closed.done()

    def send(self, request: FetchRequest) -> int:
        """Returns the request's number, from 1."""
        assert self._transport is not None, "sent on a connection that is open"
        self.sent_count += 1
        header = RequestHeader(
            request_api_key=request.api_key,
            request_api_version=FETCH_VERSION,
            correlation_id=self.sent_count,
            client_id=self._client_id,
        )
        parts: list[Any] = [b""]
        _encode_header(header, parts)
        _encode_request(request, parts)
        parts[0] = pack_size(sum(map(len, parts)))
        self._transport.write(b"".join(parts))
        if self._timer is None:
            self._watch(self.sent_count)
        return self.sent_count

    def fail(self, reason: BaseException) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            transport, self._transport = self._transport, None
            transport.abort()
        if not self.closed.done():
            self.closed.set_exception(reason)
            self.closed.exception()  # read here: whoever ended it may not care why

    def _watch(self, number: int) -> None:
        self._timer = self._loop.call_later(SILENCE_MS_MAX / 1000, self._look_for, number)

    def _look_for(self, number: int) -> None:
        """A timer for each request would cost more than it is worth: this one looks now and then."""
        self._timer = None
        check(number <= self.sent_count, "27 what was sent is waited for", number=number, sent=self.sent_count)
        if self.received_count < number:
            self.fail(LeaderLost(f"a fetch was left without answer for {SILENCE_MS_MAX} ms"))
        elif self.in_flight_count:
            self._watch(self.sent_count)

    # --- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.room()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._reader.received(nbytes):
                header, at = _decode_header(frame, 0, DECODE_BYTES_MAX)
                response, _ = _decode_response(frame, at, DECODE_BYTES_MAX)
                self.received_count += 1
                if header.correlation_id != self.received_count:
                    raise LeaderLost(f"answer {header.correlation_id} where {self.received_count} is due")
                self._receive(response, self.received_count)
        except Malformed as fault:
            self.fail(LeaderLost(f"not an answer to a fetch: {fault}"))
        except Exception as fault:  # noqa: BLE001 - the edge: whoever waits for `closed` judges it
            self.fail(fault)

    def connection_lost(self, exc: Exception | None) -> None:
        self.fail(LeaderLost(f"the leader closed the connection{f': {exc}' if exc else ''}"))
