"""Transactions of Chronik beside those of Apache Kafka: the same clients, the same configuration, in one run.

    make bench-transactions                       one node; writes docs/benchmarks/transactions.md and .json
    make bench-transactions ARGS="--nodes 3"      three nodes, replication factor 3; transactions-3.md and .json
    make bench-transactions ARGS=--quick          a minute or two, to see that it runs; prints only

Both brokers are up during the whole run and take turns, in changing order. Chronik runs a second time under another
name as a control: what these two differ by is the noise of the machine. Ratios count, absolute figures do not. CPU is
what the brokers' processes used, from /proc; the page says how loaded the machine was. A bar is what we hold ourselves
to; a miss is printed, never hidden.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import NamedTuple

from broker import fsync_ms
from load import aborted_log, transacting
from load.pages import table, write_page
from load.servers import KAFKA_VERSION, CannotRun, Server, chronik, kafka

ROOT = Path(__file__).resolve().parent.parent
MINE, CONTROL, OTHER = "Chronik", "Chronik again", "Kafka"
FSYNC_ROUNDS = 3  # of a transaction: its beginning, its records, its decision


class Scale(NamedTuple):
    latencies: int  # transactions of one record
    thousands: int  # transactions of 1,000 records
    read_thousands: int
    producers: int
    aborted: int


FULL = Scale(300, 40, 100, 1000, 1_000_000)
QUICK = Scale(60, 8, 20, 100, 10_000)


@dataclass
class Figures:
    nodes: int
    sync_ms: float
    noted: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, key: str, server: str, value: float) -> None:
        self.noted[key, server].append(value)
        print(f"{key}: {server} {value:,.4g}", flush=True)

    def of(self, key: str, server: str) -> float | None:
        found = self.noted.get((key, server))
        return median(found) if found else None

    def quotient(self, key: str, below: str, server: str) -> float | None:
        """The median of the quotients of neighbouring measurements: both saw the same machine."""
        pairs = list(zip(self.noted.get((key, server), ()), self.noted.get((below, server), ()), strict=True))
        return median(above / under for above, under in pairs) if pairs else None


def main() -> None:
    words = argparse.ArgumentParser(description="transactions of Chronik beside those of Apache Kafka")
    words.add_argument("--nodes", type=int, default=1, help="of each cluster (1)")
    words.add_argument("--rounds", type=int, default=3, help="rounds per figure; the median is reported (3)")
    words.add_argument("--quick", action="store_true", help="little of everything, one round, nothing is written")
    words.add_argument("--aborted", type=int, help=f"transactions in the log that is opened ({FULL.aborted:,})")
    words.add_argument("--only", choices=["chronik", "kafka"], help="one broker alone")
    asked = words.parse_args()
    try:
        run(asked)
    except CannotRun as why:
        sys.exit(f"bench-transactions: {why}")


def run(asked: argparse.Namespace) -> None:
    directory = Path(tempfile.mkdtemp(prefix="chronik-bench-", dir=os.environ.get("BENCH_DIR")))
    scale = QUICK if asked.quick else FULL
    scale = scale._replace(aborted=asked.aborted or scale.aborted)
    servers: list[Server] = []
    try:
        figures = Figures(asked.nodes, fsync_ms(directory))
        for name, make in makers(asked, directory).items():
            servers.append(make())
            servers[-1].name = name
            servers[-1].start()
            transacting.create(servers[-1], min(3, asked.nodes), "one", "thousands", "plain", "mixed", "open")
        for turn in range(1 if asked.quick else asked.rounds):
            for server in servers if turn % 2 == 0 else servers[::-1]:
                measure(server, scale, figures)
        for server in servers:
            measure_memory(server, scale, figures)
    finally:
        for server in servers:
            server.stop()
    logs = aborted_log.measure(directory, scale.aborted) if asked.only != "kafka" and asked.nodes == 1 else None
    shutil.rmtree(directory)  # not after a failure: its logs are in there
    write(figures, logs, scale, asked)


def makers(asked: argparse.Namespace, directory: Path) -> dict[str, Callable[[], Server]]:
    cache = Path(os.environ.get("CHRONIK_CACHE", ROOT / ".cache"))
    made: dict[str, Callable[[], Server]] = {}
    if asked.only != "chronik":
        made[OTHER] = lambda: kafka(directory, asked.nodes, cache)
    if asked.only != "kafka":
        made[MINE] = lambda: chronik(directory, asked.nodes)
        if asked.nodes == 1:  # three nodes twice would only compete with each other
            made[CONTROL] = lambda: chronik(directory / "control", asked.nodes)
    return made


def measure(server: Server, scale: Scale, figures: Figures) -> None:
    os.sync()  # what earlier work left dirty is not this work's cost
    name = server.name
    cpu_before = server.cpu_seconds()
    own = transacting.one_record_own(server, "one", scale.latencies)
    figures.add("one", name, own.p50_ms)
    figures.add("one-p99", name, own.p99_ms)
    figures.add("one-cpu", name, (server.cpu_seconds() - cpu_before) / (scale.latencies * 1.2) * 1e6)
    figures.add("one-rd", name, transacting.one_record_librdkafka(server, "one", scale.latencies).p50_ms)
    for client, work in (("own", transacting.thousands_own), ("rd", transacting.thousands_librdkafka)):
        for key, in_transactions in (("plain", False), ("thousands", True)):
            figures.add(f"{key}-{client}", name, work(server, key, scale.thousands, in_transactions=in_transactions))
    if not figures.of("read", name):
        transacting.thousands_librdkafka(server, "mixed", scale.read_thousands, in_transactions=True, aborts=True)
        transacting.read(server, "mixed", committed=False)  # a warm-up
    figures.add("read", name, transacting.read(server, "mixed", committed=False))
    figures.add("read-committed", name, transacting.read(server, "mixed", committed=True))


def measure_memory(server: Server, scale: Scale, figures: Figures) -> None:
    figures.add("open", server.name, transacting.open_producers(server, "open", scale.producers))


def write(figures: Figures, logs: aborted_log.Figures | None, scale: Scale, asked: argparse.Namespace) -> None:
    nodes = "one node" if asked.nodes == 1 else f"{asked.nodes} nodes, replication factor 3"
    about = (
        "Chronik's own client and librdkafka drive both brokers, which are up together and take turns. "
        f"{CONTROL} is the same program once more: what it differs by is noise. "
        f"One fdatasync of 4 KB takes {figures.sync_ms:.2f} ms here. Chronik answers after fsync, Kafka before. "
        f"At the end of the run the load average over 15 minutes was {os.getloadavg()[2]:.1f}, with {os.cpu_count()} "
        "cores: above that, times are mostly times of waiting for a core."
    )
    sections = [about, table(["work", OTHER, MINE, CONTROL, "bar", ""], rows(figures))]
    if logs is not None:
        sections.append(table(["one partition, of Chronik alone", "", "bar", ""], log_rows(logs, scale.aborted)))
    if asked.quick:
        print("\n\n".join(sections))
        return
    name = "transactions" if asked.nodes == 1 else f"transactions-{asked.nodes}"
    command = "make bench-transactions" + (f' ARGS="{" ".join(sys.argv[1:])}"' if sys.argv[1:] else "")
    noted = {f"{key} {server}": values for (key, server), values in figures.noted.items()}
    page = write_page(
        name,
        title=f"Transactions beside Kafka {KAFKA_VERSION}, {nodes}",
        command=command,
        sections=sections,
        figures={"measured": noted, "log": None if logs is None else logs._asdict()},
    )
    print(page.read_text())


def rows(figures: Figures) -> list[list[object]]:
    one, other = figures.of("one", MINE), figures.of("one", OTHER)
    if figures.nodes == 1:
        bar_ms: float | None = FSYNC_ROUNDS * figures.sync_ms + 1
        bar = f"{FSYNC_ROUNDS} fdatasync + 1 ms = {bar_ms:.2f} ms"
    else:
        bar_ms, bar = None if other is None else other / 2, "half of Kafka's"
    made = [
        shown(figures, "one record, own client, p50", "one", "ms", bar, met=_within(one, bar_ms)),
        shown(figures, "the same, p99", "one-p99", "ms"),
        shown(figures, "the same, CPU of the broker for each", "one-cpu", "us"),
        shown(figures, "one record, librdkafka, p50", "one-rd", "ms"),
    ]
    for client, title in (("own", "own client"), ("rd", "librdkafka")):
        key, below = f"thousands-{client}", f"plain-{client}"
        made.append(shown(figures, f"1,000 records of 100 B without transactions, {title}", below, "records/s"))
        mine, kafkas = figures.of(key, MINE), figures.of(key, OTHER)
        met = None if mine is None or kafkas is None else mine >= kafkas
        made.append(
            shown(figures, f"transactions of 1,000 records, {title}", key, "records/s", "Kafka's rate", met=met)
        )
        made.append(quotients(figures, "the second divided by the first", key, below, 0.9 if client == "own" else None))
    made.append(shown(figures, "read_uncommitted, a tenth is aborted, librdkafka", "read", "records/s"))
    made.append(shown(figures, "read_committed", "read-committed", "records/s"))
    made.append(quotients(figures, "the second divided by the first", "read-committed", "read", 0.95))
    opened = figures.of("open", MINE)
    made.append(shown(figures, "memory of 1,000 open producers", "open", "MB", "10 MB", met=_within(opened, 10.0)))
    return made


def shown(figures: Figures, title: str, key: str, unit: str, bar: str = "", *, met: bool | None = None) -> list[object]:
    values = [_text(figures.of(key, server), unit) for server in (OTHER, MINE, CONTROL)]
    return [title, *values, bar, _verdict(is_met=met)]


def quotients(figures: Figures, title: str, key: str, below: str, bar: float | None) -> list[object]:
    found = {server: figures.quotient(key, below, server) for server in (OTHER, MINE, CONTROL)}
    mine = found[MINE]
    met = None if mine is None or bar is None else mine >= bar
    texts = ["-" if each is None else f"{each:.2f}" for each in found.values()]
    return [title, *texts, "" if bar is None else f"{bar:.2f}", _verdict(is_met=met)]


def log_rows(logs: aborted_log.Figures, count: int) -> list[list[object]]:
    slower = logs.lookup_us / logs.lookup_few_us
    opened, held = _verdict(is_met=logs.open_ms < 3000), _verdict(is_met=logs.longest_hold_cpu_ms < 100)
    title = f"open a log with {count:,} aborted transactions"
    return [
        [title, f"{logs.open_ms:.1f} ms, of CPU {logs.open_cpu_ms:.1f} ms", "3 s", opened],
        ["find those of a fetch", f"{logs.lookup_us:.0f} us", "", ""],
        ["the same among a hundredth as many", f"{logs.lookup_few_us:.0f} us, {slower:.2f}x", "", ""],
        ["make a lost index again, in turns", f"{logs.mend_s:.1f} s, of CPU {logs.mend_cpu_s:.1f} s", "", ""],
        [
            "longest hold of the loop meanwhile",
            f"{logs.longest_hold_ms:.0f} ms, of CPU {logs.longest_hold_cpu_ms:.0f} ms",
            "100 ms of CPU",
            held,
        ],
    ]


def _within(value: float | None, bar: float | None) -> bool | None:
    return None if value is None or bar is None else value <= bar


def _text(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.2f} {unit}"


def _verdict(*, is_met: bool | None) -> str:
    return "" if is_met is None else "met" if is_met else "**missed**"


if __name__ == "__main__":
    main()
