"""The TLS configuration of a node: the listeners with TLS, and the files and options of each.

Callers pass the function that reads a file, so nothing is opened here. `cryptography` is loaded when the first listener
with TLS is read, and never for a node without TLS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

from chronik.broker.errors import BadSetting
from chronik.broker.settings.listener_keys import PREFIX
from chronik.broker.settings.listeners import ADMIN_ENDPOINT
from chronik.runtime.tls import ClientAuth
from chronik.security.errors import BadKey
from chronik.security.principal_mapping import KEY as MAPPING_KEY
from chronik.security.principal_mapping import BadRules, PrincipalMapping

if TYPE_CHECKING:
    from chronik.broker.settings.settings import Settings
    from chronik.runtime.tls import TlsClient, TlsServer

Read = Callable[[str], bytes]
T = TypeVar("T")

SECURED: Final = ("SSL", "SASL_SSL")
QUORUM_PRINCIPALS: Final = "chronik.quorum.principals"
SUPER_USERS: Final = "super.users"
ADMIN_PROTOCOL: Final = "chronik.admin.security.protocol"
FILES: Final = ("ssl.keystore.location", "ssl.truststore.location")


def secured_listeners(settings: Settings) -> Iterator[str]:
    """The names of the listeners with TLS: for clients, for the quorum, for administration."""
    for listener in (*settings.listeners, *settings.controller_listeners):
        if listener.security_protocol in SECURED:
            yield listener.name
    if settings.admin_listener is not None and settings.layers.value(ADMIN_PROTOCOL) in SECURED:
        yield ADMIN_ENDPOINT


def server_of(settings: Settings, name: str, read: Read) -> TlsServer:
    """The server side of a listener with TLS. Raises BadSetting."""
    from chronik.security.tls_keys import server_tls

    return _read(settings, name, lambda: server_tls(settings.for_listener(name).text, read))


def client_of(settings: Settings, name: str, read: Read) -> TlsClient:
    """The client side for connections to other nodes' listeners of this name. Raises BadSetting."""
    from chronik.security.tls_keys import client_tls

    return _read(settings, name, lambda: client_tls(settings.for_listener(name).text, read))


def mapping_of(settings: Settings, name: str) -> PrincipalMapping:
    """Raises BadSetting."""
    given = settings.for_listener(name).text(MAPPING_KEY)
    text = "DEFAULT" if given is None else given
    try:
        return PrincipalMapping(text)
    except BadRules as fault:
        raise BadSetting(_full_name(settings, name, MAPPING_KEY), text, str(fault)) from None


def files_of(settings: Settings, name: str) -> list[str]:
    """The certificate files of a listener."""
    keys = settings.for_listener(name)
    return [path for path in map(keys.text, FILES) if path]


def requires_certificates(settings: Settings, name: str) -> bool:
    """Whether a listener only accepts clients with a certificate."""
    auth = settings.for_listener(name).text("ssl.client.auth") or ""
    return name in secured_listeners(settings) and auth.strip() == ClientAuth.REQUIRED


def quorum_principals(settings: Settings) -> frozenset[str]:
    """The principals that may use a quorum listener with TLS, as `User:name`. Empty: everyone who can connect."""
    texts = (settings.layers.value(QUORUM_PRINCIPALS), settings.layers.value(SUPER_USERS))
    return frozenset(each.strip() for text in texts if text for each in text.split(";") if each.strip())


def _read(settings: Settings, name: str, make: Callable[[], T]) -> T:
    try:
        return make()
    except BadKey as fault:
        raise BadSetting(_full_name(settings, name, fault.key), fault.value, fault.reason) from fault


def _full_name(settings: Settings, name: str, key: str) -> str:
    """The key as the operator wrote it."""
    own = f"{PREFIX}{name.lower()}.{key}"
    return own if settings.layers.value(own) is not None else key
