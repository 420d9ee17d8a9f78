"""Validates a bearer token: its signature, times, issuer and audience. Pure; the caller passes the time.

A token is a signed JWT. Only public-key algorithms are accepted: RS, PS, ES and EdDSA. `none` and HS are refused, and
the key determines the allowed algorithms, so a token cannot choose. `exp`, `iat` and a subject are required. As in
Kafka, a token for an audience is refused if none is expected. Errors are for the broker's log and never contain the
token.

Importing this module imports PyJWT and cryptography, so import it only where tokens are used.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from chronik.security.errors import SecurityError

TOKEN_CHARS_MAX: Final = 1 << 16
KEYS_MAX: Final = 200  # per set; identity providers publish a handful
KEYS_TRIED_MAX: Final = 4  # for a token that does not name its key
KEY_ID_CHARS_MAX: Final = 1000
RSA_BITS_MIN: Final = 2048
RSA_BITS_MAX: Final = 16_384  # verification time grows with the size
SECONDS_MAX: Final = 1 << 40  # larger times are not dates
_rsa: Final = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_by_curve: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
ALGORITHMS: Final = (*sorted(_rsa), *_by_curve.values(), "EdDSA")
_readers: Final[Mapping[str, Any]] = {"RSA": RSAAlgorithm, "EC": ECAlgorithm, "OKP": OKPAlgorithm}
_jws = jwt.PyJWS(algorithms=list(ALGORITHMS))


class BadToken(SecurityError):
    """Client error: the token is not accepted."""


class UnknownKey(BadToken):
    """The token names a key that is not in the set; the key may be new."""

    def __init__(self, key_id: str) -> None:
        super().__init__(f"no key has the id {key_id[:KEY_ID_CHARS_MAX]!r}")
        self.key_id = key_id


class BadKeySet(SecurityError):
    """Error of the identity provider: not a set of keys (JWKS), or one without a usable key."""


class SigningKey(NamedTuple):
    key_id: str  # "" if it has none
    algorithms: frozenset[str]  # algorithms it may be used with
    public: Any


KeySet = tuple[SigningKey, ...]


@dataclass(frozen=True, slots=True)
class TokenRules:
    issuer: str | None = None  # None: any
    audiences: frozenset[str] = frozenset()  # the token must name one of them; empty: it must name none
    clock_skew_s: int = 30
    subject_claim: str = "sub"
    scope_claim: str = "scope"


class BearerToken(NamedTuple):
    subject: str
    expires_ms: int
    scopes: tuple[str, ...]


def read_key_set(data: bytes) -> KeySet:
    """The keys of a JWKS document that can verify a signature; ignores the others. Raises BadKeySet."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise BadKeySet("it is not JSON") from None
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise BadKeySet("it has no list named `keys`: is this the address of a JWKS document?")
    if len(listed) > KEYS_MAX:
        raise BadKeySet(f"it has {len(listed)} keys, allowed are {KEYS_MAX}")
    found = tuple(key for each in listed if (key := _key(each)) is not None)
    if not found:
        raise BadKeySet(f"none of its {len(listed)} keys can verify a signature by {', '.join(ALGORITHMS)}")
    return found


def verify(token: str, keys: KeySet, rules: TokenRules, now_ms: int) -> BearerToken:
    """Raises BadToken; UnknownKey if a key outside the set may verify it."""
    if len(token) > TOKEN_CHARS_MAX:
        raise BadToken(f"it has {len(token)} characters, allowed are {TOKEN_CHARS_MAX}")
    header = _header(token)
    claims = _claims(_signed(token, _candidates(header, keys), str(header["alg"])))
    return _checked(claims, rules, now_ms)


def _key(jwk: object) -> SigningKey | None:
    """None for an unusable key: a symmetric or private one, one for encryption, one of an unknown kind."""
    if not isinstance(jwk, dict) or jwk.get("use", "sig") != "sig" or "d" in jwk:
        return None
    operations = jwk.get("key_ops")
    reader = _readers.get(str(jwk.get("kty")))
    if reader is None or (isinstance(operations, list) and "verify" not in operations):
        return None
    try:
        public = reader.from_jwk(jwk)
    except (jwt.PyJWTError, ValueError, TypeError, UnsupportedAlgorithm):
        return None
    algorithms = _fitting(public)
    if "alg" in jwk:
        named = str(jwk["alg"])
        algorithms &= {"EdDSA" if named in ("Ed25519", "Ed448") else named}  # RFC 9864's names
    key_id = jwk.get("kid")
    return SigningKey(key_id if isinstance(key_id, str) else "", algorithms, public) if algorithms else None


def _fitting(public: object) -> frozenset[str]:
    if isinstance(public, RSAPublicKey) and RSA_BITS_MIN <= public.key_size <= RSA_BITS_MAX:
        return _rsa
    if isinstance(public, EllipticCurvePublicKey) and public.curve.name in _by_curve:
        return frozenset({_by_curve[public.curve.name]})
    if isinstance(public, Ed25519PublicKey | Ed448PublicKey):
        return frozenset({"EdDSA"})
    return frozenset()


def _header(token: str) -> Mapping[str, Any]:
    try:
        header = _jws.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        raise BadToken("it is not a JWT") from None
    if header.get("alg") not in ALGORITHMS:
        raise BadToken(f"its algorithm is {str(header.get('alg'))[:20]!r}, allowed are {', '.join(ALGORITHMS)}")
    if "crit" in header or "b64" in header:
        raise BadToken("its header asks for extensions that are not supported")
    return header


def _candidates(header: Mapping[str, Any], keys: KeySet) -> Sequence[SigningKey]:
    key_id = header.get("kid")
    if isinstance(key_id, str):
        named = [key for key in keys if key.key_id == key_id]
        if not named:
            raise UnknownKey(key_id)
    else:
        named = list(keys)
    fitting = [key for key in named if header["alg"] in key.algorithms]
    if not fitting:
        raise BadToken(f"no key fits its algorithm, {header['alg']}")
    return fitting[:KEYS_TRIED_MAX]


def _signed(token: str, keys: Sequence[SigningKey], algorithm: str) -> bytes:
    """The payload, if one of the keys signed it."""
    for key in keys:
        try:
            payload: bytes = _jws.decode_complete(token, key.public, algorithms=[algorithm])["payload"]
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            continue
        return payload
    raise BadToken("its signature is wrong")


def _claims(payload: bytes) -> Mapping[str, Any]:
    try:
        claims = json.loads(payload)
    except (ValueError, RecursionError):
        raise BadToken("its payload is not JSON") from None
    if not isinstance(claims, dict):
        raise BadToken("its payload is not an object")
    return claims


def _checked(claims: Mapping[str, Any], rules: TokenRules, now_ms: int) -> BearerToken:
    now_s = now_ms // 1000
    issued_s, expires_s, from_s = (_time(claims, name) for name in ("iat", "exp", "nbf"))
    if issued_s is None or expires_s is None:
        raise BadToken("it has no exp or no iat")
    if now_s - rules.clock_skew_s >= expires_s:
        raise BadToken(f"it has expired {now_s - expires_s} s ago")
    if expires_s < issued_s or (from_s is not None and expires_s < from_s):
        raise BadToken("it expires before it becomes valid")
    if from_s is not None and now_s + rules.clock_skew_s < from_s:
        raise BadToken(f"it becomes valid in {from_s - now_s} s")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise BadToken(f"its issuer is {str(claims.get('iss'))[:200]!r}, expected is {rules.issuer!r}")
    _require_audience(claims.get("aud"), rules)
    subject = claims.get(rules.subject_claim)
    if not isinstance(subject, str) or not subject.strip():
        raise BadToken(f"it has no {rules.subject_claim}, or not as text")
    return BearerToken(subject.strip(), expires_s * 1000, _scopes(claims.get(rules.scope_claim)))


def _time(claims: Mapping[str, Any], name: str) -> int | None:
    """Whole seconds; None if the claim is absent."""
    value = claims.get(name)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not 0 <= value < SECONDS_MAX:
        raise BadToken(f"its {name} is not a time")
    return int(value)


def _require_audience(claim: object, rules: TokenRules) -> None:
    named = [claim] if isinstance(claim, str) else claim
    if named is None and not rules.audiences:
        return
    if not isinstance(named, list) or not any(isinstance(each, str) and each in rules.audiences for each in named):
        expected = ", ".join(sorted(rules.audiences)) or "none; set sasl.oauthbearer.expected.audience"
        raise BadToken(f"it is for another audience; expected is {expected}")


def _scopes(claim: object) -> tuple[str, ...]:
    named = [claim] if isinstance(claim, str) else claim
    if not isinstance(named, list):
        return ()
    scopes = [each.strip() for each in named if isinstance(each, str) and each.strip()]
    if len(scopes) != len(named) or len(set(scopes)) != len(scopes):
        raise BadToken("its scopes are empty, repeated or not text")
    return tuple(scopes)
