"""Java's regular expressions over topic names, as in the option subscribePattern of Spark's Kafka source. Pure.

Spark reads every topic whose name contains a match, by java.util.regex. Without a JVM, the pattern is translated to
Python's syntax. A topic name has only the 65 characters of ALPHABET, so every character class, whatever its notation,
is a subset of these and is written out; options such as (?i) are applied during translation. A pattern that cannot be
translated is refused, never interpreted differently.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import Final

ALPHABET: Final = frozenset(string.ascii_letters + string.digits + "._-")
EMPTY: Final = r"[^\s\S]"
FLAGS: Final = frozenset("idmsuxU")  # of these, only i and x affect topic names
ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
ANCHORS: Final = {"b": r"\b", "B": r"\B", "A": r"\A", "G": r"\A", "z": r"\Z", "Z": r"\Z"}
CLASSES: Final[dict[str, Callable[[str], bool]]] = {
    "d": str.isdigit,
    "w": lambda each: each.isalnum() or each == "_",
    "s": str.isspace,
    "h": lambda _: False,
    "v": lambda _: False,
}
PROPERTIES: Final[dict[str, Callable[[str], bool]]] = {
    "Lower": str.islower,
    "Upper": str.isupper,
    "ASCII": str.isascii,
    "Alpha": str.isalpha,
    "Digit": str.isdigit,
    "Alnum": str.isalnum,
    "Punct": lambda each: not each.isalnum(),
    "Graph": lambda _: True,
    "Print": lambda _: True,
    "Blank": lambda _: False,
    "Cntrl": lambda _: False,
    "XDigit": lambda each: each in string.hexdigits,
    "Space": lambda _: False,
    "IsAlphabetic": str.isalpha,
    "IsLetter": str.isalpha,
    "IsDigit": str.isdigit,
    "IsLowercase": str.islower,
    "IsUppercase": str.isupper,
    "IsPunctuation": lambda each: not each.isalnum(),
    "IsWhite_Space": lambda _: False,
    "IsLatin": str.isalpha,
    "InBasicLatin": lambda _: True,
    "javaLowerCase": str.islower,
    "javaUpperCase": str.isupper,
    "javaWhitespace": lambda _: False,
}
# Unicode's general categories: a letter for each family, and second letters for its members.
FAMILIES: Final = {"L": "utmol", "M": "nec", "N": "dlo", "P": "dsecifo", "S": "mcko", "Z": "slp", "C": "cfson"}
CATEGORIES: Final = {"LC", *FAMILIES, *(family + kind for family, kinds in FAMILIES.items() for kind in kinds)}
REPETITION: Final = re.compile(r"[*+?]|\{\d+(,\d*)?\}")


@lru_cache(maxsize=16)
def topic_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern, to use with `search` on topic names. Raises ValueError with the reason if it cannot be
    translated."""
    try:
        return re.compile(_Pattern(pattern).rewritten())
    except (re.error, IndexError, OverflowError) as error:
        reason = "it ends too early" if isinstance(error, IndexError) else str(error)
        raise ValueError(reason) from None


class _Pattern:
    """Translates in one pass from left to right."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._flags: frozenset[str] = frozenset()
        self._groups = 0

    def rewritten(self) -> str:
        found = self._alternatives()
        if self._at < len(self._text):
            raise ValueError(f"unmatched ) at {self._at}")
        return found

    def _alternatives(self) -> str:
        """Up to the end of the group. Flags set inside apply until then."""
        flags, parts = self._flags, []
        while self._at < len(self._text) and self._text[self._at] != ")":
            parts.append(self._piece())
        self._flags = flags
        return "".join(parts)

    def _piece(self) -> str:
        char = self._take()
        if "x" in self._flags and (char.isspace() or char == "#"):
            while char == "#" and self._at < len(self._text) and self._take() != "\n":
                pass
            return ""
        if char in "^|.":
            return char
        if char == "$":
            return r"\Z"
        if char == "(":
            return self._group()
        if char == "[":
            return self._written(self._class())
        if char == "\\":
            return self._escape()
        if found := REPETITION.match(self._text, self._at - 1):
            self._at = found.end()
            return found.group()
        if char == "{":
            raise ValueError(f"a repetition is expected at {self._at - 1}, as in {{2,3}}")
        return self._literal(char)

    def _group(self) -> str:
        if not self._text.startswith("?", self._at):
            self._groups += 1
            return self._inside("(")
        if found := re.compile(r"\?<([A-Za-z][A-Za-z0-9]*)>").match(self._text, self._at):
            self._at = found.end()
            self._groups += 1
            return self._inside(f"(?P<{found.group(1)}>")
        if found := re.compile(r"\?(<?[=!]|[:>])").match(self._text, self._at):
            self._at = found.end()
            return self._inside(f"({found.group()}")
        if found := re.compile(r"\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])").match(self._text, self._at):
            self._at = found.end()
            on, off, end = set(found.group(1)), set(found.group(2) or ""), found.group(3)
            if unknown := (on | off) - FLAGS:
                raise ValueError(f"unknown flag {''.join(sorted(unknown))} at {found.start()}")
            flags, self._flags = self._flags, (self._flags | on) - off
            if end == ")":
                return ""
            inside = self._inside("(?:")
            self._flags = flags
            return inside
        raise ValueError(f"unknown group at {self._at}")

    def _inside(self, opening: str) -> str:
        inside = self._alternatives()
        if self._take() != ")":
            raise ValueError("a group is not closed")
        return f"{opening}{inside})"

    def _escape(self) -> str:
        char = self._text[self._at]
        if char in ANCHORS:
            self._at += 1
            return ANCHORS[char]
        if char == "Q":
            return "".join(map(self._literal, self._quoted()))
        if char == "k":
            found = re.compile(r"k<([A-Za-z][A-Za-z0-9]*)>").match(self._text, self._at)
            if found is None:
                raise ValueError(f"a group's name is expected at {self._at}")
            self._at = found.end()
            return self._again(f"(?P={found.group(1)})")
        if char in "123456789":
            digits = self._take()
            while self._at < len(self._text) and (more := self._text[self._at]).isdigit():
                if int(digits + more) > self._groups:
                    break
                digits += self._take()
            return self._again(f"(?:\\{digits})")
        if char == "R":
            self._at += 1
            return EMPTY
        if char == "X":
            self._at += 1
            return "."
        if (found_class := self._escaped_class()) is not None:
            return self._written(found_class)
        return self._literal(self._escaped_character())

    def _again(self, reference: str) -> str:
        return f"(?i:{reference})" if "i" in self._flags else reference

    def _quoted(self) -> str:
        r"""The text between \Q and \E, or the end; the reader is at Q."""
        end = self._text.find(r"\E", self._at)
        quoted = self._text[self._at + 1 : end if end >= 0 else len(self._text)]
        self._at = end + 2 if end >= 0 else len(self._text)
        return quoted

    def _escaped_class(self) -> frozenset[str] | None:
        char = self._text[self._at]
        if char.lower() in CLASSES:
            self._at += 1
            return _subset(CLASSES[char.lower()], is_negated=char.isupper())
        if char not in "pP":
            return None
        found = re.compile(r"[pP](?:\{([^}]*)\}|([A-Z]))").match(self._text, self._at)
        if found is None:
            raise ValueError(f"a property is expected at {self._at}")
        self._at = found.end()
        name = found.group(1) or found.group(2)
        holds = PROPERTIES.get(name)
        category = re.sub(r"^(Is|gc=|general_category=)", "", name)
        if holds is None and category in CATEGORIES:
            names = ("Lu", "Ll", "Lt") if category == "LC" else (category,)
            holds = lambda each: unicodedata.category(each).startswith(names)  # noqa: E731 - as its like above
        if holds is None:
            raise ValueError(f"the property {name!r} is not known here")
        return self._folded(_subset(holds, is_negated=False)) ^ (ALPHABET if char == "P" else frozenset())

    def _escaped_character(self) -> str:
        char = self._take()
        if char in ESCAPES:
            return ESCAPES[char]
        for shape, base in (
            (r"x\{([0-9a-fA-F]+)\}", 16),
            (r"x([0-9a-fA-F]{2})", 16),
            (r"u([0-9a-fA-F]{4})", 16),
            (r"0([0-3]?[0-7]{1,2})", 8),
        ):
            if found := re.compile(shape).match(self._text, self._at - 1):
                self._at = found.end()
                return chr(int(found.group(1), base))
        if char == "c":
            return chr(ord(self._take()) ^ 64)
        if char.isascii() and char.isalnum():
            raise ValueError(f"unknown escape \\{char} at {self._at - 2}")
        return char

    def _class(self) -> frozenset[str]:
        """After [, up to and including its ]: unions of items, intersected by &&, then negated by ^."""
        is_negated = self._text.startswith("^", self._at)
        self._at += is_negated
        common: frozenset[str] | None = None
        union: frozenset[str] | None = None
        while True:
            char = self._text[self._at]
            if char == "]" and (union is not None or common is not None):
                self._at += 1
                break
            if self._text.startswith("&&", self._at):
                self._at += 2
                if union is not None:
                    common = union if common is None else common & union
                union = None
                continue
            if "x" in self._flags and char.isspace():
                self._at += 1
                continue
            union = (union or frozenset()) | self._item()
        if union is not None:
            common = union if common is None else common & union
        assert common is not None
        return ALPHABET - common if is_negated else common

    def _item(self) -> frozenset[str]:
        char = self._take()
        if char == "[":
            return self._class()
        first = char
        if char == "\\":
            if self._text[self._at] == "Q":
                return self._folded(frozenset(self._quoted()))
            if (found := self._escaped_class()) is not None:
                return found
            first = self._escaped_character()
        is_range = self._text.startswith("-", self._at) and self._text[self._at + 1] not in "[]"
        if not is_range:
            return self._folded(frozenset(first))
        self._at += 1
        last = self._take()
        if last == "\\":
            last = self._escaped_character()
        if last < first:
            raise ValueError(f"the range {first}-{last} is empty")
        return self._folded(frozenset(each for each in ALPHABET if first <= each <= last))

    def _folded(self, chars: frozenset[str]) -> frozenset[str]:
        if "i" not in self._flags:
            return chars & ALPHABET
        return frozenset(each for each in ALPHABET if {each.lower(), each.upper()} & chars)

    def _literal(self, char: str) -> str:
        if "i" in self._flags and char.isascii() and char.isalpha():
            return f"[{char.lower()}{char.upper()}]"
        return re.escape(char)

    def _written(self, chars: frozenset[str]) -> str:
        return f"[{''.join(re.escape(each) for each in sorted(chars))}]" if chars else EMPTY

    def _take(self) -> str:
        char = self._text[self._at]
        self._at += 1
        return char


def _subset(holds: Callable[[str], bool], *, is_negated: bool) -> frozenset[str]:
    return frozenset(each for each in ALPHABET if holds(each) is not is_negated)
