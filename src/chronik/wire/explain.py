"""The slow, simple reader: walks a schema field by field and reports what is wrong with some bytes, and where.

The compiled decoders only stop at an error; this module names message, version, field and offset. It reads valid bytes
as well, so tests compare the compiled decoders with it.
"""

from __future__ import annotations

from struct import Struct as Packing
from typing import Any

from chronik.wire import primitives
from chronik.wire.errors import MalformedMessage
from chronik.wire.notation import Field, ListOf, Scalar, Struct, zero_struct
from chronik.wire.source import Shape


def explain(message: type[Struct], version: int, buffer: memoryview, start: int, budget: int) -> MalformedMessage:
    """The error for bytes that the compiled decoder refused."""
    try:
        read_slowly(message, version, buffer, start, budget)
    except MalformedMessage as fault:
        return fault
    return MalformedMessage(message.__name__, version, "message", start, "refused")


def read_slowly(
    message: type[Struct], version: int, buffer: memoryview, start: int = 0, budget: int | None = None
) -> tuple[Any, int]:
    if budget is None:
        budget = len(buffer) * primitives.OBJECT_BYTES_PER_WIRE_BYTE + primitives.OBJECT_BYTES_FREE
    reader = _Reader(Shape(message, version), buffer, start, budget)
    return reader.struct(message, ""), reader.at


class _Reader:
    def __init__(self, shape: Shape, buffer: memoryview, at: int, budget: int) -> None:
        self.shape, self.buffer, self.at, self.budget = shape, buffer, at, budget

    def refuse(self, path: str, reason: str, at: int | None = None) -> MalformedMessage:
        where = self.at if at is None else at
        return MalformedMessage(self.shape.message.__name__, self.shape.version, path or "message", where, reason)

    def take(self, path: str, size_bytes: int) -> memoryview:
        left = len(self.buffer) - self.at
        if size_bytes > left:
            raise self.refuse(path, f"needs {size_bytes} bytes, {left} are left")
        self.at += size_bytes
        return self.buffer[self.at - size_bytes : self.at]

    def number(self, path: str, code: str) -> Any:
        packing = Packing(">" + code)
        return packing.unpack(self.take(path, packing.size))[0]

    def varint(self, path: str) -> int:
        start = self.at
        try:
            value, self.at = primitives.read_varint(self.buffer, self.at)
        except IndexError:
            raise self.refuse(path, "ends within a varint", start) from None
        except primitives.Refused as fault:
            raise self.refuse(path, str(fault), start) from None
        return value

    def struct(self, struct: type[Struct], path: str) -> Any:
        made = zero_struct(struct)
        for field in self.shape.in_place(struct):
            setattr(made, field.name, self.field(field, f"{path}.{field.name}".lstrip(".")))
        if self.shape.flexible:
            self.tags(struct, made, f"{path}.tags".lstrip("."))
        return made

    def field(self, field: Field, path: str) -> Any:
        compact, nullable = self.shape.compact(field), self.shape.nullable(field)
        null_struct = self.shape.null_struct(field)
        return self.kind(field.type, path, compact=compact, nullable=nullable, null_struct=null_struct)

    def kind(self, kind: Any, path: str, *, compact: bool, nullable: bool, null_struct: int = -1) -> Any:
        if isinstance(kind, ListOf):
            return self.array(kind.element, path, compact=compact, nullable=nullable)
        if not isinstance(kind, Scalar):
            return self.nullable_struct(kind, path, null_struct) if nullable else self.struct(kind, path)
        if kind.code:
            return self.number(path, kind.code)
        size_bytes = self.length(path, "h" if kind.name == "string" else "i", compact=compact, nullable=nullable)
        if size_bytes is None:
            return None
        if kind.name == "string" and size_bytes > primitives.STRING_BYTES_MAX:
            raise self.refuse(path, f"a string of {size_bytes} bytes, at most {primitives.STRING_BYTES_MAX} may be")
        data = self.take(path, size_bytes)
        if kind.name == "records":
            return data
        if kind.name == "binary":
            return bytes(data)
        try:
            return str(data, "utf-8")
        except UnicodeDecodeError as fault:
            raise self.refuse(path, f"not UTF-8: {fault.reason}", self.at - size_bytes) from None

    def length(self, path: str, code: str, *, compact: bool, nullable: bool) -> int | None:
        start = self.at
        size: int = self.varint(path) - 1 if compact else self.number(path, code)
        if size >= 0:
            return size
        if size == -1 and nullable:
            return None
        raise self.refuse(path, "null where a value is needed" if size == -1 else f"a length of {size}", start)

    def array(self, element: Any, path: str, *, compact: bool, nullable: bool) -> list[Any] | None:
        start = self.at
        count = self.length(path, "i", compact=compact, nullable=nullable)
        if count is None:
            return None
        left = len(self.buffer) - self.at
        if count > primitives.ELEMENTS_MAX:
            raise self.refuse(path, f"{count} elements, at most {primitives.ELEMENTS_MAX} are allowed", start)
        if count * self.shape.kind_bytes_min(element, compact=self.shape.flexible) > left:
            raise self.refuse(path, f"{count} elements cannot fit in the {left} bytes left", start)
        per_element, per_three_bytes = self.shape.cost_of_many(element)
        self.spend(path, count * per_element + min(count, left // 3) * per_three_bytes, start)
        return [self.kind(element, f"{path}[{i}]", compact=self.shape.flexible, nullable=False) for i in range(count)]

    def spend(self, path: str, cost_bytes: int, at: int) -> None:
        self.budget -= cost_bytes
        if self.budget < 0:
            raise self.refuse(path, "would take more memory than a message of this size may", at)

    def nullable_struct(self, struct: type[Struct], path: str, null: int) -> Any:
        present = self.number(path, "b")
        if present == null:
            return None
        if present != 1:
            raise self.refuse(path, f"{present} where 1 (present) or {null} (null) must stand", self.at - 1)
        return self.struct(struct, path)

    def tags(self, struct: type[Struct], made: Any, path: str) -> None:
        start = self.at
        count = self.varint(path)
        if count > primitives.TAGS_MAX:
            raise self.refuse(path, f"{count} tagged fields, at most {primitives.TAGS_MAX} are allowed", start)
        self.spend(path, count * primitives.TAG_COST_BYTES, start)
        known = {field.tag: field for field in self.shape.tagged(struct)}
        unknown: list[tuple[int, bytes]] = []
        for _ in range(count):
            tag, size_bytes = self.varint(path), self.varint(path)
            end = self.at + size_bytes
            if end > len(self.buffer):
                raise self.refuse(path, f"tag {tag} of {size_bytes} bytes, {len(self.buffer) - self.at} are left")
            if tag not in known:
                unknown.append((tag, bytes(self.take(path, size_bytes))))
                continue
            setattr(made, known[tag].name, self.field(known[tag], f"{path}.{known[tag].name}"))
            if self.at != end:
                raise self.refuse(path, f"tag {tag} says it ends at byte {end}")
        made.unknown_tags = tuple(unknown)
