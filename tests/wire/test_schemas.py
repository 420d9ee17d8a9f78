"""Every message we describe is the message Kafka describes, field by field, in every version of two releases.

Kafka's jars carry the JSON schemas that its classes are generated from. The tests read one schema of one release at one
version and compare it with our fields at that version, so they know nothing of how two releases became one description.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import zipfile
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import chronik.wire.messages
from chronik.wire.headers import RequestHeader, ResponseHeader
from chronik.wire.notation import (
    ALL,
    NONE,
    VERSION_MAX,
    ZERO_UUID,
    Data,
    InternalRecord,
    ListOf,
    Request,
    Response,
    Scalar,
    Struct,
    Versions,
)
from tests.oracle.jars import kafka_jars

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

RELEASES = "4.3.1", "3.9.1"
PARTS_OF_KAFKA = "clients", "group-coordinator", "transaction-coordinator", "share-coordinator"

# What 3.9.1 calls otherwise.
MESSAGE_NAMES_IN_3_9 = {
    "ListConfigResourcesRequest": "ListClientMetricsResourcesRequest",
    "ListConfigResourcesResponse": "ListClientMetricsResourcesResponse",
}
FIELD_NAMES_IN_3_9 = {
    "ListConfigResourcesResponse": {"config_resources": "client_metrics_resources", "resource_name": "name"}
}
# Fields that 4.3.1 has in a version which 3.9.1 knew without them. All but two are tagged, so a reader may lack them;
# leader_epoch and share's metadata_hash changed the bytes, while share groups were still early access.
ADDED_WITHOUT_A_NEW_VERSION = {
    "ConsumerGroupCurrentMemberAssignmentValue": {"assignment_epochs"},
    "ConsumerGroupMetadataValue": {"metadata_hash"},
    "ConsumerGroupTargetAssignmentMetadataValue": {"assignment_timestamp"},
    "OffsetCommitValue": {"topic_id"},
    "ReadShareGroupStateSummaryResponse": {"leader_epoch"},
    "ShareGroupMetadataValue": {"metadata_hash"},
    "TransactionLogValue": {
        "previous_producer_id",
        "next_producer_id",
        "next_producer_epoch",
        "client_transaction_version",
    },
}


def our_modules() -> dict[str, ModuleType]:
    package = chronik.wire.messages
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    return {name: importlib.import_module(f"{package.__name__}.{name}") for name in names}


def structs_in(module: ModuleType) -> dict[str, type[Struct]]:
    own = {name: value for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
    return {name: value for name, value in own.items() if isinstance(value, type) and issubclass(value, Struct)}


def our_messages() -> dict[str, type[Struct]]:
    found: dict[str, type[Struct]] = {"RequestHeader": RequestHeader, "ResponseHeader": ResponseHeader}
    for module in our_modules().values():
        for name, struct in structs_in(module).items():
            if issubclass(struct, (Request, Response, Data)):
                assert name not in found, f"two messages are called {name}"
                found[name] = struct
    return found


MESSAGES = our_messages()
for_each_message = pytest.mark.parametrize("message", MESSAGES.values(), ids=list(MESSAGES))


@cache
def schemas_of(release: str) -> dict[str, dict[str, Any]]:
    found = {}
    for part in PARTS_OF_KAFKA:
        for jar in kafka_jars(release).glob(f"kafka-{part}-{release}.jar"):
            with zipfile.ZipFile(jar) as files:
                for path in files.namelist():
                    if re.fullmatch(r"common/message/\w+\.json", path):
                        schema = json.loads(re.sub(r"^\s*//.*$", "", files.read(path).decode(), flags=re.MULTILINE))
                        found[schema["name"]] = schema
    return found


def schema_in(release: str, message: type[Struct]) -> dict[str, Any]:
    """Kafka's schema of our message; one without versions if the release has no such message."""
    name = message.__name__
    if release == "3.9.1":
        name = MESSAGE_NAMES_IN_3_9.get(name, name)
    return schemas_of(release).get(name, {"validVersions": "none"})


def versions_in(release: str, message: type[Struct]) -> Iterator[tuple[int, int]]:
    """(version in that release's schema, the same version in ours)."""
    versions = Versions.parse(schema_in(release, message)["validVersions"])
    if release == "3.9.1" and issubclass(message, InternalRecord) and message.__name__.endswith("Key"):
        # A key's record type since 4.0 was its version before.
        yield from [(message.record_type, 0)] if message.record_type in versions else []
    else:
        yield from ((version, version) for version in versions)


class Fact(NamedTuple):
    """All that is true of a field at one version."""

    name: str
    type: str
    nullable: bool
    tag: int | None
    flexible: bool
    default: Any
    must_be_given: bool | None  # None: the notation has no way to say it
    fields: tuple[Fact, ...]  # of the struct, or of the structs in the list


def kafka_facts(schema: dict[str, Any], version: int) -> tuple[Fact, ...]:
    shared = {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", ())}

    def holds(stated: dict[str, Any], key: str) -> bool:
        return version in Versions.parse(stated.get(key, "none"))

    def facts(fields: list[dict[str, Any]]) -> tuple[Fact, ...]:
        present = (f for f in fields if holds(f, "versions" if "versions" in f else "taggedVersions"))
        return tuple(fact(field) for field in present)

    def fact(field: dict[str, Any]) -> Fact:
        element = field["type"].removeprefix("[]")
        parts = field.get("fields") or shared.get(element)
        return Fact(
            name=snake(field["name"]),
            type=field["type"].replace(element, "struct") if parts else field["type"],
            nullable=holds(field, "nullableVersions"),
            tag=int(field["tag"]) if holds(field, "taggedVersions") else None,
            flexible=holds(field if "flexibleVersions" in field else schema, "flexibleVersions"),
            default=kafka_default(field),
            # The string "null" is a default; the bare word null is none, as Kafka's generator reads it.
            must_be_given=field.get("default") is None,
            fields=facts(parts or []),
        )

    return facts(schema["fields"])


def is_flexible(schema: dict[str, Any], version: int) -> bool:
    return version in Versions.parse(schema["flexibleVersions"])


def snake(name: str) -> str:
    name = name.replace("KRaft", "Kraft").replace("2Pc", "_2pc")
    return re.sub(r"(?<=[a-z0-9])[A-Z]", r"_\g<0>", name).lower()


def kafka_default(field: dict[str, Any]) -> Any:
    kind, stated = field["type"], field.get("default")
    if stated == "null":
        return None
    if kind.startswith("[]"):
        return []
    if kind[0].isupper():
        return "struct"
    if kind in ("string", "bytes", "records", "uuid"):
        assert stated in (None, ""), "a default nobody has used yet"
        return {"string": "", "uuid": ZERO_UUID}.get(kind, b"")
    if kind == "bool":
        return str(stated).lower() == "true"
    return 0 if stated is None else int(str(stated), 0)


def our_facts(message: type[Struct], version: int, struct: type[Struct]) -> tuple[Fact, ...]:
    facts = []
    for field in struct.fields:
        if version not in field.versions:
            continue
        element = field.type.element if isinstance(field.type, ListOf) else field.type
        kind = (
            {"boolean": "bool", "binary": "bytes"}.get(element.name, element.name)
            if isinstance(element, Scalar)
            else "struct"
        )
        written_with_field = field.versions != ALL or field.tag is not None or field.nullable not in (ALL, NONE)
        facts.append(
            Fact(
                name=field.name,
                type="[]" + kind if isinstance(field.type, ListOf) else kind,
                nullable=version in field.nullable,
                tag=field.tag if version in field.tagged else None,
                flexible=version in (message.flexible if field.flexible is None else field.flexible),
                default="struct" if isinstance(field.default, Struct) else field.default,
                must_be_given=None if written_with_field else field.required,
                fields=() if isinstance(element, Scalar) else our_facts(message, version, element),
            )
        )
    return tuple(facts)


def as_3_9_had_it(message: type[Struct], facts: tuple[Fact, ...]) -> tuple[Fact, ...]:
    added = ADDED_WITHOUT_A_NEW_VERSION.get(message.__name__, set())
    names = FIELD_NAMES_IN_3_9.get(message.__name__, {})
    return tuple(
        fact._replace(name=names.get(fact.name, fact.name), fields=as_3_9_had_it(message, fact.fields))
        for fact in facts
        if fact.name not in added
    )


def comparable(expected: tuple[Fact, ...], ours: tuple[Fact, ...]) -> tuple[Fact, ...]:
    """What Kafka says, silent where our notation is."""
    if len(expected) != len(ours):
        return expected
    return tuple(
        theirs._replace(
            must_be_given=None if our.must_be_given is None else theirs.must_be_given,
            fields=comparable(theirs.fields, our.fields),
        )
        for theirs, our in zip(expected, ours, strict=True)
    )


@pytest.mark.java
@for_each_message
def test_every_version_has_the_fields_that_kafka_gives_it(message: type[Struct]) -> None:
    """One wrong bound, type, null, tag, default or place, and a client reads other bytes than we wrote."""
    known = set()
    for release in RELEASES:
        for their_version, version in versions_in(release, message):
            ours = our_facts(message, version, message)
            if release == "3.9.1":
                ours = as_3_9_had_it(message, ours)
            schema = schema_in(release, message)
            expected = comparable(kafka_facts(schema, their_version), ours)
            assert ours == expected, f"v{version}, Kafka {release}"
            assert (version in message.flexible) == is_flexible(schema, their_version), f"v{version}, Kafka {release}"
            known.add(version)
    assert set(message.versions) == known


@pytest.mark.java
def test_every_api_of_a_broker_is_described_in_a_file_of_its_name() -> None:
    """A key that is missing here can be neither served nor refused properly."""
    modules = our_modules()
    expected = {}
    for schema in schemas_of("4.3.1").values():
        if "broker" in schema.get("listeners", ()):
            api = schema["name"].removesuffix("Request")
            expected[snake(api)] = {f"{api}Request": schema["apiKey"], f"{api}Response": schema["apiKey"]}
    described = {}
    for name, module in modules.items():
        messages = {n: s.api_key for n, s in structs_in(module).items() if issubclass(s, (Request, Response))}
        if messages:
            described[name] = messages
    assert described == expected
    assert len(expected) == 77


@pytest.mark.java
def test_every_record_of_an_internal_topic_is_described_with_its_type() -> None:
    """A record of unknown type stops the loading of a coordinator."""
    kinds = "coordinator-key", "coordinator-value"
    expected = {s["name"]: s["apiKey"] for s in schemas_of("4.3.1").values() if s["type"] in kinds}
    assert {n: m.record_type for n, m in MESSAGES.items() if issubclass(m, InternalRecord)} == expected


@pytest.mark.java
def test_everything_else_that_clients_store_or_read_is_described() -> None:
    """Only the principal that brokers forward to controllers is left out: our brokers forward their own way."""
    expected = {s["name"] for s in schemas_of("4.3.1").values() if s["type"] in ("data", "header")}
    others = {n for n, m in MESSAGES.items() if issubclass(m, Data) and not issubclass(m, InternalRecord)}
    assert others == expected - {"DefaultPrincipalData"}


def reach_of_structs(message: type[Struct]) -> dict[type[Struct], set[int]]:
    """In which versions of the message a struct appears at all."""
    reach: dict[type[Struct], set[int]] = {}

    def visit(struct: type[Struct], versions: set[int]) -> None:
        reach[struct] = reach.get(struct, set()) | versions
        for field in struct.fields:
            element = field.type.element if isinstance(field.type, ListOf) else field.type
            if not isinstance(element, Scalar):
                visit(element, {version for version in versions if version in field.versions})

    visit(message, set(message.versions))
    return reach


def test_versions_are_written_in_one_way_only() -> None:
    """`4+` includes the newest version and later ones, `4-7` has ended; a field in all versions has no range."""
    reach: dict[type[Struct], set[int]] = {}
    newest: dict[type[Struct], int] = {}
    for message in MESSAGES.values():
        for struct, versions in reach_of_structs(message).items():
            reach[struct] = reach.get(struct, set()) | versions
            newest[struct] = max(newest.get(struct, 0), message.versions.last)
        assert message.flexible == NONE or message.flexible.last == VERSION_MAX, message

    def written(struct: type[Struct], versions: set[int]) -> Versions:
        return Versions(min(versions), VERSION_MAX if max(versions) == newest[struct] else max(versions))

    for struct, versions in reach.items():
        for field in struct.fields:
            where = f"{struct.__name__}.{field.name}"
            present = {version for version in versions if version in field.versions}
            assert field.versions == (ALL if present == versions else written(struct, present)), where
            for narrower in (field.nullable, field.tagged):
                some = {version for version in present if version in narrower}
                assert narrower == (field.versions if some == present else written(struct, some) if some else NONE), (
                    where
                )


def test_every_struct_is_part_of_a_message() -> None:
    """A struct that nothing uses is a field that was forgotten."""
    used = {struct for message in MESSAGES.values() for struct in reach_of_structs(message)}
    assert [s for module in our_modules().values() for s in structs_in(module).values() if s not in used] == []
