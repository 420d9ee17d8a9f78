"""Kafka's own message schemas, read out of its jars: which messages and versions a release has, and its field names.

They say what is to be compared and how the JSON converters spell a field. They never say which bytes are right: that is
asked of the generated classes, see `message_oracle`.
"""

from __future__ import annotations

import json
import re
import zipfile
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from chronik.wire.notation import InternalRecord, Struct, Versions
from tests.oracle.jars import kafka_jars

if TYPE_CHECKING:
    from collections.abc import Mapping

RELEASES = ("3.9.1", "4.3.1")
JARS_WITH_MESSAGES = ("clients", "group-coordinator", "transaction-coordinator", "share-coordinator")

# What 3.9.1 calls otherwise, by the name it has since.
NAMES_IN_3_9 = {
    "ListConfigResourcesRequest": "ListClientMetricsResourcesRequest",
    "ListConfigResourcesResponse": "ListClientMetricsResourcesResponse",
    "LegacyOffsetCommitKey": "OffsetCommitKey",
}
FIELD_NAMES_IN_3_9 = {
    "ListConfigResourcesResponse": {"config_resources": "ClientMetricsResources", "resource_name": "Name"}
}


class KafkaField(NamedTuple):
    """A field that is present in the requested version."""

    json_name: str
    nullable: bool
    fields: Mapping[str, KafkaField]  # of the struct, or of the structs in the list


class KafkaMessage(NamedTuple):
    """One of our messages at one version, as a release has it."""

    name: str
    version: int  # in that release; for the keys of internal records not always ours
    fields: Mapping[str, KafkaField]  # by name, see `plain`


def kafka_message(release: str, message: type[Struct], version: int) -> KafkaMessage | None:
    """None if the release does not have our message, or not in this version."""
    schema = _schema(release, message)
    if _version_is_record_type(message, release) and version == 0:
        version = message.record_type
    if version not in Versions.parse(schema["validVersions"]):
        return None
    shared = {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", ())}
    renamed = FIELD_NAMES_IN_3_9.get(message.__name__, {}) if release == "3.9.1" else {}
    ours = {plain(theirs): plain(ours) for ours, theirs in renamed.items()}

    def present(fields: list[dict[str, Any]]) -> dict[str, KafkaField]:
        found = {}
        for field in fields:
            if version in Versions.parse(field.get("versions") or field["taggedVersions"]):
                parts = field.get("fields") or shared.get(field["type"].removeprefix("[]"), [])
                name = ours.get(plain(field["name"]), plain(field["name"]))
                nullable = version in Versions.parse(field.get("nullableVersions", "none"))
                found[name] = KafkaField(field["name"][0].lower() + field["name"][1:], nullable, present(parts))
        return found

    return KafkaMessage(schema["name"], version, present(schema["fields"]))


def kafka_versions(release: str, message: type[Struct]) -> set[int]:
    """The versions that a release has of our message, as we count them."""
    versions = Versions.parse(_schema(release, message)["validVersions"])
    if _version_is_record_type(message, release):
        return {0} if message.record_type in versions else set()
    return set(versions)


def _schema(release: str, message: type[Struct]) -> dict[str, Any]:
    name = NAMES_IN_3_9.get(message.__name__, message.__name__) if release == "3.9.1" else message.__name__
    return schemas_of(release).get(name, {"validVersions": "none"})


def _version_is_record_type(message: type[Struct], release: str) -> TypeGuard[type[InternalRecord]]:
    """A key's record type since 4.0 was its version before."""
    return release == "3.9.1" and issubclass(message, InternalRecord) and message.__name__.endswith("Key")


def plain(name: str) -> str:
    """What `ThrottleTimeMs` and `throttle_time_ms` have in common."""
    return name.replace("_", "").lower()


@cache
def schemas_of(release: str) -> dict[str, dict[str, Any]]:
    found = {}
    for part in JARS_WITH_MESSAGES:
        for jar in kafka_jars(release).glob(f"kafka-{part}-{release}.jar"):
            with zipfile.ZipFile(jar) as files:
                for path in files.namelist():
                    if re.fullmatch(r"common/message/\w+\.json", path):
                        schema = json.loads(re.sub(r"^\s*//.*$", "", files.read(path).decode(), flags=re.MULTILINE))
                        found[schema["name"]] = schema
    return found
