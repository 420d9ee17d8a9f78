"""Chronik beside Apache Kafka: the same work, the same configuration, the same load generator, in one run.

    make bench-broker                          both, one node; writes docs/benchmarks/broker.md, broker.json, broker.svg
    make bench-broker ARGS="--nodes 3"         three nodes, replication factor 3; broker-3.md and so on
    make bench-broker ARGS=--quick             a minute, to see that it runs; writes to build/

Both brokers are up during the whole run and take turns, work by work, in changing order, so that what else the machine
does hits both. Ratios count, absolute figures do not: they vary from machine to machine. CPU is what the brokers'
processes used, from /proc. A bar is what we hold ourselves to; a miss is printed, never hidden.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from load import report
from load.servers import CannotRun, Server, chronik, kafka
from load.works import FULL, QUICK, SPREAD, WORKS, Bench, Measured, Work, first_acknowledged

ROOT = Path(__file__).resolve().parent.parent
FSYNC_TRIES = 500


def main() -> None:
    words = argparse.ArgumentParser(description="Chronik beside Apache Kafka")
    words.add_argument("--nodes", type=int, default=1, help="of each cluster (1)")
    words.add_argument("--rounds", type=int, default=3, help="each figure is the median of so many (3)")
    words.add_argument("--quick", action="store_true", help="little of everything, one round")
    words.add_argument("--only", choices=["chronik", "kafka"], help="one broker alone")
    words.add_argument("--work", nargs="*", help=f"some of {', '.join(work.key for work in WORKS)}")
    words.add_argument("--output", type=Path, help="docs/benchmarks, or build with --quick")
    asked = words.parse_args()
    try:
        run(asked)
    except CannotRun as why:
        sys.exit(f"bench-broker: {why}")


def run(asked: argparse.Namespace) -> None:
    work_directory = Path(tempfile.mkdtemp(prefix="chronik-bench-", dir=os.environ.get("BENCH_DIR")))
    servers: list[Server] = []
    try:
        bench = Bench(build(work_directory), QUICK if asked.quick else FULL, asked.nodes)
        figures = report.Figures(asked.nodes, fsync_ms(work_directory), " ".join(sys.argv[1:]))
        for make in makers(asked, work_directory):
            measure_start(make, servers, figures, rounds=1 if asked.quick else asked.rounds)
        for server in servers:
            bench.prepare(server)
        works = [work for work in WORKS if not asked.work or work.key in asked.work]
        for turn in range(1 if asked.quick else asked.rounds):
            for number, work in enumerate(works):
                for server in servers if (turn + number) % 2 == 0 else servers[::-1]:
                    measure(bench, server, work, figures)
        for server in servers:
            figures.add("loaded", server.name, server.resident_mb())
        if not asked.quick and not asked.work and asked.only != "kafka":
            for work in SPREAD * asked.rounds:
                measure(bench, servers[-1], work, figures)
    finally:
        for server in servers:
            server.stop()
    shutil.rmtree(work_directory)  # not after a failure: its logs are in there
    report.write(figures, works, asked.output or ROOT / ("build" if asked.quick else "docs/benchmarks"))


def makers(asked: argparse.Namespace, directory: Path) -> list[Callable[[], Server]]:
    """Of each broker that is asked for, what makes a cluster of it with nothing on its disk."""
    cache = Path(os.environ.get("CHRONIK_CACHE", ROOT / ".cache"))
    both = {"kafka": partial(kafka, directory, asked.nodes, cache), "chronik": partial(chronik, directory, asked.nodes)}
    return [both[asked.only]] if asked.only else list(both.values())


def build(directory: Path) -> Path:
    """The load generator, compiled; a missing compiler or library is one line that says how to get it."""
    missing = subprocess.run(
        ["sh", str(ROOT / "tools/require"), "compiler", "rdkafka"], stderr=subprocess.PIPE, text=True
    )
    if missing.returncode:
        raise CannotRun(missing.stderr.strip().removeprefix("chronik: "))
    program = directory / "load"
    compiler = os.environ.get("CC", "cc")
    source = ROOT / "benchmarks/load/load.c"
    if subprocess.run([compiler, "-O2", "-o", str(program), str(source), "-lrdkafka", "-lpthread"]).returncode:
        raise CannotRun(f"{source} does not compile, see above")
    return program


def fsync_ms(directory: Path) -> float:
    """What one fdatasync of a small write takes here, the median: below it nothing durable can be acknowledged."""
    took = []
    with (directory / "fsync").open("wb", buffering=0) as file:
        for _ in range(FSYNC_TRIES):
            file.write(bytes(4096))
            since = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - since)
    return median(took) * 1e3


def measure_start(make: Callable[[], Server], servers: list[Server], figures: report.Figures, rounds: int) -> None:
    """Starts a new cluster so often. The last one joins `servers`, and is left running."""
    for turn in range(rounds):
        servers.append(make())
        figures.add("start", servers[-1].name, first_acknowledged(servers[-1]))
        figures.add("resident", servers[-1].name, servers[-1].resident_mb())
        if turn + 1 < rounds:
            servers.pop().stop()


def measure(bench: Bench, server: Server, work: Work, figures: report.Figures) -> None:
    os.sync()  # what earlier work left dirty is not this work's cost
    cpu_before = server.cpu_seconds()
    done: Measured = work.run(bench, server)
    cpu_us = (server.cpu_seconds() - cpu_before) / done.operations * 1e6
    figures.add(work.key, server.name, done.value, cpu_us, done.p99)
    print(f"{work.title}: {server.name} {done.value:,.6g} {work.unit}, {cpu_us:,.3g} us of CPU each", flush=True)


if __name__ == "__main__":
    main()
