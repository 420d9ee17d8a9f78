"""Three nodes with TLS and certificates on both sides between them: between brokers, in the quorum, to clients."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from chronik.testing import Cluster
from chronik.testing.certificates import Authority
from tests.broker.tls_files import Files, replaced

SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:SSL",
    "ssl.client.auth": "required",
    "chronik.ssl.reload.interval.ms": "100",
    "chronik.quorum.principals": "User:CN=node",
}
WAIT_S = 60
CORRELATION_ID = 7


class Load:
    """One producer that goes on until it is told to stop; what was not acknowledged is kept."""

    def __init__(self, bootstrap: str, security: dict[str, str]) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **security})
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.acknowledged = 0
        self.failed: list[str] = []
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.is_set():
            self._producer.produce("orders", b"x" * 100, on_delivery=self._delivered)
            self._producer.flush(WAIT_S)

    def _delivered(self, error: Any, _: Any) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failed.append(str(error))

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()

    def goes_on(self) -> None:
        """Returns after some more acknowledgements."""
        goal = self.acknowledged + 20
        until(lambda: self.acknowledged >= goal or bool(self.failed))


def until(holds: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(WAIT_S * 100):
        if holds():
            return
        pause.wait(0.01)
    raise AssertionError("it did not come about in time")


def presented(port: int) -> str:
    return ssl.get_server_certificate(("127.0.0.1", port), timeout=WAIT_S)


class OpenConnection:
    """A connection of a client that never reconnects."""

    def __init__(self, port: int, trust: Path, certificate: Path) -> None:
        context = ssl.create_default_context(cafile=str(trust))
        context.load_cert_chain(str(certificate))
        plain = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
        self._socket = context.wrap_socket(plain, server_hostname="127.0.0.1")

    def answers(self) -> bool:
        """Whether it still gets a response to ApiVersions v0."""
        request = struct.pack(">hhih", 18, 0, CORRELATION_ID, -1)
        self._socket.sendall(struct.pack(">i", len(request)) + request)
        (size_bytes,) = struct.unpack(">i", self._read(4))
        return struct.unpack(">i", self._read(size_bytes)[:4]) == (CORRELATION_ID,)

    def close(self) -> None:
        self._socket.close()

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            assert more, "the node closed the connection"
            data += more
        return data


@pytest.mark.slow
def test_all_certificates_are_replaced_under_load_without_a_failed_produce(tmp_path: Path) -> None:
    """Another authority, other certificates, in the order in which operators do it: trust both, change, trust one.

    librdkafka reads its files once. Its connections may break at any time, so each producer runs only while nodes
    accept its certificate.
    """
    files = Files(tmp_path)
    renewed = Authority("Renewed")
    with Cluster(nodes=3, settings={**SETTINGS, **files.stores}) as cluster:
        former = files.client("alice")
        assert former is not None
        opened = OpenConnection(cluster.ports[0], files.trust, former)
        replaced(files.trust, files.authority.pem + renewed.pem)
        security = files.librdkafka(former)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **security})
        for future in admin.create_topics([NewTopic("orders", 3, 3)]).values():
            future.result(WAIT_S)
        load = Load(cluster.bootstrap, security)
        try:
            load.goes_on()
            made = renewed.server("node")
            replaced(files.node, made)
            for port in cluster.ports:
                until(lambda port=port: presented(port) == made.certificate_pem)  # type: ignore[misc]
            load.goes_on()
        finally:
            load.stop()
        assert load.failed == []
        latter = renewed.client("alice").write(tmp_path / "alice-renewed.pem")
        load = Load(cluster.bootstrap, files.librdkafka(latter))
        try:
            load.goes_on()
            replaced(files.trust, renewed.pem)
            load.goes_on()
            until(lambda: not is_accepted(cluster.ports[0], files.trust, former))
            assert opened.answers()  # connections that are open stay open
            # The restart opens new connections in both directions: only the new certificates are accepted there.
            cluster.restart(3)
            load.goes_on()
        finally:
            load.stop()
            opened.close()
        assert load.failed == []


def is_accepted(port: int, trust: Path, certificate: Path) -> bool:
    """Whether a new connection with this certificate gets a response."""
    try:
        connection = OpenConnection(port, trust, certificate)
    except (OSError, ssl.SSLError):
        return False
    try:
        return connection.answers()
    except (OSError, ssl.SSLError, AssertionError):
        return False
    finally:
        connection.close()


def ended(secured: ssl.SSLSocket) -> bool:
    """Whether the other side hangs up without a word."""
    try:
        return secured.recv(1) == b""
    except (ConnectionError, ssl.SSLError):
        return True


@pytest.mark.slow
def test_a_clients_certificate_opens_no_door_to_the_quorum(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The trust store accepts clients as well, and a member of the quorum controls the cluster."""
    files = Files(tmp_path)
    with Cluster(nodes=3, settings={**SETTINGS, **files.stores}) as cluster:
        address = cluster.settings[0]["controller.quorum.voters"].partition("@")[2].partition(",")[0]
        host, _, port = address.partition(":")
        context = ssl.create_default_context(cafile=str(files.trust))
        context.load_cert_chain(str(files.client("alice")))
        with (
            socket.create_connection((host, int(port)), timeout=WAIT_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as secured,
        ):
            assert ended(secured)
        assert "User:CN=alice is no node of the quorum" in caplog.text
