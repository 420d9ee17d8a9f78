"""Metadata on three nodes, Chronik and Kafka in one run: topics created, writes and reads timed, start and restart.

    make bench-metadata                        about six minutes; Kafka takes most of it
    make bench-metadata ARGS="--only chronik"

Topics have three partitions and three replicas. Each client waits for its answer before it asks again; clients are
spread over the nodes. Nothing here is a test: a slow machine fails nobody, and a missed bar is printed as such.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

sys.path.insert(0, str(Path(__file__).parents[1]))

from load.pages import OUTPUT, table, write_page
from load.servers import CannotRun, Server, chronik, kafka

from tests.cluster.asking import Asked

ROOT = Path(__file__).parents[1]
CACHE = Path(os.environ.get("CHRONIK_CACHE", ROOT / ".cache"))
NODES = 3
CLIENTS = (1, 2, 4, 8, 16, 32)
OLD_SYSTEM = {1: 1600, 2: 2400, 4: 3200, 8: 3200, 16: 3200}  # operations/s of the earlier Chronik, at so many threads
CREATED_PER_RUN = {"Chronik": 960, "Kafka": 96}  # Kafka makes about 30 a second
IN_ONE_REQUEST, REQUESTS = 100, 25  # of each client
WITHOUT_CONFIGS = 4  # the CreateTopics version that librdkafka speaks; later ones answer with every topic's settings
READS, WRITES = 400, 300
MANY_TOPICS = 10_000
READY_SECONDS_MAX = 120


def connect(servers: Server, index: int) -> Asked:
    return Asked(servers, index % NODES + 1)  # type: ignore[arg-type] - it has ports, which is all that is asked of it


def controller(servers: Server) -> int:
    node = connect(servers, 0)
    found = node.metadata().controller_id
    node.close()
    return found


def start(servers: Server) -> float:
    """Seconds from nothing to the first topic that all three replicas of exist."""
    started = time.monotonic()
    servers.start()
    while time.monotonic() - started < READY_SECONDS_MAX:
        try:
            node = connect(servers, 0)
            created = node.create("first", partitions=1)["first"]
            node.close()
        except (OSError, AssertionError):
            created = -1
        except Exception as error:  # noqa: BLE001 - a node that is starting may hang up in the middle
            created = -1 if "Closed" in type(error).__name__ else 1
        if created in (0, 36):
            return time.monotonic() - started
        time.sleep(0.02)
    raise TimeoutError(f"{servers.name} is not ready after {READY_SECONDS_MAX} s")


def administrators(servers: Server, count: int) -> list[AdminClient]:
    """Connected, each to begin with by another node. librdkafka's: they leave the machine to the nodes."""
    made = [AdminClient({"bootstrap.servers": f"127.0.0.1:{servers.ports[at % NODES]}"}) for at in range(count)]
    for admin in made:
        admin.list_topics("first", timeout=READY_SECONDS_MAX)
    return made


def create(admin: AdminClient, name: str) -> bool:
    (answer,) = admin.create_topics([NewTopic(name, 3, NODES)]).values()
    return answer.exception() is None


def create_one_by_one(servers: Server, clients: int, total: int) -> float:
    """Topics a second."""

    def work(client: int) -> int:
        return sum(create(admins[client], f"one-{clients}-{client}-{number}") for number in range(total // clients))

    admins = administrators(servers, clients)
    started = time.monotonic()
    with ThreadPoolExecutor(clients) as pool:
        made = sum(pool.map(work, range(clients)))
    return made / (time.monotonic() - started)


def create_many_at_once(servers: Server, clients: int = 4) -> float:
    """Topics a second in requests of a hundred. Each costs librdkafka as much as it costs a node, so it is left out."""

    def work(client: int) -> int:
        made = 0
        for request in range(REQUESTS):
            names = [f"many-{client}-{request}-{number}" for number in range(IN_ONE_REQUEST)]
            made += sum(code == 0 for code in nodes[client].create(*names, version=WITHOUT_CONFIGS).values())
        return made

    nodes = [connect(servers, client) for client in range(clients)]
    started = time.monotonic()
    with ThreadPoolExecutor(clients) as pool:
        made = sum(pool.map(work, range(clients)))
    rate = made / (time.monotonic() - started)
    for node in nodes:
        node.close()
    return rate


def timed_ms(work: Callable[[int], Any], count: int) -> dict[str, float]:
    times = []
    for number in range(count):
        started = time.perf_counter()
        work(number)
        times.append((time.perf_counter() - started) * 1000)
    cuts = statistics.quantiles(times, n=100)
    return {"p50_ms": round(cuts[49], 2), "p95_ms": round(cuts[94], 2), "p99_ms": round(cuts[98], 2)}


def write_latency(servers: Server) -> dict[str, float]:
    (admin,) = administrators(servers, 1)
    count = WRITES if servers.name == "Chronik" else WRITES // 5
    return timed_ms(lambda number: create(admin, f"write-{number}"), count)


def read_latency_while_creating(servers: Server) -> dict[str, float]:
    """On a node that does not lead the quorum, while another client creates topics through the third."""
    leader = controller(servers)
    follower, creating = (index for index in range(NODES) if index + 1 != leader)
    stopping = threading.Event()

    def keep_creating() -> None:
        node = connect(servers, creating)
        number = 0
        while not stopping.is_set():
            node.create(f"meanwhile-{number}", version=WITHOUT_CONFIGS)
            number += 1
        node.close()

    thread = threading.Thread(target=keep_creating)
    thread.start()
    node = connect(servers, follower)
    figures = timed_ms(lambda number: node.metadata("first"), READS)
    stopping.set()
    thread.join()
    node.close()
    return figures


def many_topics(servers: Server) -> dict[str, float]:
    """A node of a new cluster, among ten thousand topics: its memory, and how long it is away after kill -9."""
    start(servers)
    node = connect(servers, 0)
    for request in range(MANY_TOPICS // IN_ONE_REQUEST):
        names = [f"crowd-{request}-{number}" for number in range(IN_ONE_REQUEST)]
        node.create(*names, version=WITHOUT_CONFIGS)
    node.close()
    memory_mb = max(servers.resident_mb(index) for index in range(NODES))
    index = next(index for index in range(NODES) if index + 1 != controller(servers))
    servers.kill(index)
    started = time.monotonic()
    servers.start_again(index)
    node = connect(servers, index)
    shown = len(node.metadata().topics)
    node.close()
    seconds = time.monotonic() - started
    return {"topics": shown, "memory_mb": round(memory_mb), "restart_s": round(seconds, 2)}


def measure(servers: Server) -> dict[str, Any]:
    figures: dict[str, Any] = {"start_s": round(start(servers), 2)}
    print(f"{servers.name}: ready after {figures['start_s']} s", flush=True)
    create_one_by_one(servers, 8, CREATED_PER_RUN[servers.name] // 2)  # a JVM gets faster as it runs
    figures["one_by_one"] = {}
    for clients in CLIENTS:
        rate = create_one_by_one(servers, clients, max(CREATED_PER_RUN[servers.name], clients))
        figures["one_by_one"][clients] = round(rate, 1)
        print(f"{servers.name}: {clients} clients, {rate:,.0f} topics/s", flush=True)
    figures["write"] = write_latency(servers)
    figures["read_while_creating"] = read_latency_while_creating(servers)
    if servers.name == "Chronik":
        figures["requests_of_100"] = round(create_many_at_once(servers))
    print(f"{servers.name}: {figures}", flush=True)
    return figures


def plot(results: dict[str, dict[str, Any]]) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    for name, figures in results.items():
        curve = figures["one_by_one"]
        axes.plot(list(curve), list(curve.values()), marker="o", label=name)
    axes.plot(
        list(OLD_SYSTEM),
        list(OLD_SYSTEM.values()),
        marker="x",
        linestyle="--",
        label="the earlier system, any operation",
    )
    axes.set(xscale="log", yscale="log", xlabel="clients, one topic in flight each", ylabel="topics created / s")
    axes.set_xticks(CLIENTS, [str(clients) for clients in CLIENTS])
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(OUTPUT / "metadata.svg")


def page(results: dict[str, dict[str, Any]]) -> None:
    ours, theirs = results.get("Chronik"), results.get("Kafka")
    header = ["clients", *results, "the earlier system"] + (["ratio"] if ours and theirs else [])
    rows = []
    for clients in CLIENTS:
        row: list[object] = [clients, *(figures["one_by_one"][clients] for figures in results.values())]
        row.append(OLD_SYSTEM.get(clients, ""))
        if ours and theirs:
            row.append(f"{ours['one_by_one'][clients] / theirs['one_by_one'][clients]:.0f}x")
        rows.append(row)
    curve = table(header, rows)
    others = table(
        ["what", *results, "bar"],
        [
            ["start to the first topic", *(f"{f['start_s']} s" for f in results.values()), "2 s"],
            [
                "one write, p50 / p99 ms",
                *(f"{f['write']['p50_ms']} / {f['write']['p99_ms']}" for f in results.values()),
                "p99 5",
            ],
            [
                "read on a follower while topics are created, p50 / p95 / p99 ms",
                *(
                    " / ".join(str(f["read_while_creating"][p]) for p in ("p50_ms", "p95_ms", "p99_ms"))
                    for f in results.values()
                ),
                "p99 5",
            ],
            ["topics/s in requests of 100", *(f.get("requests_of_100", "") for f in results.values()), "10,000"],
            [
                "10,000 topics: memory of a node",
                *(f"{f['crowd']['memory_mb']} MB" if "crowd" in f else "" for f in results.values()),
                "200 MB",
            ],
            [
                "10,000 topics: kill -9 to all of them shown",
                *(f"{f['crowd']['restart_s']} s" if "crowd" in f else "" for f in results.values()),
                "3 s",
            ],
        ],
    )
    plot(results)
    sections = [
        "## Topics created one at a time, by number of clients (topics/s)\n\n" + curve,
        "![topics created by clients](metadata.svg)",
        "## The rest\n\n" + others,
    ]
    made = write_page(
        "metadata", title="Metadata on three nodes", command="make bench-metadata", sections=sections, figures=results
    )
    print(made.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("chronik", "kafka"), help="measure one of them")
    options = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory(prefix="chronik-bench-") as folder:
        for name in ("chronik", "kafka"):
            if options.only not in (None, name):
                continue
            try:
                made = chronik(Path(folder), NODES) if name == "chronik" else kafka(Path(folder), NODES, CACHE)
            except CannotRun as reason:
                print(f"{name} is left out: {reason}")
                continue
            try:
                results[made.name] = measure(made)
            finally:
                made.stop()
        if "Chronik" in results:
            crowded = chronik(Path(folder) / "crowd", NODES)
            try:
                results["Chronik"]["crowd"] = many_topics(crowded)
            finally:
                crowded.stop()
    page(results)


if __name__ == "__main__":
    main()
