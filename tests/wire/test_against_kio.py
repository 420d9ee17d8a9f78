"""What we write, kio reads to the same values and writes to the same bytes, if it has the message and version.

kio has a class per message and version, with types of its own for errors, durations and points in time; `from_kio` says
what they are in the protocol. It keeps no unknown tags, so none are sent to it.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import io
import uuid
from functools import cache
from pkgutil import resolve_name
from random import Random
from typing import TYPE_CHECKING, Any, get_args

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer

from chronik.wire.compiler import decode, encode
from chronik.wire.notation import ZERO_UUID, ListOf, Struct, zero_struct
from tests.oracle.kafka_schemas import plain
from tests.wire.instances import Anything, Layout, all_messages, edges, layout, make

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

RANDOM_INSTANCES = 20
MILLISECOND = dt.timedelta(milliseconds=1)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@cache
def kio_classes() -> dict[tuple[str, int], Any]:
    """kio's path of the class, by the name we share and the version."""
    return {
        (path.rpartition(":")[2], version): path
        for versions in schema_name_map.values()
        for version, kinds in versions.items()
        for path in kinds.values()
    }


def shared() -> Iterator[tuple[type[Struct], int]]:
    for name, message in all_messages().items():
        for version in message.versions:
            if (name, version) in kio_classes():
                yield message, version


@pytest.mark.parametrize(("message", "version"), list(shared()), ids=lambda v: getattr(v, "__name__", f"v{v}"))
def test_kio_reads_what_we_write_and_writes_the_same(message: type[Struct], version: int) -> None:
    entity = resolve_name(kio_classes()[message.__name__, version])
    read, write = entity_reader(entity), entity_writer(entity)
    shape = layout(message, version)
    random = Random(f"{message.__name__} v{version} kio")
    instances = [instance for _, instance in edges(shape)]
    instances += [make(shape, Anything(random)) for _ in range(RANDOM_INSTANCES)]
    for instance in instances:
        tame(shape, instance, entity)
        ours = encode(instance, version)
        theirs, size = read(ours, 0)
        assert size == len(ours)
        assert from_kio(shape, theirs) == instance
        again = io.BytesIO()
        write(again, theirs)
        assert again.getvalue().hex() == ours.hex()
        assert decode(message, version, ours) == instance


def fields_of_kio(shape: Layout, entity: Any) -> Iterator[tuple[Any, Any]]:
    """Our parts, each with kio's field. kio says a unit by the type, we say it in the name."""
    theirs = {plain(field.name): field for field in dataclasses.fields(entity)}
    for part in shape.parts:
        name = plain(part.name)
        yield part, theirs.pop(name, None) or theirs.pop(name.removesuffix("ms"))
    assert not theirs, f"kio has more fields: {list(theirs)}"


def tame(shape: Layout, instance: Any, entity: Any) -> None:
    """Brings values into the range of kio's types: known errors, times that Python's datetime can tell."""
    for part, field in fields_of_kio(shape, entity):
        value = getattr(instance, part.name)
        kind = field.metadata.get("kafka_type")
        if value is None:
            continue
        if part.inner:
            for each in value if isinstance(part.type, ListOf) else [value]:
                tame(part.inner, each, entity_in(field.type))
        elif kind == "error_code":
            setattr(instance, part.name, ERROR_CODES[value % len(ERROR_CODES)])
        elif kind == "timedelta_i64":
            setattr(instance, part.name, value % 2**40 - 2**39)
        elif kind == "datetime_i64":
            setattr(instance, part.name, -1 if value < 0 and type(None) in get_args(field.type) else value % 2**42)


ERROR_CODES = [code.value for code in ErrorCode]


def entity_in(kind: Any) -> Any:
    """The class inside `X`, `X | None`, `tuple[X, ...]` and `tuple[X, ...] | None`."""
    if dataclasses.is_dataclass(kind):
        return kind
    return next((found for found in map(entity_in, get_args(kind)) if found), None)


def from_kio(shape: Layout, entity: Any) -> Any:
    made = zero_struct(shape.struct)
    for part, field in fields_of_kio(shape, entity):
        value = getattr(entity, field.name)
        if part.inner and value is not None:
            many = isinstance(part.type, ListOf)
            value = [from_kio(part.inner, each) for each in value] if many else from_kio(part.inner, value)
        elif isinstance(value, tuple):
            value = [plain_value(field, each) for each in value]
        else:
            value = plain_value(field, value)
        setattr(made, part.name, value)
    return made


def plain_value(field: Any, value: Any) -> Any:
    if isinstance(value, dt.timedelta):
        return value // MILLISECOND
    if isinstance(value, dt.datetime):
        return (value - EPOCH) // MILLISECOND
    if isinstance(value, uuid.UUID):
        return value.bytes
    if value is None:
        return {"uuid": ZERO_UUID, "datetime_i64": -1}.get(field.metadata.get("kafka_type"))
    return value
