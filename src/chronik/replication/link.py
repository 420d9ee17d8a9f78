"""A follower's connection to one leader: it sends Fetch requests and receives responses in order. It never retries.

It uses one version of one API, which every node of this release serves, so no versions are negotiated. `closed`
completes with the reason when the connection ends. The link ends if the leader does not answer a request in time. If
the login expires, the link ends shortly before, and the follower connects and logs in again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from chronik.peer.addresses import Address
from chronik.peer.protocol import PeerProtocol
from chronik.replication.errors import LeaderLost
from chronik.runtime.invariants import check
from chronik.wire.calls import Call
from chronik.wire.messages.fetch import FetchRequest, FetchResponse
from chronik.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from chronik.wire.messages.sasl_handshake import SaslHandshakeRequest
from chronik.wire.notation import Response, Versions
from chronik.wire.peer import Bounds, Peer
from chronik.wire.peer_errors import Closed, PeerError
from chronik.wire.sasl import Mechanism

FETCH_VERSION = 18
SERVED = {
    FetchRequest.api_key: Versions(FETCH_VERSION, FETCH_VERSION),
    SaslHandshakeRequest.api_key: SaslHandshakeRequest.versions,
    SaslAuthenticateRequest.api_key: SaslAuthenticateRequest.versions,
}
BOUNDS = Bounds(
    response_bytes_max=256 << 20,  # the follower limits its responses itself, except for the size of one batch
    decode_bytes_max=1 << 30,  # protects against a faulty leader; leaders are trusted nodes
)
LOGIN_SHARE = 0.9  # fraction of a login's lifetime after which the link ends
SILENCE_MS_MAX = 10_000  # in addition to the time that a fetch may wait


class LeaderLink(PeerProtocol):
    def __init__(
        self,
        address: Address,
        client_id: str,
        receive: Callable[[FetchResponse, int], None],
        mechanism: Mechanism | None = None,
    ) -> None:
        super().__init__(Peer(address, client_id, served=SERVED, mechanism=mechanism, bounds=BOUNDS))
        self._receive = receive  # called with each response and the number of its request
        self._fetch: Call | None = None  # set by the first request
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.sent_count = self.received_count = 0
        self.closed: asyncio.Future[None] = self._loop.create_future()

    def mind_login(self) -> None:
        """Called when the connection is ready: ends the link before the login expires."""
        if self.peer.session_lifetime_ms:
            renewed = LeaderLost("its login ends soon, so the follower logs in again")
            self._loop.call_later(self.peer.session_lifetime_ms * LOGIN_SHARE / 1000, self.fail, renewed)

    @property
    def in_flight_count(self) -> int:
        return self.sent_count - self.received_count

    def send(self, request: FetchRequest) -> int:
        """Returns the request's number, from 1."""
        assert self._transport is not None, "sent on a connection that is open"
        number = self.sent_count + 1
        if self._fetch is None:
            self._fetch = self.peer.call_of(FetchRequest, FetchResponse)
        self.write(self.peer.send_call(self._fetch, request, number))
        self.sent_count = number
        if self._timer is None:
            self._watch(number)
        return number

    def fail(self, fault: BaseException) -> None:
        """Ends the connection. `closed` keeps the first reason."""
        if not self.closed.done():
            self.closed.set_exception(LeaderLost(str(fault)) if isinstance(fault, PeerError) else fault)
            self.closed.exception()  # mark it as retrieved: the caller may not need the reason
        super().fail(fault if isinstance(fault, PeerError) else Closed(str(fault)))

    def _watch(self, number: int) -> None:
        self._timer = self._loop.call_later(SILENCE_MS_MAX / 1000, self._look_for, number)

    def _look_for(self, number: int) -> None:
        """Checks periodically for an overdue response, which is cheaper than a timer for each request."""
        self._timer = None
        check(number <= self.sent_count, "27 what was sent is waited for", number=number, sent=self.sent_count)
        if self.received_count < number:
            self.fail(self.peer.overdue(SILENCE_MS_MAX))
        elif self.in_flight_count:
            self._watch(self.sent_count)

    # --- called by the connection

    def deliver(self, tag: int, response: Response) -> None:
        self.received_count = tag
        try:
            self._receive(cast(FetchResponse, response), tag)
        except Exception as fault:  # noqa: BLE001 - the edge: the waiter of `closed` handles it
            self.fail(fault)

    def ended(self, tags: list[Any]) -> None:
        if self._timer is not None:
            self._timer.cancel()
