"""Kafka's ssl.* keys: the listener that they define, and every refusal with its key and its path."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from chronik.runtime.tls import ClientAuth
from chronik.runtime.tls_contexts import client_context, server_context
from chronik.security.errors import BadKey
from chronik.security.tls_keys import client_tls, server_tls
from chronik.testing.certificates import Authority

CA = Authority()
SERVER = CA.server("broker")
OTHER = Authority("Other").server("other")
JKS = bytes.fromhex("feedfeed00000002")
FILES = {
    "/server.pem": SERVER.store_pem.encode(),
    "/ca.pem": CA.pem.encode(),
    "/server.p12": SERVER.pkcs12("secret"),
    "/real.jks": JKS,
    "/encrypted.pem": (SERVER.encrypted_key_pem("key-secret") + SERVER.certificate_pem).encode(),
    "/mixed.pem": (SERVER.key_pem + OTHER.certificate_pem).encode(),
    "/no-key.pem": SERVER.certificate_pem.encode(),
    "/empty": b"",
}
PEM = {"ssl.keystore.type": "PEM", "ssl.keystore.location": "/server.pem"}
TRUST = {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"}
INLINE = {
    "ssl.keystore.type": "PEM",
    "ssl.keystore.key": SERVER.key_pem,
    "ssl.keystore.certificate.chain": SERVER.certificate_pem,
}


def read(path: str) -> bytes:
    if path not in FILES:
        raise FileNotFoundError(2, "No such file or directory")
    return FILES[path]


@pytest.mark.parametrize(
    "keys",
    [
        PEM,
        INLINE,
        {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": "/server.p12", "ssl.keystore.password": "secret"},
        {"ssl.keystore.location": "/server.p12", "ssl.keystore.password": "secret"},
        {"ssl.keystore.type": "PEM", "ssl.keystore.location": "/encrypted.pem", "ssl.key.password": "key-secret"},
        {**PEM, "ssl.keystore.password": ""},
    ],
)
def test_a_listener_gets_its_certificate_from_every_kind_of_store(keys: Mapping[str, str]) -> None:
    """Java's keytool writes PKCS12 while Kafka's default type says JKS, so the file decides."""
    made = server_tls(keys.get, read)
    assert made.identity.subject == "CN=broker"
    assert made.identity.chain_pem == SERVER.certificate_pem
    assert "DNSName:localhost" in made.identity.names
    server_context(made)


def test_trust_and_client_certificates() -> None:
    made = server_tls({**PEM, **TRUST, "ssl.client.auth": "required"}.get, read)
    assert made.client_auth is ClientAuth.REQUIRED
    assert made.trust_pem == CA.pem


def test_a_client_checks_the_host_unless_told_otherwise() -> None:
    assert client_tls(TRUST.get, read).checks_host
    assert not client_tls({**TRUST, "ssl.endpoint.identification.algorithm": ""}.get, read).checks_host
    client_context(client_tls({**TRUST, **PEM}.get, read))


def test_a_private_key_is_never_shown() -> None:
    assert "PRIVATE KEY" not in repr(server_tls(PEM.get, read))


@pytest.mark.parametrize(
    ("keys", "key", "reason"),
    [
        ({}, "ssl.keystore.location", "needs a certificate"),
        ({**INLINE, "ssl.keystore.type": "JKS"}, "ssl.keystore.key", "only for ssl.keystore.type=PEM"),
        ({**INLINE, "ssl.keystore.certificate.chain": ""}, "ssl.keystore.key", "chain is missing"),
        ({**INLINE, "ssl.keystore.key": ""}, "ssl.keystore.certificate.chain", "ssl.keystore.key is missing"),
        ({**INLINE, "ssl.keystore.location": "/x"}, "ssl.keystore.location", "set one of them"),
        ({**INLINE, "ssl.keystore.password": "x"}, "ssl.keystore.password", "no password of its own"),
        ({**PEM, "ssl.keystore.password": "x"}, "ssl.keystore.password", "no password of its own"),
        ({"ssl.keystore.password": "x"}, "ssl.keystore.password", "ssl.keystore.location is missing"),
        ({"ssl.keystore.location": "/server.p12"}, "ssl.keystore.location", "ssl.keystore.password is missing"),
        ({**PEM, "ssl.keystore.location": "/nowhere"}, "ssl.keystore.location", "/nowhere: cannot read the file: No"),
        ({**PEM, "ssl.keystore.location": "/mixed.pem"}, "ssl.keystore.location", "no certificate belongs to"),
        ({**PEM, "ssl.keystore.location": "/no-key.pem"}, "ssl.keystore.location", "0 private keys"),
        ({**PEM, "ssl.keystore.location": "/empty"}, "ssl.keystore.location", "0 private keys"),
        ({**PEM, "ssl.keystore.location": "/encrypted.pem"}, "ssl.keystore.location", "ssl.key.password is needed"),
        (
            {**PEM, "ssl.keystore.location": "/encrypted.pem", "ssl.key.password": "wrong"},
            "ssl.keystore.location",
            "does not decrypt",
        ),
        ({"ssl.keystore.location": "/server.p12", "ssl.keystore.password": "x"}, "ssl.keystore.location", "is wrong"),
        (
            {"ssl.keystore.location": "/real.jks", "ssl.keystore.password": "x"},
            "ssl.keystore.location",
            "keytool -importkeystore -srckeystore /real.jks -destkeystore /real.jks.p12 -deststoretype PKCS12",
        ),
        ({"ssl.keystore.location": "/server.pem", "ssl.keystore.password": "x"}, "ssl.keystore.location", "it is PEM"),
        ({**PEM, "ssl.keystore.type": "BKS"}, "ssl.keystore.type", "allowed: JKS, PKCS12, PEM"),
        ({**PEM, "ssl.client.auth": "required"}, "ssl.client.auth", "need a trust store"),
        ({**PEM, **TRUST, "ssl.client.auth": "please"}, "ssl.client.auth", "allowed: none, requested, required"),
        ({**PEM, **TRUST, "ssl.truststore.password": "x"}, "ssl.truststore.password", "has no password"),
        (
            {**PEM, "ssl.truststore.type": "PEM", "ssl.truststore.certificates": "x"},
            "ssl.truststore.certificates",
            "no certificate in PEM",
        ),
        ({**PEM, "ssl.truststore.certificates": CA.pem}, "ssl.truststore.certificates", "ssl.truststore.type=PEM"),
        ({**PEM, "ssl.truststore.password": "x"}, "ssl.truststore.password", "ssl.truststore.location is missing"),
        ({**PEM, "ssl.enabled.protocols": "TLSv1.1"}, "ssl.enabled.protocols", "allowed: TLSv1.2, TLSv1.3"),
        ({**PEM, "ssl.cipher.suites": "RC4"}, "ssl.cipher.suites", "RC4 is not known"),
        ({**PEM, "ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "ssl.cipher.suites", "all suites are served or none"),
    ],
)
def test_what_cannot_work_is_refused_with_its_key_and_reason(keys: Mapping[str, str], key: str, reason: str) -> None:
    """As Kafka's DefaultSslEngineFactory refuses it, in one line, and without a secret in it."""
    with pytest.raises(BadKey) as refused:
        server_tls(keys.get, read)
    assert refused.value.key == key
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "PRIVATE" not in str(refused.value)


def test_suites_of_tls_1_2_alone_turn_tls_1_3_off() -> None:
    made = server_tls({**PEM, "ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"}.get, read)
    assert made.protocols == ("TLSv1.2",)
    assert made.ciphers == "ECDHE-ECDSA-AES128-GCM-SHA256"
    assert {each["name"] for each in server_context(made).get_ciphers()} >= {"ECDHE-ECDSA-AES128-GCM-SHA256"}
