"""The demo's second half: records flow through Spark into a Delta table and a topic of dead letters, while a node dies.

One record in a hundred is broken on purpose. The pipeline is `clicks.py`, run by `chronik pipeline run` as by anybody.
The last line is computed from what was acknowledged, what is in the table and what is among the dead letters.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

from rich.console import Console

from chronik.client.admin.topics import NewTopic, create
from chronik.client.producer import Producer
from chronik.client.routing import ClusterClient
from chronik.pipeline.live_cluster import LiveCluster
from chronik.runtime.real import real_runtime
from chronik.testing import Cluster as Broker

PIPELINE = Path(__file__).parent / "clicks.py"
TOPIC, PARTITIONS, RECORDS, AT_ONCE = "clicks", 3, 60_000, 200
BROKEN_ONE_IN = 100
WATCH_SECONDS = 0.5
SECONDS_MAX = 170
# Of a JVM that lives for a minute: quick compilation beats good compilation.
SHORT_LIVED = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", "SPARK_LOCAL_IP": "127.0.0.1"}

Place = tuple[int, int]  # partition, offset


def run_stage(broker: Broker, console: Console, storage: Path) -> bool:
    """True when every acknowledged record is in exactly one of the two places."""
    started = time.monotonic()
    asyncio.run(_create(broker))
    with Flow(broker, storage) as flow:
        console.print(f"A pipeline on Spark: topic {TOPIC} -> Delta table, what is broken -> {TOPIC}.dlq.")
        acknowledged = asyncio.run(_produce_and_kill(broker, console))
        console.print(f"{len(acknowledged):,} records acknowledged, a node killed on the way.")
        with console.status("The pipeline is behind by ...") as status:
            while (lag := flow.lag()) != 0 and flow.runs() and time.monotonic() - started < SECONDS_MAX:
                status.update(f"The pipeline is behind by {'?' if lag is None else f'{lag:,}'} records.")
                time.sleep(WATCH_SECONDS)
        if not flow.runs():
            console.print(f"The pipeline ended by itself:\n{flow.log.read_text()[-2000:]}")
            return False
        flow.stop()
        rows, letters = _rows(storage), flow.dead_letters()
    in_both = len(set(rows) & set(letters))
    doubled = len(rows) + len(letters) - len(set(rows)) - len(set(letters))
    missing = len(acknowledged - set(rows) - set(letters))
    is_right = not in_both and not doubled and not missing and len(rows) + len(letters) == len(acknowledged)
    verdict = "input == table + dead letters." if is_right else "THIS IS A BUG."
    console.print(
        f"input {len(acknowledged):,} = table {len(rows):,} + dead letters {len(letters):,}; missing {missing}, "
        f"doubled {doubled + in_both}, after {time.monotonic() - started:.0f} s. {verdict}"
    )
    return is_right


class Flow:
    """`chronik pipeline run` as a process, and what watches and stops it. Leaving the `with` leaves no process."""

    def __init__(self, broker: Broker, storage: Path) -> None:
        self._bootstrap = broker.bootstrap
        self._storage = ["--storage", str(storage)]
        command = self._command("pipeline", "run", str(PIPELINE), *self._storage, "--interval-ms", "500")
        storage.mkdir(parents=True, exist_ok=True)
        self.log = storage / "pipeline.log"
        with self.log.open("wb") as log:
            # A session of its own: Ctrl-C is for the demo, which ends Python, JVM and workers as one.
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, **SHORT_LIVED}, start_new_session=True
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def runs(self) -> bool:
        return self._process.poll() is None

    def lag(self) -> int | None:
        """Of the pipeline's consumer group, in messages; None while a partition has no leader to ask."""
        lag = LiveCluster(self._bootstrap).lag_of(f"{PIPELINE.stem}.{TOPIC}", TOPIC)
        return None if lag is None else lag.messages

    def stop(self) -> None:
        """After the batch under way, as anybody stops it."""
        command = self._command("pipeline", "stop", str(PIPELINE), *self._storage)
        subprocess.run(command, check=True, capture_output=True)
        self._process.wait()

    def dead_letters(self) -> list[Place]:
        command = self._command("dlq", "show", TOPIC, "--count", str(RECORDS), "--format", "json")
        told = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        return [(letter["partition"], letter["offset"]) for letter in told]

    def _command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "chronik.cli", *words, "--bootstrap-server", self._bootstrap]


async def _create(broker: Broker) -> None:
    async with ClusterClient(real_runtime(), broker.bootstrap) as cluster:
        await create(cluster, [NewTopic(TOPIC, partition_count=PARTITIONS)])


async def _produce_and_kill(broker: Broker, console: Console) -> set[Place]:
    """A third of the records, then kill -9 of a leader, another third, the node comes back, the rest."""
    acknowledged: set[Place] = set()
    async with ClusterClient(real_runtime(), broker.bootstrap) as cluster, Producer(cluster) as producer:
        await _send(producer, range(RECORDS // 3), acknowledged)
        victim = (await cluster.topic(TOPIC)).partitions[0].leader_id
        console.print(f"kill -9 of node {victim}.")
        await asyncio.to_thread(broker.kill, victim)
        await _send(producer, range(RECORDS // 3, 2 * RECORDS // 3), acknowledged)
        await asyncio.to_thread(broker.start_again, victim)
        await _send(producer, range(2 * RECORDS // 3, RECORDS), acknowledged)
    return acknowledged


async def _send(producer: Producer, numbers: range, acknowledged: set[Place]) -> None:
    for at in range(numbers.start, numbers.stop, AT_ONCE):
        chunk = range(at, min(at + AT_ONCE, numbers.stop))
        for delivery in [await producer.send(TOPIC, _value(number), key=b"%d" % (number % 997)) for number in chunk]:
            written = await delivery
            acknowledged.add((written.partition, written.offset))


def _value(number: int) -> bytes:
    whole = json.dumps({"user": number % 997, "page": f"/page/{number % 31}", "at": "2026-01-01T00:00:00Z"}).encode()
    return whole[: len(whole) // 2] if number % BROKEN_ONE_IN == 0 else whole


def _rows(storage: Path) -> list[Place]:
    from deltalake import DeltaTable

    (found,) = [each.parent for each in storage.rglob("_delta_log")]
    table = DeltaTable(str(found)).to_pyarrow_table(columns=["_partition", "_offset"])
    return list(zip(table["_partition"].to_pylist(), table["_offset"].to_pylist(), strict=True))
