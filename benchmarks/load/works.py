"""What the brokers are asked to do, and what is measured of it. The same calls for every broker."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from load.servers import CannotRun, Server

LOAD_SECONDS_MAX = 180
PRODUCERS = 128
TOPICS = {"small": 6, "large": 6, "packed": 6, "warm": 6, "single": 1, "many": 12, "narrow": 1, "wide": 1000}


class Measured(NamedTuple):
    """`value` is in the work's own unit; `operations` were done, by which the server's CPU is divided."""

    value: float
    operations: int
    p99: float | None = None


class Scale(NamedTuple):
    messages: int  # of 100 B; of 1 KB a quarter of them
    in_flight_messages: int  # sent one after the other
    seconds: int  # of many producers
    topics_one: int  # created by one client
    topics_many: int  # by 32
    reads: int


FULL = Scale(2_000_000, 3000, 8, 100, 1024, 300)
QUICK = Scale(60_000, 200, 1, 5, 32, 30)


class Work(NamedTuple):
    key: str
    title: str
    unit: str
    more_is_better: bool
    run: Callable[[Bench, Server], Measured]
    bar: tuple[str, str]  # for one node and for three: "1.2x" of Kafka's figure, or "5 ms" at most


class Bench:
    """Holds the load generator, how much is asked of it, and what the machine's disk can do."""

    def __init__(self, program: Path, scale: Scale, nodes: int) -> None:
        self.program, self.scale, self.nodes = program, scale, nodes
        self.replication = min(3, nodes)

    def load(self, server: Server, kind: str, topic: str, *arguments: object) -> dict[str, float]:
        command = [str(self.program), kind, server.bootstrap, topic, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LOAD_SECONDS_MAX)
        if done.returncode or not done.stdout:
            raise CannotRun(
                f"`{' '.join(command)}` against {server.name} failed: {(done.stderr or done.stdout)[-300:]}"
            )
        answer: dict[str, float] = json.loads(done.stdout)
        return answer

    def prepare(self, server: Server) -> None:
        """Topics, and a warm-up: a JVM gets faster as it runs, and every server may reach its pace first."""
        admin = AdminClient({"bootstrap.servers": server.bootstrap})
        topics = [NewTopic(name, count, self.replication) for name, count in TOPICS.items()]
        for topic in topics if self.scale is FULL else topics[:-1]:
            for waiting in admin.create_topics([topic]).values():
                waiting.result(60)
        count = self.scale.messages * 3 // 4
        self.load(server, "produce", "warm", count, 100, "all", "none", "false")
        self.load(server, "produce", "warm", count // 8, 1024, "all", "lz4", "true")
        self.load(server, "consume", "warm", TOPICS["warm"], count)
        self.load(server, "many", "warm", self.scale.seconds * 3 // 4 or 1, 256, "all", PRODUCERS)
        self.load(server, "one", "warm", self.scale.in_flight_messages // 3, 100, "all")


def first_acknowledged(server: Server) -> float:
    """Seconds from the start of the processes to the first message that is acknowledged by all."""
    since = time.monotonic()
    server.start()
    acknowledged = threading.Event()
    settings = {"bootstrap.servers": server.bootstrap, "acks": "all", "topic.metadata.refresh.interval.ms": 100}
    producer = Producer(settings)
    producer.produce("first", b"x", on_delivery=lambda error, _: None if error else acknowledged.set())
    while not acknowledged.is_set():
        producer.poll(0.01)
        if time.monotonic() - since > LOAD_SECONDS_MAX:
            raise CannotRun(f"{server.name} acknowledged nothing: see the logs in {server.directory}")
    return time.monotonic() - since


def produce(
    topic: str, size: int, acks: str, codec: str = "none", idempotent: str = "false"
) -> Callable[..., Measured]:
    def run(bench: Bench, server: Server) -> Measured:
        count = bench.scale.messages if size <= 100 else bench.scale.messages // 4
        done = bench.load(server, "produce", topic, count, size, acks, codec, idempotent)
        rate = done["count"] if size <= 100 else done["bytes"] / 1e6
        return Measured(rate / done["seconds"], int(done["count"]))

    return run


def consume(topic: str, size: int) -> Callable[..., Measured]:
    def run(bench: Bench, server: Server) -> Measured:
        count = bench.scale.messages * 2 if size <= 100 else bench.scale.messages // 4
        done = bench.load(server, "consume", topic, TOPICS[topic], count)
        rate = done["count"] if size <= 100 else done["bytes"] / 1e6
        return Measured(rate / done["seconds"], int(done["count"]))

    return run


def one_in_flight(bench: Bench, server: Server) -> Measured:
    done = bench.load(server, "one", "single", bench.scale.in_flight_messages, 100, "all")
    return Measured(done["p50_us"] / 1e3, int(done["count"]), done["p99_us"] / 1e3)


def many_producers(topic: str, acks: str) -> Callable[..., Measured]:
    def run(bench: Bench, server: Server) -> Measured:
        done = bench.load(server, "many", topic, bench.scale.seconds, 256, acks, PRODUCERS)
        return Measured(done["count"] / done["seconds"], int(done["count"]), done["p99_us"] / 1e3)

    return run


def many_connections(topic: str) -> Callable[..., Measured]:
    """By `chronik-bench`, whose own cost does not grow with the partitions, as that of librdkafka does."""

    def run(bench: Bench, server: Server) -> Measured:
        words = f"--topic {topic} --concurrency {PRODUCERS} --duration {bench.scale.seconds}s --mode produce --acks all"
        command = [str(Path(sys.executable).with_name("chronik-bench")), *words.split(), "--format", "json"]
        done = subprocess.run(
            [*command, "--bootstrap-servers", server.bootstrap],
            capture_output=True, text=True, timeout=LOAD_SECONDS_MAX, check=False,
        )  # fmt: skip
        if done.returncode:
            raise CannotRun(f"{words} at {server.name}: {done.stderr.strip()[-300:]}")
        told = json.loads(done.stdout.splitlines()[-1])
        return Measured(told["msg_per_s"], int(told["messages"]), told["p99_ms"])

    return run


def create_topics(clients: int) -> Callable[..., Measured]:
    def run(bench: Bench, server: Server) -> Measured:
        admins = [AdminClient({"bootstrap.servers": server.bootstrap}) for _ in range(clients)]
        for admin in admins:
            admin.list_topics(timeout=30)
        each = (bench.scale.topics_one if clients == 1 else bench.scale.topics_many) // clients
        stamp = time.monotonic_ns()

        def create(number: int) -> list[float]:
            latencies = []
            for index in range(each):
                since = time.monotonic()
                topic = NewTopic(f"made-{stamp}-{number}-{index}", 3, bench.replication)
                admins[number].create_topics([topic], operation_timeout=30)[topic.topic].result(60)
                latencies.append(time.monotonic() - since)
            return latencies

        since = time.monotonic()
        with ThreadPoolExecutor(clients) as pool:
            try:
                latencies = sorted(latency for part in pool.map(create, range(clients)) for latency in part)
            except KafkaException as error:
                raise CannotRun(f"{server.name} did not create a topic: {error}") from error
        took = time.monotonic() - since
        return Measured(len(latencies) / took, len(latencies), latencies[len(latencies) * 99 // 100] * 1e3)

    return run


def read_metadata(bench: Bench, server: Server) -> Measured:
    """The slowest node's p99, in ms."""
    worst = 0.0
    for port in server.ports:
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
        admin.list_topics(timeout=30)
        latencies = []
        for _ in range(bench.scale.reads):
            since = time.monotonic()
            admin.list_topics(topic="small")
            latencies.append(time.monotonic() - since)
        latencies.sort()
        worst = max(worst, latencies[len(latencies) * 99 // 100] * 1e3)
    return Measured(worst, bench.scale.reads * len(server.ports))


WORKS = [
    Work("acks1", "produce 100 B, acks=1", "msg/s", True, produce("small", 100, "1"), ("1.2x", "2x")),
    Work("acksall", "produce 100 B, acks=all", "msg/s", True, produce("small", 100, "all"), ("1x", "1.5x")),
    Work("consume", "consume 100 B", "msg/s", True, consume("small", 100), ("1x", "1x")),
    Work("large", "produce 1 KB, acks=all", "MB/s", True, produce("large", 1024, "all"), ("1x", "2x")),
    Work(
        "packed",
        "produce 1 KB, lz4, idempotent",
        "MB/s",
        True,
        produce("packed", 1024, "all", "lz4", "true"),
        ("1x", "1.5x"),
    ),
    Work("consume-large", "consume 1 KB", "MB/s", True, consume("large", 1024), ("1x", "1x")),
    Work("one", "one message in flight, acks=all, p50", "ms", False, one_in_flight, ("fdatasync + 0.4 ms", "1.6 ms")),
    Work(
        "many",
        "128 producers, one in flight each, acks=all",
        "msg/s",
        True,
        many_producers("many", "all"),
        ("0.8x", "3x"),
    ),
    Work("many-acks1", "the same, acks=1", "msg/s", True, many_producers("many", "1"), ("-", "-")),
    Work("metadata", "metadata read, p99", "ms", False, read_metadata, ("5 ms", "5 ms")),
    Work("create", "create topics, 1 client", "topics/s", True, create_topics(1), ("10x", "10x")),
    Work("create-32", "create topics, 32 clients", "topics/s", True, create_topics(32), ("20x", "20x")),
]
# Of Chronik alone: what a message costs when it goes to one of many partitions.
SPREAD = [
    Work("narrow", "128 connections, 1 partition", "msg/s", True, many_connections("narrow"), ("-", "-")),
    Work("wide", "128 connections, 1,000 partitions", "msg/s", True, many_connections("wide"), ("-", "-")),
    Work("narrow-rd", "128 producers, 1 partition", "msg/s", True, many_producers("narrow", "all"), ("-", "-")),
    Work("wide-rd", "128 producers, 1,000 partitions", "msg/s", True, many_producers("wide", "all"), ("-", "-")),
]
