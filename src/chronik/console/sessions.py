"""Who may use the console: one-time tokens, sessions, and a brake on logins. Pure: times and chance are given to it.

Only digests of secrets are kept, and they are compared as such, so that neither a dump of this memory nor the time of a
comparison tells one. A token opens one session. A session ends SESSION_MS after its last use.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

SECRET_BYTES: Final = 32
SESSION_MS: Final = 12 * 3_600_000
SESSIONS_MAX: Final = 1_000  # the one that was idle longest goes first
SESSIONS_OF_USER_MAX: Final = 20
TOKENS_MAX: Final = 16
FAILURES_MAX: Final = 5  # of one address
FAILURES_MS: Final = 60_000
ADDRESSES_MAX: Final = 10_000


@dataclass(slots=True, eq=False)
class Session:
    user: str | None  # None: the bearer of a token
    used_ms: int
    streams: int = 0  # open now
    is_over: bool = field(default=False)
    at_end: set[Callable[[], object]] = field(default_factory=set)  # called once, when it ends

    @property
    def expires_ms(self) -> int:
        return self.used_ms + SESSION_MS


class Sessions:
    """`draw(count)` returns that many random bytes."""

    def __init__(self, draw: Callable[[int], bytes], on_end: Callable[[Session], None] = lambda _: None) -> None:
        self._draw, self._on_end = draw, on_end
        self._tokens: dict[bytes, None] = {}
        self._sessions: dict[bytes, Session] = {}  # the longest idle first
        self._failures: dict[str, deque[int]] = {}

    def new_token(self) -> str:
        token = self._draw(SECRET_BYTES).hex()
        self.accept(token)
        return token

    def accept(self, token: str) -> None:
        """One that somebody else drew."""
        if len(self._tokens) >= TOKENS_MAX:
            del self._tokens[next(iter(self._tokens))]
        self._tokens[_digest(token)] = None

    def redeem(self, token: str, now_ms: int) -> str | None:
        """The secret of a new session; None for a token that was never given out, or was used before."""
        digest = _digest(token)
        if digest not in self._tokens:
            return None
        del self._tokens[digest]
        return self.open(None, now_ms)

    def open(self, user: str | None, now_ms: int) -> str:
        """The secret of a new session. A user with too many sessions loses the one that was idle longest."""
        own = [digest for digest, each in self._sessions.items() if user is not None and each.user == user]
        if len(own) >= SESSIONS_OF_USER_MAX:
            self._end(own[0])
        if len(self._sessions) >= SESSIONS_MAX:
            self._end(next(iter(self._sessions)))
        secret = self._draw(SECRET_BYTES).hex()
        self._sessions[_digest(secret)] = Session(user, now_ms)
        return secret

    def find(self, secret: str, now_ms: int) -> Session | None:
        """The session, which is now in use."""
        digest = _digest(secret)
        session = self._sessions.get(digest)
        if session is None:
            return None
        if now_ms > session.expires_ms:
            self._end(digest)
            return None
        session.used_ms = now_ms
        self._sessions[digest] = self._sessions.pop(digest)
        return session

    def close(self, session: Session) -> None:
        for digest, each in list(self._sessions.items()):
            if each is session:
                self._end(digest)

    def expire(self, now_ms: int) -> None:
        for digest, each in list(self._sessions.items()):
            if now_ms > each.expires_ms:
                self._end(digest)

    def _end(self, digest: bytes) -> None:
        session = self._sessions.pop(digest)
        session.is_over = True
        for each in list(session.at_end):
            each()
        self._on_end(session)

    # --- logins

    def may_try(self, address: str, now_ms: int) -> bool:
        failures = self._failures.get(address)
        if failures is None:
            return True
        while failures and failures[0] <= now_ms - FAILURES_MS:
            failures.popleft()
        return len(failures) < FAILURES_MAX

    def note_failure(self, address: str, now_ms: int) -> None:
        if len(self._failures) >= ADDRESSES_MAX and address not in self._failures:
            del self._failures[next(iter(self._failures))]
        self._failures.setdefault(address, deque(maxlen=FAILURES_MAX)).append(now_ms)

    def forgive(self, address: str, now_ms: int) -> None:
        """The attempt of this moment succeeded. Those before stay: a user could otherwise guess without end."""
        failures = self._failures.get(address, ())
        if now_ms in failures:
            assert isinstance(failures, deque)
            failures.remove(now_ms)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
