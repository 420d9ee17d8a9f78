"""Spark's DDL as types, without Spark: `id long, lines array<struct<sku: string, price: decimal(9,2)>>`.

Only types that a table can hold. `json_values` reads values strictly by these types.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from chronik.pipeline.errors import PipelineError

SCALARS: Final = {
    **{name: name for name in ("boolean", "byte", "short", "integer", "long", "float", "double")},
    **{name: name for name in ("string", "binary", "date", "timestamp", "timestamp_ntz")},
    "tinyint": "byte",
    "smallint": "short",
    "int": "integer",
    "bigint": "long",
    "real": "float",
    "timestamp_ltz": "timestamp",
    "varchar": "string",
    "char": "string",
}
DECIMALS: Final = ("decimal", "dec", "numeric")
PRECISION_MAX: Final = 38
DEPTH_MAX: Final = 50  # maximum depth of nested types
_TOKEN: Final = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(\w+)|([<>(),:])|(\S))")


@dataclass(frozen=True, slots=True)
class Scalar:
    name: str

    def __str__(self) -> str:
        return "int" if self.name == "integer" else self.name


@dataclass(frozen=True, slots=True)
class Decimal:
    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class Array:
    item: Kind

    def __str__(self) -> str:
        return f"array<{self.item}>"


@dataclass(frozen=True, slots=True)
class Map:
    value: Kind

    def __str__(self) -> str:
        return f"map<string,{self.value}>"


@dataclass(frozen=True, slots=True)
class Struct:
    fields: tuple[tuple[str, Kind], ...]

    def __str__(self) -> str:
        return f"struct<{','.join(f'{name}:{kind}' for name, kind in self.fields)}>"


Kind = Scalar | Decimal | Array | Map | Struct


def parse_ddl(text: str) -> Struct:
    """The columns of a schema. SCHEMA_UNREADABLE names the error and its position."""
    reader = _Reader(text)
    fields = reader.fields(end="")
    return Struct(fields)


def parse_type(text: str) -> Kind:
    """Parses one type, such as that of a key."""
    reader = _Reader(text)
    kind = reader.kind(0)
    reader.expect("")
    return kind


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [
            (quoted or string or word or sign or other, match.start(match.lastindex or 0))
            for match in _TOKEN.finditer(text)
            for quoted, string, word, sign, other in [match.groups()]
        ]
        self._at = 0

    @property
    def _next(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._next
        self._at += 1
        return token

    def expect(self, token: str) -> None:
        if self._next != token:
            raise self._wrong(f"{token!r} is missing" if token else "something follows the type")
        self._at += 1

    def fields(self, end: str, depth: int = 0) -> tuple[tuple[str, Kind], ...]:
        found: dict[str, Kind] = {}
        while True:
            name = self._name()
            if name.lower() in {each.lower() for each in found}:
                raise self._wrong(f"column {name!r} is there twice")
            if self._next == ":":
                self._take()
            found[name] = self.kind(depth)
            if self._next.upper() == "NOT":
                self._take()
                if self._take().upper() != "NULL":
                    raise self._wrong("NULL is missing after NOT")
            if self._next.upper() == "COMMENT":
                self._take()
                if self._take()[:1] not in ("'", '"'):
                    raise self._wrong("a text is missing after COMMENT")
            if self._next != ",":
                self.expect(end)
                return tuple(found.items())
            self._take()

    def kind(self, depth: int) -> Kind:
        if depth > DEPTH_MAX:
            raise self._wrong(f"types are nested more than {DEPTH_MAX} deep")
        name = self._take().lower()
        if name in DECIMALS:
            return self._decimal()
        if name == "array":
            self.expect("<")
            item = self.kind(depth + 1)
            self.expect(">")
            return Array(item)
        if name == "map":
            self.expect("<")
            if self.kind(depth + 1) != Scalar("string"):
                raise self._wrong("the names of a JSON object are strings: write map<string, ...>")
            self.expect(",")
            value = self.kind(depth + 1)
            self.expect(">")
            return Map(value)
        if name == "struct":
            self.expect("<")
            return Struct(self.fields(">", depth + 1))
        if name not in SCALARS:
            raise self._wrong(f"{name!r} is not a type that a table can hold" if name else "a type is missing")
        if name in ("varchar", "char") and self._next == "(":
            self._numbers()
        return Scalar(SCALARS[name])

    def _decimal(self) -> Decimal:
        if self._next != "(":
            return Decimal(10, 0)
        precision, scale = (*self._numbers(), 0)[:2]
        if not 0 <= scale <= precision <= PRECISION_MAX or precision == 0:
            raise self._wrong(f"decimal({precision},{scale}) does not exist: up to {PRECISION_MAX} digits")
        return Decimal(precision, scale)

    def _numbers(self) -> tuple[int, ...]:
        self.expect("(")
        found = []
        while True:
            token = self._take()
            if not token.isdecimal():
                raise self._wrong("a number is missing")
            found.append(int(token))
            if self._next != ",":
                self.expect(")")
                return tuple(found)
            self._take()

    def _name(self) -> str:
        token = self._take()
        if token.startswith("`"):
            return token[1:-1].replace("``", "`")
        if not token or not (token[0].isalnum() or token[0] == "_"):
            raise self._wrong("the name of a column is missing")
        return token

    def _wrong(self, reason: str) -> PipelineError:
        at = self._tokens[self._at - 1][1] if 0 < self._at <= len(self._tokens) else len(self._text)
        return PipelineError("SCHEMA_UNREADABLE", schema=self._text, reason=f"{reason}, near character {at + 1}")
