"""Key stores and trust stores: PEM or PKCS12 bytes in, certificates and a decrypted key out.

Pure: the caller reads the file. A store in Java's own format (JKS) is refused, and the error shows the command that
converts it. JDK 9 and later write PKCS12, even into files named .jks. This module imports `cryptography`, so import it
only where TLS is configured.
"""

from __future__ import annotations

import re
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

from chronik.runtime.tls import Identity
from chronik.runtime.tls_names import subject_of

JKS_MAGIC: Final = bytes.fromhex("feedfeed")
JCEKS_MAGIC: Final = bytes.fromhex("cececece")
CHAIN_MAX: Final = 10  # certificates; real chains have two to four
_certificate = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_key = re.compile(r"-----BEGIN (?:[A-Z]+ )?(?:ENCRYPTED )?PRIVATE KEY-----.+?PRIVATE KEY-----", re.DOTALL)


class BadStore(ValueError):
    """Not a store, or not readable; the message is only the reason."""


def pem_identity(text: str, key_password: str | None) -> Identity:
    """From a chain and a key, in any order."""
    return pem_pair(text, text, key_password)


def pem_pair(chain: str, key: str, key_password: str | None) -> Identity:
    keys = _key.findall(key)
    if len(keys) != 1:
        raise BadStore(f"{len(keys)} private keys in PEM found, one is needed")
    password = key_password.encode() if key_password else None
    try:
        loaded = load_pem_private_key(keys[0].encode(), password)
    except TypeError:
        given = (
            "is set, and the private key is not encrypted: remove it" if password else "is needed: the key is encrypted"
        )
        raise BadStore(f"ssl.key.password {given}") from None
    except ValueError as error:
        why = (
            "ssl.key.password does not decrypt the private key" if password else f"the private key is damaged: {error}"
        )
        raise BadStore(why) from None
    return _identity(pem_certificates(chain), loaded)


def pem_certificates(text: str) -> list[x509.Certificate]:
    found = []
    for each in _certificate.findall(text):
        try:
            found.append(x509.load_pem_x509_certificate(each.encode()))
        except ValueError as error:
            raise BadStore(f"certificate {len(found) + 1} is damaged: {error}") from None
    if not found:
        raise BadStore("no certificate in PEM found (-----BEGIN CERTIFICATE-----)")
    return found


def pkcs12_identity(data: bytes, password: str | None, path: str) -> Identity:
    store = _pkcs12(data, password, path)
    if store.key is None or store.cert is None:
        raise BadStore("it has no private key: is it a trust store?")
    return _identity([store.cert.certificate, *(each.certificate for each in store.additional_certs)], store.key)


def pkcs12_certificates(data: bytes, password: str | None, path: str) -> list[x509.Certificate]:
    store = _pkcs12(data, password, path)
    found = [each.certificate for each in store.additional_certs]
    if not found:
        raise BadStore("it has no trusted certificates: is it a key store?")
    return found


def _pkcs12(data: bytes, password: str | None, path: str):  # type: ignore[no-untyped-def]  # of a private class
    if data.startswith((JKS_MAGIC, JCEKS_MAGIC)):
        raise BadStore(
            "it has Java's own format, JKS: convert it with `keytool -importkeystore -srckeystore "
            f"{path} -destkeystore {path}.p12 -deststoretype PKCS12`, and set the new path"
        )
    if data.lstrip().startswith(b"-----BEGIN"):
        raise BadStore("it is PEM: set the store's type to PEM")
    try:
        return load_pkcs12(data, password.encode() if password else None)
    except ValueError as error:
        if "password" in str(error).lower():
            raise BadStore("the password of the store is wrong") from None
        raise BadStore(f"it is not PKCS12: {error}") from None


def certificates_pem(certificates: list[x509.Certificate]) -> str:
    return "".join(each.public_bytes(Encoding.PEM).decode() for each in certificates)


def _identity(certificates: list[x509.Certificate], key) -> Identity:  # type: ignore[no-untyped-def]  # any key
    public = key.public_key()
    chain = [each for each in certificates if each.public_key() == public][:1]
    if not chain:
        raise BadStore("no certificate belongs to the private key")
    rest = [each for each in certificates if each is not chain[0]]
    while len(chain) < CHAIN_MAX:
        issuer = next((each for each in rest if each.subject == chain[-1].issuer), None)
        if issuer is None:
            break
        rest.remove(issuer)
        chain.append(issuer)
    return Identity(
        chain_pem=certificates_pem(chain),
        key_pem=key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
        subject=subject_of(chain[0]),
        names=_alternative_names(chain[0]),
        not_after_ms=min(int(each.not_valid_after_utc.timestamp() * 1000) for each in chain),
    )


def _alternative_names(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return tuple(sorted(f"{type(each).__name__}:{each.value}" for each in found))
