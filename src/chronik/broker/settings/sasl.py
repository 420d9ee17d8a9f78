"""The configuration of logins: the mechanisms of each SASL listener, and how brokers log in to each other.

All checks run before a listener opens. They reject unsupported mechanisms, invalid JAAS texts, and listeners without
mechanisms, without users of PLAIN or without the keys that OAUTHBEARER needs. No error and no repr shows a value of a
JAAS text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from chronik.broker.errors import BadSetting
from chronik.broker.settings.listener_keys import PREFIX, ListenerKeys
from chronik.broker.settings.listeners import Listener
from chronik.broker.settings.oauthbearer import BearerListener, bearer_listener, bearer_source
from chronik.catalogue.jaas import Jaas, parse_jaas
from chronik.catalogue.values import InvalidValue, split_list
from chronik.wire.oauthbearer import OAUTHBEARER
from chronik.wire.sasl_clients import MECHANISMS, PLAIN

if TYPE_CHECKING:
    from chronik.peer.token_login import TokenSource

ENABLED: Final = "sasl.enabled.mechanisms"
JAAS: Final = "sasl.jaas.config"
INTER_BROKER: Final = "sasl.mechanism.inter.broker.protocol"
REAUTH: Final = "connections.max.reauth.ms"
HIDDEN: Final = "[hidden]"
_modules: Final = {PLAIN: "PlainLoginModule", OAUTHBEARER: "OAuthBearerLoginModule"}
_scram_module: Final = "ScramLoginModule"


@dataclass(frozen=True, slots=True)
class SaslListener:
    """The logins of one listener."""

    mechanisms: tuple[str, ...]
    reauth_ms: Mapping[str, int]  # by mechanism: lifetime of a login; 0: unlimited
    passwords: Mapping[str, str] = field(repr=False)  # of PLAIN's users
    bearer: BearerListener | None = None  # if OAUTHBEARER is one of the mechanisms


@dataclass(frozen=True, slots=True)
class BrokerLogin:
    """How this broker logs in to other brokers."""

    mechanism: str
    user: str = ""
    password: str = field(default="", repr=False)
    source: TokenSource | None = None  # for OAUTHBEARER: the source of tokens


def sasl_listeners(
    listeners: Iterable[Listener], static: Mapping[str, str], values: Mapping[str, Any]
) -> dict[str, SaslListener]:
    """The listeners that require logins, by name. Raises BadSetting."""
    return {
        listener.name: _listener(listener, ListenerKeys(static, listener.name), values)
        for listener in listeners
        if listener.needs_login
    }


def broker_login(
    name: str, listeners: Iterable[Listener], static: Mapping[str, str], values: Mapping[str, Any]
) -> BrokerLogin | None:
    """None if the inter-broker listener requires no login. Raises BadSetting."""
    if not any(listener.name == name and listener.needs_login for listener in listeners):
        return None
    mechanism = str(values[INTER_BROKER]).strip().upper()
    if mechanism not in MECHANISMS:
        raise BadSetting(INTER_BROKER, mechanism, f"brokers log in on {name}: set it to one of {_known()}")
    keys = ListenerKeys(static, name)
    if mechanism not in _enabled(keys, values):
        raise BadSetting(INTER_BROKER, mechanism, f"{ENABLED} of listener {name} does not have it: add it there")
    jaas = _jaas(name, mechanism, keys, values)
    if mechanism == OAUTHBEARER:
        return BrokerLogin(mechanism, source=bearer_source(keys, jaas))
    own = jaas.own if jaas is not None else None
    if own is None:
        raise BadSetting(
            _jaas_key(name, mechanism),
            HIDDEN if jaas is not None else "",
            'brokers log in to each other here: write username="..." password="..." into it',
        )
    return BrokerLogin(mechanism, *own)


def _listener(listener: Listener, keys: ListenerKeys, values: Mapping[str, Any]) -> SaslListener:
    mechanisms = _enabled(keys, values)
    if not mechanisms:
        raise BadSetting(ENABLED, "", f"nobody could log in on {listener}: name one or more of {_known()}")
    for each in mechanisms:
        if each not in MECHANISMS:
            raise BadSetting(ENABLED, each, f"{listener} cannot serve this mechanism: name one or more of {_known()}")
    passwords: dict[str, str] = {}
    bearer: BearerListener | None = None
    for each in mechanisms:
        jaas = _jaas(listener.name, each, keys, values)
        if each == PLAIN:
            if jaas is None:
                reason = f'the users of PLAIN are written here: {_modules[PLAIN]} required user_NAME="password";'
                raise BadSetting(_jaas_key(listener.name, each), "", reason)
            passwords = jaas.users
        elif each == OAUTHBEARER:
            bearer = bearer_listener(listener.name, keys, values, jaas)
    shared_ms = values[REAUTH]
    reauth_ms = {each: _reauth_ms(listener.name, each, keys, shared_ms) for each in mechanisms}
    return SaslListener(mechanisms, reauth_ms, passwords, bearer)


def _enabled(keys: ListenerKeys, values: Mapping[str, Any]) -> tuple[str, ...]:
    text = keys.text(ENABLED)
    named = values[ENABLED] if text is None else split_list(text)
    return tuple(dict.fromkeys(each.upper() for each in named if each))


def _jaas(name: str, mechanism: str, keys: ListenerKeys, values: Mapping[str, Any]) -> Jaas | None:
    """The JAAS text for the mechanism. A text for all listeners applies to the mechanism whose module it names."""
    text = keys.text(JAAS, mechanism)
    if text is None or not text.strip():
        return None
    key = _jaas_key(name, mechanism)
    try:
        jaas = parse_jaas(text)
    except InvalidValue as fault:
        raise BadSetting(key, HIDDEN, str(fault)) from None
    expected = _modules.get(mechanism, _scram_module)
    if jaas.module.rpartition(".")[2] != expected:
        if text.strip() == (values[JAAS] or "").strip():
            return None
        raise BadSetting(key, HIDDEN, f"{mechanism} needs the login module {expected}")
    return jaas


def _jaas_key(name: str, mechanism: str) -> str:
    return f"{PREFIX}{name.lower()}.{mechanism.lower()}.{JAAS}"


def _reauth_ms(name: str, mechanism: str, keys: ListenerKeys, shared_ms: int) -> int:
    """The mechanism's value on this listener, else the listener's, else that of all listeners."""
    for text in (keys.text(REAUTH, mechanism), keys.text(REAUTH)):
        try:
            reauth_ms = shared_ms if text is None else int(text)
        except ValueError:
            key = f"{PREFIX}{name.lower()}.{REAUTH}"
            raise BadSetting(key, text, "write a number of milliseconds; with 0 logins do not expire") from None
        if reauth_ms != shared_ms:
            return max(0, reauth_ms)
    return max(0, shared_ms)


def _known() -> str:
    return ", ".join(MECHANISMS)
