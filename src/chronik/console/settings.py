"""What `chronik console` was asked for. Values only; `Listening` refuses an address that would be open to others."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from chronik.client.properties import NO_SECURITY, ClientSecurity

STORAGE_DEFAULT: Final = "chronik-storage"
LOOPBACK: Final = "127.0.0.1"
PORT_DEFAULT: Final = 8080
TOKEN_CHARS_MIN: Final = 16


class BadConsoleSetting(Exception):
    """The user's: the message says which option, and what to write."""


@dataclass(frozen=True, slots=True)
class Listening:
    host: str = LOOPBACK
    port: int = PORT_DEFAULT  # 0 takes a free one
    certificate: Path | None = None  # with its key, PEM; together they mean TLS
    key: Path | None = None
    names: tuple[str, ...] = ()  # by which browsers may call it, besides its address

    @property
    def is_local(self) -> bool:
        return is_loopback(self.host)

    @property
    def is_secure(self) -> bool:
        return self.certificate is not None


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    bootstrap: str
    listening: Listening = field(default_factory=Listening)
    security: ClientSecurity = NO_SECURITY
    properties: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # of client.properties, for queries
    has_logins: bool = False
    allows_changes: bool = False
    storage: str = os.devnull  # a pipeline's folder; below this one there is no table
    script_token: str = field(default="", repr=False)

    def check(self) -> None:
        """Raises BadConsoleSetting."""
        listening = self.listening
        if (listening.certificate is None) != (listening.key is None):
            raise BadConsoleSetting("--tls-certificate and --tls-key belong together: give both")
        if not listening.is_local and not (listening.is_secure and self.has_logins):
            raise BadConsoleSetting(
                f"--listen {listening.host}: other machines can reach this address, so the console needs TLS and "
                "logins: add --tls-certificate, --tls-key and --login"
            )
        if self.has_logins and self.security.credentials is None:
            raise BadConsoleSetting(
                "--login: users log in to the brokers by SASL, so --command-config must name a file with "
                "security.protocol=SASL_SSL (or SASL_PLAINTEXT), sasl.mechanism and sasl.jaas.config"
            )
        if self.script_token and len(self.script_token) < TOKEN_CHARS_MIN:
            raise BadConsoleSetting(f"CHRONIK_CONSOLE_TOKEN is shorter than {TOKEN_CHARS_MIN} characters")
        if self.script_token and self.has_logins:
            raise BadConsoleSetting("CHRONIK_CONSOLE_TOKEN and --login exclude each other: scripts have no permissions")


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
