"""The configuration of OAUTHBEARER: how a listener verifies tokens, and where this broker gets its own.

A key is looked up for the mechanism on the listener, then for the listener, then for all listeners. A listener without
a source of keys is refused: in Kafka it would accept unsigned tokens. Opens nothing: files and addresses are read when
the node starts. No error and no repr shows a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from chronik.broker.errors import BadSetting
from chronik.catalogue.values import split_list
from chronik.security.errors import BadKey
from chronik.security.token_source import file_of, token_source, trust_of, url_of
from chronik.wire.oauthbearer import OAUTHBEARER

if TYPE_CHECKING:
    from chronik.broker.settings.listener_keys import ListenerKeys
    from chronik.catalogue.jaas import Jaas
    from chronik.peer.http import Url
    from chronik.peer.token_login import TokenSource

JWKS_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
REFRESH: Final = "sasl.oauthbearer.jwks.endpoint.refresh.ms"
RETRY: Final = "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"
RETRY_MAX: Final = "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"
ISSUER: Final = "sasl.oauthbearer.expected.issuer"
AUDIENCE: Final = "sasl.oauthbearer.expected.audience"
SKEW: Final = "sasl.oauthbearer.clock.skew.seconds"
SCOPE_CLAIM: Final = "sasl.oauthbearer.scope.claim.name"
SUB_CLAIM: Final = "sasl.oauthbearer.sub.claim.name"
VALIDATOR: Final = "sasl.server.callback.handler.class"
RETRIEVER: Final = "sasl.login.callback.handler.class"
_package: Final = "org.apache.kafka.common.security.oauthbearer."
# Kafka moved these classes; configurations have both names.
_classes: Final = {
    key: tuple(f"{_package}{folder}{name}" for folder in ("", "secured."))
    for key, name in (
        (VALIDATOR, "OAuthBearerValidatorCallbackHandler"),
        (RETRIEVER, "OAuthBearerLoginCallbackHandler"),
    )
}
UNSECURED: Final = "unsecured"  # prefix of the options of Kafka's unsigned tokens


@dataclass(frozen=True, slots=True)
class BearerListener:
    """How one listener verifies tokens: with keys from the file at `path`, or from the address `url`."""

    path: str | None
    url: Url | None
    issuer: str | None
    audiences: frozenset[str]
    clock_skew_s: int
    subject_claim: str
    scope_claim: str
    refresh_ms: int
    retry_ms: int
    retry_ms_max: int
    trust: Mapping[str, str] = field(repr=False)  # ssl.truststore.*; empty: the system's certificates

    @property
    def where(self) -> str:
        return self.path or (self.url.shown if self.url is not None else "")


def bearer_listener(name: str, keys: ListenerKeys, values: Mapping[str, Any], jaas: Jaas | None) -> BearerListener:
    """Raises BadSetting."""
    _require_secured(jaas)
    _require_class(keys, VALIDATOR)

    def text(key: str) -> str:
        return (keys.nearest(key, OAUTHBEARER)[1] or "").strip()

    def number(key: str) -> int:
        full, given = keys.nearest(key, OAUTHBEARER)
        try:
            found = int(values[key] if given is None else given)
        except ValueError:
            raise BadSetting(full, given, "write a number") from None
        if found < 0:
            raise BadSetting(full, given, "allowed is 0 or more")
        return found

    address = text(JWKS_URL)
    if not address:
        reason = f"tokens on {name} cannot be verified: write where the signing keys are, https://... or file:///..."
        raise BadSetting(keys.nearest(JWKS_URL, OAUTHBEARER)[0], "", reason)
    try:
        path = file_of(JWKS_URL, address)
        url = None if path is not None else url_of(JWKS_URL, address)
    except BadKey as fault:
        raise BadSetting(fault.key, fault.value, fault.reason) from None
    if url is not None and url.scheme != "https":
        raise BadSetting(JWKS_URL, address, "keys that are fetched without TLS prove nothing: use https")
    audiences = frozenset(each for each in split_list(text(AUDIENCE)) if each)
    options = jaas.options if jaas is not None else {}
    return BearerListener(
        path=path,
        url=url,
        issuer=text(ISSUER) or None,
        audiences=audiences,
        clock_skew_s=number(SKEW),
        subject_claim=text(SUB_CLAIM) or values[SUB_CLAIM],
        scope_claim=text(SCOPE_CLAIM) or values[SCOPE_CLAIM],
        refresh_ms=max(1, number(REFRESH)),
        retry_ms=max(1, number(RETRY)),
        retry_ms_max=max(1, number(RETRY_MAX)),
        trust=trust_of(lambda key: text(key) or None, options),
    )


def bearer_source(keys: ListenerKeys, jaas: Jaas | None) -> TokenSource:
    """Where this broker gets its tokens for logins to other brokers. Raises BadSetting."""
    _require_secured(jaas)
    _require_class(keys, RETRIEVER)
    try:
        return token_source(lambda key: keys.nearest(key, OAUTHBEARER)[1], jaas.options if jaas is not None else {})
    except BadKey as fault:
        raise BadSetting(fault.key, fault.value, fault.reason) from None


def _require_secured(jaas: Jaas | None) -> None:
    if jaas is not None and any(name.startswith(UNSECURED) for name in jaas.options):
        reason = "tokens without a signature are not supported: remove the options that begin with `unsecured`"
        raise BadSetting("sasl.jaas.config", "[hidden]", reason)


def _require_class(keys: ListenerKeys, key: str) -> None:
    full, given = keys.nearest(key, OAUTHBEARER)
    if given is not None and given.strip() and given.strip() not in _classes[key]:
        raise BadSetting(full, given, f"allowed is {_classes[key][0]}, or leave the key out")
