"""Pushed metrics as series: names, labels, sums of differences, and their bounds."""

from __future__ import annotations

import pytest

from chronik.broker.telemetry import pushed as subject
from chronik.broker.telemetry.pushed import COUNTER, GAUGE, POINTS_MAX, UNTYPED, Pushed, Pusher, exposed_name
from chronik.wire.otlp import Kind, Labels, Point

NAME = "org.apache.kafka.producer.record.send.total"
SHOWN = "kafka_client_producer_record_send_total"
SILENT_MS = 60_000


class World:
    def __init__(self, bytes_max: int = 1 << 20) -> None:
        self.kept_bytes = 0
        self.now_ms = 1_000_000
        self.pushed = Pushed(bytes_max, self._keep)

    def _keep(self, more_bytes: int) -> None:
        self.kept_bytes += more_bytes

    def take(self, *points: Point, client: str = "i", host: str = "h", client_id: str = "c") -> None:
        self.pushed.take(Pusher(client, client_id, ("", ""), host), points, self.now_ms, SILENT_MS)

    def values(self, name: str = SHOWN) -> list[float]:
        return [value for _, value in self.pushed.by_name().get(name, (GAUGE, []))[1]]

    def clients(self) -> list[str]:
        return [each.instance_id for each in self.pushed.clients()]


def added(value: float, labels: Labels = (), name: str = NAME) -> Point:
    return Point(name, labels, value, Kind.ADDED, True)


def gauge(value: float, labels: Labels = (), name: str = NAME) -> Point:
    return Point(name, labels, value, Kind.GAUGE, False)


def test_names_become_prometheus_names_of_clients() -> None:
    """A client can write over no metric of the node, whatever name it makes up."""
    names = [exposed_name(each) for each in (NAME, "my.own-metric/\u00e4\n", "kafka_server_brokertopicmetrics", "1")]
    assert names == [
        SHOWN,
        "kafka_client_my_own_metric___",
        "kafka_client_kafka_server_brokertopicmetrics",
        "kafka_client_1",
    ]


def test_differences_are_added_up_and_the_others_replaced() -> None:
    world = World()
    for value in (3, 4):
        world.take(
            added(value),
            gauge(value, name="g"),
            Point("t", (), value, Kind.TOTAL, True),
            Point("updown", (), value, Kind.ADDED, False),
        )
    found = {name: (kind, samples[0][1]) for name, (kind, samples) in world.pushed.by_name().items()}
    assert found == {
        SHOWN: (COUNTER, 7),
        "kafka_client_g": (GAUGE, 4),
        "kafka_client_t": (COUNTER, 4),
        "kafka_client_updown": (GAUGE, 7),
    }


def test_labels_are_the_clients_and_those_of_the_point() -> None:
    """Names that Prometheus keeps for itself, or that say who the client is, are not the client's to choose."""
    world = World()
    labels = (("topic", "t"), ("__name__", "x"), ("client.id", "y"), ("client_instance_id", "z"), ("9", "n"), ("", "e"))
    world.take(gauge(1, labels))
    ((_, [(shown, _)]),) = world.pushed.by_name().values()
    assert shown == {"client_instance_id": "i", "client_id": "c", "name__": "x", "topic": "t"}


def test_labels_that_become_the_same_are_one_series() -> None:
    world = World()
    world.take(added(1, (("a.b", "x"),)), added(2, (("a_b", "x"),)))
    assert world.values() == [3]


def test_clients_that_disagree_about_a_type_leave_it_untyped() -> None:
    """A page that names two types of one metric is refused as a whole by Prometheus."""
    world = World()
    world.take(added(1))
    world.take(gauge(2), client="j")
    assert world.pushed.by_name()[SHOWN][0] == UNTYPED


def test_a_series_ends_that_three_pushes_did_not_have() -> None:
    """Otherwise the partitions that a client once wrote to would be shown as long as it runs."""
    world = World()
    world.take(gauge(1), gauge(5, name="gone"))
    kept_bytes = world.kept_bytes
    shown = []
    for _ in range(4):
        shown.append(len(world.values("kafka_client_gone")))
        world.take(gauge(1))
    assert shown == [1, 1, 1, 0]
    assert 0 < world.kept_bytes < kept_bytes


def test_silent_clients_are_forgotten_and_others_stay() -> None:
    world = World()
    world.take(gauge(1))
    world.now_ms += SILENT_MS - 1
    world.take(gauge(2), client="j")
    world.now_ms += subject.SWEEP_MS
    world.pushed.sweep(world.now_ms)
    assert world.clients() == ["j"]
    world.now_ms += SILENT_MS
    world.pushed.sweep(world.now_ms)
    assert (world.clients(), world.kept_bytes) == ([], 0)


def test_a_client_that_comes_from_another_address_begins_again() -> None:
    world = World()
    world.take(added(1))
    world.take(added(2), host="other")
    assert world.values() == [2]


def test_one_client_has_a_bounded_number_of_series() -> None:
    world = World(bytes_max=1 << 30)
    world.take(*[gauge(1, (("n", str(number)),)) for number in range(POINTS_MAX + 5)])
    assert (len(world.values()), world.pushed.series_dropped) == (POINTS_MAX, 5)


def test_the_address_that_holds_most_gives_up_its_longest_silent_client() -> None:
    """One that makes up clients loses its own, not those of others."""
    world = World(bytes_max=20_000)
    world.take(gauge(1), client="honest", host="there")
    for number in range(100):
        world.take(gauge(1), client=f"made up {number}", host="here")
    assert world.kept_bytes <= 20_000
    assert world.clients()[0] == "honest"
    assert world.clients()[-1] == "made up 99"
    assert world.pushed.series_dropped == 101 - len(world.clients())


def test_a_client_that_is_too_large_for_the_bound_is_not_shown() -> None:
    world = World(bytes_max=5_000)
    world.take(*[gauge(1, (("n", "x" * 200 + str(number)),)) for number in range(50)])
    assert (world.clients(), world.kept_bytes) == ([], 0)


def test_all_clients_together_have_a_bounded_number_of_series(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "SERIES_MAX", 10)
    world = World()
    for client in "abc":
        world.take(*[gauge(1, (("n", str(number)),)) for number in range(4)], client=client)
    assert world.clients() == ["b", "c"]
