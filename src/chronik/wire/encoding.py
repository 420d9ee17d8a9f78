"""Generates the encoder of one message at one version.

Neighbouring fixed-size fields, short arrays of numbers and the following length are written by one `pack` call,
selected by the arrays' lengths. Lengths that need more than one varint byte take a slower branch. The parts are
returned without joining them: records stay in place until they are written to the socket.

A second kind of encoder is a generator that yields after every ELEMENTS_PER_PIECE elements, for messages with so many
elements that encoding them at once would block the event loop.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import groupby
from struct import Struct as Packing
from struct import error as struct_error
from typing import Any

from chronik.wire import primitives
from chronik.wire.errors import Unencodable
from chronik.wire.notation import Field, ListOf, Scalar, Shared, Struct
from chronik.wire.source import Shape, Source

ELEMENTS_PER_PIECE = 32


def make_encoder(message: type[Struct], version: int, *, in_pieces: bool = False) -> Any:
    """`encode(message, parts)`: appends bytes-like parts; raises only Unencodable. With `in_pieces` it is a
    generator."""
    source = Source()
    source.names.update(
        struct_of_many=primitives.struct_of_many,
        write_varint=primitives.write_varint,
        records_of=records_of,
        write_tags=write_tags,
        Shared=Shared,
        Unencodable=Unencodable,
        faults=(struct_error, TypeError, AttributeError, ValueError, UnicodeEncodeError),
    )
    line = source.line
    line("def encode(message, parts):")
    source.indent = 1
    line("add = parts.append")
    line("try:")
    source.indent = 2
    if in_pieces:
        line(f"left = {ELEMENTS_PER_PIECE}")
        line("if not left: yield 1")  # makes it a generator, even for a message without arrays
    writer = EncoderWriter(Shape(message, version), source, in_pieces=in_pieces)
    writer.struct(message, "message")
    writer.flush()
    line("return")
    source.indent = 1
    line("except faults as fault:")
    line(f"    raise Unencodable(f'{message.__name__} v{version}: {{fault}}') from fault")
    return source.function("encode")


def records_of(value: Any) -> tuple[int, list[Any]]:
    """The size and the pieces of a records field."""
    if isinstance(value, list):
        return sum(map(len, value)), value
    return len(value), [value]


def write_tags(known: list[tuple[int, bytes]], unknown: tuple[tuple[int, bytes], ...]) -> bytes:
    """The tag section: known tags, which are in ascending order, merged with kept unknown ones."""
    tags = sorted([*known, *unknown]) if unknown and (known or len(unknown) > 1) else known or unknown
    return b"".join([primitives.write_varint(len(tags)), *[_tag_start(tag, len(data)) + data for tag, data in tags]])


@lru_cache(maxsize=256)
def _tag_start(tag: int, size_bytes: int) -> bytes:
    """The bytes before a tag's data. Cached, because few tags are in use."""
    return primitives.write_varint(tag) + primitives.write_varint(size_bytes)


class EncoderWriter:
    """Emits code. `run` holds pending items of four kinds:

    ("fixed", code, expression)            a fixed-size value
    ("array", code, variable)              an array of fixed-size numbers after its count
    ("length", variable)                   a varint; one byte in the fast branch
    ("tags", condition, slow expression)   a tag section; one zero byte in the fast branch, if `condition` holds
    """

    def __init__(self, shape: Shape, source: Source, *, in_pieces: bool = False) -> None:
        self.shape, self.source, self.in_pieces = shape, source, in_pieces
        self.run: list[tuple[str, ...]] = []

    def flush(self) -> None:
        if not self.run:
            return
        line, run = self.source.line, self.run
        conditions = [c for item in run for c in self.fast_if(item)]
        if conditions:
            line(f"if {' and '.join(conditions)}:")
            self.source.indent += 1
        self.fused(run)
        if conditions:
            self.source.indent -= 1
            line("else:")
            self.source.indent += 1
            for are_fixed, items in groupby(run, lambda item: item[0] == "fixed"):
                if are_fixed:
                    self.fused(list(items))
                else:
                    for item in items:
                        self.slow(item)
            self.source.indent -= 1
        self.run = []

    def fast_if(self, item: tuple[str, ...]) -> list[str]:
        if item[0] == "array":
            return [f"{item[2]}_count < 127"]  # also for wide counts, to limit the number of cached shapes
        if item[0] == "length":
            return [f"{item[1]} < 128"]
        return [item[1]] if item[0] == "tags" and item[1] else []

    def fused(self, run: list[tuple[str, ...]]) -> None:
        """One pack call for the whole run."""
        pieces, arguments, counts = [""], [], []
        for item in run:
            if item[0] == "fixed":
                pieces[-1] += item[1]
                arguments.append(item[2])
            elif item[0] == "array":
                counts.append(f"{item[2]}_count")
                pieces[-1] += "B" if self.shape.flexible else "i"
                arguments += [f"{counts[-1]} + 1" if self.shape.flexible else counts[-1], f"*{item[2]}"]
                pieces += [item[1], ""]
            else:
                pieces[-1] += "B"
                arguments.append(item[1] if item[0] == "length" else "0")
        if counts:
            shapes = self.source.variable("shapes")
            self.source.names[shapes] = primitives.Shapes(pieces)
            pack = f"{shapes}[{', '.join(counts)},]"
        else:
            pack = self.source.name_of(Packing(">" + pieces[0]).pack, "pack")
            if all(argument.isdigit() for argument in arguments):
                packed = Packing(">" + pieces[0]).pack(*map(int, arguments))
                self.source.line(f"add({packed!r})")
                return
        self.source.line(f"add({pack}({', '.join(arguments)}))")

    def slow(self, item: tuple[str, ...]) -> None:
        line = self.source.line
        if item[0] == "array":
            self.numbers(item[1], item[2])
        elif item[0] == "length":
            line(f"add(write_varint({item[1]}))")
        else:
            line(f"add({item[2]})")

    def numbers(self, code: str, values: str) -> None:
        count = f"{values}_count"
        if self.shape.flexible:
            self.source.line(f"add(write_varint({count} + 1))")
        else:
            self.source.line(f"add({self.source.name_of(Packing('>i').pack, 'pack')}({count}))")
        self.source.line(f"add(struct_of_many({code!r}, {count}).pack(*{values}))")

    def struct(self, struct: type[Struct], owner: str) -> None:
        for field in self.shape.in_place(struct):
            self.field(field, f"{owner}.{field.name}")
        if self.shape.flexible:
            self.tags(struct, owner)

    def field(self, field: Field, expression: str) -> None:
        compact, nullable = self.shape.compact(field), self.shape.nullable(field)
        null_struct = self.shape.null_struct(field)
        self.kind(field.name, field.type, expression, compact=compact, nullable=nullable, null_struct=null_struct)

    def kind(
        self, name: str, kind: Any, expression: str, *, compact: bool, nullable: bool, null_struct: int = -1
    ) -> None:
        if isinstance(kind, Scalar) and kind.code:
            self.run.append(("fixed", kind.code, expression))
        elif isinstance(kind, Scalar):
            self.sized(name, kind, expression, compact=compact, nullable=nullable)
        elif isinstance(kind, ListOf):
            self.array(name, kind.element, expression, compact=compact, nullable=nullable)
        else:
            self.single(name, kind, expression, null_struct if nullable else None)

    def length(self, size: str, code: str, *, compact: bool) -> None:
        """A length of -1 means null; compact lengths are encoded plus one."""
        if compact:
            self.source.line(f"{size} += 1")
            self.run.append(("length", size))
        else:
            self.run.append(("fixed", code, size))

    def sized(self, name: str, scalar: Scalar, expression: str, *, compact: bool, nullable: bool) -> None:
        line, value = self.source.line, self.source.variable(name)
        size = f"{value}_size"
        line(f"{value} = {expression}")
        if nullable:
            line(f"if {value} is None:")
            line(f"    {size}, {value} = -1, {'()' if scalar.name == 'records' else repr(b'')}")
            line("else:")
            self.source.indent += 1
        if scalar.name == "records":
            line(f"{size}, {value} = records_of({value})")
        else:
            if scalar.name == "string":
                line(f"{value} = {value}.encode()")
            line(f"{size} = len({value})")
        if nullable:
            self.source.indent -= 1
        if scalar.name == "string" and compact:
            line(f"if {size} > {primitives.STRING_BYTES_MAX}:")
            line(f"    raise ValueError('{name} is longer than {primitives.STRING_BYTES_MAX} bytes')")
        self.length(size, "h" if scalar.name == "string" else "i", compact=compact)
        self.flush()
        if scalar.name == "records":
            line(f"parts.extend({value})")
        else:
            line(f"add({value})")

    def array(self, name: str, element: Any, expression: str, *, compact: bool, nullable: bool) -> None:
        line, values = self.source.line, self.source.variable(name)
        fixed = isinstance(element, Scalar) and element.code
        if fixed and element.name != "uuid" and not nullable and compact == self.shape.flexible:
            line(f"{values} = {expression}")
            line(f"{values}_count = len({values})")
            self.run.append(("array", element.code, values))
            return
        size = f"{values}_size"
        line(f"{values} = {expression}")
        line(f"{size} = len({values})" if not nullable else f"{size} = -1 if {values} is None else len({values})")
        self.length(size, "i", compact=compact)
        self.flush()
        if isinstance(element, Scalar) or not element.shared:
            self.items(values, element, nullable=nullable)
            return
        key = self.source.name_of((self.shape.message, self.shape.version), "key")
        line(f"if type({values}) is Shared:")
        self.source.indent += 1
        line(f"if {key} not in {values}.encoded:")
        self.source.indent += 1
        line("whole, parts = parts, []")
        line("add = parts.append")
        self.items(values, element, nullable=nullable)
        line(f"{values}.encoded[{key}] = b''.join(parts)")
        line("parts = whole")
        line("add = parts.append")
        self.source.indent -= 1
        line(f"add({values}.encoded[{key}])")
        self.source.indent -= 1
        line("else:")
        self.source.indent += 1
        self.items(values, element, nullable=nullable)
        self.source.indent -= 1

    def items(self, values: str, element: Any, *, nullable: bool) -> None:
        line = self.source.line
        line(f"for item in {values}:" if not nullable else f"for item in {values} or ():")
        self.source.indent += 1
        item = self.source.variable("item")
        line(f"{item} = item")
        self.kind("item", element, item, compact=self.shape.flexible, nullable=False)
        self.flush()
        if self.in_pieces:
            line("left -= 1")
            line("if left <= 0:")
            line(f"    left = {ELEMENTS_PER_PIECE}")
            line("    yield 1")
        self.source.indent -= 1

    def single(self, name: str, struct: type[Struct], expression: str, null: int | None) -> None:
        value = self.source.variable(name)
        self.source.line(f"{value} = {expression}")
        if null is None:
            return self.struct(struct, value)
        self.flush()
        self.source.line(f"if {value} is None:")
        self.source.line(f"    add({Packing('>b').pack(null)!r})")
        self.source.line("else:")
        self.source.indent += 1
        self.run.append(("fixed", "b", "1"))
        self.struct(struct, value)
        self.flush()
        self.source.indent -= 1
        return None

    def tags(self, struct: type[Struct], owner: str) -> None:
        """Writes the section with the run unless a tag is present: a non-default field, or a kept unknown tag."""
        tagged = self.shape.tagged(struct)
        conditions = [f"not {owner}.unknown_tags", *(self.at_default(f, f"{owner}.{f.name}") for f in tagged)]
        known = "[]"
        if tagged:
            known = f"{self.tag_writer(tagged)}({owner})"
        self.run.append(("tags", " and ".join(conditions), f"write_tags({known}, {owner}.unknown_tags)"))

    def at_default(self, field: Field, expression: str) -> str:
        if field.default is None:
            return f"{expression} is None"
        if isinstance(field.type, ListOf):
            return f"{expression} == []"
        default = self.source.name_of(field.default, "default")
        if isinstance(field.type, Scalar):
            return f"{expression} == {default}"
        inner = self.shape.in_place(field.type)
        if self.shape.tagged(field.type) or not all(isinstance(each.type, Scalar) for each in inner):
            return f"({expression} is {default} or {expression} == {default})"
        # Compares field by field in this version: comparing structs is slower than writing them.
        values = [self.source.name_of(getattr(field.default, each.name), "default") for each in inner]
        equal = [f"{expression}.{each.name} == {value}" for each, value in zip(inner, values, strict=True)]
        return f"({expression} is {default} or ({' and '.join([*equal, f'not {expression}.unknown_tags'])}))"

    def tag_writer(self, tagged: list[Field]) -> str:
        """A separate function: it is rarely needed, and its parts need a length before them."""
        source = Source(beside=self.source)
        name = self.source.variable("tags_of")
        source.line(f"def {name}(owner):")
        source.indent = 1
        source.line("tags = []")
        inner = EncoderWriter(self.shape, source)
        for field in tagged:
            source.line(f"if not {inner.at_default(field, f'owner.{field.name}')}:")
            source.indent += 1
            source.line("parts = []")
            source.line("add = parts.append")
            inner.field(field, f"owner.{field.name}")
            inner.flush()
            source.line(f"tags.append(({field.tag}, b''.join(parts)))")
            source.indent -= 1
        source.line("return tags")
        source.function(name)
        return name
