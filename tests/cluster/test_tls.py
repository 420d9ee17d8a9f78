"""Three nodes with TLS and certificates on both sides between them: between brokers, in the quorum, to clients."""

from __future__ import annotations

import socket
import ssl
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


@pytest.mark.slow
def test_all_certificates_are_replaced_under_load_without_a_failed_produce(tmp_path: Path) -> None:
    """Another authority, other certificates, in the order in which operators do it: trust both, change, trust one."""
    files = Files(tmp_path)
    renewed = Authority("Renewed")
    with Cluster(nodes=3, settings={**SETTINGS, **files.stores}) as cluster:
        security = files.librdkafka(files.client("alice"))
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **security})
        for future in admin.create_topics([NewTopic("orders", 3, 3)]).values():
            future.result(WAIT_S)
        load = Load(cluster.bootstrap, security)
        try:
            load.goes_on()
            replaced(files.trust, files.authority.pem + renewed.pem)
            made = renewed.server("node")
            replaced(files.node, made)
            for port in cluster.ports:
                until(lambda port=port: presented(port) == made.certificate_pem)  # type: ignore[misc]
            load.goes_on()
            replaced(files.client("alice") or files.node, renewed.client("alice"))
            replaced(files.trust, renewed.pem)
            load.goes_on()
            # The restart opens new connections in both directions: only the new certificates are accepted there.
            cluster.restart(3)
            load.goes_on()
        finally:
            load.stop()
        assert load.failed == []
        after = Load(cluster.bootstrap, files.librdkafka(files.directory / "alice.pem"))
        after.goes_on()
        after.stop()
        assert after.failed == []


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
