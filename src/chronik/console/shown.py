"""Records as JSON for pages: bytes as JSON text, text or hex, cut at a bound. Pure; nothing is escaped or interpreted.

A page shows these texts as text nodes, so markup and control characters in them do nothing.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from chronik.wire.records import Record

JSON_BYTES_MAX: Final = 1 << 20  # larger values count as text: parsing them only to name their kind would cost more
VALUE_BYTES_DEFAULT: Final = 1_024
APPEND_TIME: Final = 1


def shown_bytes(data: bytes | None, size_max: int) -> dict[str, Any] | None:
    if data is None:
        return None
    size = len(data)
    kind, text = _kind_and_text(data, size_max)
    return {"kind": kind, "text": text, "size_bytes": size, "is_truncated": size > size_max}


def _kind_and_text(data: bytes, size_max: int) -> tuple[str, str]:
    """The kind is that of the whole value if that is small enough to look at, so it does not depend on the cut."""
    if len(data) <= JSON_BYTES_MAX:
        try:
            whole = data.decode()
        except UnicodeDecodeError:
            return "hex", data[:size_max].hex()
        return "json" if _is_json(whole) else "text", cut(data, size_max)
    try:
        return "text", data[:size_max].decode()
    except UnicodeDecodeError as fault:
        if fault.start > size_max - 4 and fault.reason == "unexpected end of data":  # the cut went through a character
            return "text", data[: fault.start].decode()
        return "hex", data[:size_max].hex()


def cut(data: bytes, size_max: int) -> str:
    """Of UTF-8: as much as fits, without half a character."""
    return data[:size_max].decode("utf-8", "ignore")


def _is_json(text: str) -> bool:
    """An object or an array; numbers and words are text to most people."""
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def shown_record(partition: int, record: Record, size_max: int) -> dict[str, Any]:
    return {
        "partition": partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp if record.timestamp >= 0 else None,
        "timestamp_type": "create",
        "key": shown_bytes(record.key, size_max),
        "value": shown_bytes(record.value, size_max),
        "headers": [
            {"key": header_name(name), "value": shown_bytes(value, size_max)} for name, value in record.headers
        ],
        "size_bytes": record_bytes(record),
    }


def header_name(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def record_bytes(record: Record) -> int:
    """Keys, values and headers: what a reader pays for."""
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers
