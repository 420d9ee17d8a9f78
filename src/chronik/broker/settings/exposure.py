"""Checks that a node is not more open than its configuration says. Otherwise the node does not start.

An operator must ask explicitly for a listener without authentication that other machines can reach. Logins are
authentication, and so is TLS with required certificates. A key that should restrict access but has no effect prevents
the start, because its author relies on it. Checked when a process starts a node; nothing is resolved or opened here.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from chronik.broker.errors import BadSetting
from chronik.broker.settings.access import ALLOWS_EVERYBODY, AUTHORIZER, SUPER_USERS
from chronik.broker.settings.listeners import ADMIN_ENDPOINT, PLAINTEXT, is_loopback
from chronik.broker.settings.oauthbearer import RETRIEVER, VALIDATOR
from chronik.broker.settings.tls import QUORUM_PRINCIPALS, quorum_principals, requires_certificates, secured_listeners
from chronik.catalogue.broker_keys import BROKER_KEYS
from chronik.catalogue.broker_values import ACTED_ON
from chronik.catalogue.tls_keys import TLS_KEYS
from chronik.catalogue.token_keys import TOKEN_KEYS
from chronik.runtime.permissions import others_may_read
from chronik.security.token_source import READ_TIMEOUT
from chronik.wire.oauthbearer import OAUTHBEARER
from chronik.wire.sasl_clients import MECHANISMS, PLAIN
from chronik.wire.scram import KINDS

if TYPE_CHECKING:
    from chronik.broker.settings.settings import Settings

log = logging.getLogger("chronik.broker.settings")

INSECURE = "chronik.insecure.listeners"
SECRET = "chronik.quorum.secret"  # noqa: S105 - the key, not the secret
SECRET_CHARS_MIN = 16
ANONYMOUS = "User:ANONYMOUS"  # the principal of connections without a login
LISTENER_PREFIX = "listener.name."
RESTRICTING_PREFIXES = ("sasl.", "delegation.token.")
RESTRICTING = frozenset({SUPER_USERS, "principal.builder.class", "ssl.engine.factory.class"})
SASL_KEYS = frozenset(each.name for each in ACTED_ON.values() if each.name.startswith("sasl."))
BEARER_KEYS = frozenset(
    each for each in SASL_KEYS if each.startswith("sasl.oauthbearer.") or each in (VALIDATOR, RETRIEVER, READ_TIMEOUT)
)
NOT_SERVED = (
    "access is not restricted by it, because this release does not serve it: remove the key, and restrict access by "
    "other means"
)
NO_TLS = "access is not restricted by it, because no listener uses TLS: name one in listeners, or remove the key"
NOT_THIS = (
    "access is not restricted by it, because the listener {} does not use TLS: change its protocol, or remove the key"
)
NO_SASL = (
    "access is not restricted by it, because no listener asks for logins: map one to SASL_SSL or SASL_PLAINTEXT by "
    "listener.security.protocol.map, or remove the key"
)
NO_SCRAM = (
    "access is not restricted by it, because no listener has logins by SCRAM, which delegation tokens need: add "
    "SCRAM-SHA-512 to sasl.enabled.mechanisms of a SASL listener, or remove the key"
)
NO_BEARER = (
    "access is not restricted by it, because it is a key of OAUTHBEARER, which the listener does not have: add it to "
    "sasl.enabled.mechanisms, or remove the key"
)
NOT_ITS_LISTENER = "access is not restricted by it, because the listener of this name has no logins: remove the key"


def require_no_restriction(static: Mapping[str, str], with_logins: Mapping[str, Collection[str]]) -> None:
    """Raises BadSetting for a key that restricts access in Kafka and has no effect here. `with_logins` maps the
    listeners with logins to their mechanisms."""
    served = {name.lower(): mechanisms for name, mechanisms in with_logins.items()}
    has_authorizer = bool(static.get(AUTHORIZER, "").strip())
    for key, text in static.items():
        if has_authorizer and key in (SUPER_USERS, ALLOWS_EVERYBODY):
            continue
        if _restricts(key, text.strip()):
            reason = _why_idle(key, served)
            if reason:
                definition = BROKER_KEYS.get(key)
                hides = definition.is_sensitive if definition else key.startswith(LISTENER_PREFIX)
                raise BadSetting(key, "[hidden]" if hides else text, reason)


def _why_idle(key: str, served: Mapping[str, Collection[str]]) -> str:
    """Why a key that restricts access has no effect; empty if it has one."""
    if key in TOKEN_KEYS:
        return "" if any(set(each) & set(KINDS) for each in served.values()) else NO_SCRAM
    if key in SASL_KEYS:
        return _why_idle_on(key, "", served)
    if key.lower().startswith(LISTENER_PREFIX):
        name, _, rest = key.lower().removeprefix(LISTENER_PREFIX).partition(".")
        own = {name: served[name]} if name in served else {}
        for mechanism in ("", *MECHANISMS):
            prefix = f"{mechanism.lower()}." if mechanism else ""
            if rest.startswith(prefix) and rest.removeprefix(prefix) in SASL_KEYS:
                return _why_idle_on(rest.removeprefix(prefix), mechanism, own) and (
                    NOT_ITS_LISTENER if not own else NO_BEARER
                )
    return NOT_SERVED


def _why_idle_on(key: str, mechanism: str, served: Mapping[str, Collection[str]]) -> str:
    """The same for a key of one mechanism, or of all, on these listeners."""
    if not served:
        return NO_SASL
    if key in BEARER_KEYS and mechanism not in ("", OAUTHBEARER):
        return NO_BEARER
    is_bearer = key in BEARER_KEYS or mechanism == OAUTHBEARER
    return NO_BEARER if is_bearer and not any(OAUTHBEARER in each for each in served.values()) else ""


def require_secured(settings: Settings) -> None:
    """Raises BadSetting for a TLS key that affects no listener."""
    secured = {name.lower() for name in secured_listeners(settings)}
    for key, text in settings.layers.static.items():
        shown = "[hidden]" if key.endswith((".key", "password", ".chain", ".certificates")) else text
        if key.startswith(LISTENER_PREFIX):
            name, _, own = key.removeprefix(LISTENER_PREFIX).partition(".")
            if own.startswith("ssl.") and name not in secured and text.strip() not in ("", "none"):
                raise BadSetting(key, shown, NOT_THIS.format(name.upper()))
        elif (
            key.startswith("ssl.")
            and key in TLS_KEYS
            and not secured
            and text.strip() not in ("", TLS_KEYS[key].default)
        ):
            raise BadSetting(key, shown, NO_TLS)


def _restricts(key: str, text: str) -> bool:
    definition = BROKER_KEYS.get(key)
    if key == ALLOWS_EVERYBODY:
        return bool(text) and text.lower() != "true"
    if not text or (definition is not None and text == definition.default):
        return False
    if key.startswith(LISTENER_PREFIX):  # listener.name.NAME.KEY, or with a mechanism between NAME and KEY
        return any(f".{part}" in key for part in (*RESTRICTING, *RESTRICTING_PREFIXES))
    return key in RESTRICTING or key.startswith(RESTRICTING_PREFIXES)


def require_kept(settings: Settings) -> None:
    """Raises BadSetting if the node would be more open than its configuration says."""
    served = {name: logins.mechanisms for name, logins in settings.sasl_listeners.items()}
    require_no_restriction(settings.layers.static, served)
    require_secured(settings)
    require_guarded(settings)
    require_known_nodes(settings)
    _warn_about_nobody(settings)
    path = settings.layers.static.get(f"{SECRET}.file", "").strip()
    if path and others_may_read(path):
        log.warning("%s.file: other users of this machine can read %s: run `chmod 600 %s`", SECRET, path, path)
    for listener in settings.listeners:
        logins = settings.sasl_listeners.get(listener.name)
        if logins is not None and PLAIN in logins.mechanisms and listener.security_protocol == "SASL_PLAINTEXT":
            log.warning(
                "%s: PLAIN sends passwords, and this listener does not encrypt them: use SASL_SSL or SCRAM-SHA-512, "
                "unless you trust every machine on the network",
                listener,
            )


def _warn_about_nobody(settings: Settings) -> None:
    """On a listener without authentication, clients and other nodes alike are User:ANONYMOUS."""
    policy = settings.access_policy
    if policy is None:
        return
    is_super = ANONYMOUS in policy.super_users
    if is_super:
        for listener in settings.listeners:
            if listener.security_protocol == PLAINTEXT:
                log.warning(
                    "%s=%s: everybody who can connect to %s may do everything", SUPER_USERS, ANONYMOUS, listener
                )
    has_peers = len(settings.voters) > 1 or bool(settings.controller_quorum_bootstrap_servers)
    between = next((each for each in settings.listeners if each.name == settings.inter_broker_listener_name), None)
    if has_peers and between is not None and between.security_protocol == PLAINTEXT and not is_super:
        log.warning(
            "other nodes connect to %s as %s, which is not in %s: they replicate only if an ACL allows it "
            "CLUSTER_ACTION on the cluster, best for their hosts alone",
            between,
            ANONYMOUS,
            SUPER_USERS,
        )


def require_guarded(settings: Settings) -> None:
    """Raises BadSetting if other machines can reach a listener without authentication, unless that is allowed."""
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


def require_known_nodes(settings: Settings) -> None:
    """Raises BadSetting if the quorum cannot distinguish its nodes from other holders of certificates."""
    for listener in settings.controller_listeners:
        certified = requires_certificates(settings, listener.name)
        if certified and not settings.quorum_secret and not quorum_principals(settings):
            raise BadSetting(
                QUORUM_PRINCIPALS,
                "",
                f"every certificate that the trust store of {listener} accepts could control this cluster: list the "
                f"principals of its nodes, or set {SECRET}",
            )


def _unguarded(settings: Settings) -> Iterator[tuple[str, str]]:
    if not settings.quorum_secret:
        for listener in settings.controller_listeners:
            if not is_loopback(listener.host) and not requires_certificates(settings, listener.name):
                yield "controller.listener.names", str(listener)
    for listener in settings.listeners:
        is_guarded = listener.needs_login or requires_certificates(settings, listener.name)
        if not is_loopback(listener.host) and not is_guarded:
            yield "listeners", str(listener)
    admin = settings.admin_listener
    if admin is not None and not is_loopback(admin.host) and not requires_certificates(settings, ADMIN_ENDPOINT):
        yield "chronik.admin.listener", f"{admin.host}:{admin.port}"
