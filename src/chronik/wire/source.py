"""Builds Python source code. Shared by the generators of encoders and decoders."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from chronik.wire.notation import NONE, Field, ListOf, Scalar, Struct, Versions

# Memory for one scalar; small integers and booleans are shared, a records field is a memoryview.
SCALAR_COST_BYTES = {"boolean": 0, "int8": 0, "uuid": 64, "string": 80, "binary": 48, "records": 208}
SLOT_COST_BYTES = 12  # a list's memory per element, including spare capacity
LIST_COST_BYTES = 112  # an empty list that grows by its first element


class Source:
    """Indented lines, and the objects they refer to by name."""

    def __init__(self, beside: Source | None = None) -> None:
        """`beside` is another function of the same message: both share names, and no variable is used twice."""
        self.lines: list[str] = []
        self.indent = 0
        self.names: dict[str, Any] = beside.names if beside else {}
        self._numbers: Iterator[int] = beside._numbers if beside else itertools.count(1)

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def variable(self, hint: str) -> str:
        """A variable name that is unique in this function."""
        return f"{hint}_{next(self._numbers)}"

    def name_of(self, thing: Any, hint: str) -> str:
        """A global name for an object that generated code needs."""
        for name, known in self.names.items():
            if known is thing:
                return name
        name = self.variable(hint)
        self.names[name] = thing
        return name

    def function(self, name: str) -> Any:
        code = compile("\n".join(self.lines), f"<chronik.wire {name}>", "exec")
        exec(code, self.names)  # noqa: S102 - made from our own schemas, never from input
        return self.names[name]


class Shape:
    """One message class at one version."""

    def __init__(self, message: type[Struct], version: int) -> None:
        self.message, self.version = message, version
        self.flexible = version in message.flexible

    def in_place(self, struct: type[Struct]) -> list[Field]:
        return [f for f in struct.fields if self.version in f.versions and self.version not in f.tagged]

    def tagged(self, struct: type[Struct]) -> list[Field]:
        found = [f for f in struct.fields if self.version in f.versions and self.version in f.tagged]
        return sorted(found, key=lambda f: f.tag or 0) if self.flexible else []

    def absent(self, struct: type[Struct]) -> list[Field]:
        return [f for f in struct.fields if self.version not in f.versions]

    def nullable(self, field: Field) -> bool:
        return self.version in field.nullable

    def null_struct(self, field: Field) -> int:
        """The byte for a null struct (1 means present): an int8 in its place, a varint in a tag."""
        return 0 if self.version in field.tagged else -1

    def compact(self, field: Field) -> bool:
        """Whether its length is a varint; RequestHeader.client_id stays old in a flexible header."""
        override: Versions | None = field.flexible
        return self.flexible and (override is None or (override != NONE and self.version in override))

    def bytes_min(self, field: Field) -> int:
        """The minimum size of a field: it bounds an element count before anything is allocated."""
        return self.kind_bytes_min(field.type, compact=self.compact(field), nullable=self.nullable(field))

    def kind_bytes_min(self, kind: Any, *, compact: bool, nullable: bool = False) -> int:
        if isinstance(kind, Scalar):
            if kind.code:
                return kind.size_bytes
            return 1 if compact else 2 if kind.name == "string" else 4
        if isinstance(kind, ListOf):
            return 1 if compact else 4
        return 1 if nullable else self.struct_bytes_min(kind)

    def struct_bytes_min(self, struct: type[Struct]) -> int:
        return sum(map(self.bytes_min, self.in_place(struct))) + (1 if self.flexible else 0)

    def cost_of_many(self, kind: Any) -> tuple[int, int]:
        """The memory of an array: bytes per element, and bytes per three remaining bytes of input.

        Strings and blobs of less than two bytes are shared objects, so only as many cost memory as the input can hold.
        """
        if isinstance(kind, Scalar) and kind.name in ("string", "binary"):
            return SLOT_COST_BYTES, SCALAR_COST_BYTES[kind.name]
        if isinstance(kind, Scalar):
            return self.cost_bytes(kind) + 8, 0  # numbers are unpacked into a tuple before they are a list
        return self.cost_bytes(kind), 0

    def cost_bytes(self, kind: Any) -> int:
        """The memory of an element with empty contents, including its list slot (64-bit CPython, rounded up)."""
        if isinstance(kind, Scalar):
            return SLOT_COST_BYTES + SCALAR_COST_BYTES.get(kind.name, 32)
        if isinstance(kind, ListOf):
            return SLOT_COST_BYTES + LIST_COST_BYTES
        present = [*self.in_place(kind), *self.tagged(kind)]
        fields = sum(self.cost_bytes(f.type) - SLOT_COST_BYTES for f in present)
        lists = sum(LIST_COST_BYTES for f in self.absent(kind) if isinstance(f.type, ListOf))
        return SLOT_COST_BYTES + 48 + 8 * (len(kind.fields) + 1) + fields + lists
