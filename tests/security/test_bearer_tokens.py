"""Which tokens are accepted. Kafka judges the same ones in tests/oracle/test_compat_bearer_logins.py."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from chronik.security.bearer_tokens import (
    ALGORITHMS,
    KEYS_MAX,
    TOKEN_CHARS_MAX,
    BadKeySet,
    BadToken,
    BearerToken,
    TokenRules,
    UnknownKey,
    read_key_set,
    verify,
)
from tests.broker.sasl.tokens import LIFETIME_S, claims_of, jwk_of, key_of, key_set, part, token_of

NOW_S = 1_700_000_000
EC = "ES256"
STRICT = TokenRules(issuer="https://idp", audiences=frozenset({"kafka"}), subject_claim="azp", scope_claim="scp")


def verified(
    token: str, rules: TokenRules | None = None, *, keys: bytes | None = None, at_s: int = NOW_S
) -> BearerToken:
    return verify(token, read_key_set(keys or key_set(EC)), rules or TokenRules(), at_s * 1000)


@pytest.mark.parametrize("key", ["rsa", "ES256", "ES384", "ES512", "EdDSA"])
def test_a_token_of_a_known_key_names_its_user(key: str) -> None:
    found = verified(token_of(NOW_S, key=key, scope=["a", "b"]), keys=key_set(key))
    assert found == BearerToken("alice", (NOW_S + LIFETIME_S) * 1000, ("a", "b"))


@pytest.mark.parametrize("algorithm", ["RS384", "RS512", "PS256", "PS384", "PS512"])
def test_an_rsa_key_fits_every_algorithm_of_rsa(algorithm: str) -> None:
    assert verified(token_of(NOW_S, algorithm=algorithm), keys=key_set("rsa")).subject == "alice"


def symmetric(secret: bytes) -> str:
    """What an attacker makes of a public key: a token that it signs with the key's own text as the secret."""
    signed = f"{part({'alg': 'HS256', 'kid': EC})}.{part(claims_of(NOW_S))}"
    made = hmac.new(secret, signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{base64.urlsafe_b64encode(made).rstrip(b'=').decode()}"


def test_no_algorithm_without_a_public_key_counts() -> None:
    """Otherwise anyone could sign: with nothing, or with the public key as a password."""
    payload = part(claims_of(NOW_S))
    public = key_of(EC).public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    forged = [symmetric(pem), symmetric(json.dumps(jwk_of(EC)).encode())]
    forged += [f"{part({'alg': name, 'kid': EC})}.{payload}." for name in ("none", "None", "NONE", "", "HS512")]
    forged.append(f"{part({'kid': EC})}.{payload}.")
    for each in forged:
        with pytest.raises(BadToken, match="algorithm is"):
            verified(each)
    assert not {name for name in ALGORITHMS if name.startswith("HS") or name.lower() == "none"}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no exp": ({"exp": None}, "no exp"),
    "no iat": ({"iat": None}, "no iat"),
    "no sub": ({"sub": None}, "no sub"),
    "an empty sub": ({"sub": " "}, "no sub"),
    "a number for a sub": ({"sub": 7}, "no sub"),
    "expired": ({"iat": NOW_S - 99, "exp": NOW_S - 30}, "expired 30 s ago"),
    "not valid yet": ({"nbf": NOW_S + 31}, "becomes valid in 31 s"),
    "expires before it is issued": ({"exp": NOW_S + 1, "iat": NOW_S + 2}, "before it becomes valid"),
    "expires before it is valid": ({"exp": NOW_S + 1, "nbf": NOW_S + 2}, "before it becomes valid"),
    "an exp that is text": ({"exp": "9999999999"}, "not a time"),
    "an exp that is true": ({"exp": True}, "not a time"),
    "an exp beyond all dates": ({"exp": 1e300}, "not a time"),
    "an exp that is endless": ({"exp": float("inf")}, "not a time"),
    "an audience": ({"aud": "kafka"}, "another audience"),
    "scopes twice": ({"scope": ["a", "a"]}, "scopes"),
    "scopes of another type": ({"scope": ["a", 1]}, "scopes"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_token_with_wrong_claims_lets_nobody_in(name: str) -> None:
    changes, reason = REFUSED[name]
    with pytest.raises(BadToken, match=reason):
        verified(token_of(NOW_S, key=EC, **changes))


def test_clocks_may_differ_by_the_skew_and_no_more() -> None:
    token = token_of(NOW_S, key=EC, nbf=NOW_S)
    for at_s in (NOW_S - 30, NOW_S + LIFETIME_S + 29):
        assert verified(token, at_s=at_s).subject == "alice"
    for at_s in (NOW_S - 31, NOW_S + LIFETIME_S + 30):
        with pytest.raises(BadToken):
            verified(token, at_s=at_s)


def test_issuer_audience_and_names_of_claims_are_as_configured() -> None:
    good: dict[str, Any] = {"iss": "https://idp", "aud": ["other", "kafka"], "azp": "svc", "scp": "a"}
    assert verified(token_of(NOW_S, key=EC, **good), STRICT) == BearerToken("svc", (NOW_S + LIFETIME_S) * 1000, ("a",))
    for change in ({"iss": "https://idp/"}, {"iss": None}, {"aud": "other"}, {"aud": None}, {"aud": 7}, {"azp": None}):
        with pytest.raises(BadToken):
            verified(token_of(NOW_S, key=EC, **(good | change)), STRICT)


def test_a_spoilt_token_is_refused() -> None:
    head, payload, signature = token_of(NOW_S, key=EC).split(".")
    admin = part(claims_of(NOW_S, sub="admin"))
    for spoilt in (
        f"{head}.{admin}.{signature}",
        f"{head}.{payload}.{signature[:-9]}AAAAAAAAA",
        f"{head}.{payload}.",
        f"{head}.{payload}",
        f"{head}.{payload}.{signature}.x.y",
        "abc",
        "..",
        "",
        f"{part([])}.{payload}.{signature}",
        f"{part({'alg': EC, 'kid': 7})}.{payload}.{signature}",
        "A" * (TOKEN_CHARS_MAX + 1),
    ):
        with pytest.raises(BadToken):
            verified(spoilt)


def test_nesting_without_end_is_refused() -> None:
    """Python's own parser gives up with another error at some depth."""
    deep = base64.urlsafe_b64encode(b"[" * 20_000).decode()
    with pytest.raises(BadToken):
        verified(f"{deep}.{deep}.AAAA")
    with pytest.raises(BadKeySet):
        read_key_set(b"[" * 100_000)


def test_a_header_that_asks_for_more_is_refused() -> None:
    for headers in ({"crit": ["x"], "x": 1}, {"b64": False}):
        with pytest.raises(BadToken):
            verified(token_of(NOW_S, key=EC, headers=headers))


def test_an_unknown_key_is_told_apart() -> None:
    """It may be new: the broker reads the keys again."""
    with pytest.raises(UnknownKey) as refused:
        verified(token_of(NOW_S, key="ES256-new"))
    assert refused.value.key_id == "ES256-new"


def test_the_key_decides_which_algorithm_fits() -> None:
    """A token must not select another key's algorithm, nor a key for another purpose."""
    for more in (jwk_of("rsa", alg="RS512"), jwk_of("rsa", use="enc"), jwk_of("rsa", key_ops=["encrypt"])):
        with pytest.raises(BadToken):
            verified(token_of(NOW_S), keys=key_set(EC, more=(more,)))
    with pytest.raises(BadToken, match="fits"):
        verified(token_of(NOW_S, key="ES384", headers={"kid": EC}))
    assert verified(token_of(NOW_S, algorithm="RS512"), keys=key_set(EC, more=(jwk_of("rsa", alg="RS512"),)))


def test_a_token_that_names_no_key_is_tried_with_those_that_fit() -> None:
    token = token_of(NOW_S, key=EC, headers={"kid": None})
    assert verified(token, keys=key_set("EdDSA", "ES256-other", EC)).subject == "alice"
    with pytest.raises(BadToken, match="signature"):
        verified(token, keys=key_set("ES256-other"))


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"", "not JSON"),
        (b"<html>", "not JSON"),
        (b"[]", "list named"),
        (b'{"keys": {}}', "list named"),
        (b'{"keys": []}', "none of its 0 keys"),
        (json.dumps({"keys": [1, None, {}, {"kty": "oct", "k": "AAAA"}]}).encode(), "none of its 4 keys"),
        (json.dumps({"keys": [{"kty": "RSA", "n": "!", "e": []}]}).encode(), "none of its 1 keys"),
        (json.dumps({"keys": [{}] * (KEYS_MAX + 1)}).encode(), "allowed are"),
    ],
)
def test_a_document_without_a_usable_key_is_refused(document: bytes, reason: str) -> None:
    with pytest.raises(BadKeySet, match=reason):
        read_key_set(document)


def test_keys_that_are_too_weak_or_private_are_left_out() -> None:
    private = jwk_of(EC) | {"d": "AAAA"}
    assert [key.key_id for key in read_key_set(key_set(EC, more=(jwk_of("short"), private)))] == [EC]


def test_no_token_is_in_an_error() -> None:
    token = token_of(NOW_S, key=EC, exp=NOW_S - 99, iat=NOW_S - 100)
    with pytest.raises(BadToken) as refused:
        verified(token)
    assert all(each not in str(refused.value) for each in token.split("."))
