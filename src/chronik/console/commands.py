"""Command lines that do the same as the console, quoted for a shell. Pure.

Names come from strangers. One that looks like an option stands behind `--` or `=`, and characters that a terminal would
obey, or that are not seen, are written as escapes: the line does what it shows.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from chronik.console.calls import Call

BOOTSTRAP_DEFAULT: Final = "localhost:9092"


class Name(str):
    """A word that is no option, whatever it begins with."""

    __slots__ = ()


def command(*words: object, bootstrap: str = "") -> str:
    """Words that are None are left out."""
    given = [each for each in words if each is not None]
    last = [each for each in given if isinstance(each, Name) and each.startswith("-")]
    first = [each for each in given if not any(each is name for name in last)]
    where = ["--bootstrap", bootstrap] if bootstrap and bootstrap != BOOTSTRAP_DEFAULT else []
    return " ".join(quote(str(each)) for each in ["chronik", *first, *where, *(["--"] if last else []), *last])


def quote(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    return "$'" + "".join(map(_escaped, word)) + "'"


def _escaped(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def command_of(call: Call, *words: object) -> str:
    """For the cluster that this console shows."""
    return command(*words, bootstrap=call.console.settings.bootstrap)


def option(name: str, values: Iterable[object]) -> list[str]:
    """A repeatable option."""
    found = []
    for value in map(str, values):
        found += [f"{name}={value}"] if value.startswith("-") else [name, value]
    return found
