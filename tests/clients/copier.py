"""Copies a topic with transactions, as a program of its own: consume, transform, produce, with random aborts.

    python -m tests.clients.copier confluent BOOTSTRAP SOURCE TARGET ID SEED

Each transaction holds some records of the target and the offsets in the source after them. One in three is aborted, and
its records are read again. The program may be killed at any moment; started again, it goes on from the group's offsets.
It ends when it has committed everything that the source held when it began. What the target then holds for readers of
committed records is every record of the source, once.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Iterable
from typing import Any, Protocol

ABORTED = 1 / 3
RECORDS_MAX = 40  # of one transaction
READ_S = 0.5
CALL_S = 20.0

Records = list[tuple[int, int, bytes]]  # partition, offset, value


class Library(Protocol):
    """A client library. `start` takes the transactional id over and returns the group's offsets and the ends."""

    def start(self) -> tuple[dict[int, int], dict[int, int]]: ...

    def read(self) -> Records: ...

    def begin(self) -> None: ...

    def send(self, value: bytes) -> None: ...

    def flush(self) -> None: ...

    def send_offsets(self, offsets: dict[int, int]) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def seek(self, offsets: dict[int, int]) -> None: ...


def copy(library: Library, seed: int) -> None:
    chance = random.Random(seed)
    positions, ends = library.start()
    library.seek(positions)
    while any(positions[partition] < end for partition, end in ends.items()):
        records = library.read()[: chance.randint(1, RECORDS_MAX)]
        if not records:
            continue
        reached = dict(positions)
        library.begin()
        for partition, offset, value in records:
            assert offset == reached[partition], f"read {offset} of partition {partition}, not {reached[partition]}"
            reached[partition] = offset + 1
            library.send(value + b" copied")
        library.send_offsets({at: offset for at, offset in reached.items() if offset != positions[at]})
        if chance.random() < ABORTED:
            library.abort()
        else:
            library.commit()
            positions = reached
        library.seek(positions)


class Confluent:
    def __init__(self, bootstrap: str, source: str, target: str, name: str) -> None:
        from confluent_kafka import Consumer, Producer, TopicPartition

        self._place: Any = TopicPartition
        self._source, self._target = source, target
        common = {"bootstrap.servers": bootstrap, "log_level": 2}
        reading = {"group.id": name, "enable.auto.commit": False, "isolation.level": "read_committed"}
        self._consumer: Any = Consumer({**common, **reading, "enable.partition.eof": False})
        self._producer: Any = Producer({**common, "transactional.id": name, "transaction.timeout.ms": 30_000})

    def start(self) -> tuple[dict[int, int], dict[int, int]]:
        self._producer.init_transactions(CALL_S)
        indexes = self._consumer.list_topics(self._source, timeout=CALL_S).topics[self._source].partitions
        places = [self._place(self._source, index) for index in indexes]
        committed = {each.partition: max(each.offset, 0) for each in self._consumer.committed(places, CALL_S)}
        ends = {each.partition: self._consumer.get_watermark_offsets(each, CALL_S)[1] for each in places}
        return committed, ends

    def read(self) -> Records:
        messages = self._consumer.consume(RECORDS_MAX, READ_S)
        return [(each.partition(), each.offset(), each.value()) for each in messages if not each.error()]

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, value: bytes) -> None:
        self._producer.produce(self._target, value)

    def flush(self) -> None:
        self._producer.flush(CALL_S)

    def send_offsets(self, offsets: dict[int, int]) -> None:
        places = [self._place(self._source, index, offset) for index, offset in offsets.items()]
        self._retrying(self._producer.send_offsets_to_transaction, places, self._consumer.consumer_group_metadata())

    def commit(self) -> None:
        self._retrying(self._producer.commit_transaction)

    def abort(self) -> None:
        self._retrying(self._producer.abort_transaction)

    def _retrying(self, call: Any, *arguments: Any) -> None:
        """Repeats the call while the error is retriable, as the library's documentation says, for a limited time."""
        from confluent_kafka import KafkaException

        end = time.monotonic() + CALL_S
        while True:
            try:
                call(*arguments, CALL_S)
            except KafkaException as fault:
                if not fault.args[0].retriable() or time.monotonic() > end:
                    raise
            else:
                return

    def seek(self, offsets: dict[int, int]) -> None:
        self._consumer.assign([self._place(self._source, index, offset) for index, offset in offsets.items()])


class KafkaPython:
    def __init__(self, bootstrap: str, source: str, target: str, name: str) -> None:
        from kafka import KafkaConsumer, KafkaProducer, TopicPartition
        from kafka.structs import OffsetAndMetadata

        self._place: Any = TopicPartition
        self._offset: Any = OffsetAndMetadata
        self._source, self._target, self._name = source, target, name
        servers = bootstrap.split(",")
        self._producer: Any = KafkaProducer(
            bootstrap_servers=servers, transactional_id=name, transaction_timeout_ms=30_000
        )
        self._consumer: Any = KafkaConsumer(
            bootstrap_servers=servers,
            group_id=name,
            enable_auto_commit=False,
            isolation_level="read_committed",
            max_poll_records=RECORDS_MAX,
        )

    def start(self) -> tuple[dict[int, int], dict[int, int]]:
        self._producer.init_transactions()
        places = [self._place(self._source, index) for index in self._consumer.partitions_for_topic(self._source)]
        self._consumer.assign(places)
        committed = {each.partition: self._consumer.committed(each) or 0 for each in places}
        ends = {each.partition: offset for each, offset in self._consumer.end_offsets(places).items()}
        return committed, ends

    def read(self) -> Records:
        found = self._consumer.poll(int(READ_S * 1000))
        return [(each.partition, each.offset, each.value) for some in found.values() for each in some]

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, value: bytes) -> None:
        self._producer.send(self._target, value)

    def flush(self) -> None:
        self._producer.flush()

    def send_offsets(self, offsets: dict[int, int]) -> None:
        made = {self._place(self._source, at): self._offset(offset, "", -1) for at, offset in offsets.items()}
        self._producer.send_offsets_to_transaction(made, self._name)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def seek(self, offsets: dict[int, int]) -> None:
        for index, offset in offsets.items():
            self._consumer.seek(self._place(self._source, index), offset)


class Aiokafka:
    def __init__(self, bootstrap: str, source: str, target: str, name: str) -> None:
        self._bootstrap, self._source, self._target, self._name = bootstrap, source, target, name
        self._loop = asyncio.new_event_loop()
        self._producer: Any = None
        self._consumer: Any = None

    def _run(self, work: Any) -> Any:
        return self._loop.run_until_complete(work)

    def start(self) -> tuple[dict[int, int], dict[int, int]]:
        return self._run(self._start())  # type: ignore[no-any-return]

    async def _start(self) -> tuple[dict[int, int], dict[int, int]]:
        from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

        self._place: Any = TopicPartition
        self._producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap, transactional_id=self._name, transaction_timeout_ms=30_000
        )
        await self._producer.start()
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=self._name,
            enable_auto_commit=False,
            isolation_level="read_committed",
        )
        await self._consumer.start()
        places = [TopicPartition(self._source, at) for at in await self._producer.partitions_for(self._source)]
        self._consumer.assign(places)
        committed = {each.partition: await self._consumer.committed(each) or 0 for each in places}
        ends = {each.partition: offset for each, offset in (await self._consumer.end_offsets(places)).items()}
        return committed, ends

    def read(self) -> Records:
        found = self._run(self._consumer.getmany(timeout_ms=int(READ_S * 1000), max_records=RECORDS_MAX))
        return [(each.partition, each.offset, each.value) for some in found.values() for each in some]

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, value: bytes) -> None:
        self._run(self._producer.send(self._target, value))

    def flush(self) -> None:
        self._run(self._producer.flush())

    def send_offsets(self, offsets: dict[int, int]) -> None:
        made = {self._place(self._source, index): offset for index, offset in offsets.items()}
        self._run(self._producer.send_offsets_to_transaction(made, self._name))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def seek(self, offsets: dict[int, int]) -> None:
        for index, offset in offsets.items():
            self._consumer.seek(self._place(self._source, index), offset)


class Chronik:
    """Our own client, with the same duty."""

    def __init__(self, bootstrap: str, source: str, target: str, name: str) -> None:
        self._bootstrap, self._source, self._target, self._name = bootstrap, source, target, name
        self._loop = asyncio.new_event_loop()

    def _run(self, work: Any) -> Any:
        return self._loop.run_until_complete(work)

    def start(self) -> tuple[dict[int, int], dict[int, int]]:
        return self._run(self._start())  # type: ignore[no-any-return]

    async def _start(self) -> tuple[dict[int, int], dict[int, int]]:
        from chronik.client.admin import offsets
        from chronik.client.consumer import Consumer
        from chronik.client.membership import Member
        from chronik.client.routing import ClusterClient
        from chronik.client.topology import TopicPartition
        from chronik.client.transactions import TransactionalProducer
        from chronik.runtime.real import real_runtime
        from chronik.wire.offset_specs import LATEST

        self._cluster = ClusterClient(real_runtime(), self._bootstrap)
        self._place, self._member = TopicPartition, Member(self._name)
        self._producer = TransactionalProducer(self._cluster, self._name, timeout_ms=30_000)
        await self._producer.begin()
        await self._producer.commit()  # takes the id over
        topic = await self._cluster.retrying(lambda: self._cluster.topic(self._source))
        places = [TopicPartition(self._source, index) for index in topic.partitions]
        found = await offsets.committed(self._cluster, self._name, is_stable=True)
        committed = {at.partition: found[at].offset if at in found else 0 for at in places}
        self._consumer = Consumer(self._cluster)
        await self._consumer.assign(dict.fromkeys(places, LATEST))
        return committed, {at.partition: offset for at, offset in self._consumer.positions().items()}

    def read(self) -> Records:
        found = self._run(self._consumer.poll())
        return [(each.at.partition, record.offset, record.value or b"") for each in found for record in each.records]

    def begin(self) -> None:
        self._run(self._producer.begin())

    def send(self, value: bytes) -> None:
        self._run(self._producer.send(self._target, value))

    def flush(self) -> None:
        self._run(self._producer.producer.flush())

    def send_offsets(self, offsets: dict[int, int]) -> None:
        made = {self._place(self._source, index): offset for index, offset in offsets.items()}
        self._run(self._producer.send_offsets(made, self._member))

    def commit(self) -> None:
        self._run(self._producer.commit())

    def abort(self) -> None:
        self._run(self._producer.abort())

    def seek(self, offsets: dict[int, int]) -> None:
        self._run(
            self._consumer.assign({self._place(self._source, index): offset for index, offset in offsets.items()})
        )


LIBRARIES: dict[str, Any] = {
    "chronik": Chronik,
    "confluent": Confluent,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
}


def main(words: Iterable[str]) -> None:
    library, bootstrap, source, target, name, seed = words
    copy(LIBRARIES[library](bootstrap, source, target, name), int(seed))


if __name__ == "__main__":
    main(sys.argv[1:])
