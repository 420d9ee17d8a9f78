"""Format strings of `chronik consume --template`: `{timestamp} {key}: {value}`. Parsed once, before anything is read.

Fields: topic, partition, offset, timestamp, timestamp_ms, key, value, headers; `{value.city}` is a field of a value
that is JSON. `\\n`, `\\t`, `{{` and `}}` stand for a line break, a tab and braces. What is missing is (null).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from chronik.cli.errors import Misused
from chronik.cli.naming import did_you_mean
from chronik.cli.output import time_text

if TYPE_CHECKING:
    from chronik.client.topology import TopicPartition
    from chronik.wire.records import Record

Field = Callable[["TopicPartition", "Record"], "bytes | None"]

NULL: Final = b"(null)"
_PIECE: Final = re.compile(r"\{\{|\}\}|\\[nt\\]|\{([^{}]*)\}|[{}]")
_LITERALS: Final = {"{{": b"{", "}}": b"}", "\\n": b"\n", "\\t": b"\t", "\\\\": b"\\"}

FIELDS: Final[dict[str, Field]] = {
    "topic": lambda at, record: at.topic.encode(),
    "partition": lambda at, record: b"%d" % at.partition,
    "offset": lambda at, record: b"%d" % record.offset,
    "timestamp": lambda at, record: (time_text(record.timestamp) or NULL.decode()).encode(),
    "timestamp_ms": lambda at, record: b"%d" % record.timestamp,
    "key": lambda at, record: record.key,
    "value": lambda at, record: record.value,
    "headers": lambda at, record: headers_text(record),
}


class Template:
    """Raises Misused for a format string that cannot be read."""

    def __init__(self, text: str) -> None:
        self._parts: list[bytes | Field] = []
        end = 0
        for piece in _PIECE.finditer(text):
            self._parts.append(text[end : piece.start()].encode())
            end = piece.end()
            if piece[0] in _LITERALS:
                self._parts.append(_LITERALS[piece[0]])
            elif piece[1] is None:
                raise Misused(f"--template: a single {piece[0]!r} at character {piece.start() + 1}; write it twice")
            else:
                self._parts.append(_field(piece[1]))
        self._parts.append(text[end:].encode())

    def line(self, at: TopicPartition, record: Record) -> bytes:
        filled = (part if isinstance(part, bytes) else _or_null(part(at, record)) for part in self._parts)
        return b"".join(filled) + b"\n"


def headers_text(record: Record) -> bytes:
    return b",".join(name.encode("utf-8", "replace") + b"=" + (value or b"") for name, value in record.headers)


def _or_null(data: bytes | None) -> bytes:
    return NULL if data is None else data


def _field(name: str) -> Field:
    if name in FIELDS:
        return FIELDS[name]
    root, dot, rest = name.partition(".")
    if root in ("key", "value") and dot and rest:
        path = rest.split(".")
        return lambda at, record: _member(FIELDS[root](at, record), path)
    raise Misused(
        f"--template: there is no field {name!r}{did_you_mean(name, FIELDS) or ';'} fields are {', '.join(FIELDS)}, "
        "and value.NAME for a field of JSON"
    )


def _member(data: bytes | None, path: list[str]) -> bytes | None:
    try:
        found: Any = json.loads(data or b"null")
    except (ValueError, RecursionError):
        return None
    for name in path:
        if isinstance(found, dict):
            found = found.get(name)
        elif isinstance(found, list) and name.isascii() and name.isdigit() and int(name) < len(found):
            found = found[int(name)]
        else:
            return None
    if found is None:
        return None
    text = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace")
