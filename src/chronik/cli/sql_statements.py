"""Cutting text into SQL statements at semicolons that stand outside of quotes and comments. It judges no statement."""

from __future__ import annotations

import re
from typing import Final

_PIECE: Final = re.compile(
    r"""'(?:[^']|'')*'          # text; a quote in it is doubled
    |   "(?:[^"]|"")*"          # a name
    |   \$(\w*)\$.*?\$\1\$      # text between dollar signs
    |   --[^\n]*(?:\n|\Z)
    |   /\*.*?\*/
    |   (?P<end>;)
    |   (?P<open>['"]|/\*|\$\w*\$)  # one of these that is not closed
    |   .""",
    re.VERBOSE | re.DOTALL,
)
_COMMENT: Final = re.compile(r"--[^\n]*(?:\n|\Z)|/\*.*?\*/", re.DOTALL)


def cut(text: str) -> tuple[list[str], str]:
    """Statements that are complete, and what follows the last semicolon."""
    statements: list[str] = []
    begin = 0
    for piece in _PIECE.finditer(text):
        if piece["open"]:
            break
        if piece["end"]:
            statements.append(text[begin : piece.start()].strip())
            begin = piece.end()
    return [each for each in statements if _says_something(each)], text[begin:]


def statements_in(text: str) -> list[str]:
    """All statements; the last needs no semicolon."""
    statements, rest = cut(text)
    return [*statements, rest.strip()] if _says_something(rest) else statements


def _says_something(text: str) -> bool:
    return bool(_COMMENT.sub("", text).strip())
