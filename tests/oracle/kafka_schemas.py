"""Kafka's own message schemas, read out of its jars: which messages and versions a release has, and its field names.

They say what is to be compared and how the JSON converters spell a field. They never say what bytes are right: that is
asked of the generated classes, see `message_oracle`.
"""

from __future__ import annotations

import json
import re
import zipfile
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from chronik.wire.notation import Versions
from tests.oracle.message_oracle import class_path

if TYPE_CHECKING:
    from collections.abc import Mapping

# Messages of the controller's quorum, the log tiers and the metadata log live in other jars; Chronik has its own.
JARS_WITH_MESSAGES = ("kafka-clients-", "kafka-group-coordinator-", "kafka-transaction-coordinator-", "kafka-share-coordinator-")


class KafkaField(NamedTuple):
    json_name: str
    versions: Versions
    map_key: bool  # the Java collection finds elements by this field
    fields: Mapping[str, KafkaField]  # of the struct, or of the structs in the list


class KafkaMessage(NamedTuple):
    name: str
    versions: Versions
    fields: Mapping[str, KafkaField]


@cache
def kafka_schemas(release: str) -> dict[str, KafkaMessage]:
    """Every message that has a version in this release, by its name."""
    found = {}
    for jar in class_path(release):
        if not jar.name.startswith(JARS_WITH_MESSAGES):
            continue
        with zipfile.ZipFile(jar) as files:
            for path in files.namelist():
                if path.startswith("common/message/") and path.endswith(".json"):
                    message = _message(_json_without_comments(files.read(path).decode()))
                    if list(message.versions):
                        found[message.name] = message
    return found


def plain(name: str) -> str:
    """What `ThrottleTimeMs` and `throttle_time_ms` have in common."""
    return name.replace("_", "").lower()


def _json_without_comments(text: str) -> dict[str, Any]:
    return json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))


def _message(schema: dict[str, Any]) -> KafkaMessage:
    shared = {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", ())}
    versions = Versions.parse(schema.get("validVersions", "none"))  # enumerations have none
    return KafkaMessage(schema["name"], versions, _fields(schema.get("fields", ()), shared))


def _fields(written: list[dict[str, Any]], shared: dict[str, Any]) -> dict[str, KafkaField]:
    return {
        plain(field["name"]): KafkaField(
            json_name=field["name"][0].lower() + field["name"][1:],
            versions=Versions.parse(field.get("versions") or field["taggedVersions"]),
            map_key=field.get("mapKey", False),
            fields=_fields(field.get("fields") or shared.get(field["type"].removeprefix("[]"), ()), shared),
        )
        for field in written
    }
