"""Measures what the clients of this node use against their quotas. Each node counts separately, as in Kafka.

A client whose rate exceeds its quota waits until the rate is down to the quota, if it uses nothing meanwhile. Changes
to topics take tokens from a bucket: while the bucket is overdrawn, the client's changes are refused.

`restricts` is False while the cluster has no quotas; then nothing else here need be called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chronik.broker.quotas.limits import Limit, client_limit, connection_rate
from chronik.broker.quotas.rates import Rate, TokenBucket
from chronik.metadata.commands.alter_client_quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from chronik.metadata.image import EMPTY, Image
from chronik.runtime.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from chronik.broker.session import Session
    from chronik.broker.settings import Settings
    from chronik.runtime.interfaces import Clock

UNUSED_MS_MAX = 3_600_000  # a client's rate is forgotten after an hour
RATES_MAX = 100_000  # clients choose their ids; above this, rates that were not used within their span are forgotten


class _Shared(NamedTuple):
    """A rate, by the entities that share it."""

    key: str
    user: str
    client_id: str


class ClientQuotas:
    def __init__(self, clock: Clock, settings: Settings) -> None:
        self.restricts = False
        self._clock = clock
        self._samples, self._window_ms = settings.quota_window_num, settings.quota_window_size_seconds * 1000
        self._mutation_seconds_max = (
            settings.controller_quota_window_num * settings.controller_quota_window_size_seconds
        )
        self._image = EMPTY
        self._rates: dict[_Shared, Rate] = {}
        self._buckets: dict[_Shared, TokenBucket] = {}
        self._limits: dict[_Shared, Limit | None] = {}  # cached since the quotas last changed
        self._connections: dict[str, Rate] = {}  # by address

    def follow(self, image: Image) -> None:
        """The quotas have changed. Earlier use still counts."""
        self._image = image
        self.restricts = bool(image.quotas)
        self._limits.clear()

    # --- bandwidth and time

    def produced(self, session: Session, client_id: str | None, size_bytes: int) -> int:
        """The throttle time after a produce request of this size, in ms."""
        return self._record(PRODUCER_BYTE_RATE, session, client_id, size_bytes)

    def fetched(self, session: Session, client_id: str | None, size_bytes: int) -> int:
        """The throttle time before a response of this size, in ms.

        If it is positive, the client does not get the response, and nothing is charged.
        """
        wait_ms = self._record(CONSUMER_BYTE_RATE, session, client_id, size_bytes)
        if wait_ms:
            self._record(CONSUMER_BYTE_RATE, session, client_id, -size_bytes)
        return wait_ms

    def fetch_bytes_max(self, session: Session, client_id: str | None) -> int | None:
        """The largest response for which a client that has fetched nothing need not wait; None: unlimited."""
        limit = self._limit(CONSUMER_BYTE_RATE, session, client_id)
        return None if limit is None else int(limit.bound * (self._samples - 1) * self._window_ms / 1000)

    def took(self, session: Session, client_id: str | None, time_ns: int) -> int:
        """The throttle time after a request that kept the node busy for this long, in ms."""
        wait_ms = self._record(REQUEST_PERCENTAGE, session, client_id, time_ns * 100 / NS_PER_S)
        return min(wait_ms, self._window_ms)

    def _record(self, key: str, session: Session, client_id: str | None, value: float) -> int:
        limit = self._limit(key, session, client_id)
        if limit is None:
            return 0
        now_ms = self._now_ms()
        shared = _Shared(key, *limit.sharers)
        rate = self._rates.get(shared)
        if rate is None:
            self._forget_unused(now_ms)
            rate = self._rates[shared] = Rate(self._samples, self._window_ms)
        rate.record(value, now_ms)
        return rate.over_ms(limit.bound, now_ms)

    # --- changes to topics

    def changes(self, session: Session, client_id: str | None, count: int) -> int:
        """Charges changes of partitions. Returns how long the client must wait before it may make them, in ms; 0: they
        are charged.

        A client may overdraw its bucket once.
        """
        limit = self._limit(CONTROLLER_MUTATION_RATE, session, client_id)
        if limit is None:
            return 0
        now_ms = self._now_ms()
        bucket = self._bucket(limit)
        over_ms = bucket.over_ms(now_ms, per_second=limit.bound, seconds_max=self._mutation_seconds_max)
        if not over_ms:
            bucket.take(count, now_ms, per_second=limit.bound, seconds_max=self._mutation_seconds_max)
        return over_ms

    def changed_anyway(self, session: Session, client_id: str | None, count: int) -> int:
        """The same for older clients, whose changes are made and which wait afterwards."""
        limit = self._limit(CONTROLLER_MUTATION_RATE, session, client_id)
        if limit is None:
            return 0
        now_ms, bucket = self._now_ms(), self._bucket(limit)
        bucket.take(count, now_ms, per_second=limit.bound, seconds_max=self._mutation_seconds_max)
        return bucket.over_ms(now_ms, per_second=limit.bound, seconds_max=self._mutation_seconds_max)

    def _bucket(self, limit: Limit) -> TokenBucket:
        shared = _Shared(CONTROLLER_MUTATION_RATE, *limit.sharers)
        if shared not in self._buckets:
            self._forget_unused(self._now_ms())
            self._buckets[shared] = TokenBucket()
        return self._buckets[shared]

    # --- connections

    def connected(self, host: str) -> int:
        """How long an address must wait until its new connection is served, in ms."""
        bound = connection_rate(self._image.quotas, host)
        if bound is None:
            return 0
        now_ms = self._now_ms()
        if host not in self._connections:
            self._forget_unused(now_ms)
            self._connections[host] = Rate(self._samples, self._window_ms)
        rate = self._connections[host]
        rate.record(1, now_ms)
        wait_ms = rate.over_ms(bound, now_ms)
        if wait_ms:
            rate.record(-1, now_ms)  # a refused connection does not count
        return min(wait_ms, self._window_ms)

    # --- limits

    def _limit(self, key: str, session: Session, client_id: str | None) -> Limit | None:
        asked = _Shared(key, session.principal.name, client_id or "")
        if asked not in self._limits:
            if len(self._limits) >= RATES_MAX:
                self._limits.clear()
            self._limits[asked] = client_limit(self._image.quotas, *asked)
        return self._limits[asked]

    def _now_ms(self) -> int:
        return self._clock.monotonic_ns() // NS_PER_MS

    def _forget_unused(self, now_ms: int) -> None:
        """Called before an entry is added: memory must not grow with the number of clients that ever connected."""
        count = len(self._rates) + len(self._buckets) + len(self._connections)
        if count < RATES_MAX and count % 1_000:
            return
        unused_ms = self._samples * self._window_ms if count >= RATES_MAX else UNUSED_MS_MAX
        self._rates = {each: rate for each, rate in self._rates.items() if now_ms - rate.last_ms < unused_ms}
        self._buckets = {each: bucket for each, bucket in self._buckets.items() if now_ms - bucket.last_ms < unused_ms}
        self._connections = {
            host: rate for host, rate in self._connections.items() if now_ms - rate.last_ms < unused_ms
        }
