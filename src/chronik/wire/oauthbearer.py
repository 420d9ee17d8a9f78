"""The messages of SASL OAUTHBEARER (RFC 7628), for both sides. Pure, and does not parse tokens: the broker does that.

    client first    n,[a=AUTHZID],^A auth=Bearer TOKEN ^A [KEY=VALUE ^A ...] ^A
    broker          empty if the token is accepted, else a JSON object with a status
    client          ^A, which acknowledges the refusal; then the broker ends the login

^A is the byte 1. Like Kafka, a broker accepts no channel binding and no header but `n`. Pairs other than `auth` are
extensions. No repr shows a token.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from chronik.wire.errors import Malformed
from chronik.wire.peer_errors import LoginFailed

OAUTHBEARER: Final = "OAUTHBEARER"
SEPARATOR: Final = "\x01"
REFUSAL_HEARD: Final = b"\x01"
AUTH: Final = "auth"
TOLD_CHARS_MAX: Final = 1000  # of the broker's refusal, in an error message
_saslname = re.compile(r"(?:[\x01-\x7f]|=2C|=3D)+")  # text without "," and without other "="
_pair = re.compile(r"([A-Za-z]+)=([\x21-\x7e \t\r\n]+)")
_credentials = re.compile(r"([A-Za-z0-9_]+) +([-_.a-zA-Z0-9]+)")


class BearerFirst(NamedTuple):
    """The client's first message."""

    token: str
    authzid: str
    extensions: Mapping[str, str]

    def __repr__(self) -> str:
        return f"BearerFirst([hidden], {self.authzid!r})"


def bearer_first(token: str, authzid: str = "", extensions: Mapping[str, str] | None = None) -> bytes:
    """Raises ValueError for a token or an extension that cannot be encoded."""
    more = extensions or {}
    pairs = {AUTH: f"Bearer {token}", **more}
    if _credentials.fullmatch(f"Bearer {token}") is None:
        raise ValueError("the token has characters that a JWT does not have, or is empty")
    for name, text in more.items():
        if name == AUTH or _pair.fullmatch(f"{name}={text}") is None:
            raise ValueError(f"the extension {name!r} cannot be sent: names are letters, values printable ASCII")
    named = f"a={authzid.replace('=', '=3D').replace(',', '=2C')}" if authzid else ""
    listed = "".join(f"{name}={text}{SEPARATOR}" for name, text in pairs.items())
    return f"n,{named},{SEPARATOR}{listed}{SEPARATOR}".encode("ascii")


def read_bearer_first(data: bytes) -> BearerFirst:
    """Raises Malformed."""
    try:
        flag, authzid, rest = data.decode("ascii").split(",", 2)
    except ValueError:
        raise _malformed("it is not ASCII, or has no GS2 header") from None
    if flag != "n":
        raise _malformed("channel binding is not supported")
    authzid = _read_authzid(authzid)
    if not rest.startswith(SEPARATOR) or not rest.endswith(SEPARATOR) or len(rest) < 2:
        raise _malformed("pairs are not between separators")
    pairs: dict[str, str] = {}
    listed = rest[1:-1]
    if listed and not listed.endswith(SEPARATOR):
        raise _malformed("the last pair has no end")
    for each in listed.split(SEPARATOR)[:-1]:
        matched = _pair.fullmatch(each)
        if matched is None:
            raise _malformed("a pair is not KEY=VALUE")
        pairs[matched[1]] = matched[2]
    credentials = _credentials.fullmatch(pairs.pop(AUTH, ""))
    if credentials is None or credentials[1].lower() != "bearer":
        raise _malformed("there is no `auth=Bearer TOKEN`")
    return BearerFirst(credentials[2], authzid, pairs)


def refusal(status: str) -> bytes:
    """The broker's message for a token that it does not accept."""
    return f'{{"status":"{status}"}}'.encode()


class BearerLogin:
    """The client's side of one login."""

    name = OAUTHBEARER

    def __init__(self, first: bytes) -> None:
        """`first` is the result of `bearer_first`."""
        self._first = first
        self._told: bytes | None = None  # the broker's refusal

    def first(self) -> bytes:
        return self._first

    def answer(self, challenge: bytes) -> bytes | None:
        """Acknowledges a refusal; then the broker reports the reason as an error."""
        if self._told is not None:
            told = self._told[:TOLD_CHARS_MAX].decode("utf-8", "replace")
            raise LoginFailed(f"the broker refused the token ({told!r}) and did not end the login")
        if not challenge:
            return None
        self._told = challenge
        return REFUSAL_HEARD


def _read_authzid(text: str) -> str:
    if not text:
        return ""
    name = text.removeprefix("a=")
    bare = name.replace("=2C", "").replace("=3D", "")
    if name == text or "=" in bare or _saslname.fullmatch(name) is None:
        raise _malformed("the authorization id is not a=NAME")
    return name.replace("=2C", ",").replace("=3D", "=")


def _malformed(reason: str) -> Malformed:
    return Malformed("OAUTHBEARER client first message", 0, reason)
