"""Which clients push metrics, and whether a request of one is in order (KIP-714).

A client asks for its subscription, then pushes once per interval. The order of the checks is Kafka's:

    GetTelemetrySubscriptions   too early: THROTTLING_QUOTA_EXCEEDED, unless its last push failed because of its
                                subscription or compression
    PushTelemetry               reserved id: INVALID_REQUEST; after its last push: INVALID_REQUEST; too early, and not
                                the last: THROTTLING_QUOTA_EXCEEDED; another subscription: UNKNOWN_SUBSCRIPTION_ID;
                                codec: UNSUPPORTED_COMPRESSION_TYPE; size: TELEMETRY_TOO_LARGE

What is remembered of a client ends with the connection on which it appeared, after three intervals of silence, or when
there are too many: then the one that was silent longest makes room. It starts again with its next request. No I/O; the
time is told.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple, Protocol

from chronik.broker.telemetry.subscriptions import Subscriptions, Wanted
from chronik.wire.compression import Codec
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.push_telemetry import PushTelemetryRequest

ACCEPTED_CODECS: Final = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)  # the best first
KNOWN_CODECS: Final = frozenset((Codec.NONE, *ACCEPTED_CODECS))
ZERO_ID: Final = bytes(16)
RESERVED_IDS: Final = frozenset((ZERO_ID, bytes(15) + b"\x01"))

CLIENTS_MAX: Final = 16_384  # as Kafka
CLIENT_BYTES: Final = 1_024
SILENT_MS_MIN, SILENT_INTERVALS = 60_000, 3
SWEEP_MS: Final = 10_000

# After these a client may ask again at once.
MISUNDERSTANDINGS: Final = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


class _Client:
    __slots__ = ("expires_ms", "get_ms", "is_terminating", "last_error", "push_ms", "version", "wanted")

    def __init__(self, wanted: Wanted, version: int) -> None:
        self.wanted, self.version = wanted, version
        self.get_ms: int | None = None  # when it last asked for its subscription
        self.push_ms: int | None = None
        self.is_terminating = False
        self.last_error = ErrorCode.NONE
        self.expires_ms = 0

    def may_get(self, now_ms: int) -> bool:
        last_ms = max((each for each in (self.get_ms, self.push_ms) if each is not None), default=None)
        if last_ms is not None and now_ms - last_ms < self.wanted.interval_ms:
            return False
        self.get_ms = now_ms
        return True

    def may_push(self, now_ms: int) -> bool:
        """At once after it was told its subscription: clients spread their first push over the interval."""
        is_first = self.get_ms is not None and (self.push_ms is None or self.get_ms > self.push_ms)
        if not is_first and self.push_ms is not None and now_ms - self.push_ms < self.wanted.interval_ms:
            return False
        self.push_ms = now_ms
        return True


class Connection(Protocol):
    @property
    def is_lost(self) -> bool: ...

    on_lost: dict[Callable[[], None], None]


class Caller(NamedTuple):
    """`selectable` is what selectors look at."""

    connection: Connection
    selectable: Mapping[str, str | None]


class Clients:
    """One per node. `keep` hears of every change of the bytes that clients take."""

    def __init__(self, bytes_max: int, keep: Callable[[int], None]) -> None:
        self.subscriptions = Subscriptions()
        self.throttled = 0
        self.unknown_subscriptions = 0
        self._clients_max = max(1, min(CLIENTS_MAX, bytes_max // CLIENT_BYTES))
        self._keep = keep
        self._clients: OrderedDict[bytes, _Client] = OrderedDict()  # the longest silent first
        self._by_connection: dict[Connection, bytes] = {}  # the client that appeared there last
        self._swept_ms = 0

    def __len__(self) -> int:
        return len(self._clients)

    def get(self, instance_id: bytes, caller: Caller, now_ms: int) -> Wanted | ErrorCode:
        client = self._client(instance_id, caller, now_ms)
        if not client.may_get(now_ms) and client.last_error not in MISUNDERSTANDINGS:
            self.throttled += 1
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        client.last_error = ErrorCode.NONE
        return client.wanted

    def push(self, request: PushTelemetryRequest, caller: Caller, bytes_max: int, now_ms: int) -> Wanted | ErrorCode:
        """An error, or what the client was asked for: then its metrics may be looked at."""
        instance_id = request.client_instance_id
        if instance_id in RESERVED_IDS:
            return ErrorCode.INVALID_REQUEST
        client = self._client(instance_id, caller, now_ms)
        error = self._why_no_push(client, request, bytes_max, now_ms)
        client.is_terminating = request.terminating
        client.last_error = error
        return client.wanted if error is ErrorCode.NONE else error

    def _why_no_push(self, client: _Client, request: PushTelemetryRequest, bytes_max: int, now_ms: int) -> ErrorCode:
        if client.is_terminating:
            return ErrorCode.INVALID_REQUEST
        if not client.may_push(now_ms) and not request.terminating:
            self.throttled += 1
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if request.subscription_id != client.wanted.subscription_id:
            self.unknown_subscriptions += 1
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if request.compression_type not in KNOWN_CODECS:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if len(request.metrics) > bytes_max:
            return ErrorCode.TELEMETRY_TOO_LARGE
        return ErrorCode.NONE

    def refuse_payload(self, instance_id: bytes) -> None:
        """What the client pushed could not be read."""
        client = self._clients.get(instance_id)
        if client is not None:
            client.last_error = ErrorCode.INVALID_RECORD

    def has(self, instance_id: bytes) -> bool:
        return instance_id in self._clients

    # ---

    def _client(self, instance_id: bytes, caller: Caller, now_ms: int) -> _Client:
        self._sweep(now_ms)
        client = self._clients.get(instance_id)
        if client is None or client.expires_ms <= now_ms or client.version < self.subscriptions.version:
            if client is None:
                if len(self._clients) >= self._clients_max:
                    self._forget(next(iter(self._clients)))
                self._keep(CLIENT_BYTES)
            wanted = self.subscriptions.wanted_from(instance_id, caller.selectable)
            client = self._clients[instance_id] = _Client(wanted, self.subscriptions.version)
            self._appeared_on(caller.connection, instance_id)
        client.expires_ms = now_ms + silent_ms_max(client.wanted)
        self._clients.move_to_end(instance_id)
        return client

    def _appeared_on(self, connection: Connection, instance_id: bytes) -> None:
        if connection not in self._by_connection:
            if connection.is_lost:
                return
            connection.on_lost[partial(self._connection_lost, connection)] = None
        self._by_connection[connection] = instance_id

    def _connection_lost(self, connection: Connection) -> None:
        self._forget(self._by_connection.pop(connection))

    def _sweep(self, now_ms: int) -> None:
        if now_ms - self._swept_ms < SWEEP_MS:
            return
        self._swept_ms = now_ms
        for instance_id in [each for each, client in self._clients.items() if client.expires_ms <= now_ms]:
            self._forget(instance_id)

    def _forget(self, instance_id: bytes) -> None:
        if self._clients.pop(instance_id, None) is not None:
            self._keep(-CLIENT_BYTES)


def silent_ms_max(wanted: Wanted) -> int:
    """The silence after which a client is taken to be gone."""
    return max(SILENT_MS_MIN, SILENT_INTERVALS * wanted.interval_ms)
