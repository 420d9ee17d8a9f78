"""Certificates for tests and for `chronik init`: an authority, servers with their names, clients.

Keys are P-256. By default everything is valid for days, which is enough for tests. Private keys are not encrypted:
files with one need mode 0600. This module imports `cryptography`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID_DAYS = 30
HOSTS = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Certified:
    """A certificate with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    @property
    def key_pem(self) -> str:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    @property
    def store_pem(self) -> str:
        """For ssl.keystore.location with ssl.keystore.type=PEM."""
        return self.key_pem + self.certificate_pem

    def encrypted_key_pem(self, password: str) -> str:
        encryption = BestAvailableEncryption(password.encode())
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()

    def pkcs12(self, password: str) -> bytes:
        encryption = BestAvailableEncryption(password.encode())
        return serialize_key_and_certificates(b"chronik", self.key, self.certificate, None, encryption)

    def write(self, path: Path) -> Path:
        """Writes the store to a file that only its owner can read."""
        path.touch(mode=0o600)
        path.write_text(self.store_pem)
        return path


class Authority:
    """Signs certificates. Two with the same name are different authorities: their keys differ."""

    def __init__(self, name: str = "Chronik Test CA", *, days: int = VALID_DAYS, made: Certified | None = None) -> None:
        """Creates a new authority, or uses the existing one, `made`."""
        self._made = made or _founded(named(name), days)
        self._key, self.certificate = self._made.key, self._made.certificate
        self._name = self.certificate.subject

    @classmethod
    def load(cls, certificate_pem: str, key_pem: str) -> Authority:
        """Raises ValueError for texts that are not a certificate with its P-256 key."""
        certificate = x509.load_pem_x509_certificate(certificate_pem.encode())
        key = load_pem_private_key(key_pem.encode(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise ValueError("the key does not belong to the authority's certificate")
        return cls(made=Certified(certificate, key))

    @property
    def pem(self) -> str:
        """For ssl.truststore.location with ssl.truststore.type=PEM."""
        return self._made.certificate_pem

    @property
    def key_pem(self) -> str:
        return self._made.key_pem

    def renewed(self, old: x509.Certificate, *, days: int) -> Certified:
        """A new key and certificate with the subject and hosts of an old certificate."""
        return self.issue(old.subject, hosts_of(old), days=days)

    def server(self, name: str = "broker", hosts: Sequence[str] = HOSTS, *, days: int = VALID_DAYS) -> Certified:
        """For a node, which is also a client of other nodes. Negative `days`: an expired certificate."""
        return self.issue(named(name), hosts, days=days)

    def client(self, name: str, *, days: int = VALID_DAYS) -> Certified:
        return self.issue(named(name), (), days=days)

    def issue(self, subject: x509.Name, hosts: Sequence[str] = (), *, days: int = VALID_DAYS) -> Certified:
        key = ec.generate_private_key(ec.SECP256R1())
        begin = datetime.now(UTC) - timedelta(hours=1) + min(timedelta(), timedelta(days=days - 1))
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])]
        builder = (
            _builder(subject, self._name, key.public_key(), begin, abs(days))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(each) for each in hosts]), critical=False
            )
        return Certified(builder.sign(self._key, hashes.SHA256()), key)


def _founded(name: x509.Name, days: int) -> Certified:
    """A self-signed authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    begin = datetime.now(UTC) - timedelta(hours=1)
    certificate = (
        _builder(name, name, key.public_key(), begin, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Certified(certificate, key)


def hosts_of(certificate: x509.Certificate) -> list[str]:
    """The names and addresses in a certificate."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [str(each.value) for each in found if isinstance(each, (x509.DNSName, x509.IPAddress))]


def first_certificate(pem: str) -> x509.Certificate:
    """The owner's certificate in a store. Raises ValueError if there is none."""
    return x509.load_pem_x509_certificates(pem.encode())[0]


def named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, begin: datetime, days: int
) -> x509.CertificateBuilder:
    return x509.CertificateBuilder(
        subject_name=subject,
        issuer_name=issuer,
        public_key=key,
        serial_number=x509.random_serial_number(),
        not_valid_before=begin,
        not_valid_after=begin + timedelta(days=days),
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
