"""Who could reach a node, and what a configuration promises about that. A node that cannot keep the promise stops.

Nobody logs in yet. So a listener that other machines can reach must be asked for in so many words, and a key that would
restrict access must not be passed over in silence: its author relies on it. Checked when a process starts a node;
nothing is resolved or opened here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from chronik.broker.errors import BadSetting
from chronik.broker.settings.listeners import is_loopback
from chronik.catalogue.broker_keys import BROKER_KEYS
from chronik.runtime.permissions import others_may_read

if TYPE_CHECKING:
    from chronik.broker.settings.settings import Settings

log = logging.getLogger("chronik.broker.settings")

INSECURE = "chronik.insecure.listeners"
SECRET = "chronik.quorum.secret"  # noqa: S105 - the key, not the secret
SECRET_CHARS_MIN = 16
LISTENER_PREFIX = "listener.name."
RESTRICTING_PREFIXES = ("sasl.", "ssl.", "delegation.token.")
RESTRICTING = frozenset({"super.users", "principal.builder.class"})
ALLOWS_EVERYBODY = "allow.everyone.if.no.acl.found"
NOT_SERVED = (
    "access is not restricted by it in this release, which serves PLAINTEXT without logins: remove the key, and keep "
    "strangers away by the network"
)


def require_no_restriction(static: Mapping[str, str]) -> None:
    """Raises BadSetting for a key that would restrict access, if this release did what it says."""
    for key, text in static.items():
        if _restricts(key, text.strip()):
            definition = BROKER_KEYS.get(key)
            hides = definition.is_sensitive if definition else key.startswith(LISTENER_PREFIX)
            raise BadSetting(key, "[hidden]" if hides else text, NOT_SERVED)


def _restricts(key: str, text: str) -> bool:
    definition = BROKER_KEYS.get(key)
    if not text or (definition is not None and text == definition.default):
        return False
    if key == ALLOWS_EVERYBODY:
        return text.lower() != "true"
    if key.startswith(LISTENER_PREFIX):  # listener.name.NAME.KEY, or with a mechanism between NAME and KEY
        return any(f".{part}" in key for part in (*RESTRICTING, *RESTRICTING_PREFIXES))
    return key in RESTRICTING or key.startswith(RESTRICTING_PREFIXES)


def require_kept(settings: Settings) -> None:
    """Raises BadSetting where the node would be more open than its configuration says."""
    require_no_restriction(settings.layers.static)
    require_guarded(settings)
    path = settings.layers.static.get(f"{SECRET}.file", "").strip()
    if path and others_may_read(path):
        log.warning("%s.file: other users of this machine can read %s: run `chmod 600 %s`", SECRET, path, path)


def require_guarded(settings: Settings) -> None:
    """Raises BadSetting for a listener that other machines can reach, unless the operator says that this is meant."""
    reachable = list(_unguarded(settings))
    if reachable and not settings.insecure_listeners:
        key, where = reachable[0]
        more = "".join(f", {other}={address}" for other, address in reachable[1:])
        them = "them" if more else "it"
        has_quorum = any(other == "controller.listener.names" for other, _ in reachable)
        secret = f"; for the quorum, set {SECRET} on every node instead" if has_quorum else ""
        raise BadSetting(
            key,
            f"{where}{more}",
            f"other machines can connect to {them} without authentication: bind {them} to 127.0.0.1{secret}; or set "
            f"{INSECURE}=true if only trusted machines can reach {them}",
        )
    for key, where in reachable:
        if key == "controller.listener.names":
            log.warning("anyone who can connect to %s can control this cluster: set %s on every node", where, SECRET)


def _unguarded(settings: Settings) -> Iterator[tuple[str, str]]:
    if not settings.quorum_secret:
        for listener in settings.controller_listeners:
            if not is_loopback(listener.host):
                yield "controller.listener.names", str(listener)
    for listener in settings.listeners:
        if not is_loopback(listener.host):
            yield "listeners", str(listener)
    admin = settings.admin_listener
    if admin is not None and not is_loopback(admin.host):
        yield "chronik.admin.listener", f"{admin.host}:{admin.port}"
