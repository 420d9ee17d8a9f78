"""The certificates that a running node uses for its listeners and for its connections to other nodes.

They are read when the node starts, when an operator alters a listener's keys, and when a file changes. New connections
use the new certificates; open connections are not affected. If a new certificate cannot be used, the node keeps the old
one and raises an alarm. The subject and the host names of a certificate must not change, unless ssl.allow.dn.changes
and ssl.allow.san.changes allow it, because other nodes and clients rely on them. A node without TLS does nothing here.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from chronik.broker.errors import BadSetting
from chronik.broker.session import ANONYMOUS, Principal
from chronik.broker.settings.tls import (
    client_of,
    files_of,
    mapping_of,
    quorum_principals,
    secured_listeners,
    server_of,
)
from chronik.runtime.alarms import CERTIFICATE
from chronik.runtime.tls_contexts import client_context, in_words, server_context
from chronik.runtime.units import DAY_MS
from chronik.security.principal_mapping import NoRuleFits, PrincipalMapping

if TYPE_CHECKING:
    from chronik.broker.live_settings import LiveSettings
    from chronik.broker.settings import Settings
    from chronik.runtime.alarms import Alarms
    from chronik.runtime.interfaces import Clock, Disk, Listener
    from chronik.runtime.tls import TlsClient, TlsServer

log = logging.getLogger("chronik.broker.certificates")

WARNED_DAYS: Final = 14  # before a certificate expires


class _Secured:
    """The certificates of one listener."""

    def __init__(
        self, server: TlsServer, client: TlsClient, mapping: PrincipalMapping, stamps: tuple[int, ...]
    ) -> None:
        self.server, self.client, self.mapping, self.stamps = server, client, mapping, stamps
        self.listener: Listener | None = None  # set when it is open


class Certificates:
    """`open` reads the certificates for the first time. Listeners have their configured names."""

    def __init__(self, live_settings: LiveSettings, disk: Disk, clock: Clock, alarms: Alarms) -> None:
        self._live_settings, self._disk, self._clock, self._alarms = live_settings, disk, clock, alarms
        self._secured: dict[str, _Secured] = {}

    @property
    def are_used(self) -> bool:
        return bool(self._secured)

    def open(self) -> None:
        """Raises BadSetting."""
        for name in secured_listeners(self._settings):
            self._secured[name] = self._read(self._settings, name)
        self._look_at_dates()

    # --- current certificates

    def server(self, name: str) -> TlsServer | None:
        """For listening; None for a listener without TLS."""
        secured = self._secured.get(name)
        return secured.server if secured is not None else None

    def client_to(self, name: str) -> Callable[[], TlsClient | None]:
        """Returns a function for connections to other nodes' listeners of this name. Call it for each new
        connection."""

        def current() -> TlsClient | None:
            secured = self._secured.get(name)
            return secured.client if secured is not None else None

        return current

    def attach(self, name: str, listener: Listener) -> None:
        """The listener is notified of new certificates from now on."""
        if name in self._secured:
            self._secured[name].listener = listener

    def principal(self, name: str, subject: str | None) -> Principal:
        """The principal of a certificate with this subject. Raises NoRuleFits."""
        secured = self._secured.get(name)
        if subject is None or secured is None:
            return ANONYMOUS
        return Principal("User", secured.mapping.name(subject))

    def why_not_in_quorum(self, name: str, subject: str | None) -> str | None:
        """Why the holder of this certificate may not use the quorum listener; None if it may."""
        allowed = quorum_principals(self._settings)
        if name not in self._secured or not allowed:
            return None
        try:
            principal = self.principal(name, subject)
        except NoRuleFits as fault:
            return str(fault)
        if str(principal) in allowed:
            return None
        return f"{principal} is no node of the quorum: add it to chronik.quorum.principals"

    def days_left(self) -> dict[str, float]:
        """Days until the certificate of each listener expires."""
        now_ms = self._clock.wall_ms()
        return {
            name: (secured.server.identity.not_after_ms - now_ms) / DAY_MS for name, secured in self._secured.items()
        }

    # --- changes

    async def watch(self) -> None:
        """Runs until cancelled: reloads changed files, and checks expiry dates."""
        interval_ms = int(self._settings.layers.value("chronik.ssl.reload.interval.ms") or 0)
        while True:
            await asyncio.sleep(interval_ms / 1000)
            for name, secured in self._secured.items():
                stamps = self._stamps(self._settings, name)
                if stamps != secured.stamps:
                    secured.stamps = stamps
                    self._renew(name)
            self._look_at_dates()

    def reload(self) -> None:
        """Reads everything again, because the settings may have changed."""
        for name in self._secured:
            self._renew(name)
        self._look_at_dates()

    def require_usable(self, settings: Settings) -> None:
        """Raises BadSetting if a listener could not continue with these settings."""
        for name, present in self._secured.items():
            self._require_same(settings, name, present.server, self._read(settings, name).server)

    def _renew(self, name: str) -> None:
        present = self._secured[name]
        try:
            renewed = self._read(self._settings, name)
            self._require_same(self._settings, name, present.server, renewed.server)
        except BadSetting as fault:
            text = f"listener {name} keeps its certificates, because the new ones cannot be used: {fault}"
            self._alarms.raised(CERTIFICATE, text, name)
            return
        if (renewed.server, renewed.client) != (present.server, present.client):
            log.info("listener %s uses new certificates: subject %s", name, renewed.server.identity.subject)
        present.server, present.client, present.mapping = renewed.server, renewed.client, renewed.mapping
        present.stamps = renewed.stamps
        if present.listener is not None:
            present.listener.secure_with(present.server)
        self._alarms.cleared(CERTIFICATE, f"listener {name} has certificates that can be used", name)

    def _read(self, settings: Settings, name: str) -> _Secured:
        # Read the time stamps first, so that a file that changes meanwhile is read again.
        stamps = self._stamps(settings, name)
        server, client = (
            server_of(settings, name, self._disk.read_file),
            client_of(settings, name, self._disk.read_file),
        )
        try:
            server_context(server)
            client_context(client)
        except ssl.SSLError as error:
            raise BadSetting("ssl.keystore.location", ", ".join(files_of(settings, name)), in_words(error)) from error
        return _Secured(server, client, mapping_of(settings, name), stamps)

    def _stamps(self, settings: Settings, name: str) -> tuple[int, ...]:
        """The modification time of each file; 0 if it does not exist."""
        return tuple(
            self._disk.modified_ms(path) if self._disk.exists(path) else 0 for path in files_of(settings, name)
        )

    def _require_same(self, settings: Settings, name: str, before: TlsServer, after: TlsServer) -> None:
        old, new = before.identity, after.identity
        where = ", ".join(files_of(settings, name)[:1])
        if old.subject != new.subject and settings.layers.value("ssl.allow.dn.changes") != "true":
            reason = f"the subject would change from {old.subject} to {new.subject}: set ssl.allow.dn.changes=true"
            raise BadSetting("ssl.keystore.location", where, reason)
        missing = sorted(set(old.names) - set(new.names))
        if missing and settings.layers.value("ssl.allow.san.changes") != "true":
            reason = f"the new certificate lacks {', '.join(missing)}: set ssl.allow.san.changes=true"
            raise BadSetting("ssl.keystore.location", where, reason)

    def _look_at_dates(self) -> None:
        for name, days in self.days_left().items():
            subject = f"{name} expiry"
            if days < WARNED_DAYS:
                when = f"expires in {days:.1f} days" if days > 0 else "has expired"
                text = f"the certificate of listener {name} {when}: renew it"
                self._alarms.raised(CERTIFICATE, text, subject, level=logging.WARNING)
            else:
                self._alarms.cleared(CERTIFICATE, f"the certificate of listener {name} is valid for longer", subject)

    @property
    def _settings(self) -> Settings:
        return self._live_settings.now
