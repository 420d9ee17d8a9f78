"""Reads the text of a Java properties file and the KAFKA_* variables of the usual images into plain keys and values.

This module does not know which keys exist or what they mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from chronik.broker.errors import BadSetting

BLANKS = " \t\f"
_line_end = re.compile(r"\r\n|\r|\n")
_escape = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_surrogate = re.compile("[\ud800-\udfff]")
_key = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)
_special = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}

# Variables of the images' start scripts, and variables that Kubernetes sets for a service named `kafka`.
_not_a_setting = re.compile(
    r"(VERSION|HOME|OPTS|HEAP_OPTS?|DEBUG|GC_LOG_OPTS|JVM_PERFORMANCE_OPTS|JMX_\w+|(TOOLS_)?LOG4J\w*)"
    r"|(\w+_)?(SERVICE_(HOST|PORT)(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)\w*)?)"
)
_prefixes = ("KAFKA_CFG_", "KAFKA_")
_underscores = {"_": ".", "__": "_", "___": "-"}


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values by the rules of Java's Properties: the last of equal keys wins."""
    found = {}
    for line in _logical_lines(text):
        matched = _key.match(line)
        key_text = matched[1] if matched else ""
        found[_unescaped(key_text, line)] = _unescaped(line[matched.end() if matched else 0 :], line)
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Logical lines without comments and blank lines. A line that ends in an odd number of backslashes continues."""
    joined = ""
    for natural in _line_end.split(text):
        line = natural.lstrip(BLANKS)
        if not joined and (not line or line[0] in "#!"):
            continue
        joined += line
        if (len(line) - len(line.rstrip("\\"))) % 2:
            joined = joined[:-1]
            continue
        yield joined
        joined = ""
    if joined:
        yield joined


def _unescaped(text: str, line: str) -> str:
    def character(matched: re.Match[str]) -> str:
        escaped = matched[1]
        if escaped == "u":
            raise BadSetting(line.split("=")[0].strip(), text, r"\u takes four hexadecimal digits")
        return chr(int(escaped[1:], 16)) if len(escaped) == 5 else _special.get(escaped, escaped)

    read = _escape.sub(character, text)
    if not _surrogate.search(read):
        return read
    # Java writes a character outside of the basic plane as two escapes; join them to one character.
    return read.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def settings_in_environment(environment: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """By key: the variable's name and its value. KAFKA_LOG_DIRS is log.dirs; `__` stands for `_` and `___` for `-`."""
    found: dict[str, tuple[str, str]] = {}
    for variable, value in sorted(environment.items()):
        prefix = next((each for each in _prefixes if variable.startswith(each)), None)
        name = variable.removeprefix(prefix or "")
        if prefix is None or not name or _not_a_setting.fullmatch(name):
            continue
        key = re.sub("_{1,3}", lambda matched: _underscores[matched[0]], name.lower())
        found[key] = (variable, value)
    return found
