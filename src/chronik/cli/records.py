"""How records are printed: raw values for pipes and people, or one JSON object a line.

Bytes that are text stand as text in JSON; others as base64, under the same name with _base64. `chronik produce --input
json` reads what is written here.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chronik.cli.output import NOTHING, time_text

if TYPE_CHECKING:
    from chronik.client.topology import TopicPartition
    from chronik.wire.records import Record

NULL = b"(null)"


@dataclass(frozen=True, slots=True)
class RecordPrinter:
    as_json: bool
    keys: bool = False
    headers: bool = False
    offsets: bool = False
    timestamps: bool = False

    def print(self, at: TopicPartition, records: Sequence[Record]) -> None:
        write = sys.stdout.buffer.write
        for record in records:
            write(self._json(at, record) if self.as_json else self._line(at, record))

    def _line(self, at: TopicPartition, record: Record) -> bytes:
        columns: list[bytes] = []
        if self.offsets:
            columns.append(f"{at.topic}-{at.partition}@{record.offset}".encode())
        if self.timestamps:
            columns.append((time_text(record.timestamp) or NOTHING).encode())
        if self.headers:
            pairs = [name.encode("utf-8", "replace") + b"=" + (value or b"") for name, value in record.headers]
            columns.append(b",".join(pairs) or NOTHING.encode())
        if self.keys:
            columns.append(NULL if record.key is None else record.key)
        columns.append(NULL if record.value is None else record.value)
        return b"\t".join(columns) + b"\n"

    def _json(self, at: TopicPartition, record: Record) -> bytes:
        document: dict[str, Any] = {
            "topic": at.topic,
            "partition": at.partition,
            "offset": record.offset,
            "timestamp": time_text(record.timestamp),
            "timestamp_ms": record.timestamp,
        }
        document |= _text_or_base64("key", record.key)
        document |= _text_or_base64("value", record.value)
        document["headers"] = [
            {"key": name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")}
            | _text_or_base64("value", value)
            for name, value in record.headers
        ]
        return json.dumps(document, ensure_ascii=False).encode() + b"\n"


def _text_or_base64(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}
