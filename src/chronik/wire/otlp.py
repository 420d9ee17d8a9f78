"""Metrics of clients as OTLP (protobuf): the numbers of PushTelemetry. Reads what a stranger sent.

Of MetricsData it reads gauges and sums, which is what Kafka's clients send, with their attributes and those of their
resource. Histograms and summaries are skipped, as are unknown fields. The messages are known by number, and only these
are entered, so the depth is fixed. Nothing is written here.

    MetricsData.1 -> ResourceMetrics.1 resource .2 -> ScopeMetrics.2 -> Metric.1 name .5 gauge .7 sum
    Gauge/Sum.1 -> NumberDataPoint.4 double .6 int .7 attributes;  Sum.2 temporality .3 monotonic

`read_points` is a computation in pieces: it yields the number of pieces done, so that a large payload does not hold up
others. Every size has a bound; invalid bytes raise Malformed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from enum import Enum
from struct import Struct
from typing import Final, NamedTuple

from chronik.wire.errors import Malformed, TooLarge

NAME_BYTES_MAX: Final = 256  # of a metric and of an attribute; longer names are refused
VALUE_CHARS_MAX: Final = 256  # of an attribute; longer values are cut
ATTRIBUTES_MAX: Final = 24  # of a point, with those of its resource
SMALL_BYTES_MAX: Final = 16 << 10  # of a point and of a resource, which are read at once
FIELDS_PER_PIECE: Final = 16
FIELDS_MAX: Final = 64 << 10  # of a payload: a thousand points with many attributes have half as many

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5  # wire types; 3 and 4, groups, are not in this version of protobuf
DELTA: Final = 1  # of Sum.aggregation_temporality

_double, _int64 = Struct("<d"), Struct("<q")


class Kind(Enum):
    GAUGE = "gauge"
    ADDED = "delta sum"  # what was added since the last push
    TOTAL = "cumulative sum"


Labels = tuple[tuple[str, str], ...]


class Point(NamedTuple):
    name: str
    labels: Labels
    value: float
    kind: Kind
    is_monotonic: bool


class Points(NamedTuple):
    points: list[Point]
    are_all: bool  # there are no more than the reader wanted


class Field(NamedTuple):
    """`value` is the number of a varint, otherwise 0. `at` and `end` are where the bytes of the others are."""

    number: int
    wire_type: int
    value: int
    at: int
    end: int


Work = Generator[int, None, None]


def read_points(payload: bytes, points_max: int) -> Generator[int, None, Points]:
    """The first `points_max` points. What is behind them is not looked at. Raises Malformed."""
    reader = _Reader(payload, points_max)
    try:
        yield from reader.metrics_data(0, len(payload))
    except _Enough:
        return Points(reader.points, are_all=False)
    return Points(reader.points, are_all=True)


class _Enough(Exception):
    """As many points were read as are wanted."""


class _Reader:
    def __init__(self, payload: bytes, points_max: int) -> None:
        self._payload, self._points_max = payload, points_max
        self._fields_read = 0  # since the last pieces
        self._fields_left = FIELDS_MAX
        self.points: list[Point] = []

    # --- messages of any size, in pieces

    def metrics_data(self, at: int, end: int) -> Work:
        for field in self._fields(at, end):
            if _is_message(field, 1):
                yield from self._resource_metrics(field.at, field.end)
            yield from self._pieces()

    def _resource_metrics(self, at: int, end: int) -> Work:
        """The resource may stand behind the metrics that it describes."""
        labels: Labels = ()
        for field in self._fields(at, end):
            if _is_message(field, 1):
                labels = self._attributes(field, 1)
            yield from self._pieces()
        for field in self._fields(at, end):
            if _is_message(field, 2):
                yield from self._scope_metrics(field.at, field.end, labels)
            yield from self._pieces()

    def _scope_metrics(self, at: int, end: int, labels: Labels) -> Work:
        for field in self._fields(at, end):
            if _is_message(field, 2):
                yield from self._metric(field.at, field.end, labels)
            yield from self._pieces()

    def _metric(self, at: int, end: int, labels: Labels) -> Work:
        name, data, is_sum = "", None, False
        for field in self._fields(at, end):
            if _is_message(field, 1):
                name = self._text(field, NAME_BYTES_MAX)
            elif _is_message(field, 5) or _is_message(field, 7):
                data, is_sum = field, field.number == 7
            yield from self._pieces()
        if data is None:
            return
        if not name:
            raise Malformed("OTLP metrics", at, "a metric without a name")
        kind, is_monotonic = Kind.GAUGE, False
        if is_sum:
            kind = Kind.TOTAL
            for field in self._fields(data.at, data.end):
                if field.wire_type == VARINT and field.number == 2:
                    kind = Kind.ADDED if field.value == DELTA else Kind.TOTAL
                elif field.wire_type == VARINT and field.number == 3:
                    is_monotonic = bool(field.value)
                yield from self._pieces()
        for field in self._fields(data.at, data.end):
            if _is_message(field, 1):
                value, own = self._point(field)
                if value is not None:
                    self._add(Point(name, (*labels, *own), value, kind, is_monotonic), field.at)
            yield from self._pieces()

    def _add(self, point: Point, at: int) -> None:
        if len(point.labels) > ATTRIBUTES_MAX:
            raise TooLarge("OTLP metrics", at, f"{len(point.labels)} attributes, {ATTRIBUTES_MAX} are allowed")
        if len(self.points) >= self._points_max:
            raise _Enough
        self.points.append(point)

    def _pieces(self) -> Iterator[int]:
        if self._fields_read >= FIELDS_PER_PIECE:
            self._fields_left -= self._fields_read
            if self._fields_left < 0:
                raise TooLarge("OTLP metrics", 0, f"more than {FIELDS_MAX} fields")
            pieces, self._fields_read = self._fields_read // FIELDS_PER_PIECE, 0
            yield pieces

    # --- small messages, at once

    def _point(self, whole: Field) -> tuple[float | None, Labels]:
        """Without a value it says that nothing was recorded."""
        value: float | None = None
        labels: Labels = ()
        for field in self._small(whole):
            if field.wire_type == FIXED64 and field.number == 4:
                (value,) = _double.unpack_from(self._payload, field.at)
            elif field.wire_type == FIXED64 and field.number == 6:
                (value,) = _int64.unpack_from(self._payload, field.at)
        if value is not None:
            labels = self._attributes(whole, 7)
        return value, labels

    def _attributes(self, whole: Field, number: int) -> Labels:
        """Those whose value is a text, a number or a truth value."""
        labels: list[tuple[str, str]] = []
        for field in self._small(whole):
            if _is_message(field, number):
                if len(labels) >= ATTRIBUTES_MAX:
                    raise TooLarge("OTLP metrics", field.at, f"more than {ATTRIBUTES_MAX} attributes")
                key, text = self._key_value(field)
                if text is not None:
                    labels.append((key, text))
        return tuple(labels)

    def _key_value(self, whole: Field) -> tuple[str, str | None]:
        key, text = "", None
        for field in self._fields(whole.at, whole.end):
            if _is_message(field, 1):
                key = self._text(field, NAME_BYTES_MAX)
            elif _is_message(field, 2):
                text = self._any_value(field)
        if not key:
            raise Malformed("OTLP metrics", whole.at, "an attribute without a name")
        return key, text

    def _any_value(self, whole: Field) -> str | None:
        text: str | None = None
        for field in self._fields(whole.at, whole.end):
            match field.number, field.wire_type:
                case 1, 2:
                    text = self._text(field, SMALL_BYTES_MAX)[:VALUE_CHARS_MAX]
                case 2, 0:
                    text = "true" if field.value else "false"
                case 3, 0:
                    text = str(field.value - (1 << 64) if field.value >> 63 else field.value)
                case 4, 1:
                    text = str(_double.unpack_from(self._payload, field.at)[0])
        return text

    def _small(self, whole: Field) -> Iterator[Field]:
        size_bytes = whole.end - whole.at
        if size_bytes > SMALL_BYTES_MAX:
            raise TooLarge("OTLP metrics", whole.at, f"a point or resource of {size_bytes} bytes")
        return self._fields(whole.at, whole.end)

    def _text(self, field: Field, bytes_max: int) -> str:
        size_bytes = field.end - field.at
        if size_bytes > bytes_max:
            raise TooLarge("OTLP metrics", field.at, f"a text of {size_bytes} bytes, {bytes_max} are allowed")
        try:
            return self._payload[field.at : field.end].decode()
        except UnicodeDecodeError as fault:
            raise Malformed("OTLP metrics", field.at + fault.start, "a text that is not UTF-8") from fault

    # --- protobuf

    def _fields(self, at: int, end: int) -> Iterator[Field]:
        """The fields of the message in these bytes, in their order."""
        while at < end:
            start = at
            tag, at = self._varint(at, end)
            number, wire_type = tag >> 3, tag & 7
            if not 0 < number < 1 << 29:
                raise Malformed("OTLP metrics", start, f"{number} is not a field number")
            value = 0
            match wire_type:
                case 0:
                    first = at
                    value, at = self._varint(at, end)
                case 1:
                    first, at = at, at + 8
                case 2:
                    size_bytes, first = self._varint(at, end)
                    at = first + size_bytes
                case 5:
                    first, at = at, at + 4
                case _:
                    raise Malformed("OTLP metrics", start, f"wire type {wire_type} is not served")
            if at > end:
                raise Malformed("OTLP metrics", start, f"field {number} goes on {at - end} bytes after its message")
            self._fields_read += 1
            yield Field(number, wire_type, value, first, at)

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        value = shift = 0
        for position in range(at, min(end, at + 10)):
            byte = self._payload[position]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & (1 << 64) - 1, position + 1
            shift += 7
        raise Malformed("OTLP metrics", at, "a variable-length integer without an end")


def _is_message(field: Field, number: int) -> bool:
    """Or a text: what has a length."""
    return field.number == number and field.wire_type == LENGTH
