"""Money moves between two topics while its program and a node die: no reader of committed records sees half a transfer.

A transfer is one transaction: an amount leaves `checking` and arrives in `savings`. The program that makes transfers is
a process of its own. It is killed with kill -9 in the middle of one, again and again, and so is a node. What it left
open is aborted when the next one takes over its transactional id.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import uvloop
from rich.console import Console

from chronik.client.admin.offsets import look_up
from chronik.client.admin.topics import NewTopic, create
from chronik.client.consumer import Consumer
from chronik.client.errors import ClientError
from chronik.client.fetch_answers import FetchOptions
from chronik.client.topology import TopicPartition
from chronik.client.transactions import TransactionalProducer
from chronik.testing import Cluster as Broker
from chronik.wire.isolation import READ_COMMITTED, READ_UNCOMMITTED
from chronik.wire.offset_specs import LATEST
from demo_client import reached

FROM, TO = "checking", "savings"
TRANSACTIONAL_ID: Final = "teller"
SECONDS: Final = 6.0
LIFE_SECONDS: Final = (0.1, 0.6)  # of the program that makes transfers, after its first one
CRASHES_MIN: Final = 4
VICTIM: Final = 2  # the node that dies with the second crash and comes back with the fourth


async def transfer_for_ever(properties: Path) -> None:
    async with (
        reached(properties) as cluster,
        TransactionalProducer(cluster, TRANSACTIONAL_ID) as producer,
    ):
        while True:
            amount = random.randint(1, 100)
            async with producer.transaction():
                await (await producer.send(FROM, b"%d" % -amount))
                await (await producer.send(TO, b"%d" % amount))
            print("transferred", flush=True)


async def balance(properties: Path, isolation_level: int) -> tuple[int, int]:
    """The number of entries in both topics, and their sum."""
    count = total = 0
    async with (
        reached(properties) as cluster,
        Consumer(cluster, options=FetchOptions(isolation_level=isolation_level)) as consumer,
    ):
        places = {TopicPartition(topic, 0): 0 for topic in (FROM, TO)}
        found = await look_up(cluster, dict.fromkeys(places, LATEST), isolation_level=isolation_level)
        ends = {place: end.offset for place, end in found.items() if not isinstance(end, ClientError)}
        await consumer.assign(places)
        while any(consumer.positions()[place] < end for place, end in ends.items()):
            for fetched in await consumer.poll(500):
                count += len(fetched.records)
                total += sum(int(bytes(record.value or b"0")) for record in fetched.records)
    return count, total


async def make_topics(properties: Path) -> None:
    async with reached(properties) as cluster:
        await create(cluster, [NewTopic(topic, partition_count=1) for topic in (FROM, TO)])


def run_transfers(broker: Broker, properties: Path, console: Console) -> bool:
    """Whether the sum of what is committed is what it was before: nothing."""
    uvloop.run(make_topics(properties))
    deadline, crash_count = time.monotonic() + SECONDS, 0
    while time.monotonic() < deadline or crash_count < CRASHES_MIN:
        command = [sys.executable, __file__, str(properties)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as teller:
            assert teller.stdout is not None
            teller.stdout.readline()  # it has made its first transfer
            time.sleep(random.uniform(*LIFE_SECONDS))
            teller.kill()
        crash_count += 1
        if crash_count == 2:
            broker.kill(VICTIM)
        if crash_count == CRASHES_MIN:
            broker.start_again(VICTIM)
    uvloop.run(abort_what_is_open(properties))
    everything, torn = uvloop.run(balance(properties, READ_UNCOMMITTED))
    count, total = uvloop.run(balance(properties, READ_COMMITTED))
    console.print(
        f"Transfers: {count // 2:,} committed, {crash_count} crashes in the middle, {everything - count} entries "
        f"aborted. Sum of everything {torn:+,}, of what is committed {total:+,}. "
        + ("No half transfer." if count and not total else "THIS IS A BUG.")
    )
    return count > 0 and not total


async def abort_what_is_open(properties: Path) -> None:
    """The next producer with the id aborts what the one before left behind."""
    async with (
        reached(properties) as cluster,
        TransactionalProducer(cluster, TRANSACTIONAL_ID) as producer,
    ):
        await producer.begin()
        await producer.abort()


if __name__ == "__main__":
    asyncio.run(transfer_for_ever(Path(sys.argv[1])))
