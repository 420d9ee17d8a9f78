"""Parses the text of sasl.jaas.config: one login module with its options.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="s\"x" user_bob="b";

Values are quoted, with `\"` and `\\` as escapes, or bare words. No error and no repr shows a value: it is a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from chronik.catalogue.values import InvalidValue

FLAGS: Final = ("required", "requisite", "sufficient", "optional")
USER_PREFIX: Final = "user_"  # in PlainLoginModule: user_NAME="password"
_token = re.compile(r"""\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<word>[^\s=;"']+)|(?P<sign>[=;]))""", re.DOTALL)
_escape = re.compile(r"\\(.)", re.DOTALL)


class Jaas(NamedTuple):
    module: str  # the Java class
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"Jaas({self.module}, [hidden])"

    @property
    def users(self) -> dict[str, str]:
        """Passwords by name: the users that PlainLoginModule accepts."""
        found = self.options.items()
        return {name.removeprefix(USER_PREFIX): text for name, text in found if name.startswith(USER_PREFIX)}

    @property
    def own(self) -> tuple[str, str] | None:
        """The user and password for this configuration's own logins to other servers."""
        user, password = self.options.get("username"), self.options.get("password")
        return (user, password) if user and password else None


def parse_jaas(text: str) -> Jaas:
    """Raises InvalidValue."""
    words = _tokens(text)
    if len(words) < 2 or words[0] in SIGNS or words[1].text.lower() not in FLAGS:
        raise InvalidValue('write LoginModule required key="value" ...;')
    module, rest = words[0].text, words[2:]
    if not rest or rest[-1] != END:
        raise InvalidValue("the last option must be followed by a semicolon")
    rest = rest[:-1]
    if END in rest:
        raise InvalidValue("one login module, so one semicolon")
    options: dict[str, str] = {}
    if len(rest) % 3:
        raise InvalidValue('after the flag write key="value" pairs')
    for at in range(0, len(rest), 3):
        name, equals, value = rest[at : at + 3]
        if name in SIGNS or equals != EQUALS or value in SIGNS:
            raise InvalidValue('after the flag write key="value" pairs')
        if name.text in options:
            raise InvalidValue(f"the option {name.text} is there twice")
        options[name.text] = value.text
    return Jaas(module, options)


class _Token(NamedTuple):
    text: str
    is_sign: bool = False


EQUALS, END = _Token("=", is_sign=True), _Token(";", is_sign=True)
SIGNS = (EQUALS, END)


def _tokens(text: str) -> list[_Token]:
    found = []
    text = text.strip()
    at = 0
    while at < len(text):
        matched = _token.match(text, at)
        if matched is None:
            raise InvalidValue(f'character {at + 1} ends no word: close the quotes, and write quotes in values as \\"')
        at = matched.end()
        if matched["quoted"] is not None:
            found.append(_Token(_escape.sub(r"\1", matched["quoted"])))
        elif matched["word"] is not None:
            found.append(_Token(matched["word"]))
        else:
            found.append(_Token(matched["sign"], is_sign=True))
    return found
