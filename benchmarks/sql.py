"""How long a question in SQL takes, from typing the command to its answer: a small topic, a large one, a table.

    make bench-sql         prints the table and writes docs/benchmarks/sql.md

Each figure is the best of several whole runs of `chronik sql`, start of Python included. The bar is one second for what
is small. Nothing here is a test: a slow machine fails nobody.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

OUTPUT = Path(__file__).parent.parent / "docs" / "benchmarks" / "sql.md"
RUNS = 5
BAR_S = 1.0
SMALL, LARGE = 1_000, 1_000_000

QUESTIONS = [
    ("no topic at all", "SELECT 1", True),
    (f"count of a topic, {SMALL:,} records", "SELECT count(*) FROM small", True),
    (f"group by a JSON field, {SMALL:,} records", "SELECT value->>'$.city', count(*) FROM small GROUP BY 1", True),
    (f"count of a table, {LARGE:,} rows", "SELECT count(*) FROM tables.large", True),
    (f"group by in a table, {LARGE:,} rows", "SELECT city, sum(n) FROM tables.large GROUP BY 1", True),
    (f"count of a topic, {LARGE:,} records", "SELECT count(*) FROM large", False),
    (f"group by a JSON field, {LARGE:,} records", "SELECT value->>'$.city', count(*) FROM large GROUP BY 1", False),
]


def main() -> None:
    missing = [each for each in ("duckdb", "pyarrow", "deltalake", "confluent_kafka") if find_spec(each) is None]
    if missing:
        print(
            f"chronik: nothing measured, {', '.join(missing)} not installed: pip install 'chronik[sql]'",
            file=sys.stderr,
        )
        return
    from chronik.testing import Cluster

    with Cluster(in_process=False) as cluster, tempfile.TemporaryDirectory() as storage:
        fill(cluster.bootstrap, storage)
        lines = [
            f"# chronik sql, {platform.machine()}, Python {platform.python_version()}",
            "",
            "| question | seconds | bar |",
            "|---|---|---|",
        ]
        for what, query, has_bar in QUESTIONS:
            taken_s = min(run(query, cluster.bootstrap, storage) for _ in range(RUNS))
            verdict = "" if not has_bar else f"{BAR_S:.1f} met" if taken_s <= BAR_S else f"{BAR_S:.1f} MISSED"
            lines.append(f"| {what} | {taken_s:.2f} | {verdict} |")
    print("\n".join(lines))
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text("\n".join(lines) + "\n")


def run(query: str, bootstrap: str, storage: str) -> float:
    words = ["sql", query, "--bootstrap", bootstrap, "--storage", storage, "--format", "json"]
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "chronik.cli", *words], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def fill(bootstrap: str, storage: str) -> None:
    import pyarrow as pa
    from confluent_kafka import Producer
    from deltalake import write_deltalake

    cities = ["Bonn", "Ulm", "Trier", "Jena"]
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 2_000_000})
    for topic, count in (("small", SMALL), ("large", LARGE)):
        for number in range(count):
            producer.produce(topic, b'{"n": %d, "city": "%s"}' % (number, cities[number % 4].encode()))
            if number % 10_000 == 0:
                producer.poll(0)
        producer.flush()
    rows = pa.table({"n": range(LARGE), "city": [cities[number % 4] for number in range(LARGE)]})
    write_deltalake(f"{storage}/tables/large", rows)


if __name__ == "__main__":
    main()
