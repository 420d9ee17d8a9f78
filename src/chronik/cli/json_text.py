"""JSON as text: whether bytes are a JSON document, and its layout. It never changes a number, a string or their order.

Reading a document into Python and writing it again would round numbers and drop keys that are there twice. So a
document stays text here: its tokens are kept, and only the blanks between them change.
"""

from __future__ import annotations

import json
import re
from typing import Final

INDENT: Final = "  "
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_LINE_BREAK: Final = re.compile(r"[\r\n]+")


def document_in(data: bytes | None) -> str | None:
    """The text of a JSON object or array; None for everything else, numbers and strings included."""
    if data is None or data.lstrip(b" \t\r\n")[:1] not in (b"{", b"["):
        return None
    try:
        text = data.decode()
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return text


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not JSON")  # Python reads NaN and Infinity, other programs do not


def on_one_line(document: str) -> str:
    """A line break can only stand between tokens, where a blank means the same."""
    return _LINE_BREAK.sub(" ", document).strip()


def indented(document: str) -> str:
    """A line for each element, as people read it. Empty objects and arrays stay on one line."""
    parts: list[str] = []
    depth, before = 0, ""
    for piece in _TOKEN.findall(document):
        if piece in "}]":
            depth -= 1
            parts.append(piece if before in ("{", "[") else f"\n{INDENT * depth}{piece}")
        elif piece == ",":
            parts.append(piece)
        elif piece == ":":
            parts.append(": ")
        else:
            begins_element = before in ("{", "[", ",") and before
            parts.append(f"\n{INDENT * depth}{piece}" if begins_element else piece)
            depth += piece in "{["
        before = piece
    return "".join(parts)


def member_text(document: str, name: str) -> str | None:
    """The text of a member of an object, as it stands there; None if there is none. `document` must be JSON."""
    decoder = json.JSONDecoder()
    found: str | None = None
    at = _skip(document, _skip(document, 0) + 1)
    while document[at] != "}":
        key, at = decoder.raw_decode(document, at)
        begin = _skip(document, _skip(document, at) + 1)
        _, at = decoder.raw_decode(document, begin)
        if key == name:
            found = document[begin:at]  # of two members with one name the last counts, as everywhere in Python
        at = _skip(document, at)
        if document[at] == ",":
            at = _skip(document, at + 1)
    return found


def _skip(document: str, at: int) -> int:
    while document[at] in " \t\r\n":
        at += 1
    return at
