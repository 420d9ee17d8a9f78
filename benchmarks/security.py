"""What security costs Chronik, and Apache Kafka with the same server.properties: TLS, logins, access rules.

    make bench-security                       writes docs/benchmarks/security.md and .json
    make bench-security ARGS="--only chronik" without Kafka
    make bench-security ARGS=--quick          a minute or so, to see that it runs; prints only

Shares count, absolute figures do not. A share is TLS divided by PLAINTEXT of the same node in the same minute. CPU
is what the broker's process used, from /proc. A bar is what we hold ourselves to; a miss is printed, never hidden.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import NamedTuple

from load.pages import table, write_page
from load.securing import SMALL, Secured
from load.servers import KAFKA_VERSION

MINE, OTHER = "Chronik", "Kafka"


class Scale(NamedTuple):
    rounds: int
    seconds: int  # of each load
    handshakes: int
    logins: int
    reconnects: int
    rules: int


FULL = Scale(3, 6, 400, 300, 5_000, 10_000)
QUICK = Scale(1, 2, 100, 50, 500, 1_000)


class Row(NamedTuple):
    key: str
    title: str
    unit: str
    bar: float | None = None
    is_least: bool = False  # the bar is the least that is allowed, not the most


Figures = dict[str, dict[str, list[float]]]  # by broker and key


def rows(scale: Scale) -> list[Row]:
    found = []
    for kind, title, least in (("large", "large produce, 10 kB messages", 0.75), ("small", "128 small producers", 0.8)):
        found += [
            Row(f"{kind} plain", f"{title}, PLAINTEXT", "messages/s"),
            Row(f"{kind} secured", f"{title}, TLS", "messages/s"),
            Row(f"{kind} share", "the second divided by the first", "", least, is_least=True),
            Row(f"{kind} cpu", "the same by CPU of the broker for each message", ""),
        ]
    return [
        *found,
        Row("handshake", "CPU of a TLS handshake with a P-256 key", "ms", 1.0),
        Row("login", "CPU of a login, SCRAM-SHA-512", "ms", 0.3),
        Row("reconnects", f"{scale.reconnects:,} TLS clients that connect at once", "s", 6.0),
        Row("reconnects cpu", "the same, CPU of the broker", "s"),
        Row("p99 before", "p99 of another client before that", "ms"),
        Row("p99 meanwhile", "p99 of another client meanwhile", "ms", 100.0),
        Row("rules cpu", f"CPU of a message with {scale.rules:,} access rules, divided by that with 10", "", 1.05),
    ]


def main() -> None:
    words = argparse.ArgumentParser(description="what security costs")
    words.add_argument("--quick", action="store_true", help="little of everything, one round, nothing is written")
    words.add_argument("--only", choices=["chronik", "kafka"], help="one broker alone")
    asked = words.parse_args()
    scale = QUICK if asked.quick else FULL
    figures: Figures = {}
    for name, broker in ((MINE, "chronik"), (OTHER, "kafka")):
        if asked.only in (None, broker):
            figures[name] = measured(broker, scale)
    write(figures, scale, quick=asked.quick)


def measured(broker: str, scale: Scale) -> dict[str, list[float]]:
    directory = Path(tempfile.mkdtemp(prefix="chronik-bench-", dir=os.environ.get("BENCH_DIR")))
    node = Secured(broker, directory / "node")
    try:
        found = _measure(node, scale)
    finally:
        node.server.stop()
    shutil.rmtree(directory)  # not after a failure: its logs are in there
    return found


def _measure(node: Secured, scale: Scale) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)

    def add(key: str, value: float) -> None:
        found[key].append(value)
        print(f"{node.server.name} {key}: {value:,.4g}", flush=True)

    for kind in ("large", "small"):
        node.share(kind, scale.seconds)  # a warm-up
    for _ in range(scale.rounds):
        for kind in ("large", "small"):
            share = node.share(kind, scale.seconds)
            add(f"{kind} plain", share.plain.messages_per_s)
            add(f"{kind} secured", share.secured.messages_per_s)
            add(f"{kind} share", share.of_rate)
            add(f"{kind} cpu", share.of_cpu)
    node.handshake_ms(scale.handshakes)  # a warm-up
    for _ in range(scale.rounds):
        add("handshake", node.handshake_ms(scale.handshakes))
        add("login", node.login_ms(scale.logins))
        reconnected = node.reconnect(scale.reconnects)
        add("reconnects", reconnected.total_s)
        add("reconnects cpu", reconnected.server_cpu_s)
        add("p99 before", reconnected.p99_before_ms)
        add("p99 meanwhile", reconnected.p99_meanwhile_ms)
    node.produce("PLAINTEXT", "acl-1", SMALL, 1)  # creates the topic, before rules restrict that
    node.add_rules(0, 10)
    few = [node.produce("PLAINTEXT", "acl-1", SMALL, scale.seconds).cpu_us for _ in range(scale.rounds)]
    node.add_rules(10, scale.rules - 10)
    for before in few:
        add("rules cpu", node.produce("PLAINTEXT", "acl-1", SMALL, scale.seconds).cpu_us / before)
    return dict(found)


def write(figures: Figures, scale: Scale, *, quick: bool) -> None:
    lines = []
    for row in rows(scale):
        mine = figures.get(MINE, {}).get(row.key)
        values = [_text(figures.get(name, {}).get(row.key), row.unit) for name in (OTHER, MINE)]
        lines.append([row.title, *values, _bar(row), _verdict(row, mine)])
    about = (
        "One node of each broker, one after the other, with the same server.properties; `chronik-bench` and clients of "
        "librdkafka and asyncio on the same machine. Medians of "
        f"{scale.rounds} rounds. At the end the load average over 15 minutes was {os.getloadavg()[2]:.1f}, with "
        f"{os.cpu_count()} cores: above that, times are mostly times of waiting for a core."
    )
    sections = [about, table(["work", OTHER, MINE, "bar", ""], lines)]
    if quick:
        print("\n\n".join(sections))
        return
    command = "make bench-security" + (f' ARGS="{" ".join(sys.argv[1:])}"' if sys.argv[1:] else "")
    title = f"The cost of security beside Kafka {KAFKA_VERSION}, one node"
    page = write_page("security", title=title, command=command, sections=sections, figures=figures)
    print(page.read_text())


def _text(values: list[float] | None, unit: str) -> str:
    if not values:
        return "-"
    value = median(values)
    return f"{value:,.0f} {unit}".strip() if value >= 100 else f"{value:.2f} {unit}".strip()


def _bar(row: Row) -> str:
    return "" if row.bar is None else f"{row.bar:g} {row.unit}".strip()


def _verdict(row: Row, values: list[float] | None) -> str:
    if row.bar is None or not values:
        return ""
    is_met = median(values) >= row.bar if row.is_least else median(values) <= row.bar
    return "met" if is_met else "**missed**"


if __name__ == "__main__":
    main()
