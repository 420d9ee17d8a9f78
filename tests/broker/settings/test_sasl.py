"""Logins in a configuration: the settings of listeners and brokers, and errors that show no secret."""

from __future__ import annotations

import pytest

from chronik.broker.errors import BadSetting
from chronik.broker.settings import Settings
from chronik.broker.settings.listener_keys import ListenerKeys
from chronik.broker.settings.sasl import BrokerLogin
from chronik.runtime.machine import SIMULATED

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
USERS = f'{PLAIN_MODULE} required username="me" password="swordfish" user_al="sesame" user_bo="x";'
SCRAM = f'{SCRAM_MODULE} required username="me" password="swordfish";'
BASE = {
    "listeners": "PLAINTEXT://127.0.0.1:1,CLIENTS://127.0.0.1:2",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.clients.plain.sasl.jaas.config": USERS,
}
AMONG_BROKERS = {"inter.broker.listener.name": "CLIENTS", "sasl.mechanism.inter.broker.protocol": "PLAIN"}


def with_keys(keys: dict[str, str]) -> Settings:
    return Settings.load(None, environment={}, overrides=BASE | keys, machine=SIMULATED)


def test_a_listeners_own_value_stands_before_that_of_all() -> None:
    keys = ListenerKeys(
        {
            "key": "all",
            "Listener.Name.ONE.key": "one",
            "listener.name.one.scram-sha-512.key": "scram",
            "listener.name.two.other": "x",
        },
        "One",
    )
    assert (keys.text("key"), keys.text("KEY"), keys.text("key", "SCRAM-SHA-512")) == ("one", "one", "scram")
    assert keys.text("key", "PLAIN") == "all", "what a listener has is not for one mechanism"
    assert (keys.text("other"), ListenerKeys({}, "one").text("key")) == (None, None)


def test_the_users_of_plain_are_in_the_jaas_text_of_their_listener() -> None:
    settings = with_keys({})
    assert list(settings.sasl_listeners) == ["CLIENTS"]
    logins = settings.sasl_listeners["CLIENTS"]
    assert (logins.mechanisms, logins.passwords) == (("PLAIN",), {"al": "sesame", "bo": "x"})
    assert settings.broker_login is None
    assert settings.for_listener("CLIENTS").text("sasl.jaas.config", "PLAIN") == USERS


def test_each_listener_has_its_own_mechanisms_and_lifetimes() -> None:
    settings = with_keys(
        {
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.clients.sasl.enabled.mechanisms": "SCRAM-SHA-256, SCRAM-SHA-512,plain",
            "connections.max.reauth.ms": "1000",
            "listener.name.clients.connections.max.reauth.ms": "2000",
            "listener.name.clients.scram-sha-512.connections.max.reauth.ms": "3000",
        }
    )
    logins = settings.sasl_listeners["CLIENTS"]
    assert logins.mechanisms == ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
    assert logins.reauth_ms == {"SCRAM-SHA-256": 2000, "SCRAM-SHA-512": 3000, "PLAIN": 2000}


def test_brokers_log_in_by_the_text_of_their_listener() -> None:
    assert with_keys(AMONG_BROKERS).broker_login == BrokerLogin("PLAIN", "me", "swordfish")
    by_scram = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "listener.name.clients.scram-sha-512.sasl.jaas.config": SCRAM,
    }
    assert with_keys(AMONG_BROKERS | by_scram).broker_login == BrokerLogin("SCRAM-SHA-512", "me", "swordfish")


JAAS = "listener.name.clients.plain.sasl.jaas.config"


@pytest.mark.parametrize(
    ("keys", "key", "reason"),
    [
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "sasl.enabled.mechanisms", "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        ({"sasl.enabled.mechanisms": "PLAIN,DIGEST-MD5"}, "sasl.enabled.mechanisms", "cannot serve"),
        ({"sasl.enabled.mechanisms": ""}, "sasl.enabled.mechanisms", "nobody could log in"),
        ({JAAS: ""}, JAAS, "user_NAME"),
        ({JAAS: USERS[:-1]}, JAAS, "semicolon"),
        ({JAAS: SCRAM}, JAAS, "PlainLoginModule"),
        ({"listener.name.clients.connections.max.reauth.ms": "soon"}, "listener.name.clients.connections", "number"),
        (AMONG_BROKERS | {JAAS: f'{PLAIN_MODULE} required user_a="swordfish";'}, JAAS, "username"),
        (AMONG_BROKERS | {"sasl.mechanism.inter.broker.protocol": "GSSAPI"}, "sasl.mechanism.inter", "one of PLAIN"),
        (
            AMONG_BROKERS | {"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512"},
            "sasl.mechanism.inter",
            "add it there",
        ),
        (
            {
                "listeners": BASE["listeners"] + ",C://127.0.0.1:3",
                "controller.listener.names": "C",
                "listener.security.protocol.map": BASE["listener.security.protocol.map"] + ",C:SASL_PLAINTEXT",
            },
            "listener.security.protocol.map",
            "chronik.quorum.secret",
        ),
    ],
)
def test_what_nobody_could_log_in_by_is_refused(keys: dict[str, str], key: str, reason: str) -> None:
    with pytest.raises(BadSetting, match=reason) as refused:
        with_keys(keys)
    assert refused.value.key.startswith(key)
    assert "swordfish" not in str(refused.value)
    assert "sesame" not in str(refused.value)


URL = "sasl.oauthbearer.jwks.endpoint.url"
BEARER = {"sasl.enabled.mechanisms": "OAUTHBEARER", URL: "file:///etc/keys.json"}
BEARER_JAAS = "listener.name.clients.oauthbearer.sasl.jaas.config"
BEARER_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
BY_TOKEN = {
    "inter.broker.listener.name": "CLIENTS",
    "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token?a=b",
    BEARER_JAAS: f'{BEARER_MODULE} required clientId="me" clientSecret="swordfish" scope="kafka" extension_pool="x";',
}


def test_tokens_are_verified_as_the_mechanism_the_listener_or_all_are_told() -> None:
    keys = {
        "sasl.oauthbearer.expected.issuer": "all",
        "listener.name.clients.sasl.oauthbearer.expected.issuer": "listener",
        "listener.name.clients.oauthbearer.sasl.oauthbearer.expected.audience": "one, two",
        "listener.name.clients.sasl.oauthbearer.expected.audience": "three",
        "listener.name.clients.oauthbearer.sasl.server.callback.handler.class": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
    }
    bearer = with_keys(BEARER | keys).sasl_listeners["CLIENTS"].bearer
    assert bearer is not None
    assert (bearer.path, bearer.url, bearer.where) == ("/etc/keys.json", None, "/etc/keys.json")
    assert (bearer.issuer, bearer.audiences) == ("listener", {"one", "two"})
    assert (bearer.clock_skew_s, bearer.refresh_ms, bearer.subject_claim) == (30, 3_600_000, "sub")
    assert with_keys({}).sasl_listeners["CLIENTS"].bearer is None


def test_brokers_log_in_by_tokens_of_an_endpoint_or_of_a_file() -> None:
    login = with_keys(BEARER | BY_TOKEN).broker_login
    assert login is not None
    assert login.source is not None
    assert (login.mechanism, str(login.source)) == ("OAUTHBEARER", "https://idp.example:443/token")
    assert (login.source.client_id, login.source.client_secret, login.source.scope) == ("me", "swordfish", "kafka")
    assert login.source.extensions == {"pool": "x"}
    of_file = with_keys(BEARER | BY_TOKEN | {"sasl.oauthbearer.token.endpoint.url": "file:///run/token"}).broker_login
    assert of_file is not None
    assert str(of_file.source) == "/run/token"


TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"


@pytest.mark.parametrize(
    ("keys", "key", "reason"),
    [
        ({URL: ""}, URL, "cannot be verified"),
        ({URL: "http://idp.example/keys"}, URL, "use https"),
        ({URL: "http://127.0.0.1/keys"}, URL, "use https"),
        ({URL: "ftp://idp.example/keys"}, URL, "https://HOST/PATH"),
        ({URL: "file://host/keys"}, URL, "whole path"),
        ({URL: "file:keys"}, URL, "whole path"),
        ({URL: "https://user:swordfish@idp.example/keys"}, URL, "leave user"),
        ({"listener.name.clients.sasl.oauthbearer.clock.skew.seconds": "x"}, "listener.name.clients", "number"),
        ({"sasl.oauthbearer.jwks.endpoint.refresh.ms": "-1"}, "sasl.oauthbearer.jwks", "0 or more"),
        ({"sasl.server.callback.handler.class": "com.example.H"}, "sasl.server.callback", "OAuthBearerValidator"),
        ({BEARER_JAAS: f'{BEARER_MODULE} required unsecuredLoginStringClaim_sub="x";'}, "sasl.jaas", "signature"),
        ({BEARER_JAAS: SCRAM}, BEARER_JAAS, "OAuthBearerLoginModule"),
        (BY_TOKEN | {TOKEN_URL: ""}, TOKEN_URL, "token endpoint"),
        (BY_TOKEN | {TOKEN_URL: "http://idp.example/token"}, TOKEN_URL, "use https"),
        (BY_TOKEN | {BEARER_JAAS: f'{BEARER_MODULE} required clientId="me";'}, "sasl.oauthbearer.client", "secret"),
        (BY_TOKEN | {BEARER_JAAS: f'{BEARER_MODULE} required extension_auth="x";'}, "sasl.jaas", "extension"),
        (BY_TOKEN | {"sasl.login.read.timeout.ms": "0"}, "sasl.login.read", "milliseconds"),
        (BY_TOKEN | {"sasl.login.callback.handler.class": "com.example.H"}, "sasl.login.callback", "LoginCallback"),
    ],
)
def test_tokens_that_could_not_be_verified_or_fetched_are_refused(keys: dict[str, str], key: str, reason: str) -> None:
    """Without a source of keys, Kafka accepts unsigned tokens; here the node does not start."""
    with pytest.raises(BadSetting, match=reason) as refused:
        with_keys(BEARER | keys)
    assert refused.value.key.startswith(key)
    assert "swordfish" not in str(refused.value)


def test_no_password_is_in_a_repr() -> None:
    printed = repr(with_keys(AMONG_BROKERS).sasl_listeners) + repr(with_keys(AMONG_BROKERS).broker_login)
    printed += repr(with_keys(BEARER | BY_TOKEN).broker_login)
    assert "swordfish" not in printed
    assert "sesame" not in printed
