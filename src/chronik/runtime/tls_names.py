"""The subject of a certificate in the format of Java's X500Principal.getName(), which Kafka uses as the principal.

This is RFC 2253: the last name first, attributes with well-known short names by these, all others as OID=#hex of their
DER. `cryptography` is loaded at the first certificate, so a node without TLS does not pay for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.x509 import Certificate, Name, NameAttribute

# The attributes that RFC 2253 names. Java writes all others by OID.
_short_names = {
    "2.5.4.3": "CN",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.6": "C",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_escaped = frozenset(',=+<>#;"\\')
_encodings = {0x1C: "utf-32-be", 0x1E: "utf-16-be"}  # of UniversalString and BMPString
LENGTH_OF_LENGTH = 0x80


def subject_of_der(der: bytes) -> str:
    from cryptography import x509

    return subject_of(x509.load_der_x509_certificate(der))


def subject_of(certificate: Certificate) -> str:
    return name_text(certificate.subject)


def name_text(name: Name) -> str:
    return ",".join("+".join(map(_attribute, part)) for part in reversed(list(name.rdns)))


def _attribute(attribute: NameAttribute[str | bytes]) -> str:
    number = attribute.oid.dotted_string
    short = _short_names.get(number)
    if short is None or isinstance(attribute.value, bytes):
        return f"{short or number}=#{_der(attribute).hex()}"
    return f"{short}={_escape(attribute.value)}"


def _escape(value: str) -> str:
    """Like Java: a backslash escapes special characters, leading and trailing blanks, and a leading #."""
    core = value.strip(" ")
    if not core:
        return "\\ " * len(value)
    lead = len(value) - len(value.lstrip(" "))
    trail = len(value) - len(value.rstrip(" "))
    text = "".join(f"\\{char}" if char in _escaped else char for char in core)
    return "\\ " * lead + text.replace("\0", "\\00") + "\\ " * trail


def _der(attribute: NameAttribute[str | bytes]) -> bytes:
    """The value as encoded in the certificate: its ASN.1 type, length, bytes."""
    kind = attribute._type.value
    value = attribute.value
    data = value if isinstance(value, bytes) else value.encode(_encodings.get(kind, "utf-8"))
    size = len(data)
    if size < LENGTH_OF_LENGTH:
        return bytes([kind, size]) + data
    counted = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([kind, LENGTH_OF_LENGTH | len(counted)]) + counted + data
