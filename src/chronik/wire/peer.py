"""The client side of a Kafka connection without I/O: requests become bytes, bytes become responses.

A driver owns the socket and the clock. In any style (callbacks, threads, coroutines) it does the following:

    peer = Peer(address, client_id)
    write(peer.begin())                             # once the connection is open; may be empty
    ...
    room = peer.room(); count = recv_into(room)     # whenever bytes arrive
    for tag, response in peer.received(count): ...  # the tag is the one passed to `send`
    write(peer.take_outgoing())                     # until `is_ready`: the next step of the handshake
    if peer.computing: peer.computed(await peer.computing); write(peer.take_outgoing())   # a slow step
    ...
    write(peer.send(request, Response, tag))        # once it is ready, while `has_room`

Before it is ready, the peer negotiates versions (ApiVersions, retried in version 0 if the broker is too old) and logs
in (SASL, if there is a mechanism). `NEXT` below is the whole sequence. A driver that already knows the broker's
versions passes `served`, which skips ApiVersions.

Responses arrive in the order of their requests, and each must carry the expected correlation id. Anything else ends the
peer: `received` raises BadAnswer. After any error, call `end`: it returns the tags that will get no response.

Bounds: the size that a response may announce (small until the peer is ready), the memory for decoding, and the number
and bytes of requests in flight.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Iterator, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from chronik import __version__
from chronik.wire.calls import CORRELATION_ID_MAX, Buffer, Call
from chronik.wire.error_codes import ErrorCode
from chronik.wire.errors import Malformed
from chronik.wire.framing import FrameReader
from chronik.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from chronik.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from chronik.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from chronik.wire.notation import VERSION_MAX, Request, Response, Versions
from chronik.wire.peer_errors import (
    BadAnswer,
    Closed,
    InFlightFull,
    LoginFailed,
    PeerError,
    Refused,
    Unreachable,
    Unsupported,
    refuse,
)
from chronik.wire.sasl import LOGIN_STEPS_MAX, Mechanism

SOFTWARE_NAME: Final = "chronik"
TOKENS_IN_REQUESTS: Final = 1  # from this version of SaslHandshake on, tokens are sent in SaslAuthenticate


class Bounds(NamedTuple):
    # A fetch may return 50 MiB plus one batch. A larger size means that another protocol was read as Kafka's.
    response_bytes_max: int = 512 << 20
    # A lower bound until the peer is known to be a broker: ApiVersions and SASL take a few kilobytes.
    handshake_bytes_max: int = 1 << 20
    # Memory for decoding one response. The broker is trusted, so this only stops runaway allocation.
    decode_bytes_max: int = 4 << 30
    in_flight_max: int = 64
    # Bytes of unanswered requests. One request may exceed it, so that a large one can be sent at all.
    in_flight_bytes_max: int = 256 << 20


class PeerState(Enum):
    FRESH = "nothing was sent"
    VERSIONS = "ApiVersions awaits its response"
    MECHANISM = "SaslHandshake awaits its response"
    LOGIN = "SaslAuthenticate awaits its response"
    READY = "requests may be sent"
    ENDED = "nothing more is sent or read"


NEXT: Final[Mapping[PeerState, frozenset[PeerState]]] = {
    PeerState.FRESH: frozenset({PeerState.VERSIONS, PeerState.MECHANISM, PeerState.READY, PeerState.ENDED}),
    PeerState.VERSIONS: frozenset({PeerState.VERSIONS, PeerState.MECHANISM, PeerState.READY, PeerState.ENDED}),
    PeerState.MECHANISM: frozenset({PeerState.LOGIN, PeerState.ENDED}),
    PeerState.LOGIN: frozenset({PeerState.LOGIN, PeerState.READY, PeerState.ENDED}),
    PeerState.READY: frozenset({PeerState.ENDED}),
    PeerState.ENDED: frozenset(),
}

_OWN: Final = object()  # the tag of the peer's own requests


class Peer:
    __slots__ = (
        "_bounds",
        "_calls",
        "_correlation_id",
        "_decode_bytes_max",
        "_in_flight_bytes_max",
        "_in_flight_max",
        "_login_steps",
        "_mechanism",
        "_outgoing",
        "_reader",
        "_waiting",
        "address",
        "client_id",
        "computing",
        "fault",
        "features",
        "in_flight_bytes",
        "is_ready",
        "room",
        "served",
        "session_lifetime_ms",
        "state",
    )

    def __init__(
        self,
        address: object,
        client_id: str,
        *,
        served: Mapping[int, Versions] | None = None,
        mechanism: Mechanism | None = None,
        bounds: Bounds | None = None,
        scratch: memoryview | None = None,
    ) -> None:
        """`address` is only used in messages. Peers of one thread may share `scratch` (see `wire.framing`)."""
        self.address = address
        self.client_id = client_id
        self.state = PeerState.FRESH
        self.is_ready = False
        self.fault: PeerError | None = None  # the reason for its end
        self.served: Mapping[int, Versions] = {} if served is None else served  # by API key
        self.features: Mapping[str, int] = {}  # finalized levels, by name; none from brokers before ApiVersions v3
        self.session_lifetime_ms = 0  # from the login: time until re-authentication; 0: never
        self.in_flight_bytes = 0
        self._bounds = bounds or Bounds()
        self._in_flight_max = self._bounds.in_flight_max
        self._in_flight_bytes_max = self._bounds.in_flight_bytes_max
        self._decode_bytes_max = self._bounds.decode_bytes_max
        self._mechanism = mechanism
        self._login_steps = 0
        self.computing: Awaitable[bytes | None] | None = None  # the next message of the login; see `computed`
        self._reader = FrameReader(
            min(self._bounds.handshake_bytes_max, self._bounds.response_bytes_max), scratch=scratch
        )
        self.room = self._reader.room  # buffer for the next bytes; never empty, and valid until `received`
        self._waiting: deque[tuple[int, Call, Any, int]] = deque()  # (correlation id, call, tag, request size)
        self._calls: dict[tuple[type[Request], type[Response] | None, int, int], Call] = {}
        self._correlation_id = 0
        self._outgoing: list[Buffer] = []

    # --- requests

    @property
    def in_flight_count(self) -> int:
        return len(self._waiting)

    @property
    def has_room(self) -> bool:
        return len(self._waiting) < self._in_flight_max and self.in_flight_bytes < self._in_flight_bytes_max

    @property
    def oldest(self) -> str | None:
        """The name of the oldest unanswered request."""
        return self._waiting[0][1].name if self._waiting else None

    def send(
        self,
        request: Request,
        response: type[Response] | None,
        tag: object = None,
        version_min: int = 0,
        version_max: int = VERSION_MAX,
    ) -> list[Buffer]:
        """The bytes of a request in the highest version that both sides support; `version_*` restrict ours.

        `response` is None for a request without a response. Raises Unsupported, Unencodable, InFlightFull, or the
        reason for the peer's end; then nothing has changed.
        """
        call = self._calls.get((type(request), response, version_min, version_max))
        if call is None:
            call = self.call_of(type(request), response, version_min, version_max)
        return self.send_call(call, request, tag)

    def call_of(
        self,
        request: type[Request],
        response: type[Response] | None,
        version_min: int = 0,
        version_max: int = VERSION_MAX,
    ) -> Call:
        """For `send_call`, when one kind of request is sent repeatedly."""
        if not self.is_ready:
            raise self._unready()
        return self._call(request, response, version_min, version_max)

    def send_call(self, call: Call, request: Request, tag: object = None) -> list[Buffer]:
        """Like `send`, for a request whose version is already known."""
        if not self.is_ready and tag is not _OWN:
            raise self._unready()
        waiting = self._waiting
        is_answered = call.response is not None
        if is_answered and (len(waiting) >= self._in_flight_max or self.in_flight_bytes >= self._in_flight_bytes_max):
            raise InFlightFull(
                f"{self.address} has not answered {len(waiting)} requests of {self.in_flight_bytes} bytes: "
                "wait for responses before more is sent"
            )
        correlation_id = self._correlation_id
        parts, size_bytes = call.frame(request, correlation_id)
        self._correlation_id = 0 if correlation_id == CORRELATION_ID_MAX else correlation_id + 1
        if is_answered:
            waiting.append((correlation_id, call, tag, size_bytes))
            self.in_flight_bytes += size_bytes
        return parts

    def _unready(self) -> PeerError:
        return self.fault or Closed(f"a request to {self.address} before it is ready for requests")

    def version_of(self, request: type[Request], version_min: int = 0, version_max: int = VERSION_MAX) -> int:
        """The highest version of this API that both sides support."""
        name = request.__name__.removesuffix("Request")
        served = self.served.get(request.api_key)
        if served is None:
            raise Unsupported(f"{self.address} does not serve {name}; another broker version may")
        version = min(served.last, request.versions.last, version_max)
        if version < max(served.first, request.versions.first, version_min):
            known = Versions(max(request.versions.first, version_min), min(request.versions.last, version_max))
            raise Unsupported(
                f"{self.address} serves {name} {served}, this client needs {known}: upgrade the older one"
            )
        return version

    def _call(
        self, request: type[Request], response: type[Response] | None, version_min: int, version_max: int
    ) -> Call:
        version = self.version_of(request, version_min, version_max)
        made = self._calls[request, response, version_min, version_max] = Call(
            request, response, version, self.client_id
        )
        return made

    # --- responses

    def received(self, count: int) -> Iterator[tuple[Any, Response]]:
        """`count` bytes were put into `room()`. Yields the responses that are complete now, as (tag, response).

        Iterate to the end. Each response is decoded when it is yielded, so an invalid one does not affect those before
        it. The caller may send, or end the peer, between two of them. Raises BadAnswer; and during the handshake
        Refused, Unsupported or LoginFailed.
        """
        try:
            for frame in self._reader.received(count):
                if self.fault is not None:
                    return
                if not self._waiting:
                    raise Malformed("response", 0, "no request is waiting for it")
                correlation_id, call, tag, size_bytes = self._waiting[0]
                response = call.read(frame, correlation_id, self._decode_bytes_max)
                self._waiting.popleft()
                self.in_flight_bytes -= size_bytes
                if tag is _OWN:
                    STEPS[self.state](self, response)
                else:
                    yield tag, response
        except Malformed as fault:
            raise BadAnswer(f"{self.address}: {fault}; is this a plaintext Kafka listener?") from None

    def feed(self, data: bytes) -> list[tuple[Any, Response]]:
        """`room` and `received` for bytes that are already in another buffer."""
        replies: list[tuple[Any, Response]] = []
        view = memoryview(data)
        while view:
            room = self.room()
            count = min(len(room), len(view))
            room[:count] = view[:count]
            replies += self.received(count)
            view = view[count:]
        return replies

    # --- the handshake

    def begin(self) -> list[Buffer]:
        """The first bytes to write. The peer may already be ready afterwards."""
        if self.served:
            self._log_in()
        else:
            self._enter(PeerState.VERSIONS)
            self._ask_for_versions(ApiVersionsRequest.versions.last)
        return self.take_outgoing()

    def take_outgoing(self) -> list[Buffer]:
        """The handshake's pending bytes."""
        outgoing, self._outgoing = self._outgoing, []
        return outgoing

    def _ask_for_versions(self, version: int) -> None:
        call = Call(ApiVersionsRequest, ApiVersionsResponse, version, self.client_id)
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)
        self._outgoing += self.send_call(call, request, _OWN)

    def _versions_arrived(self, response: ApiVersionsResponse) -> None:
        is_too_new = response.error_code == ErrorCode.UNSUPPORTED_VERSION
        if is_too_new and ApiVersionsRequest.api_key not in self.served:
            # Every broker serves version 0. Record the attempt: if it is refused too, the broker is unusable.
            self.served = {ApiVersionsRequest.api_key: Versions(0, 0)}
            self._enter(PeerState.VERSIONS)
            self._ask_for_versions(0)
            return
        refuse(response.error_code, f"cannot ask {self.address} for its API versions")
        self.served = {each.api_key: Versions(each.min_version, each.max_version) for each in response.api_keys}
        self.features = {each.name: each.max_version_level for each in response.finalized_features}
        self._log_in()

    def _log_in(self) -> None:
        if self._mechanism is None:
            self._become_ready()
            return
        self._enter(PeerState.MECHANISM)
        request = SaslHandshakeRequest(mechanism=self._mechanism.name)
        call = self._call(SaslHandshakeRequest, SaslHandshakeResponse, TOKENS_IN_REQUESTS, VERSION_MAX)
        self._outgoing += self.send_call(call, request, _OWN)

    def _mechanism_chosen(self, response: SaslHandshakeResponse) -> None:
        assert self._mechanism is not None
        if response.error_code:
            what = f"{self.address} does not accept SASL mechanism {self._mechanism.name}"
            raise Refused(ErrorCode.of(response.error_code), what, f"it offers {', '.join(response.mechanisms)}")
        first = self._mechanism.first()
        if isinstance(first, bytes):
            self._authenticate(first)
        else:
            self.computing = first

    def _authenticate(self, token: bytes) -> None:
        self._enter(PeerState.LOGIN)
        self._login_steps += 1
        if self._login_steps > LOGIN_STEPS_MAX:
            raise LoginFailed(f"{self.address} did not end the login within {LOGIN_STEPS_MAX} steps")
        call = self._call(SaslAuthenticateRequest, SaslAuthenticateResponse, 0, VERSION_MAX)
        self._outgoing += self.send_call(call, SaslAuthenticateRequest(auth_bytes=token), _OWN)

    def _challenged(self, response: SaslAuthenticateResponse) -> None:
        assert self._mechanism is not None
        what = f"cannot log in at {self.address} with SASL mechanism {self._mechanism.name}"
        refuse(response.error_code, what, response.error_message)
        self.session_lifetime_ms = response.session_lifetime_ms
        try:
            token = self._mechanism.answer(bytes(response.auth_bytes))
        except LoginFailed as fault:
            raise LoginFailed(f"{what}: {fault}") from None
        if token is None or isinstance(token, bytes):
            self.computed(token)
        else:
            self.computing = token

    def computed(self, token: bytes | None) -> None:
        """Continues the login with this message, or completes it. Drivers pass the result of `computing`."""
        self.computing = None
        if self.fault is not None:
            return
        if token is not None:
            self._authenticate(token)
        else:
            self._become_ready()

    def _become_ready(self) -> None:
        self._enter(PeerState.READY)
        self._mechanism = None  # it holds a secret
        self._reader.size_bytes_max = self._bounds.response_bytes_max
        self.is_ready = True

    def _enter(self, state: PeerState) -> None:
        assert state in NEXT[self.state], f"{self.address}: {self.state.name} -> {state.name}"
        self.state = state

    # --- the end

    def end(self, fault: PeerError) -> list[Any]:
        """Stops sending and reading. Returns the tags of requests that will get no response.

        The first reason is kept. Frees the memory of an incomplete response.
        """
        if self.fault is None:
            self.fault = fault
            self._enter(PeerState.ENDED)
        self.is_ready = False
        self._mechanism = None
        self.computing = None
        self._outgoing = []
        self._reader.end()
        tags = [tag for _, _, tag, _ in self._waiting if tag is not _OWN]
        self._waiting.clear()
        self.in_flight_bytes = 0
        return tags

    def hung_up(self, reason: object = None) -> Unreachable:
        """The error for a connection that the other side closed."""
        asked = f" before it answered {self.oldest}" if self._waiting else ""
        said = f": {reason}" if reason is not None else ""
        return Unreachable(
            f"{self.address} closed the connection{asked}{said}; it stopped, needs a login, or does not take this "
            "request"
        )

    def overdue(self, timeout_ms: int, name: str | None = None) -> Unreachable:
        """The error for a response that did not arrive in time."""
        return Unreachable(
            f"{self.address} left a {name or self.oldest} request without answer for {timeout_ms} ms: "
            "the broker is overloaded, stopped, or cut off"
        )


STEPS: Final[Mapping[PeerState, Any]] = {
    PeerState.VERSIONS: Peer._versions_arrived,
    PeerState.MECHANISM: Peer._mechanism_chosen,
    PeerState.LOGIN: Peer._challenged,
}
