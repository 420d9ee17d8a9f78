"""Instances of any message in any version: random ones, and the ones that sit on an edge.

A `Layout` is a message class seen at one version: the fields that are there, each with the name Kafka's JSON gives it.
`make` fills a layout with what a `Draw` picks; `to_json` and `from_json` speak the dialect of Kafka's JSON converters.
Everything follows from the seed in the draw; nothing here reads or writes wire bytes.
"""

from __future__ import annotations

import base64
import importlib
import pkgutil
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from chronik.wire import messages, notation
from chronik.wire.notation import Data, Field, ListOf, Request, Response, Scalar, Struct, zero_struct
from tests.oracle.kafka_schemas import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from random import Random

    from tests.oracle.kafka_schemas import KafkaField


@cache
def all_messages() -> dict[str, type[Struct]]:
    """Every message class under chronik.wire.messages, by its name."""
    found: dict[str, type[Struct]] = {}
    for module in pkgutil.walk_packages(messages.__path__, messages.__name__ + "."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, (Request, Response, Data)) and value.__module__ != notation.__name__:
                found[value.__name__] = value
    return dict(sorted(found.items()))


class Part(NamedTuple):
    """One field of a layout."""

    field: Field
    json_name: str
    nullable: bool
    inner: Layout | None  # of the struct, or of the list's elements when those are structs


class Layout(NamedTuple):
    cls: type[Struct]
    parts: tuple[Part, ...]
    unknown_tags_min: int | None  # the first tag that Kafka gave no meaning in any version; None: no tags in this one


def layout(cls: type[Struct], version: int, kafka: Mapping[str, KafkaField] | None = None, *, flexible: bool | None = None) -> Layout:
    """The message at a version, with all our fields or only those that a Kafka release has too.

    Only tagged fields may be missing there: a release may add those to a version that is already in use.
    """
    if flexible is None:
        flexible = version in cls.flexible
    parts = []
    for field in cls.fields:
        if version not in field.versions:
            continue
        theirs = None if kafka is None else kafka.get(plain(field.name))
        if kafka is not None and (theirs is None or version not in theirs.versions):
            if version in field.tagged:
                continue
            raise LookupError(f"Kafka has no field {field.name} in {cls.__name__} v{version}")
        kind = field.type.element if isinstance(field.type, ListOf) else field.type
        parts.append(
            Part(
                field=field,
                json_name=theirs.json_name if theirs else field.name,
                nullable=version in field.nullable,
                inner=None if isinstance(kind, Scalar) else layout(kind, version, theirs and theirs.fields, flexible=flexible),
            )
        )
    return Layout(cls, tuple(parts), 1 + max((f.tag for f in cls.fields if f.tag is not None), default=-1) if flexible else None)


class Draw:
    """Picks values. This one picks the zero of everything; the others say where they differ."""

    def null(self) -> bool:
        return False

    def count(self) -> int:
        """How many elements a list has."""
        return 0

    def scalar(self, kind: Scalar, default: Any) -> Any:
        return kind.zero

    def unknown_tags(self, tag_min: int) -> tuple[tuple[int, bytes], ...]:
        return ()


class Nulls(Draw):
    """Null wherever null may be; one element everywhere else, so that the nulls inside are reached."""

    def null(self) -> bool:
        return True

    def count(self) -> int:
        return 1


class Defaults(Draw):
    """What the schema gives a field that nobody sets, also inside of lists."""

    def count(self) -> int:
        return 1

    def scalar(self, kind: Scalar, default: Any) -> Any:
        return kind.zero if default is None else default


class Extremes(Draw):
    """The largest or smallest number everywhere; text and lists whose length takes two bytes as a varint, or 0."""

    def __init__(self, *, largest: bool) -> None:
        self._values = LARGEST if largest else SMALLEST
        self._count = 2 if largest else 1

    def count(self) -> int:
        return self._count

    def scalar(self, kind: Scalar, default: Any) -> Any:
        return self._values[kind.name]


class Lengths(Draw):
    """Lengths around those where a varint grows by a byte, and the longest that a length of 16 bits can say."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._long_values_left = 3 if length > 1000 else 1000

    def count(self) -> int:
        return self._length if self._length <= 128 and self._take() else 1

    def scalar(self, kind: Scalar, default: Any) -> Any:
        if kind.name in ("string", "binary", "records") and self._take():
            return "\u00e9" + "x" * (self._length - 2) if kind.name == "string" else b"\xa5" * self._length
        return kind.zero

    def _take(self) -> bool:
        self._long_values_left -= 1
        return self._long_values_left >= 0


class Anything(Draw):
    """Random, with a taste for edges. `tags`: also tagged fields of a peer from the future."""

    def __init__(self, random: Random, *, tags: bool = False) -> None:
        self._random = random
        self._tags = tags

    def null(self) -> bool:
        return self._random.random() < 0.2

    def count(self) -> int:
        return self._random.choice((0, 1, 1, 2, 3))

    def scalar(self, kind: Scalar, default: Any) -> Any:
        dice = self._random.random()
        if dice < 0.1 and default is not None:
            return default
        if dice < 0.2:
            return (SMALLEST, LARGEST)[dice < 0.15][kind.name]
        if kind.name == "boolean":
            return dice < 0.6
        if kind.name == "string":
            return "".join(self._random.choices(CHARACTERS, k=self._random.choice(LENGTHS)))
        if kind.name == "records" and self._tags:  # Kafka's JSON tells how many bytes they were, and no more
            return bytes(self._random.choice(LENGTHS))
        if kind.name in ("binary", "records"):
            return self._random.randbytes(self._random.choice(LENGTHS))
        if kind.name == "uuid":
            return self._random.randbytes(16)
        if kind.name == "float64":
            return self._random.uniform(-1e9, 1e9)
        # As many bits as there are, or fewer: small numbers are what the programs send.
        bits = self._random.randint(1, kind.size_bytes * 8 - (kind.code.islower()))
        value = self._random.getrandbits(bits)
        return -value if kind.code.islower() and dice < 0.5 else value

    def unknown_tags(self, tag_min: int) -> tuple[tuple[int, bytes], ...]:
        if not self._tags:
            return ()
        tags = {tag_min + self._random.getrandbits(self._random.choice((2, 7, 14, 30))) for _ in range(self._random.randint(0, 3))}
        return tuple((tag, self._random.randbytes(self._random.choice(LENGTHS))) for tag in sorted(tags))


LENGTHS = (0, 1, 1, 2, 3, 5, 8, 8, 13, 13, 20, 126, 127, 128)
CHARACTERS = "abcxyzABC019-_. \t\n\\\"'\0\x7f\u0080\u00df\u00e9\u07ff\u0800\u2028\u65e5\ufeff\uffff\U0001f600\U0010ffff"
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
    "records": b"\xff" * 200,
}
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


def special_draws() -> Iterator[tuple[str, Draw]]:
    """The edges, each with the name that a failing test shows."""
    yield "empties", Draw()
    yield "nulls", Nulls()
    yield "defaults", Defaults()
    yield "largest", Extremes(largest=True)
    yield "smallest", Extremes(largest=False)
    for length in (126, 127, 128, 16382, 16383, 16384, 32767):
        yield f"length {length}", Lengths(length)


def make(shape: Layout, draw: Draw) -> Any:
    """A message with every field of the layout drawn; fields that are not in it keep their default."""
    made = zero_struct(shape.cls)
    for part in shape.parts:
        setattr(made, part.field.name, _value(part, draw))
    if shape.unknown_tags_min is not None:
        made.unknown_tags = draw.unknown_tags(shape.unknown_tags_min)
    return made


def _value(part: Part, draw: Draw) -> Any:
    if part.nullable and draw.null():
        return None
    kind, inner = part.field.type, part.inner
    if not isinstance(kind, ListOf):
        return make(inner, draw) if inner else draw.scalar(kind, part.field.default)
    if inner:
        return [make(inner, draw) for _ in range(draw.count())]
    return [draw.scalar(kind.element, None) for _ in range(draw.count())]


def to_json(shape: Layout, instance: Any) -> dict[str, Any]:
    """As Kafka's JSON converters read it."""
    return {part.json_name: _to_json(part, getattr(instance, part.field.name)) for part in shape.parts}


def _to_json(part: Part, value: Any) -> Any:
    if value is None:
        return None
    kind, inner = part.field.type, part.inner
    if isinstance(kind, ListOf):
        return [to_json(inner, each) for each in value] if inner else [_scalar_to_json(kind.element, each) for each in value]
    return to_json(inner, value) if inner else _scalar_to_json(kind, value)


def _scalar_to_json(kind: Scalar, value: Any) -> Any:
    if kind.name in ("binary", "records"):
        return base64.b64encode(value).decode()
    if kind.name == "uuid":
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    return value


def from_json(shape: Layout, node: Mapping[str, Any]) -> Any:
    """As Kafka's JSON converters write it: tagged fields with their default left out, records by their size alone."""
    made = zero_struct(shape.cls)
    for part in shape.parts:
        if part.json_name in node:
            setattr(made, part.field.name, _from_json(part, node[part.json_name]))
        elif part.json_name + "SizeInBytes" in node:
            setattr(made, part.field.name, bytes(node[part.json_name + "SizeInBytes"]))
    return made


def _from_json(part: Part, node: Any) -> Any:
    if node is None:
        return None
    kind, inner = part.field.type, part.inner
    if isinstance(kind, ListOf):
        return [from_json(inner, each) for each in node] if inner else [_scalar_from_json(kind.element, each) for each in node]
    return from_json(inner, node) if inner else _scalar_from_json(kind, node)


def _scalar_from_json(kind: Scalar, node: Any) -> Any:
    if kind.name == "binary":
        return base64.b64decode(node)
    if kind.name == "uuid":
        return base64.urlsafe_b64decode(node + "==")
    return node
