"""Creates OpenSSL contexts from TLS settings, and explains its errors.

Python reads certificates and keys only from files. An anonymous in-memory file is used, so that a private key never
touches the disk. Contexts are expensive and few: `ContextCache` keeps the most recent ones.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from chronik.runtime.tls import ClientAuth, Identity, TlsClient, TlsServer

KEPT_MAX = 16
_versions = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_demands = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}
# Explanations of OpenSSL's reasons, with advice. Others are shown as OpenSSL reports them.
_reasons = {
    "HTTP_REQUEST": "it sent an HTTP request: use https, or another port",
    "NO_SHARED_CIPHER": "no cipher suite in common: compare ssl.cipher.suites, and the kind of the server's key",
    "UNSUPPORTED_PROTOCOL": "it offers only TLS versions that ssl.enabled.protocols leaves out",
    "NO_PROTOCOLS_AVAILABLE": "no TLS version is enabled on both sides: compare ssl.enabled.protocols",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it refuses our TLS versions: compare ssl.enabled.protocols",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it presents no certificate, and ssl.client.auth=required: set ssl.keystore.* "
    "at the client",
    "WRONG_VERSION_NUMBER": "it does not speak TLS: is the other side's security.protocol PLAINTEXT?",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust our certificate: compare its ssl.truststore.* with our ssl.keystore.*",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it refuses our certificate: compare its ssl.truststore.* and the host names in "
    "the certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it refuses our certificate: compare its ssl.truststore.*, the host names in the "
    "certificate and its dates",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it refuses our certificate, because it has expired: renew it",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "it refuses the handshake: compare cipher suites, and whether it wants a "
    "certificate",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it wants a certificate: set ssl.keystore.*",
}


def server_context(tls: TlsServer) -> ssl.SSLContext:
    """Raises ssl.SSLError for certificates that OpenSSL rejects."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load_identity(context, tls.identity)
    if tls.trust_pem:
        context.load_verify_locations(cadata=tls.trust_pem)
    context.verify_mode = _demands[tls.client_auth]
    _restrict(context, tls.protocols, tls.ciphers)
    # Renegotiation would let clients consume the server's CPU; Kafka's clients never do it.
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.num_tickets = 1  # the default of two costs a tenth of a handshake; few Kafka clients use one
    return context


def client_context(tls: TlsClient) -> ssl.SSLContext:
    """Raises ssl.SSLError for certificates that OpenSSL rejects."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.checks_host
    if tls.trust_pem:
        context.load_verify_locations(cadata=tls.trust_pem)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if tls.identity is not None:
        _load_identity(context, tls.identity)
    _restrict(context, tls.protocols, tls.ciphers)
    return context


class ContextCache:
    """Contexts by value, the KEPT_MAX most recent."""

    def __init__(self) -> None:
        self._kept: dict[TlsServer | TlsClient, ssl.SSLContext] = {}

    def of(self, tls: TlsServer | TlsClient) -> ssl.SSLContext:
        context = self._kept.pop(tls, None)
        if context is None:
            context = server_context(tls) if isinstance(tls, TlsServer) else client_context(tls)
        self._kept[tls] = context
        if len(self._kept) > KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        return context


def _restrict(context: ssl.SSLContext, protocols: tuple[str, ...], ciphers: str) -> None:
    versions = sorted(_versions[each] for each in protocols)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    if ciphers:
        context.set_ciphers(ciphers)


def _load_identity(context: ssl.SSLContext, identity: Identity) -> None:
    with _in_memory(identity.chain_pem + identity.key_pem) as path:
        context.load_cert_chain(path)


@contextmanager
def _in_memory(text: str) -> Iterator[str]:
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("chronik-tls")
        try:
            os.write(descriptor, text.encode())
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # readable by its owner only
        file.write(text)
        file.flush()
        yield file.name


def in_words(error: Exception) -> str:
    """Why a handshake failed, for a log line or an error message."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return _reasons.get(error.reason, error.reason.replace("_", " ").lower())
    return str(error) or type(error).__name__
