"""The metrics that clients pushed, as series for /metrics: names of Prometheus, labels of the client, newest values.

`org.apache.kafka.producer.record.send.total` is shown as `kafka_client_producer_record_send_total`; every name begins
with `kafka_client_`, so a client cannot write over a metric of the node. A sum that is pushed as a difference is added
up. A series that the last three pushes of its client did not have is forgotten, and so is a client that is silent.

Memory and the number of series have a bound, for one client and for all. Beyond that, the address whose clients hold
most gives up the client that was silent longest. Pure; the time is told.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from chronik.wire.otlp import Kind, Labels, Point

PREFIX: Final = "kafka_client_"
SERIES_MAX: Final = 20_000  # of all clients
POINTS_MAX: Final = 1_000  # of one push, and so of one client
PUSHES_KEPT: Final = 3
SWEEP_MS: Final = 10_000
LABEL_CHARS_MAX: Final = 256
SERIES_BYTES, LABEL_BYTES = 400, 120  # without the texts

GAUGE, COUNTER, UNTYPED = "gauge", "counter", "untyped"
OWN_LABELS: Final = ("client_instance_id", "client_id")
_not_in_names = re.compile(r"[^a-zA-Z0-9_]")


class Pusher(NamedTuple):
    instance_id: str
    client_id: str
    software: tuple[str, str]
    host: str


class _Series:
    __slots__ = ("is_counter", "push", "value")

    def __init__(self) -> None:
        self.value = 0.0
        self.push = 0  # of its client, the last that had it
        self.is_counter = False


_Key = tuple[str, Labels]


class _Client:
    __slots__ = ("expires_ms", "held_bytes", "pusher", "pushes", "series")

    def __init__(self, pusher: Pusher) -> None:
        self.pusher = pusher
        self.series: dict[_Key, _Series] = {}
        self.pushes = 0
        self.held_bytes = 0
        self.expires_ms = 0


class Pushed:
    """One per node. `keep` hears of every change of the bytes held."""

    def __init__(self, bytes_max: int, keep: Callable[[int], None]) -> None:
        self.series_dropped = 0
        self._bytes_max, self._keep = bytes_max, keep
        self._clients: OrderedDict[str, _Client] = OrderedDict()  # the longest silent first
        self._by_host: Counter[str] = Counter()  # bytes
        self._held_bytes = 0
        self._series_count = 0
        self._swept_ms = 0

    def take(self, pusher: Pusher, points: Iterable[Point], now_ms: int, silent_ms_max: int) -> None:
        self.sweep(now_ms)
        client = self._clients.get(pusher.instance_id)
        if client is not None and client.pusher != pusher:
            self._forget(client)  # it comes from another address or under another name now
            client = None
        if client is None:
            client = self._clients[pusher.instance_id] = _Client(pusher)
            self._hold(client, _bytes_of((), pusher.client_id))
        self._clients.move_to_end(pusher.instance_id)
        client.expires_ms = now_ms + silent_ms_max
        client.pushes += 1
        for point in points:
            self._take(client, point)
        old = [key for key, series in client.series.items() if series.push <= client.pushes - PUSHES_KEPT]
        for key in old:
            self._drop_series(client, key)
        while self._series_count > SERIES_MAX or self._held_bytes > self._bytes_max:
            self._make_room()

    def sweep(self, now_ms: int) -> None:
        """Forgets silent clients."""
        if now_ms - self._swept_ms < SWEEP_MS:
            return
        self._swept_ms = now_ms
        for client in [each for each in self._clients.values() if each.expires_ms <= now_ms]:
            self._forget(client)

    def clients(self) -> Iterator[Pusher]:
        return (client.pusher for client in self._clients.values())

    def by_name(self) -> dict[str, tuple[str, list[tuple[dict[str, str], float]]]]:
        """For each name its type and its samples. Clients that disagree on the type leave it untyped."""
        found: dict[str, tuple[str, list[tuple[dict[str, str], float]]]] = {}
        for client in self._clients.values():
            own = dict(zip(OWN_LABELS, (client.pusher.instance_id, client.pusher.client_id), strict=True))
            for (name, labels), series in client.series.items():
                kind = COUNTER if series.is_counter else GAUGE
                known, samples = found.get(name, (kind, []))
                samples.append((own | dict(labels), series.value))
                found[name] = (kind if known == kind else UNTYPED, samples)
        return found

    # ---

    def _take(self, client: _Client, point: Point) -> None:
        key = (exposed_name(point.name), _exposed_labels(point.labels))
        series = client.series.get(key)
        if series is None:
            if len(client.series) >= POINTS_MAX:
                self.series_dropped += 1
                return
            series = client.series[key] = _Series()
            self._series_count += 1
            self._hold(client, _bytes_of(key[1], key[0]))
        is_repeated = series.push == client.pushes
        series.push = client.pushes
        series.is_counter = point.kind is not Kind.GAUGE and point.is_monotonic
        if point.kind is Kind.ADDED or (is_repeated and point.kind is Kind.TOTAL):
            series.value += point.value
        else:
            series.value = point.value

    def _drop_series(self, client: _Client, key: _Key) -> None:
        del client.series[key]
        self._series_count -= 1
        self._hold(client, -_bytes_of(key[1], key[0]))

    def _make_room(self) -> None:
        host, _ = max(self._by_host.items(), key=lambda each: each[1])
        victim = next(client for client in self._clients.values() if client.pusher.host == host)
        self.series_dropped += len(victim.series)
        self._forget(victim)

    def _forget(self, client: _Client) -> None:
        del self._clients[client.pusher.instance_id]
        self._series_count -= len(client.series)
        self._hold(client, -client.held_bytes)

    def _hold(self, client: _Client, more_bytes: int) -> None:
        host = client.pusher.host
        client.held_bytes += more_bytes
        self._held_bytes += more_bytes
        self._by_host[host] += more_bytes
        if self._by_host[host] <= 0:
            del self._by_host[host]
        self._keep(more_bytes)


def exposed_name(name: str) -> str:
    return PREFIX + _not_in_names.sub("_", name.removeprefix("org.apache.kafka."))


def _exposed_labels(labels: Labels) -> Labels:
    """Prometheus keeps names that begin with two underscores for itself."""
    made: dict[str, str] = {}
    for name, value in labels:
        shown = _not_in_names.sub("_", name).lstrip("_")
        if shown and not shown[0].isdigit() and shown not in OWN_LABELS:
            made[shown] = value
    return tuple(sorted(made.items()))


def _bytes_of(labels: Labels, name: str) -> int:
    return SERIES_BYTES + 4 * len(name) + sum(LABEL_BYTES + 4 * (len(key) + len(value)) for key, value in labels)
