"""Metrics of clients as OTLP: what is read, what is skipped, and what is refused cheaply."""

from __future__ import annotations

import contextlib
from random import Random

import pytest

from chronik.wire.errors import Malformed, TooLarge
from chronik.wire.otlp import ATTRIBUTES_MAX, NAME_BYTES_MAX, SMALL_BYTES_MAX, Kind, Point, Points, read_points
from tests.wire.otlp_messages import (
    CUMULATIVE,
    fixed64,
    gauge,
    histogram,
    key_value,
    metrics_data,
    part,
    point,
    total,
    varint,
    whole,
)


def read(payload: bytes, points_max: int = 100) -> Points:
    reading = read_points(payload, points_max)
    while True:
        try:
            assert next(reading) > 0
        except StopIteration as ended:
            return ended.value  # type: ignore[no-any-return]


def test_gauges_and_sums_are_read_with_the_attributes_of_point_and_resource() -> None:
    """The resource stands behind its metrics here, as protobuf allows."""
    payload = metrics_data(
        gauge("a.avg", point(1.5, topic="t", partition=-3), point(7)),
        total("b.total", point(9.0)),
        total("c.total", point(4), temporality=CUMULATIVE, monotonic=False),
        histogram("d"),
        client_rack="r1",
        live=True,
        weight=0.5,
    )
    shared = (("client_rack", "r1"), ("live", "true"), ("weight", "0.5"))
    assert read(payload) == Points(
        [
            Point("a.avg", (*shared, ("topic", "t"), ("partition", "-3")), 1.5, Kind.GAUGE, False),
            Point("a.avg", shared, 7, Kind.GAUGE, False),
            Point("b.total", shared, 9.0, Kind.ADDED, True),
            Point("c.total", shared, 4, Kind.TOTAL, False),
        ],
        are_all=True,
    )


def test_unknown_fields_of_all_wire_types_are_skipped() -> None:
    unknown = whole(90, 1) + fixed64(91, 2) + part(92, b"\xff") + varint(93 << 3 | 5) + bytes(4)
    inner = part(1, point(1.0) + unknown) + unknown
    metric = unknown + part(1, "a") + part(5, inner)
    payload = unknown + part(1, unknown + part(2, unknown + part(2, metric)))
    assert [each.name for each in read(payload).points] == ["a"]


def test_a_point_without_a_value_and_a_value_without_a_text_are_left_out() -> None:
    array = part(7, part(1, "k") + part(2, part(5, part(1, part(1, "x")))))
    assert read(metrics_data(gauge("a", part(7, key_value("k", "v")), point(2.0) + array))).points == [
        Point("a", (), 2.0, Kind.GAUGE, False)
    ]


def test_no_more_points_are_read_than_are_wanted() -> None:
    """What is behind them is not even looked at."""
    payload = metrics_data(gauge("a", *[point(float(number)) for number in range(5)])) + b"\xff"
    assert read(payload, 3) == Points(
        [Point("a", (), float(number), Kind.GAUGE, False) for number in range(3)], are_all=False
    )


def test_an_empty_payload_has_no_points() -> None:
    assert read(b"") == Points([], are_all=True)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"\xff" * 11, "without an end"),
        (b"\x80", "without an end"),
        (b"\x00\x00", "not a field number"),
        (b"\x0b\x0c", "wire type 3"),
        (b"\x0a\x7f", "after its message"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "after its message"),
        (b"\x09\x00", "after its message"),
        (b"\x0d\x00", "after its message"),
        (metrics_data(part(5, part(1, point(1.0)))), "without a name"),
        (metrics_data(gauge("n" * (NAME_BYTES_MAX + 1), point(1.0))), "a text of"),
        (metrics_data(part(1, b"\xff") + part(5, part(1, point(1.0)))), "not UTF-8"),
        (metrics_data(gauge("a", point(1.0, **{"k" * (NAME_BYTES_MAX + 1): "v"}))), "a text of"),
        (metrics_data(gauge("a", point(1.0, **{"": "v"}))), "without a name"),
        (metrics_data(gauge("a", point(1.0, k="v" * SMALL_BYTES_MAX))), "a point or resource of"),
        (metrics_data(gauge("a", point(1.0)), k="v" * SMALL_BYTES_MAX), "a point or resource of"),
        (metrics_data(gauge("a", point(1.0, **{f"k{n}": "v" for n in range(ATTRIBUTES_MAX + 1)}))), "attributes"),
        (metrics_data(gauge("a", point(1.0, x="y")), **{f"k{n}": "v" for n in range(ATTRIBUTES_MAX)}), "attributes"),
    ],
)
def test_invalid_bytes_are_refused_with_the_reason(payload: bytes, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        read(payload)


def test_deep_nesting_is_not_followed() -> None:
    """A value within a value within a value: only texts and numbers are looked at, whatever the depth."""
    value = part(1, "x")
    for _ in range(300):
        value = part(5, part(1, value))
    assert read(metrics_data(gauge("a", point(1.0) + part(7, part(1, "k") + part(2, value))))).points[0].labels == ()


def test_a_payload_of_nothing_but_small_fields_is_read_in_pieces() -> None:
    """Half a million fields: the caller gets its turn all the time, wherever they are."""
    junk = whole(90, 1) * 2_000
    for payload in (junk, part(1, junk), part(1, part(2, junk)), part(1, part(2, part(2, junk)))):
        assert max(read_points(payload, 1)) <= 2


def test_more_fields_than_a_client_could_need_are_refused() -> None:
    """A megabyte of fields that nobody knows would cost a second."""
    with pytest.raises(TooLarge, match="more than 65536 fields"):
        read(whole(90, 1) * 70_000)
    points = [point(1.0, **{f"label{n}": "v" for n in range(4)}) for _ in range(1_000)]
    assert len(read(metrics_data(gauge("a", *points)), 1_000).points) == 1_000


def test_cut_and_changed_payloads_are_read_or_refused() -> None:
    random = Random(5)
    valid = metrics_data(gauge("a", point(1.5, topic="t")), total("b", point(2)), rack="r")
    for _ in range(2_000):
        data = bytearray(valid[: random.randrange(len(valid) + 1)])
        for _ in range(random.randrange(3)):
            if data:
                data[random.randrange(len(data))] = random.randrange(256)
        with contextlib.suppress(Malformed):
            read(bytes(data))
