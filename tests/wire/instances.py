"""Instances of any message in any version: random ones, and the ones that sit on an edge.

A `Layout` is a message class at one version: its fields, each with its name in Kafka's JSON. `make` fills a layout with
what a `Draw` picks; `to_json` and `from_json` speak the dialect of Kafka's JSON converters. The same random generator
gives the same instances; nothing here reads or writes wire bytes.
"""

from __future__ import annotations

import base64
import importlib
import itertools
import pkgutil
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from chronik.wire import messages
from chronik.wire.headers import RequestHeader, ResponseHeader
from chronik.wire.notation import Data, Field, ListOf, Request, Response, Scalar, Struct, zero_struct
from tests.oracle.kafka_schemas import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from random import Random

    from tests.oracle.kafka_schemas import KafkaField


@cache
def all_messages() -> dict[str, type[Struct]]:
    """Every message class, by its name."""
    found: dict[str, type[Struct]] = {"RequestHeader": RequestHeader, "ResponseHeader": ResponseHeader}
    for info in pkgutil.iter_modules(messages.__path__, messages.__name__ + "."):
        for value in vars(importlib.import_module(info.name)).values():
            is_message = isinstance(value, type) and issubclass(value, (Request, Response, Data))
            if is_message and value.__module__ == info.name:
                found[value.__name__] = value
    return dict(sorted(found.items()))


class Part(NamedTuple):
    """One field of a layout."""

    field: Field
    name: str
    type: Any
    json_name: str
    nullable: bool
    inner: Layout | None  # of the struct, or of the list's elements if those are structs


class Layout(NamedTuple):
    struct: type[Struct]
    parts: tuple[Part, ...]
    unknown_tags_from: int | None  # the first tag without a meaning in any version; None where there is no tag section


def layout(struct: type[Struct], version: int, kafka: Mapping[str, KafkaField] | None = None) -> Layout:
    """The message at a version, with all our fields or only those that a Kafka release has too.

    Only tagged fields may be missing there: a release may add those to a version that is already in use.
    """
    return _layout(struct, version, kafka, flexible=version in struct.flexible)


def _layout(struct: type[Struct], version: int, kafka: Mapping[str, KafkaField] | None, *, flexible: bool) -> Layout:
    parts = []
    for field in struct.fields:
        if version not in field.versions:
            continue
        theirs = None if kafka is None else kafka.get(plain(field.name))
        if kafka is not None and theirs is None:
            if version in field.tagged:
                continue
            raise LookupError(f"Kafka has no {field.name} in {struct.__name__} at v{version}")
        kind = field.type.element if isinstance(field.type, ListOf) else field.type
        inner = None
        if not isinstance(kind, Scalar):
            inner = _layout(kind, version, theirs.fields if theirs else None, flexible=flexible)
        json_name = theirs.json_name if theirs else field.name
        # If one side is wrong about it, it refuses the other's null.
        nullable = version in field.nullable or (theirs is not None and theirs.nullable)
        parts.append(Part(field, field.name, field.type, json_name, nullable, inner))
    tags = [field.tag for field in struct.fields if field.tag is not None]
    return Layout(struct, tuple(parts), max(tags, default=-1) + 1 if flexible else None)


class Draw:
    """Picks values. This one picks the zero of everything; the others say where they differ."""

    def null(self) -> bool:
        return False

    def count(self, *, of_numbers: bool) -> int:
        """How many elements a list has."""
        return 0

    def scalar(self, kind: Scalar, default: Any) -> Any:
        """A value of this kind; the field's own default is a candidate, unless it is None."""
        return kind.zero

    def unknown_tags(self, tag_min: int) -> tuple[tuple[int, bytes], ...]:
        return ()


class Nulls(Draw):
    """Null wherever allowed; one element everywhere else, so that inner nulls are reached."""

    def null(self) -> bool:
        return True

    def count(self, *, of_numbers: bool) -> int:
        return 1


class Defaults(Draw):
    """The schema's defaults for unset fields, also inside of lists."""

    def count(self, *, of_numbers: bool) -> int:
        return 1

    def scalar(self, kind: Scalar, default: Any) -> Any:
        return kind.zero if default is None else default


class Extremes(Draw):
    """The largest or the smallest value everywhere."""

    def __init__(self, values: Mapping[str, Any], count: int) -> None:
        self._values, self._count = values, count

    def count(self, *, of_numbers: bool) -> int:
        return self._count

    def scalar(self, kind: Scalar, default: Any) -> Any:
        return self._values[kind.name]


class OneLong(Draw):
    """All short, but for one list, text or blob: the one whose turn it is."""

    def __init__(self, turn: int, length: int) -> None:
        self.turns_left, self._length = turn, length

    def count(self, *, of_numbers: bool) -> int:
        if not of_numbers and self._length > ELEMENTS_MAX:
            return 1
        return self._length if self._is_its_turn() else 1

    def scalar(self, kind: Scalar, default: Any) -> Any:
        if kind.name not in ("string", "binary", "records") or not self._is_its_turn():
            return kind.zero
        # The first character takes two bytes: lengths count bytes.
        return "\u00e9".ljust(self._length - 1, "x") if kind.name == "string" else b"\xa5" * self._length

    def _is_its_turn(self) -> bool:
        self.turns_left -= 1
        return self.turns_left == -1


class Anything(Draw):
    """Random, with a taste for edges. `tags`: also tagged fields of a peer from the future."""

    def __init__(self, random: Random, *, tags: bool = False) -> None:
        self._random, self._tags = random, tags

    def null(self) -> bool:
        return self._random.random() < 0.2

    def count(self, *, of_numbers: bool) -> int:
        return self._random.choice((0, 1, 1, 2, 3))

    def scalar(self, kind: Scalar, default: Any) -> Any:
        name, chance, random = kind.name, self._random.random(), self._random
        if chance < 0.1 and default is not None:
            return default
        if chance < 0.2:
            return LARGEST[name] if chance < 0.15 else SMALLEST[name]
        if name == "boolean":
            return chance < 0.6
        if name == "string":
            return "".join(random.choices(CHARACTERS, k=random.choice(LENGTHS)))
        if name == "records" and self._tags:  # these come back as Kafka's JSON, which tells the size of records only
            return bytes(random.choice(LENGTHS))
        if name in ("binary", "records"):
            return random.randbytes(random.choice(LENGTHS))
        if name == "uuid":
            return random.randbytes(16)
        if name == "float64":
            return random.uniform(-1e9, 1e9)
        signed = kind.code.islower()
        value = random.getrandbits(random.randint(1, kind.size_bytes * 8 - signed))  # small ones as often as large ones
        return -value if signed and chance < 0.5 else value

    def unknown_tags(self, tag_min: int) -> tuple[tuple[int, bytes], ...]:
        if not self._tags:
            return ()
        random = self._random
        tags = {tag_min + random.getrandbits(random.choice((2, 7, 14, 30))) for _ in range(random.randint(0, 3))}
        return tuple((tag, random.randbytes(random.choice(LENGTHS))) for tag in sorted(tags))


LENGTHS = (0, 1, 1, 2, 3, 5, 8, 8, 13, 13, 20, 126, 127, 128)
CHARACTERS = "abcxyz019-_. \t\r\n\\\"'\0\x7f\u0080\u00df\u07ff\u0800\u2028\u65e5\ufeff\uffff\U00010000\U0010ffff"
SMALLEST = {
    "boolean": False,
    "int8": -(2**7),
    "int16": -(2**15),
    "uint16": 0,
    "int32": -(2**31),
    "uint32": 0,
    "int64": -(2**63),
    "float64": -sys.float_info.max,
    "uuid": bytes(15) + b"\x01",
    "string": "",
    "binary": b"",
    "records": b"",
}
LARGEST = {
    "boolean": True,
    "int8": 2**7 - 1,
    "int16": 2**15 - 1,
    "uint16": 2**16 - 1,
    "int32": 2**31 - 1,
    "uint32": 2**32 - 1,
    "int64": 2**63 - 1,
    "float64": sys.float_info.max,
    "uuid": b"\xff" * 16,
    "string": "\U0010ffff" * 64,
    "binary": b"\xff" * 200,
    "records": bytes(200),
}
# A compact length is one more than it says, so 127 is the first to take two bytes and 16383 the first to take three.
COMPACT_LENGTHS_THAT_GROW = (127, 16383)
STRING_BYTES_MAX = 32767
ELEMENTS_MAX = 200  # of texts and structs: more take time, and thousands of empty ones more memory than a peer may cost


def edges(shape: Layout) -> Iterator[tuple[str, Any]]:
    """(name of the edge, instance): the extreme values of a message."""
    yield "empties", make(shape, Draw())
    yield "nulls", make(shape, Nulls())
    yield "defaults", make(shape, Defaults())
    yield "largest", make(shape, Extremes(LARGEST, count=2))
    yield "smallest", make(shape, Extremes(SMALLEST, count=1))


def lengths(shape: Layout) -> Iterator[tuple[str, Any]]:
    """(name of the edge, instance): each list, text and blob in turn, long enough to make its length one byte
    longer."""
    yield "longest", make(shape, OneLong(0, STRING_BYTES_MAX))
    for length in COMPACT_LENGTHS_THAT_GROW:
        for turn in itertools.count():
            draw = OneLong(turn, length)
            made = make(shape, draw)
            if draw.turns_left >= 0:  # there are no more lists, texts and blobs
                break
            yield f"length {length} in place {turn}", made


def make(shape: Layout, draw: Draw) -> Any:
    """A message with every field of the layout drawn; fields that are not in it keep their default."""
    made = zero_struct(shape.struct)
    for part in shape.parts:
        setattr(made, part.name, _draw_value(part, draw))
    if shape.unknown_tags_from is not None:
        made.unknown_tags = draw.unknown_tags(shape.unknown_tags_from)
    return made


def _draw_value(part: Part, draw: Draw) -> Any:
    if part.nullable and draw.null():
        return None
    kind, inner = part.type, part.inner
    if isinstance(kind, ListOf):
        count = draw.count(of_numbers=bool(isinstance(kind.element, Scalar) and kind.element.code))
        return [make(inner, draw) if inner else draw.scalar(kind.element, None) for _ in range(count)]
    return make(inner, draw) if inner else draw.scalar(kind, part.field.default)


def seen_at(shape: Layout, instance: Any) -> Any:
    """An instance as a reader of the layout's version sees it: fields of other versions have their defaults."""
    made = zero_struct(shape.struct)
    for part in shape.parts:
        value = getattr(instance, part.name)
        if part.inner and value is not None:
            many = isinstance(part.type, ListOf)
            value = [seen_at(part.inner, each) for each in value] if many else seen_at(part.inner, value)
        setattr(made, part.name, value)
    return made


def to_json(shape: Layout, instance: Any) -> dict[str, Any]:
    """As Kafka's JSON converters read it."""
    return {part.json_name: _to_json(part, getattr(instance, part.name)) for part in shape.parts}


def _to_json(part: Part, value: Any) -> Any:
    if value is None:
        return None
    kind, inner = part.type, part.inner
    if isinstance(kind, ListOf):
        return [to_json(inner, each) if inner else _scalar_to_json(kind.element, each) for each in value]
    return to_json(inner, value) if inner else _scalar_to_json(kind, value)


def _scalar_to_json(kind: Scalar, value: Any) -> Any:
    if kind.name in ("binary", "records"):
        return base64.b64encode(value).decode()
    if kind.name == "uuid":
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    return value


def from_json(shape: Layout, node: Mapping[str, Any]) -> Any:
    """As Kafka's JSON converters write it: no tagged fields at their default, and of records only the size."""
    made = zero_struct(shape.struct)
    for part in shape.parts:
        if part.json_name in node:
            setattr(made, part.name, _from_json(part, node[part.json_name]))
        elif part.json_name + "SizeInBytes" in node:
            setattr(made, part.name, bytes(node[part.json_name + "SizeInBytes"]))
    return made


def _from_json(part: Part, node: Any) -> Any:
    if node is None:
        return None
    kind, inner = part.type, part.inner
    if isinstance(kind, ListOf):
        return [from_json(inner, each) if inner else _scalar_from_json(kind.element, each) for each in node]
    return from_json(inner, node) if inner else _scalar_from_json(kind, node)


def _scalar_from_json(kind: Scalar, node: Any) -> Any:
    if kind.name in ("binary", "records"):
        return base64.b64decode(node)
    if kind.name == "uuid":
        return base64.urlsafe_b64decode(node + "==")
    return node
