"""The main job, live: three nodes, a producer, a group of two, kill -9 of a node in front of you; then transactions and
Spark.

    make demo                       a few seconds of each
    make demo ARGS="--seconds 30"
    make demo ARGS=--without-spark
    make demo ARGS=--secure         the same over TLS, with logins and access rules; without Spark

Everything runs for real: each node is a process of its own with data on this disk, every record is acknowledged only
when every in-sync replica has synced it, and the last line is computed from what was acknowledged and what can be read.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from contextlib import suppress
from pathlib import Path

import uvloop
from rich.console import Console
from rich.live import Live
from rich.table import Table

from chronik.client.consumer import Consumer
from chronik.client.producer import Producer
from chronik.client.topology import TopicPartition
from chronik.testing import Cluster as Broker
from demo_client import USER, properties_of, reached
from demo_pipeline.stage import run_stage
from demo_transfers import run_transfers

TOPIC, GROUP, PARTITIONS = "events", "dashboard", 6
NODES = (1, 2, 3)
READERS = ("ada", "grace")
REFRESH_SECONDS = 0.25
AT_ONCE = 500  # records handed to the producer before the others get their turn


class Tally:
    """What was acknowledged, and who has read what."""

    def __init__(self) -> None:
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.read: dict[tuple[int, int], bytes] = {}
        self.reads = dict.fromkeys(READERS, 0)
        self.owns: dict[str, tuple[int, ...]] = dict.fromkeys(READERS, ())
        self.states = dict.fromkeys(NODES, "up")

    @property
    def lag(self) -> int:
        return max(0, len(self.acknowledged) - len(self.read))


async def produce(properties: Path, tally: Tally, stopping: asyncio.Event) -> None:
    number = 0
    async with reached(properties) as cluster, Producer(cluster, creates_topics=True) as producer:
        while not stopping.is_set():
            deliveries = []
            for _ in range(AT_ONCE):
                value = b"event %09d" % number
                deliveries.append((value, await producer.send(TOPIC, value, key=b"user-%d" % (number % 1000))))
                number += 1
            for value, delivery in deliveries:
                written = await delivery
                tally.acknowledged[written.partition, written.offset] = value


async def consume(properties: Path, tally: Tally, name: str, stopping: asyncio.Event) -> None:
    """Each reader has connections of its own, as if it were a program of its own."""
    async with reached(properties) as cluster, Consumer(cluster, group_id=GROUP) as consumer:
        consumer.subscribe([TOPIC])
        while not (stopping.is_set() and tally.lag == 0):
            for fetched in await consumer.poll(200):
                for record in fetched.records:
                    tally.read[fetched.at.partition, record.offset] = bytes(record.value or b"")
                tally.reads[name] += len(fetched.records)
            tally.owns[name] = tuple(sorted(at.partition for at in consumer.assignment))


def picture(tally: Tally, bootstrap: str, last: list[tuple[float, int, int]]) -> Table:
    now = (time.monotonic(), len(tally.acknowledged), len(tally.read))
    last.append(now)
    del last[:-8]
    seconds = max(now[0] - last[0][0], 1e-3)
    table = Table(title=f"bootstrap.servers {bootstrap}", title_justify="left", min_width=72)
    for column in ("", "records", "records/s", "who"):
        table.add_column(column, justify="left" if column in ("", "who") else "right")
    table.add_row("acknowledged (on disk)", f"{now[1]:,}", f"{(now[1] - last[0][1]) / seconds:,.0f}", "")
    for name in READERS:
        owns = ", ".join(map(str, tally.owns[name]))
        table.add_row(f"read by {name}", f"{tally.reads[name]:,}", "", f"partitions {owns}")
    table.add_row("nodes", "", "", ", ".join(f"{node} {state}" for node, state in tally.states.items()))
    table.add_row("lag of the group", f"{tally.lag:,}", f"{(now[2] - last[0][2]) / seconds:,.0f} read", "")
    return table


async def show(tally: Tally, bootstrap: str, console: Console, seconds: float, stopping: asyncio.Event) -> None:
    last: list[tuple[float, int, int]] = []
    with Live(console=console, auto_refresh=False, transient=False) as live:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            await asyncio.sleep(REFRESH_SECONDS)
            live.update(picture(tally, bootstrap, last), refresh=True)
        stopping.set()
        while tally.lag:
            await asyncio.sleep(REFRESH_SECONDS)
            live.update(picture(tally, bootstrap, last), refresh=True)
    console.print()


async def serve(broker: Broker, properties: Path, tally: Tally, console: Console, seconds: float) -> None:
    stopping = asyncio.Event()
    work = [produce(properties, tally, stopping)]
    work += [consume(properties, tally, name, stopping) for name in READERS]
    work += [lose_a_node(broker, properties, tally, seconds), show(tally, broker.bootstrap, console, seconds, stopping)]
    await asyncio.gather(*work)


async def lose_a_node(broker: Broker, properties: Path, tally: Tally, seconds: float) -> None:
    """kill -9 of the leader of the first partition after a third of the time; it comes back after two."""
    await asyncio.sleep(seconds / 3)
    async with reached(properties) as cluster:
        victim = (await cluster.topic(TOPIC)).partitions[0].leader_id
    tally.states[victim] = "KILLED"
    await asyncio.to_thread(broker.kill, victim)
    await asyncio.sleep(seconds / 3)
    await asyncio.to_thread(broker.start_again, victim)
    tally.states[victim] = "back"


async def read_again(properties: Path, count: int) -> dict[tuple[int, int], bytes]:
    found: dict[tuple[int, int], bytes] = {}
    async with reached(properties) as cluster, Consumer(cluster) as consumer:
        await consumer.assign({TopicPartition(TOPIC, index): 0 for index in range(PARTITIONS)})
        while len(found) < count:
            for fetched in await consumer.poll(5000):
                found.update({(fetched.at.partition, r.offset): bytes(r.value or b"") for r in fetched.records})
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=9, help="how long to produce and consume (default 9)")
    parser.add_argument("--without-spark", action="store_true", help="leave out the pipeline, which needs a JDK")
    parser.add_argument("--secure", action="store_true", help="TLS, logins and access rules; without the pipeline")
    options = parser.parse_args()
    console, tally = Console(), Tally()
    started = time.monotonic()
    settings = {"num.partitions": str(PARTITIONS)}
    with Broker(nodes=3, settings=settings, in_process=False, secure=options.secure) as broker:
        console.print(f"Three nodes, durable by default, ready after {time.monotonic() - started:.2f} s.")
        properties = properties_of(broker, is_secure=options.secure)
        if options.secure:
            console.print(f"All connections use TLS. Programs log in as {USER}, by SCRAM; rules say what it may do.")
        uvloop.run(serve(broker, properties, tally, console, options.seconds))
        count = len(tally.acknowledged)
        console.print(f"kill -9 of all three, after {count:,} acknowledged records.")
        for node in NODES:
            broker.kill(node)
        started = time.monotonic()
        broker.start_all_again()
        console.print(f"Back after {time.monotonic() - started:.2f} s. Reading everything again.")
        found = uvloop.run(read_again(properties, count))
        lost = sum(found.get(key) != value for key, value in tally.acknowledged.items())
        doubled = len(found) - len(set(found.values()))
        verdict = "Nothing was lost." if not lost and not doubled else "THIS IS A BUG."
        console.print(f"acknowledged {count:,}, read again {len(found):,}, lost {lost}, doubled {doubled}. {verdict}")
        is_right = not lost and not doubled and run_transfers(broker, properties, console)
        if options.secure:
            console.print("The Spark part is shown by the demo without --secure.")
        elif not options.without_spark:
            is_right &= run_stage(broker, console, Path(broker.data) / "lake")
    return 0 if is_right else 1


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
