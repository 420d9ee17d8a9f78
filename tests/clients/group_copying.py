"""Groups of members that copy a topic in transactions, what is done to them meanwhile, and what they leave behind.

The cluster is anything with `bootstrap`, `kill`, `start_again`, `pause` and `resume`: a Chronik, or a Kafka to compare
with.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from chronik.client.admin import offsets, topics
from chronik.client.consumer import Consumer
from chronik.client.errors import ClientError
from chronik.client.fetch_answers import FetchOptions
from chronik.client.producer import Producer
from chronik.client.routing import ClusterClient
from chronik.client.topology import TopicPartition
from chronik.runtime.real import real_runtime
from chronik.sim.checkers.anomalies import TransactionHistory, anomalies
from chronik.wire.isolation import READ_COMMITTED
from chronik.wire.offset_specs import EARLIEST, LATEST
from tests.clients.drivers.programs import Program, close_all
from tests.clients.group_copier import read_diary

PARTITIONS = 4
PATIENCE_S = 240  # only what hangs uses it up
LOOK_S = 0.2
_numbers = itertools.count()


class Nodes(Protocol):
    @property
    def bootstrap(self) -> str: ...

    def kill(self, node_id: int) -> None: ...

    def start_again(self, node_id: int) -> None: ...

    def pause(self, node_id: int) -> None: ...

    def resume(self, node_id: int) -> None: ...


class GroupCopying:
    """A source with numbers, an empty target, and members, each with a transactional id and a diary of its own."""

    def __init__(self, nodes: Nodes, library: str, folder: Path, count: int) -> None:
        self.nodes, self.library, self.count = nodes, library, count
        self.name = f"{library}-group-{next(_numbers)}"
        self.source, self.target = f"{self.name}-source", f"{self.name}-target"
        self._folder = folder
        self._members: dict[int, Program] = {}
        self._starts = itertools.count()
        self.failures: list[str] = []  # what members said that ended by themselves
        asyncio.run(self._prepare())

    async def _prepare(self) -> None:
        async with ClusterClient(real_runtime(), self.nodes.bootstrap) as client:
            await topics.create(client, [topics.NewTopic(name, PARTITIONS, 3) for name in (self.source, self.target)])
            async with Producer(client) as producer:
                for number in range(self.count):
                    await producer.send(self.source, b"%d" % number, partition=number % PARTITIONS)

    # --- members

    def start(self, index: int) -> None:
        """Begins a member, or begins it again, which aborts what it left open."""
        diary = str(self._diary(index))
        words = (self.library, self.nodes.bootstrap, self.source, self.target, self.name, f"{self.name}-{index}")
        command = [sys.executable, "-m", "tests.clients.group_copier", *words, str(next(self._starts)), diary]
        self._members[index] = Program(command)

    def kill(self, index: int) -> None:
        self._members.pop(index).close()

    def tend(self) -> None:
        """Starts members again that ended by an error: not every library survives the loss of a broker."""
        for index, member in list(self._members.items()):
            if (code := member.exit_code()) is not None:
                self.failures.append(f"member {index} ended with {code}: {member.printed()[-600:]}")
                self.kill(index)
                self.start(index)

    @contextmanager
    def members(self, count: int) -> Iterator[None]:
        try:
            for index in range(count):
                self.start(index)
            yield
        finally:
            close_all(list(self._members.values()))
            self._members.clear()

    def _diary(self, index: int) -> Path:
        return self._folder / f"{self.name}-{index}.jsonl"

    # --- waiting

    def wait_for_progress(self, count: int) -> None:
        """Until the group has committed this many more, or all: what is killed next is killed at work."""
        goal = min(self.committed() + count, self.count)
        self._until(lambda: self.committed() >= goal, f"the group has committed {goal} of {self.count}")

    def wait_until_done(self) -> None:
        self._until(lambda: self.committed() >= self.count, f"the group has committed all {self.count}")

    def _until(self, look: Callable[[], bool], what: str) -> None:
        give_up_s = time.monotonic() + PATIENCE_S
        while not look():
            self.tend()
            said = "\n".join(self.failures[-3:])
            assert time.monotonic() < give_up_s, f"not within {PATIENCE_S} s: {what}; {self.committed()} now\n{said}"
            time.sleep(LOOK_S)

    def committed(self) -> int:
        async def ask(client: ClusterClient) -> int:
            found = await offsets.committed(client, self.name)
            return sum(each.offset for at, each in found.items() if at.topic == self.source)

        return self._asked(ask)

    def _asked(self, ask: Callable[[ClusterClient], Awaitable[int]]) -> int:
        """0 while the answer is unknown: a node is down, or its successor is loading."""

        async def main() -> int:
            async with ClusterClient(real_runtime(), self.nodes.bootstrap) as client:
                try:
                    return await ask(client)
                except ClientError:
                    return 0

        return asyncio.run(main())

    # --- what is left behind

    def check(self) -> None:
        """Each number of the source is once in the target, and the history of the members has no anomaly."""
        written = asyncio.run(self._read(self.target))
        found = Counter(value.split()[0] for values in written.values() for value in values.values())
        expected = {str(number) for number in range(self.count)}
        missing, doubled = expected - set(found), {value: n for value, n in found.items() if n > 1}
        one = next(iter(sorted(doubled)), None)
        places = [f"{at}@{i}: {v!r}" for at, them in written.items() for i, v in them.items() if v.split()[0] == one]
        assert not missing, f"{len(missing)} of {self.count} are missing: {sorted(missing)[:5]}"
        assert not doubled, f"{len(doubled)} of {self.count} are there more than once, as {places}"
        transactions = [
            each for path in sorted(self._folder.glob(f"{self.name}-*.jsonl")) for each in read_diary(path, self.source)
        ]
        assert len(transactions) > PARTITIONS
        logs = written | asyncio.run(self._read(self.source))
        assert anomalies(TransactionHistory(transactions, logs)) == []

    async def _read(self, topic: str) -> dict[str, dict[int, str]]:
        """What readers of committed records find, once every transaction has ended."""
        places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        committed = FetchOptions(isolation_level=READ_COMMITTED)
        give_up_s = time.monotonic() + PATIENCE_S
        async with ClusterClient(real_runtime(), self.nodes.bootstrap) as client:
            while (ends := await _ends(client, FetchOptions(), places)) != await _ends(client, committed, places):
                assert time.monotonic() < give_up_s, f"transactions of {topic} stay open"
                await asyncio.sleep(LOOK_S)
            logs: dict[str, dict[int, str]] = {f"{at.topic}-{at.partition}": {} for at in places}
            async with Consumer(client, options=committed) as consumer:
                await consumer.assign(dict.fromkeys(places, EARLIEST))
                while any(consumer.positions()[at] < end for at, end in ends.items()):
                    for fetched in await consumer.poll():
                        held = logs[f"{fetched.at.topic}-{fetched.at.partition}"]
                        held.update({each.offset: (each.value or b"").decode() for each in fetched.records})
            return logs


async def _ends(
    client: ClusterClient, options: FetchOptions, places: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    async with Consumer(client, options=options) as consumer:
        await consumer.assign(dict.fromkeys(places, LATEST))
        return consumer.positions()
