"""What we write, kafka-python reads to the same values and writes to the same bytes, if it has the message and version.

It departs from the protocol on purpose in four places, which the functions below undo:
- an ApiVersionsResponse with an error is always read as v0, so none with an error is sent to it;
- fields of authorized operations are sets of bits, of one name whether a cluster's or a topic's;
- a tagged struct that did not come is None, not the all-default struct;
- a uuid of zeros is None.
It keeps no unknown tags, so none are sent to it.
"""

from __future__ import annotations

import importlib
import uuid
import warnings
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from chronik.wire.compiler import decode, encode
from chronik.wire.messages.api_versions import ApiVersionsResponse
from chronik.wire.notation import ZERO_UUID, ListOf, Struct, zero_struct
from tests.oracle.kafka_schemas import plain
from tests.wire.instances import Anything, Layout, Part, all_messages, edges, layout, make

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

RANDOM_INSTANCES = 20
MODULES = ("admin", "consumer", "metadata", "producer", "sasl")


@cache
def their_classes() -> dict[str, Any]:
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # of how it opens its schema files
        modules = [importlib.import_module(f"kafka.protocol.{name}") for name in MODULES]
    return {name: value for module in modules for name, value in vars(module).items() if hasattr(value, "json")}


def shared() -> Iterator[tuple[type[Struct], int]]:
    for name, message in all_messages().items():
        if name in their_classes():
            for version in message.versions:
                if version <= their_classes()[name].max_version:
                    yield message, version


@pytest.mark.parametrize(("message", "version"), list(shared()), ids=lambda v: getattr(v, "__name__", f"v{v}"))
def test_kafka_python_reads_what_we_write_and_writes_the_same(message: type[Struct], version: int) -> None:
    """It is the client of most Python programs, and its schemas were not read by the code that reads ours."""
    theirs = their_classes()[message.__name__]
    shape = layout(message, version)
    random = Random(f"{message.__name__} v{version} kafka-python")
    instances = [instance for _, instance in edges(shape)]
    instances += [make(shape, Anything(random)) for _ in range(RANDOM_INSTANCES)]
    for instance in instances:
        if isinstance(instance, ApiVersionsResponse):
            instance.error_code = 0
        ours = encode(instance, version)
        read = theirs.decode(ours, version=version, header=False)
        read._header = None  # decode does not set it, but encode of some classes reads it
        assert from_kafka_python(shape, read) == instance
        assert bytes(read.encode(header=False)).hex() == ours.hex()
        assert decode(message, version, ours) == instance


def from_kafka_python(shape: Layout, theirs: Any) -> Any:
    made = zero_struct(shape.struct)
    names = {plain(name): name for name in theirs.fields}
    for part in shape.parts:
        name = plain(part.name)
        if name not in names:
            name = name.removeprefix("cluster").removeprefix("topic")
        setattr(made, part.name, _value(part, getattr(theirs, names[name])))
    return made


def _value(part: Part, theirs: Any) -> Any:
    if isinstance(part.type, ListOf) and theirs is not None:
        return [from_kafka_python(part.inner, each) if part.inner else _plain(each) for each in theirs]
    if part.inner and theirs is not None:
        return from_kafka_python(part.inner, theirs)
    if theirs is None and part.field.tag is not None and part.inner:
        return part.field.default  # its name for a tagged struct that did not come
    if part.name.endswith("authorized_operations") and (theirs is None or isinstance(theirs, set)):
        return _bits(theirs)
    return ZERO_UUID if theirs is None and getattr(part.type, "name", "") == "uuid" else _plain(theirs)


def _bits(operations: set[int] | None) -> int:
    """Only the top bit means that they were not requested; in kafka-python that is None."""
    if operations is None:
        return -(2**31)
    return sum(1 << bit for bit in operations if bit < 31) - (2**31 if 31 in operations else 0)


def _plain(theirs: Any) -> Any:
    return theirs.bytes if isinstance(theirs, uuid.UUID) else theirs
