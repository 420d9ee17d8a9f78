"""An issuer of tokens for tests: keys of every kind that a broker accepts, their JWKS document, and tokens by them.

Keys are created once per process, because creating an RSA key takes long. Others are derived from their names. Callers
pass times, so a test chooses the current time.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

LIFETIME_S = 3600
CURVES = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1, "ES512": ec.SECP521R1}


@cache
def key_of(name: str) -> Any:
    """A private key by the id that it has in the document."""
    kind = name.partition("-")[0]
    if kind in CURVES:
        return ec.derive_private_key(int.from_bytes(hashlib.sha256(name.encode()).digest()), CURVES[kind]())
    if kind == "EdDSA":
        return ed25519.Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())
    return rsa.generate_private_key(65537, 1024 if kind == "short" else 2048)


NAMES = ("rsa", "ES256", "ES384", "ES512", "EdDSA")


def jwk_of(name: str, **more: object) -> dict[str, Any]:
    public = key_of(name).public_key()
    reader: Any = {"E": ECAlgorithm, "O": OKPAlgorithm, "R": RSAAlgorithm}[_type(name)]
    made: dict[str, Any] = json.loads(reader.to_jwk(public))
    made.pop("key_ops", None)
    return made | {"kid": name, "use": "sig"} | more


def _type(name: str) -> str:
    return "O" if name.startswith("EdDSA") else "E" if name.startswith("ES") else "R"


def key_set(*names: str, more: tuple[object, ...] = ()) -> bytes:
    return json.dumps({"keys": [*(jwk_of(name) for name in names or NAMES), *more]}).encode()


def claims_of(now_s: int, **changes: object) -> dict[str, Any]:
    """A change to None takes the claim away."""
    made = {"sub": "alice", "iat": now_s, "exp": now_s + LIFETIME_S, "scope": "kafka"} | changes
    return {name: value for name, value in made.items() if value is not None}


def token_of(
    now_s: int, *, key: str = "rsa", algorithm: str = "", headers: dict[str, Any] | None = None, **changes: object
) -> str:
    """A header that is None is left out. Nothing is checked, so tokens can be wrong in any way."""
    algorithm = algorithm or ("RS256" if _type(key) == "R" else key.partition("-")[0])
    header = {"typ": "JWT", "alg": algorithm, "kid": key} | (headers or {})
    listed = {name: each for name, each in header.items() if each is not None}
    signed = f"{part(listed)}.{part(claims_of(now_s, **changes))}"
    signature = jwt.get_algorithm_by_name(algorithm).sign(signed.encode(), key_of(key))
    return f"{signed}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def part(value: object) -> str:
    """A header or a payload as it is in a token."""
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()
