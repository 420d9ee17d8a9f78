"""The keys that verify the OAUTHBEARER tokens of one listener: read at the start, and again while the node runs.

They are read every sasl.oauthbearer.jwks.endpoint.refresh.ms, and earlier if a token names an unknown key: at most once
in EARLY_PAUSE_MS, whatever clients send. Such a token is refused meanwhile, as in Kafka; the client's next attempt
finds the new key. If reading fails, the node keeps its keys, raises an alarm and retries. A file must be readable when
the node starts. An address need not be: an identity provider that is down must not prevent nodes from starting.

Fetching is asynchronous and bounded; a lane reads files and parses keys. PyJWT is loaded here and only if used.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from chronik.broker.errors import BadSetting
from chronik.broker.settings.oauthbearer import JWKS_URL
from chronik.peer.http import BODY_BYTES_MAX, get
from chronik.runtime.alarms import SIGNING_KEYS
from chronik.runtime.units import NS_PER_MS
from chronik.security.errors import SecurityError
from chronik.security.token_source import tls_of
from chronik.wire.peer_errors import Unreachable

if TYPE_CHECKING:
    from chronik.broker.settings.oauthbearer import BearerListener
    from chronik.runtime.alarms import Alarms
    from chronik.runtime.interfaces import Lane, Runtime
    from chronik.security.bearer_tokens import BearerToken, KeySet

log = logging.getLogger("chronik.broker.sasl")

EARLY_PAUSE_MS: Final = 10_000


class _Unreadable(Exception):
    """Why the keys could not be read, for the operator."""


class SigningKeys:
    """The keys of one listener. Call `open` before use, then run `watch` as long as the node runs."""

    def __init__(self, runtime: Runtime, lane: Lane, listener: str, settings: BearerListener, alarms: Alarms) -> None:
        from chronik.security.bearer_tokens import TokenRules

        self._runtime, self._lane, self._alarms = runtime, lane, alarms
        self._listener, self._settings = listener, settings
        self._rules = TokenRules(
            settings.issuer, settings.audiences, settings.clock_skew_s, settings.subject_claim, settings.scope_claim
        )
        self._keys: KeySet = ()
        self._is_wanted = asyncio.Event()  # set when a token names an unknown key
        self._read_ns = 0  # time of the last attempt to read them

    async def open(self) -> None:
        """Raises BadSetting if a file cannot be used."""
        try:
            self._keys = await self._read()
        except _Unreadable as fault:
            if self._settings.path is not None:
                raise BadSetting(JWKS_URL, self._settings.where, str(fault)) from None
            self._complain(fault)

    def verify(self, token: str) -> BearerToken:
        """Raises BadToken."""
        from chronik.security.bearer_tokens import UnknownKey, verify

        try:
            return verify(token, self._keys, self._rules, self._runtime.clock.wall_ms())
        except UnknownKey:
            self._is_wanted.set()
            raise

    async def watch(self) -> None:
        """Runs until cancelled."""
        retry_ms = 0 if self._keys else self._settings.retry_ms
        while True:
            await self._wait(retry_ms)
            try:
                self._keys = await self._read()
            except _Unreadable as fault:
                self._complain(fault)
                retry_ms = min(max(retry_ms * 2, self._settings.retry_ms), self._settings.retry_ms_max)
            else:
                retry_ms = 0
                self._alarms.cleared(
                    SIGNING_KEYS, f"listener {self._listener} has read its signing keys", self._listener
                )

    async def _wait(self, retry_ms: int) -> None:
        """Waits until the next attempt: `retry_ms` after a failure, else the interval, or earlier if a key is
        missing."""
        try:
            async with asyncio.timeout((retry_ms or self._settings.refresh_ms) / 1000):
                await self._is_wanted.wait()
                since_ms = (self._runtime.clock.monotonic_ns() - self._read_ns) / NS_PER_MS
                await asyncio.sleep(max(0.0, EARLY_PAUSE_MS - since_ms) / 1000)
        except TimeoutError:
            pass

    async def _read(self) -> KeySet:
        from chronik.security.bearer_tokens import read_key_set

        self._is_wanted.clear()
        settings, disk = self._settings, self._runtime.disk
        try:
            if settings.path is not None:
                path = settings.path
                return await self._lane.run(lambda: read_key_set(disk.read_file(path)[: BODY_BYTES_MAX + 1]))
            assert settings.url is not None
            url = settings.url
            tls = await self._lane.run(lambda: tls_of(url, settings.trust, disk.read_file))
            body = await get(self._runtime.network, url, tls)
            return await self._lane.run(lambda: read_key_set(body))
        except OSError as error:
            raise _Unreadable(f"cannot read the signing keys: {error.strerror or error}") from error
        except (Unreachable, SecurityError) as fault:
            raise _Unreadable(f"cannot use the signing keys: {fault}") from None
        finally:
            self._read_ns = self._runtime.clock.monotonic_ns()

    def _complain(self, fault: _Unreadable) -> None:
        kept = "it keeps those that it has" if self._keys else "nobody can log in by OAUTHBEARER until they are read"
        text = f"listener {self._listener}: {fault}; {kept}. Check {JWKS_URL}={self._settings.where}"
        self._alarms.raised(SIGNING_KEYS, text, self._listener)
