"""Connects a query to a secured cluster: its options, and connections that follow them.

The options are those of Spark's own Kafka source, `kafka.` plus a key of Kafka's clients: security.protocol, sasl.* and
ssl.*. `commandConfig` names a properties file with these keys instead, so that no secret is part of a query.
`client.properties` defines the keys; every mistake is the condition UNSUPPORTED_SECURITY.

Key store and trust store files are read where a connection is made: by the driver when a query starts, and by each task
of a worker. No repr and no error shows a value that may be a secret.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from chronik.client.properties import (
    HIDDEN,
    NO_SECURITY,
    PLAINTEXT,
    BadProperties,
    ClientSecurity,
    read_properties,
    secured_client,
)
from chronik.pipeline.connection import BlockingConnection
from chronik.pipeline.errors import PipelineError
from chronik.runtime.real import real_runtime
from chronik.wire.oauthbearer import OAUTHBEARER
from chronik.wire.sasl_clients import BY_PASSWORD, NONCE_CHARS

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient
    from chronik.peer.addresses import Address

COMMAND_CONFIG: Final = "commandConfig"
PREFIX: Final = "kafka."
PROTOCOL: Final = "kafka.security.protocol"
MECHANISM: Final = "kafka.sasl.mechanism"
KEYS: Final = (
    PROTOCOL,
    MECHANISM,
    "kafka.sasl.jaas.config",
    "kafka.ssl.truststore.location",
    "kafka.ssl.truststore.password",
    "kafka.ssl.truststore.type",
    "kafka.ssl.truststore.certificates",
    "kafka.ssl.keystore.location",
    "kafka.ssl.keystore.password",
    "kafka.ssl.keystore.type",
    "kafka.ssl.keystore.key",
    "kafka.ssl.keystore.certificate.chain",
    "kafka.ssl.key.password",
    "kafka.ssl.endpoint.identification.algorithm",
    "kafka.ssl.enabled.protocols",
    "kafka.ssl.cipher.suites",
)
# Java TLS settings without an effect here: accepted, so that queries can be migrated unchanged.
WITHOUT_EFFECT: Final = (
    "kafka.ssl.protocol",
    "kafka.ssl.provider",
    "kafka.ssl.keymanager.algorithm",
    "kafka.ssl.trustmanager.algorithm",
    "kafka.ssl.secure.random.implementation",
)
NO_TOKENS: Final = (
    "OAUTHBEARER is not supported in queries, because every task of a worker logs in by itself and would need a token"
    " of its own from the provider"
)
# By the beginning of their names: what Chronik cannot do.
REFUSED: Final = {
    "kafka.sasl.kerberos.": f"GSSAPI is not supported; mechanisms are {', '.join(BY_PASSWORD)}",
    "kafka.sasl.oauthbearer.": f"{NO_TOKENS}; mechanisms are {', '.join(BY_PASSWORD)}",
    "kafka.sasl.login.": "there is no Java login to configure",
    "kafka.sasl.client.callback.handler.class": "there is no Java login to configure",
    "kafka.ssl.engine.factory.class": "there is no Java class to load",
    "kafka.security.providers": "there is no Java class to load",
}
SECURED: Final = ("kafka.sasl.", "kafka.ssl.")
STORES: Final = {"ssl.keystore.location": "ssl.keystore.key", "ssl.truststore.location": "ssl.truststore.certificates"}


@dataclass(frozen=True, slots=True, repr=False)
class QuerySecurity:
    """Keys and values of client.properties, and the file they come from. Sent to workers unchanged."""

    properties: tuple[tuple[str, str], ...] = field(default=())
    file: str = ""

    def __repr__(self) -> str:
        return f"QuerySecurity({dict(self.properties).get('security.protocol', PLAINTEXT)}, [hidden])"

    @property
    def options(self) -> dict[str, str]:
        """Options for Spark readers and writers. A file is passed by name, so that plans show nothing else."""
        if self.file:
            return {COMMAND_CONFIG: self.file}
        return {f"{PREFIX}{key}": value for key, value in self.properties}

    def checked(self) -> ClientSecurity:
        """The validated settings, with the files' current contents. Raises UNSUPPORTED_SECURITY."""
        if not self.properties:
            return NO_SECURITY
        given = dict(self.properties)
        try:
            if given.get("sasl.mechanism", "").strip().upper() == OAUTHBEARER:
                allowed = f"{NO_TOKENS}; write one of {', '.join(BY_PASSWORD)}, or use a certificate"
                raise BadProperties("sasl.mechanism", OAUTHBEARER, allowed)
            return ClientSecurity.of(given)
        except BadProperties as fault:
            raise self._refused(fault) from None

    def client(self, bootstrap: str, client_id: str) -> AbstractAsyncContextManager[ClusterClient]:
        """For `async with`, on the driver and in sinks. Raises UNSUPPORTED_SECURITY."""
        return secured_client(real_runtime(), bootstrap, self.checked(), client_id=client_id)

    def connector(self, client_id: str) -> Callable[[Address], BlockingConnection]:
        """A function that connects for a task. Raises UNSUPPORTED_SECURITY."""
        known = self.checked()

        def connect(address: Address) -> BlockingConnection:
            login = known.credentials
            mechanism = None if login is None else login.one_login(os.urandom(NONCE_CHARS))
            return BlockingConnection(address, client_id, mechanism=mechanism, tls=known.tls)

        return connect

    @property
    def principal(self) -> str:
        return self.checked().principal

    def _refused(self, fault: BadProperties) -> PipelineError:
        reason = fault.reason
        inline = STORES.get(fault.key)
        if inline is not None and "cannot read the file" in reason:
            reason += (
                f" (on {socket.gethostname()}). The driver and every worker read it: put it on all of these machines,"
                f" or give its contents in {inline}"
            )
        option = f"{fault.key} in {self.file}" if self.file else f"{PREFIX}{fault.key}"
        return PipelineError("UNSUPPORTED_SECURITY", option=option, value=fault.value, reason=reason)


NO_QUERY_SECURITY: Final = QuerySecurity()


def refuse_unsupported(name: str) -> None:
    """Raises UNSUPPORTED_SECURITY for options that Kafka's clients have and Chronik does not; `name` in lower case."""
    for beginning, reason in REFUSED.items():
        if name.startswith(beginning):
            raise PipelineError("UNSUPPORTED_SECURITY", option=name, value=HIDDEN, reason=reason)


def security_of(given: Mapping[str, str]) -> QuerySecurity:
    """From all options of a reader or writer, with names in lower case. Reads the file that commandConfig names.

    Raises UNSUPPORTED_SECURITY for errors that can be found without store files: `checked` reads those.
    """
    found = {name: given[name] for name in KEYS if name in given}
    file = given.get(COMMAND_CONFIG.lower(), "").strip()
    if file:
        if found:
            both = f"{COMMAND_CONFIG} and {next(iter(found))}"
            raise PipelineError("CONFLICTING_OPTIONS", options=both, reason="write all of these keys into the file")
        return security_in(file)
    made = QuerySecurity(tuple((name.removeprefix(PREFIX), value) for name, value in found.items()))
    if found.get(PROTOCOL, PLAINTEXT).strip().upper() == PLAINTEXT:
        unused = next((name for name in found if name.startswith(SECURED)), None)
        if unused is not None:
            reason = f"{PROTOCOL} is {PLAINTEXT}, which has no effect on it: set SSL, SASL_PLAINTEXT or SASL_SSL"
            raise PipelineError("UNSUPPORTED_SECURITY", option=unused, value=HIDDEN, reason=reason)
        return NO_QUERY_SECURITY
    _require_sense(made)
    return made


def security_in(file: str) -> QuerySecurity:
    """The settings in a properties file, with the keys of Kafka's clients. Raises UNSUPPORTED_SECURITY."""
    if "\n" in file or "=" in os.path.basename(file):
        reason = "it names a file; write the keys into that file"
        raise PipelineError("UNSUPPORTED_SECURITY", option=COMMAND_CONFIG, value=HIDDEN, reason=reason)
    path = os.path.abspath(os.path.expanduser(file))
    try:
        told = read_properties(path)
    except BadProperties as fault:
        raise PipelineError("UNSUPPORTED_SECURITY", option=COMMAND_CONFIG, value=path, reason=fault.reason) from None
    known = {name.removeprefix(PREFIX) for name in KEYS}
    made = QuerySecurity(tuple((key, value) for key, value in told.items() if key in known), path)
    _require_sense(made)
    return made


def _require_sense(security: QuerySecurity) -> None:
    """Checks protocol, mechanism and login before a query starts."""
    told = {key: value for key, value in security.properties if not key.startswith("ssl.")}
    protocol = told.get("security.protocol", PLAINTEXT).strip().upper()
    without_tls = {"SSL": PLAINTEXT, "SASL_SSL": "SASL_PLAINTEXT"}.get(protocol, protocol)
    QuerySecurity((*told.items(), ("security.protocol", without_tls)), security.file).checked()
