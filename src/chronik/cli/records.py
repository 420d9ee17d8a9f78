"""How records are printed: values as they are, or one JSON object per line. A terminal gets escapes for what it
would obey.

Bytes that are text stand as text in JSON; others as base64, under the same name with _base64. A value that is a JSON
object or array stands as JSON. `chronik produce --input json` reads what is written here. On a terminal
JSON is indented.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chronik.cli.json_text import document_in, indented, on_one_line
from chronik.cli.output import NOTHING, time_text, visible, visible_json
from chronik.cli.templates import NULL, Template, headers_text

if TYPE_CHECKING:
    from chronik.client.topology import TopicPartition
    from chronik.wire.records import Record

_SPECIAL = re.compile(r"[^\t\n -~]")


@dataclass(slots=True)
class RecordPrinter:
    as_json: bool
    keys: bool = False
    headers: bool = False
    offsets: bool = False
    timestamps: bool = False
    template: Template | None = None
    printed_count: int = 0

    def print(self, at: TopicPartition, records: Sequence[Record]) -> None:
        write = sys.stdout.buffer.write
        is_screen = sys.stdout.isatty()
        self.printed_count += len(records)
        for record in records:
            if self.as_json:
                text = self._json(at, record)
                write(visible_json(indented(text)).encode() + b"\n" if is_screen else text.encode() + b"\n")
            elif self.template is not None:
                line = self.template.line(at, record)
                write(visible_bytes(line) if is_screen else line)
            else:
                line = self._line(at, record, is_screen=is_screen)
                write(visible_bytes(line) if is_screen else line)

    def _line(self, at: TopicPartition, record: Record, *, is_screen: bool) -> bytes:
        columns: list[bytes] = []
        if self.offsets:
            columns.append(f"{at.topic}-{at.partition}@{record.offset}".encode())
        if self.timestamps:
            columns.append((time_text(record.timestamp) or NOTHING).encode())
        if self.headers:
            columns.append(headers_text(record) or NOTHING.encode())
        if self.keys:
            columns.append(NULL if record.key is None else record.key)
        document = document_in(record.value) if is_screen else None
        if document is not None:
            lines = [b"\t".join(columns)] if columns else []
            return b"\n".join([*lines, indented(document).encode()]) + b"\n"
        columns.append(NULL if record.value is None else record.value)
        return b"\t".join(columns) + b"\n"

    def _json(self, at: TopicPartition, record: Record) -> str:
        """One line. A value that is a JSON object or array stands in it as it is."""
        document: dict[str, Any] = {
            "topic": at.topic,
            "partition": at.partition,
            "offset": record.offset,
            "timestamp": time_text(record.timestamp),
            "timestamp_ms": record.timestamp,
        }
        document |= _text_or_base64("key", record.key)
        headers = [
            {
                "key": name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
                **_text_or_base64("value", value),
            }
            for name, value in record.headers
        ]
        value = document_in(record.value)
        if value is None:
            return _dumped({**document, **_text_or_base64("value", record.value), "headers": headers})
        front, back = _dumped(document), _dumped({"headers": headers})
        return f'{front[:-1]}, "value": {on_one_line(value)}, {back[1:]}'


def _dumped(document: dict[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False)


def visible_bytes(line: bytes) -> bytes:
    """For a screen: bytes that are no text and control characters as escapes, so that no value can take it over."""
    text = line.decode("utf-8", "backslashreplace")
    return _SPECIAL.sub(lambda found: visible(found[0]), text).encode()


def _text_or_base64(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}
