"""What TLS, logins and access rules cost: `PYTHONPATH=tools python -m tests.oracle.security_costs chronik`, or `kafka`.

One node with the same server.properties for both (`suite_server`), `chronik-bench` as the load, and clients of our own
that only connect. Figures are CPU of the server per operation, which other work on the machine changes little, and
rates, which it does. Each secured figure stands between two of plaintext, taken in the same minute.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, AdminClient, ResourcePatternType
from confluent_kafka.admin import ResourceType as Kind

from tests.oracle.suite_server import LISTENERS, USERS, commands_of, write

PORT = 19292
SECONDS = 6
HANDSHAKES, LOGINS, RECONNECTS = 400, 300, 5_000
BENCH = str(Path(sys.executable).with_name("chronik-bench"))
LARGE = ["--message-size", "10000", "--messages-per-request", "50", "--concurrency", "4", "--partitions", "4"]
SMALL = ["--message-size", "256", "--concurrency", "128", "--partitions", "12"]
PAUSE_S = 0.002  # between the produce requests of the client that does not reconnect


class Server:
    def __init__(self, broker: str, directory: Path) -> None:
        self.directory = directory
        formats, starts = commands_of(broker, write(directory, PORT, {"allow.everyone.if.no.acl.found": "true"}))
        subprocess.run(formats, check=True, stdout=subprocess.DEVNULL)
        with (directory / "server.log").open("wb") as log:
            self.process = subprocess.Popen(starts, stdout=log, stderr=log)
        for user in USERS:
            text = (directory / f"{user}.properties").read_text()
            ssl_only = [line for line in text.splitlines() if line.startswith("ssl.")]
            (directory / "ssl.properties").write_text("\n".join(["security.protocol=SSL", *ssl_only, ""]))
        while not self._listens():
            time.sleep(0.2)

    def _listens(self) -> bool:
        client = AdminClient({"bootstrap.servers": self.address("PLAINTEXT"), "log_level": 0})
        try:
            return bool(client.list_topics(timeout=2))
        except Exception:  # noqa: BLE001 - not yet
            return False

    def address(self, listener: str) -> str:
        return f"localhost:{PORT + LISTENERS.index(listener)}"

    @property
    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def load(server: Server, listener: str, topic: str, options: list[str]) -> dict[str, Any]:
    config = {"SSL": ["ssl.properties"], "SASL_SSL": ["suite.properties"]}.get(listener, [])
    words = [BENCH, "--bootstrap", server.address(listener), "--mode", "produce", "--topic", topic, *options]
    words += ["--duration", f"{SECONDS}s", "--format", "json"]
    words += [word for name in config for word in ("--command-config", str(server.directory / name))]
    before = server.cpu_s
    lines = subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()
    found = json.loads(lines[-1])
    return {"rate": found, "cpu_s": server.cpu_s - before}


async def handshakes(server: Server, listener: str, count: int) -> float:
    """CPU of the server for each connection, in ms."""
    port = PORT + LISTENERS.index(listener)
    context = ssl.create_default_context(cafile=str(server.directory / "ca.pem")) if "SSL" in listener else None
    before = server.cpu_s
    for _ in range(count):
        _, writer = await asyncio.open_connection("localhost", port, ssl=context)
        writer.transport.abort()
    return (server.cpu_s - before) / count * 1e3


async def reconnects(server: Server) -> dict[str, float]:
    """All at once; meanwhile another client writes."""
    port = PORT + LISTENERS.index("SSL")
    context = ssl.create_default_context(cafile=str(server.directory / "ca.pem"))
    latencies: list[float] = []
    is_done = asyncio.Event()

    def writing() -> None:
        producer = Producer({"bootstrap.servers": server.address("PLAINTEXT"), "linger.ms": 0})
        while not is_done.is_set():
            begun = time.monotonic()
            producer.produce("quiet", b"x" * 100)
            producer.flush()
            latencies.append(time.monotonic() - begun)
            time.sleep(PAUSE_S)

    beside = asyncio.get_running_loop().run_in_executor(None, writing)
    await asyncio.sleep(1)
    quiet, latencies[:] = sorted(latencies), []
    begun, before = time.monotonic(), server.cpu_s

    async def one() -> asyncio.StreamWriter:
        _, writer = await asyncio.open_connection("localhost", port, ssl=context, ssl_handshake_timeout=60)
        return writer

    writers = await asyncio.gather(*(one() for _ in range(RECONNECTS)))
    total_s = time.monotonic() - begun
    is_done.set()
    await beside
    for writer in writers:
        writer.transport.abort()
    busy = sorted(latencies)
    return {
        "total_s": total_s,
        "server_cpu_s": server.cpu_s - before,
        "p99_before_ms": quiet[len(quiet) * 99 // 100] * 1e3,
        "p99_meanwhile_ms": busy[len(busy) * 99 // 100] * 1e3,
    }


def logins(server: Server, count: int) -> float:
    """CPU of the server for each client that logs in by SCRAM and asks for metadata, in ms; without, as a control."""
    found = []
    for listener in ("PLAINTEXT", "SASL_PLAINTEXT"):
        settings: dict[str, Any] = {"bootstrap.servers": server.address(listener), "log_level": 0}
        if listener != "PLAINTEXT":
            settings |= {"security.protocol": listener, "sasl.mechanism": "SCRAM-SHA-512"}
            settings |= {"sasl.username": "suite", "sasl.password": USERS["suite"]}
        before = server.cpu_s
        for _ in range(count):
            AdminClient(settings).list_topics(timeout=20)
        found.append((server.cpu_s - before) / count * 1e3)
    return found[1] - found[0]


def add_rules(server: Server, first: int, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": server.address("PLAINTEXT")})
    rule = (ResourcePatternType.LITERAL, "User:suite", "*", AclOperation.WRITE, AclPermissionType.ALLOW)
    for start in range(first, first + count, 1_000):
        names = [f"acl-{number}" for number in range(start, min(start + 1_000, first + count))]
        for future in admin.create_acls([AclBinding(Kind.TOPIC, name, *rule) for name in names]).values():
            future.result()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("broker", nargs="?", default="chronik", choices=("chronik", "kafka"))
    broker = parser.parse_args().broker
    with tempfile.TemporaryDirectory() as folder:
        server = Server(broker, Path(folder) / "node")
        try:
            _measure(broker, server)
        finally:
            server.stop()
    return 0


def _measure(broker: str, server: Server) -> None:
    def tell(what: str, **figures: Any) -> None:
        print(json.dumps({"broker": broker, "what": what, **figures}), flush=True)

    load(server, "PLAINTEXT", "warm", LARGE)
    load(server, "SASL_SSL", "warm", SMALL)
    for name, options in (("large", LARGE), ("small", SMALL)):
        for listener in ("PLAINTEXT", "SASL_SSL", "PLAINTEXT", "SSL", "PLAINTEXT"):
            tell(name, listener=listener, **load(server, listener, name, options))
    asyncio.run(handshakes(server, "SSL", HANDSHAKES))
    plain, tls = (asyncio.run(handshakes(server, each, HANDSHAKES)) for each in ("PLAINTEXT", "SSL"))
    tell("handshake", plain_ms=plain, tls_ms=tls, difference_ms=tls - plain)
    tell("SCRAM login", cpu_ms=logins(server, LOGINS))
    tell("reconnects", **asyncio.run(reconnects(server)))
    add_rules(server, 0, 10)
    tell("10 rules", **load(server, "SASL_SSL", "acl-1", SMALL))
    add_rules(server, 10, 10_000)
    tell("10,010 rules", **load(server, "SASL_SSL", "acl-1", SMALL))
    tell("10,010 rules", **load(server, "SASL_SSL", "acl-1", SMALL))


if __name__ == "__main__":
    sys.exit(main())
