"""The notation for Kafka's message schemas: one class per struct, one line per field.

    class ListOffsetsPartition(Struct):
        partition_index: int32
        current_leader_epoch: int32 = field("4+", default=-1)
        timestamp: int64

    class ListOffsetsRequest(Request, api_key=2, versions="0-11", flexible="6+"):
        replica_id: int32
        topics: list[ListOffsetsTopic]

A bare annotation is present in every version and required; `= literal` is present in every version with that default;
`= field(...)` defines everything else. `T | None` may be null wherever it is present, unless `nullable` restricts it.
Editors and type checkers treat the classes as plain dataclasses (keyword arguments only). Files that use the notation
start with `from __future__ import annotations`, so a message may precede its structs.

This module never reads or writes bytes: `compiler` creates functions for that from (message, version).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Union, dataclass_transform

if TYPE_CHECKING:
    from collections.abc import Iterator

    # One line each: a chained assignment would make them variables, which annotations cannot use.
    int8 = int
    int16 = int
    uint16 = int
    int32 = int
    uint32 = int
    int64 = int
    float64 = float
    boolean = bool
    string = str
    binary = bytes
    uuid = bytes  # 16 bytes, as on the wire; ZERO_UUID is Kafka's "none"
    # The records of a fetch response may be in several pieces of memory, and are sent without joining them.
    records = bytes | memoryview | list[memoryview]

INT16_MAX, INT32_MAX, INT64_MAX = 2**15 - 1, 2**31 - 1, 2**63 - 1
VERSION_MAX = INT16_MAX
ZERO_UUID = bytes(16)


class Versions(NamedTuple):
    """An inclusive range of versions; an empty one has first > last."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.last + 1))

    def __str__(self) -> str:
        if self.first > self.last:
            return "none"
        if self.last == VERSION_MAX:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Parses Kafka's notation: `4+`, `0-3`, `7`, `none`."""
        if text == "none":
            return cls(1, 0)
        if text.endswith("+"):
            return cls(int(text[:-1]), VERSION_MAX)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))


ALL, NONE = Versions.parse("0+"), Versions.parse("none")
MISSING: Any = object()  # no default: the caller must pass a value


class FieldSpec(NamedTuple):
    """The definition after the `=` of a field."""

    versions: Versions
    default: Any
    nullable: Versions | None  # None: wherever the annotation says `| None`
    tag: int | None
    tagged: Versions  # versions in which the field is in the tag section
    flexible: Versions | None  # None: as the message; only RequestHeader.client_id differs


def field(
    versions: str = "0+",
    *,
    default: Any = MISSING,
    nullable: str | None = None,
    tag: int | None = None,
    tagged: str | None = None,
    flexible: str | None = None,
) -> Any:
    """A field that is missing in some versions, or is tagged, or is nullable only in some versions.

    Without `default` it is the type's zero: 0, False, "", b"", an empty list, an all-default struct, or ZERO_UUID.
    The all-default struct of a tagged field is one shared object: replace it, never modify it.
    """
    present = Versions.parse(versions)
    return FieldSpec(
        versions=present,
        default=default,
        nullable=None if nullable is None else Versions.parse(nullable),
        tag=tag,
        tagged=NONE if tag is None else Versions.parse(tagged) if tagged else present,
        flexible=None if flexible is None else Versions.parse(flexible),
    )


class Scalar(NamedTuple):
    """A type without parts. `code` is its struct letter; variable-sized types have none."""

    name: str
    code: str
    size_bytes: int
    zero: Any

    def __or__(self, other: None) -> Nullable:
        return Nullable(self)


class Shared(list[Any]):
    """An immutable list of structs used in many messages: it is encoded once per version."""

    __slots__ = ("encoded",)

    def __init__(self, items: Iterable[Any]) -> None:
        super().__init__(items)
        self.encoded: dict[tuple[type, int], bytes] = {}  # (message, version): bytes; filled by the encoders


class ListOf(NamedTuple):
    element: Any  # Scalar or a Struct class

    def __or__(self, other: None) -> Nullable:
        return Nullable(self)


class Nullable(NamedTuple):
    type: Any


class _ListNotation:
    """`list[X]` inside an annotation."""

    def __class_getitem__(cls, element: Any) -> ListOf:
        return ListOf(element)


SCALARS = {
    scalar.name: scalar
    for scalar in (
        Scalar("boolean", "?", 1, False),
        Scalar("int8", "b", 1, 0),
        Scalar("int16", "h", 2, 0),
        Scalar("uint16", "H", 2, 0),
        Scalar("int32", "i", 4, 0),
        Scalar("uint32", "I", 4, 0),
        Scalar("int64", "q", 8, 0),
        Scalar("float64", "d", 8, 0.0),
        Scalar("uuid", "16s", 16, ZERO_UUID),
        Scalar("string", "", 0, ""),
        Scalar("binary", "", 0, b""),
        Scalar("records", "", 0, b""),
    )
}
if not TYPE_CHECKING:
    globals().update(SCALARS)

_ANNOTATION_NAMES = {**SCALARS, "list": _ListNotation}


class Field(NamedTuple):
    """One field with its annotation resolved, as used by the compiler."""

    name: str
    type: Any  # Scalar, ListOf or a Struct class
    versions: Versions
    nullable: Versions
    default: Any  # never MISSING: replaced by the type's zero
    required: bool  # required by the constructor
    tag: int | None
    tagged: Versions
    flexible: Versions | None


@dataclass_transform(kw_only_default=True)
class StructType(type):
    """Gives each struct its slots, and creates its constructor on first use (programs use only some messages)."""

    def __new__(mcs, name: str, bases: tuple[type, ...], body: dict[str, Any], **keywords: Any) -> StructType:
        names = [n for n, a in body.get("__annotations__", {}).items() if not str(a).startswith("ClassVar")]
        declared = {n: body.pop(n) for n in names if n in body}
        body["__slots__"] = tuple(names) if bases else ("unknown_tags",)
        made = super().__new__(mcs, name, bases, body)
        made._declared = {n: declared.get(n, MISSING) for n in names}  # type: ignore[attr-defined]
        for key, value in keywords.items():
            setattr(made, key, Versions.parse(value) if isinstance(value, str) else value)
        return made

    def __init__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any], **keywords: Any) -> None:
        super().__init__(name, bases, body)

    def __or__(cls, other: Any) -> Any:
        """With None, a nullable field type; with another class, a union for isinstance."""
        return Nullable(cls) if other is None else Union[cls, other]  # noqa: UP007 - `|` is what this is

    @property
    def fields(cls) -> tuple[Field, ...]:
        """The fields in wire order, annotations resolved."""
        resolved: tuple[Field, ...] | None = cls.__dict__.get("_fields")
        if resolved is None:
            resolved = tuple(_resolve(cls))
            cls._fields = resolved
        return resolved


class Struct(metaclass=StructType):
    """Base of all structs. Equal if all fields are equal; its repr is its source notation."""

    versions: ClassVar[Versions] = ALL
    flexible: ClassVar[Versions] = NONE
    shared: ClassVar[bool] = False  # whether lists of it may be `Shared`

    if TYPE_CHECKING:
        # Unknown tagged fields from a newer peer: (tag, bytes), kept so that re-encoding gives the same bytes.
        unknown_tags: ClassVar[tuple[tuple[int, bytes], ...]]
    else:

        def __init__(self, **values: Any) -> None:
            cls = type(self)
            cls.__init__ = _make_constructor(cls)
            cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        names = (*type(self)._declared, "unknown_tags")  # type: ignore[attr-defined]
        return all(getattr(self, name) == getattr(other, name) for name in names)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in type(self).fields)
        return f"{type(self).__name__}({values})"


class Request(Struct):
    """A message sent by a client."""

    api_key: ClassVar[int]


class Response(Struct):
    """The answer to the request of the same key and version."""

    api_key: ClassVar[int]


class Data(Struct):
    """Stored rather than sent: internal topics, embedded blobs, headers."""


class InternalRecord(Data):
    """Key or value of a record in an internal topic. Starts with an int16: a key's record_type, a value's version."""

    record_type: ClassVar[int]


def _resolve(cls: type) -> Iterator[Field]:
    names = {**vars(sys.modules[cls.__module__]), **_ANNOTATION_NAMES}
    for name, written in cls._declared.items():  # type: ignore[attr-defined]
        annotation = eval(cls.__annotations__[name], names)  # evaluates our own source, never input
        kind = annotation.type if isinstance(annotation, Nullable) else annotation
        spec = written if isinstance(written, FieldSpec) else field(default=written)
        can_be_null = spec.versions if spec.nullable is None else spec.nullable
        yield Field(
            name=name,
            type=kind,
            versions=spec.versions,
            nullable=can_be_null if isinstance(annotation, Nullable) else NONE,
            default=zero_of(kind) if spec.default is MISSING else spec.default,
            required=written is MISSING,
            tag=spec.tag,
            tagged=spec.tagged,
            flexible=spec.flexible,
        )


def zero_of(kind: Any) -> Any:
    """The value of an unset field. Callers create lists and structs themselves."""
    if isinstance(kind, Scalar):
        return kind.zero
    return [] if isinstance(kind, ListOf) else zero_struct(kind)


def zero_struct(cls: type[Struct]) -> Any:
    made = cls.__new__(cls)
    for each in cls.fields:
        setattr(made, each.name, each.default if isinstance(each.type, Scalar) else _fresh(each))
    made.unknown_tags = ()  # type: ignore[misc]
    return made


def _fresh(each: Field) -> Any:
    shared = each.default is None or (each.tag is not None and not isinstance(each.type, ListOf))
    return each.default if shared else zero_of(each.type)


def _make_constructor(cls: type) -> Any:
    """Generates `def __init__(self, *, a, b=default)` without loops, because handlers build many structs."""
    names: dict[str, Any] = {"fresh": _fresh}
    arguments, lines = [], []
    for each in cls.fields:  # type: ignore[attr-defined]
        if each.required:
            arguments.append(each.name)
            lines.append(f"self.{each.name} = {each.name}")
        elif isinstance(each.type, Scalar) or _fresh(each) is each.default:
            names[f"default_{each.name}"] = each.default
            arguments.append(f"{each.name}=default_{each.name}")
            lines.append(f"self.{each.name} = {each.name}")
        else:
            names["MISSING"] = MISSING
            names[f"field_{each.name}"] = each
            arguments.append(f"{each.name}=MISSING")
            make = "[]" if isinstance(each.type, ListOf) else f"fresh(field_{each.name})"
            lines.append(f"self.{each.name} = {make} if {each.name} is MISSING else {each.name}")
    signature = ", ".join(["self", *(["*"] if arguments else []), *arguments])
    body = "\n    ".join([*lines, "self.unknown_tags = ()"])
    exec(f"def __init__({signature}):\n    {body}", names)  # noqa: S102 - generated from our own schema
    return names["__init__"]
