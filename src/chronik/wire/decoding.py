"""Generates the decoder of one message at one version.

Everything is inlined into a single function: nested structs become nested loops, and neighbouring fixed-size fields
with the following length or count are read by one `unpack_from`. A count is checked against the remaining bytes and the
memory budget before anything is allocated. The function stops at the first error; `explain` then describes it.

A second kind of decoder is a generator that yields after every ELEMENTS_PER_PIECE elements, so that a message with very
many elements does not block the event loop. It does not explain errors: that would re-read the message without pauses.
"""

from __future__ import annotations

from struct import Struct as Packing
from struct import error as struct_error
from typing import Any

from chronik.wire import primitives
from chronik.wire.errors import MalformedMessage
from chronik.wire.notation import Field, ListOf, Scalar, Struct
from chronik.wire.source import Shape, Source

ELEMENTS_PER_PIECE = 32


def make_decoder(message: type[Struct], version: int, explain: Any, *, in_pieces: bool = False) -> Any:
    """`decode(buffer, at=0, budget=None) -> (message, end)`, raising MalformedMessage and nothing else.

    `in_pieces`: a generator that returns (message, end, cost in bytes of the objects made).
    """
    source = Source()
    source.names.update(
        new=object.__new__,
        Refused=primitives.Refused,
        read_varint_rest=primitives.read_varint_rest,
        struct_of_many=primitives.struct_of_many,
        faults=(struct_error, IndexError, UnicodeDecodeError, primitives.Refused),
        explain=explain,
        MESSAGE=message,
    )
    line = source.line
    line("def decode(buffer, at=0, budget=None):")
    source.indent = 1
    line("start, limit = at, len(buffer)")
    line("if budget is None:")
    line(f"    budget = limit * {primitives.OBJECT_BYTES_PER_WIRE_BYTE} + {primitives.OBJECT_BYTES_FREE}")
    line("allowed = budget")
    line("try:")
    source.indent = 2
    if in_pieces:
        source.names["MalformedMessage"] = MalformedMessage
        line(f"left = {ELEMENTS_PER_PIECE}")
        line("if not limit: yield 1")  # makes it a generator, even for a message without arrays
    writer = DecoderWriter(Shape(message, version), source, in_pieces=in_pieces)
    made = writer.struct(message)
    line(f"return {made}, at{', allowed - budget' if in_pieces else ''}")
    source.indent = 1
    line("except faults:")
    if in_pieces:
        reason = "malformed here, or more elements than a message may have"
        line(f"    raise MalformedMessage({message.__name__!r}, {version}, 'message', at, {reason!r}) from None")
        return source.function("decode")
    line(f"    {' = '.join(writer.holders)} = None")  # frees the decoded parts before reading again
    line(f"    raise explain(MESSAGE, {version}, buffer, start, allowed) from None")
    return source.function("decode")


class DecoderWriter:
    def __init__(self, shape: Shape, source: Source, *, in_pieces: bool = False) -> None:
        self.shape, self.source, self.in_pieces = shape, source, in_pieces
        self.run: list[tuple[str, str]] = []  # (struct code, variable) of fixed-size values not yet read
        self.holders: list[str] = []  # variables that hold lists and structs

    def flush(self) -> None:
        """Reads the open run with one call."""
        if not self.run:
            return
        packing = Packing(">" + "".join(code for code, _ in self.run))
        targets = ", ".join(variable for _, variable in self.run)
        if packing.format == ">B":
            self.source.line(f"{targets} = buffer[at]")
        else:
            comma = "," if len(self.run) == 1 else ""
            self.source.line(f"{targets}{comma} = {self.source.name_of(packing.unpack_from, 'unpack')}(buffer, at)")
        self.source.line(f"at += {packing.size}")
        self.run = []

    def piece(self) -> None:
        """Code after each element, for decoders that work in pieces."""
        if self.in_pieces:
            self.source.line("left -= 1")
            self.source.line("if left <= 0:")
            self.source.line(f"    left = {ELEMENTS_PER_PIECE}")
            self.source.line("    yield 1")

    def struct(self, struct: type[Struct]) -> str:
        """Reads every field, then builds the object; returns its variable."""
        values = {field.name: self.field(field) for field in self.shape.in_place(struct)}
        if self.shape.flexible:
            values |= self.tag_section(self.shape.tagged(struct))
        self.flush()
        return self.build(struct, values)

    def build(self, struct: type[Struct], values: dict[str, str]) -> str:
        line = self.source.line
        made = self.source.variable("made")
        self.holders.append(made)
        line(f"{made} = new({self.source.name_of(struct, struct.__name__)})")
        for field in struct.fields:
            line(f"{made}.{field.name} = {values.get(field.name) or self.default(field)}")
        line(f"{made}.unknown_tags = {values.get('unknown_tags', '()')}")
        return made

    def default(self, field: Field) -> str:
        if isinstance(field.type, ListOf) and field.default is not None:
            return "[]"
        if isinstance(field.default, int | str | bytes | None):
            return repr(field.default)
        return self.source.name_of(field.default, "default")

    def field(self, field: Field) -> str:
        """Adds one field to the run, or reads it; returns the variable that holds or will hold it."""
        compact, nullable = self.shape.compact(field), self.shape.nullable(field)
        return self.kind(
            field.name, field.type, compact=compact, nullable=nullable, null_struct=self.shape.null_struct(field)
        )

    def kind(self, name: str, kind: Any, *, compact: bool, nullable: bool, null_struct: int = -1) -> str:
        if isinstance(kind, Scalar):
            return self.scalar(name, kind, compact=compact, nullable=nullable)
        if isinstance(kind, ListOf):
            return self.array(name, kind.element, compact=compact, nullable=nullable)
        return self.nullable_struct(name, kind, null_struct) if nullable else self.struct(kind)

    def scalar(self, name: str, scalar: Scalar, *, compact: bool, nullable: bool) -> str:
        line, value = self.source.line, self.source.variable(name)
        if scalar.code:
            self.run.append((scalar.code, value))
            return value
        is_text = scalar.name == "string"
        if not compact:
            length = self.length(name, "h" if is_text else "i")
            is_there, size, null = f"{length} >= 0", length, f"elif {length} == -1:"
        elif is_text:
            length = self.compact_length(name, refused_above=primitives.STRING_BYTES_MAX)
            is_there, size, null = length, f"{length} - 1", "else:"
        else:
            length = self.compact_length(name, is_often_long=True)
            is_there, size, null = length, f"{length} - 1", "else:"
        end = self.source.variable("end")
        line(f"if {is_there}:")
        line(f"    {end} = at + {size}")
        line(f"    if {end} > limit:")
        line("        raise Refused")
        taken = {"string": "str(buffer[at:{}], 'utf-8')", "binary": "bytes(buffer[at:{}])", "records": "buffer[at:{}]"}
        line(f"    {value} = {taken[scalar.name].format(end)}")
        line(f"    at = {end}")
        self.null_branch(value, null, nullable=nullable)
        return value

    def length(self, name: str, code: str) -> str:
        """Reads a length or count together with the preceding run; -1 means null."""
        length = self.source.variable(f"{name}_size")
        self.run.append((code, length))
        self.flush()
        return length

    def compact_length(self, name: str, *, refused_above: int | None = None, is_often_long: bool = False) -> str:
        """Reads a length or count plus one; 0 means null. `is_often_long` reads two bytes without a call."""
        line, length = self.source.line, self.source.variable(f"{name}_size")
        self.run.append(("B", length))
        self.flush()
        line(f"if {length} > 127:")
        self.source.indent += 1
        if is_often_long:
            line("if (rest := buffer[at]) < 128:")
            line(f"    {length} += (rest << 7) - 128")
            line("    at += 1")
            line("else:")
            line(f"    {length}, at = read_varint_rest(buffer, at, {length})")
        else:
            line(f"{length}, at = read_varint_rest(buffer, at, {length})")
        if refused_above is not None:
            line(f"if {length} > {refused_above + 1}:")
            line("    raise Refused")
        self.source.indent -= 1
        return length

    def null_branch(self, value: str, null: str, *, nullable: bool) -> None:
        """`null` is the branch that a null value takes."""
        line = self.source.line
        if nullable:
            line(null)
            line(f"    {value} = None")
        if not nullable or null != "else:":
            line("else:")
            line("    raise Refused")

    def array(self, name: str, element: Any, *, compact: bool, nullable: bool) -> str:
        line, value = self.source.line, self.source.variable(name)
        self.holders.append(value)
        bytes_min = self.shape.kind_bytes_min(element, compact=self.shape.flexible)
        if compact:
            count = self.compact_length(name)
            null = "else:"
            line(f"if {count}:")
            line(f"    {count} -= 1")
        else:
            count = self.length(name, "i")
            null = f"elif {count} == -1:"
            line(f"if {count} >= 0:")
        self.source.indent += 1
        per_element, per_three_bytes = self.shape.cost_of_many(element)
        contents = f" + min({count}, (limit - at) // 3) * {per_three_bytes}" if per_three_bytes else ""
        line(f"budget -= {count} * {per_element}{contents}")
        too_many = f"({count} > {primitives.ELEMENTS_MAX} or {count} * {bytes_min} > limit - at)"
        if not (isinstance(element, Scalar) and element.name == "uuid"):
            too_many = f"{count} > 1 and {too_many}"  # reading a single element finds out whether it is there
        line(f"if budget < 0 or {too_many}:")
        line("    raise Refused")
        self.elements(value, count, element)
        self.source.indent -= 1
        self.null_branch(value, null, nullable=nullable)
        return value

    def elements(self, value: str, count: str, element: Any) -> None:
        line = self.source.line
        if isinstance(element, Scalar) and element.code:
            end = self.source.variable("end")
            line(f"{end} = at + {count} * {element.size_bytes}")
            if element.name == "uuid":
                line(f"{value} = [bytes(buffer[i:i + 16]) for i in range(at, {end}, 16)]")
            else:
                line(f"{value} = list(struct_of_many({element.code!r}, {count}).unpack_from(buffer, at))")
            line(f"at = {end}")
            return
        line(f"{value} = []")
        line(f"for _ in range({count}):")
        self.source.indent += 1
        made = self.kind("item", element, compact=self.shape.flexible, nullable=False)
        line(f"{value}.append({made})")
        self.piece()
        self.source.indent -= 1

    def nullable_struct(self, name: str, struct: type[Struct], null: int) -> str:
        """A nullable struct starts with one byte: `null`, or 1."""
        line, value, present = self.source.line, self.source.variable(name), self.source.variable("present")
        self.run.append(("b", present))
        self.flush()
        line(f"if {present} == 1:")
        self.source.indent += 1
        line(f"{value} = {self.struct(struct)}")
        self.source.indent -= 1
        line(f"elif {present} == {null}:")
        line(f"    {value} = None")
        line("else:")
        line("    raise Refused")
        return value

    def tag_section(self, tagged: list[Field]) -> dict[str, str]:
        """Reads the tags after a flexible struct; nearly always a single zero byte, read with the preceding run."""
        line, variable = self.source.line, self.source.variable
        count, unknown, tag, end = variable("tags"), variable("unknown"), variable("tag"), variable("end")
        self.run.append(("B", count))
        self.flush()
        values = {field.name: variable(field.name) for field in tagged}
        for field in tagged:
            line(f"{values[field.name]} = {self.default(field)}")
        line(f"{unknown} = ()")
        line(f"if {count}:")
        self.source.indent += 1
        line(f"if {count} > 127:")
        line(f"    {count}, at = read_varint_rest(buffer, at, {count})")
        line(f"budget -= {count} * {primitives.TAG_COST_BYTES}")
        line(f"if {count} > {primitives.TAGS_MAX} or budget < 0:")
        line("    raise Refused")
        line(f"{unknown} = []")
        line(f"for _ in range({count}):")
        self.source.indent += 1
        self.piece()
        for number in (tag, end):
            line(f"{number} = buffer[at]")
            line("at += 1")
            line(f"if {number} > 127:")
            line(f"    {number}, at = read_varint_rest(buffer, at, {number})")
        line(f"{end} += at")
        line(f"if {end} > limit:")
        line("    raise Refused")
        for field in tagged:
            self.known_tag(field, values[field.name], tag, end)
        line(f"{unknown}.append(({tag}, bytes(buffer[at:{end}])))")
        line(f"at = {end}")
        self.source.indent -= 1
        line(f"{unknown} = tuple({unknown})")
        self.source.indent -= 1
        return {**values, "unknown_tags": unknown}

    def known_tag(self, field: Field, target: str, tag: str, end: str) -> None:
        line = self.source.line
        line(f"if {tag} == {field.tag}:")
        self.source.indent += 1
        value = self.field(field)
        self.flush()
        line(f"{target} = {value}")
        line(f"if at != {end}:")
        line("    raise Refused")
        line("continue")
        self.source.indent -= 1
