"""What TLS, logins and access rules cost a broker: one node with a listener of each protocol, and clients that load it.

`chronik-bench` is the load; other clients only connect. CPU is that of the server per operation, which other work on
the machine changes little; rates, it does. Each secured figure stands between two of plaintext of the same minute.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import ssl
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, AdminClient, ResourcePatternType
from confluent_kafka.admin import ResourceType as Kind
from load.servers import Server

from chronik.testing.ports import free_ports

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from tests.oracle.suite_server import LISTENERS, USERS, commands_of, write

BENCH = str(Path(sys.executable).with_name("chronik-bench"))
LARGE = ("--message-size", "10000", "--messages-per-request", "50", "--concurrency", "4", "--partitions", "4")
SMALL = ("--message-size", "256", "--concurrency", "128", "--partitions", "12")
PAUSE_S = 0.002  # between the produce requests of the client that does not reconnect
ROUND = ("PLAINTEXT", "SSL", "PLAINTEXT")
RULES_PER_REQUEST = 1_000
MESSAGES_OF = {"large": LARGE, "small": SMALL}


class Produced(NamedTuple):
    mb_per_s: float
    messages_per_s: float
    cpu_us: float  # of the server, for each message


class Share(NamedTuple):
    """Of a secured listener in what a plain one does in the same minute."""

    plain: Produced
    secured: Produced

    @property
    def of_rate(self) -> float:
        return self.secured.messages_per_s / self.plain.messages_per_s

    @property
    def of_cpu(self) -> float:
        """Below 1 when a message costs more."""
        return self.plain.cpu_us / self.secured.cpu_us


class Reconnected(NamedTuple):
    total_s: float
    server_cpu_s: float
    p99_before_ms: float
    p99_meanwhile_ms: float


class Secured:
    """A node with a listener of each protocol, and files for its clients."""

    def __init__(self, broker: str, directory: Path) -> None:
        self._directory = directory
        self._port = _free_row(len(LISTENERS) + 1)
        properties = write(directory, self._port, {"allow.everyone.if.no.acl.found": "true"})
        trusting = f"ssl.truststore.type=PEM\nssl.truststore.location={directory / 'ca.pem'}\n"
        (directory / "tls.properties").write_text(f"security.protocol=SSL\n{trusting}")
        formats, starts = commands_of(broker, properties)
        subprocess.run(formats, check=True, stdout=subprocess.DEVNULL)
        ports = [self._port + at for at in range(len(LISTENERS))]
        self.server = Server(broker, [starts], ports, directory)
        self.server.start()
        self._wait_until_served()

    def _wait_until_served(self) -> None:
        while True:
            client = AdminClient({"bootstrap.servers": self.address("PLAINTEXT"), "log_level": 0})
            try:
                client.list_topics(timeout=2)
            except Exception:  # noqa: BLE001 - not yet
                time.sleep(0.2)
            else:
                return

    def address(self, listener: str) -> str:
        return f"localhost:{self._port + LISTENERS.index(listener)}"

    # --- loads

    def produce(self, listener: str, topic: str, options: tuple[str, ...], seconds: int) -> Produced:
        words = [BENCH, "--bootstrap", self.address(listener), "--mode", "produce", "--topic", topic, *options]
        words += ["--duration", f"{seconds}s", "--format", "json"]
        if listener != "PLAINTEXT":
            words += ["--command-config", str(self._directory / "tls.properties")]
        before = self.server.cpu_seconds()
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{shlex.join(words)} failed: {done.stderr[-2000:]}")
        told = json.loads(done.stdout.splitlines()[-1])
        cpu_s = self.server.cpu_seconds() - before
        return Produced(told["mb_per_s"], told["msg_per_s"], cpu_s / (told["msg_per_s"] * seconds) * 1e6)

    def share(self, kind: str, seconds: int) -> Share:
        before, secured, after = (self.produce(each, kind, MESSAGES_OF[kind], seconds) for each in ROUND)
        return Share(Produced(*(statistics.mean(pair) for pair in zip(before, after, strict=True))), secured)

    def handshake_ms(self, count: int) -> float:
        """CPU of a whole handshake with the server's key, without that of a connection."""
        plain, tls = (asyncio.run(self._connections(each, count)) for each in ("PLAINTEXT", "SSL"))
        return tls - plain

    async def _connections(self, listener: str, count: int) -> float:
        host, port = self.address(listener).split(":")
        context = self._trusting() if listener == "SSL" else None
        before = self.server.cpu_seconds()
        for _ in range(count):
            _, writer = await asyncio.open_connection(host, int(port), ssl=context)
            writer.transport.abort()
        return (self.server.cpu_seconds() - before) / count * 1e3

    def _trusting(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self._directory / "ca.pem"))

    def login_ms(self, count: int) -> float:
        """CPU of a client that logs in by SCRAM and asks for metadata, without that of one that only asks."""
        found = []
        for listener in ("PLAINTEXT", "SASL_PLAINTEXT"):
            settings: dict[str, Any] = {"bootstrap.servers": self.address(listener), "log_level": 0}
            if listener != "PLAINTEXT":
                settings |= {"security.protocol": listener, "sasl.mechanism": "SCRAM-SHA-512"}
                settings |= {"sasl.username": "suite", "sasl.password": USERS["suite"]}
            before = self.server.cpu_seconds()
            for _ in range(count):
                AdminClient(settings).list_topics(timeout=20)
            found.append((self.server.cpu_seconds() - before) / count * 1e3)
        return found[1] - found[0]

    def reconnect(self, count: int) -> Reconnected:
        """So many TLS clients at once; meanwhile another client writes."""
        return asyncio.run(self._reconnect(count))

    async def _reconnect(self, count: int) -> Reconnected:
        host, port = self.address("SSL").split(":")
        context = self._trusting()
        latencies: list[float] = []
        is_done = asyncio.Event()

        def writing() -> None:
            producer = Producer({"bootstrap.servers": self.address("PLAINTEXT"), "linger.ms": 0})
            while not is_done.is_set():
                begun = time.monotonic()
                producer.produce("quiet", b"x" * 100)
                producer.flush()
                latencies.append(time.monotonic() - begun)
                time.sleep(PAUSE_S)

        beside = asyncio.get_running_loop().run_in_executor(None, writing)
        await asyncio.sleep(1)
        quiet, latencies[:] = sorted(latencies), []
        begun, before = time.monotonic(), self.server.cpu_seconds()

        async def one() -> asyncio.StreamWriter:
            _, writer = await asyncio.open_connection(host, int(port), ssl=context, ssl_handshake_timeout=60)
            return writer

        writers = await asyncio.gather(*(one() for _ in range(count)))
        total_s, cpu_s = time.monotonic() - begun, self.server.cpu_seconds() - before
        is_done.set()
        await beside
        for writer in writers:
            writer.transport.abort()
        return Reconnected(total_s, cpu_s, _p99_ms(quiet), _p99_ms(sorted(latencies)))

    def add_rules(self, first: int, count: int) -> None:
        """Each lets the load's clients write to another topic, acl-NUMBER."""
        admin = AdminClient({"bootstrap.servers": self.address("PLAINTEXT"), "log_level": 0})
        rule = (ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", AclOperation.WRITE, AclPermissionType.ALLOW)
        for start in range(first, first + count, RULES_PER_REQUEST):
            names = [f"acl-{number}" for number in range(start, min(start + RULES_PER_REQUEST, first + count))]
            for future in admin.create_acls([AclBinding(Kind.TOPIC, name, *rule) for name in names]).values():
                future.result()


def _p99_ms(ordered: list[float]) -> float:
    return ordered[len(ordered) * 99 // 100] * 1e3


def _free_row(count: int) -> int:
    """The first of so many adjacent ports: the node's listeners stand side by side."""
    while True:
        ports = free_ports(count)
        if ports == list(range(ports[0], ports[0] + count)):
            return ports[0]
