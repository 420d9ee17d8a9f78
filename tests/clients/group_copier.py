"""A member of a group that copies a topic with transactions, as a program of its own, until it is killed.

    python -m tests.clients.group_copier confluent BOOTSTRAP SOURCE TARGET GROUP NAME SEED DIARY

The group assigns the partitions of the source, and takes them away again. Each transaction holds some records of the
target and the offsets in the source after them, which count only if this member still owns what it has read. One in
three is aborted. After an error that means "abort" the program aborts; any other error ends it. Its parent process
starts it again with the same transactional id.

DIARY is a file to which it writes what it does, one JSON object per line: a transaction with what it read and sends,
before it sends; that it asks for the commit, before it asks; and how it ended. `read_diary` makes a history of it.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from chronik.sim.checkers.anomalies import Outcome, Poll, Seen, Transacted

ABORTED = 1 / 3
RECORDS_MAX = 40  # of one transaction
READ_S = 0.3
CALL_S = 30.0
SESSION_MS = 6_000
TIMEOUT_MS = 15_000  # of a transaction

Records = list[tuple[int, int, bytes]]  # partition, offset, value


class MustAbort(Exception):
    """The library says that this transaction can only be aborted."""


class Member(Protocol):
    """A client library. `join` takes the transactional id over; `rewind` goes back to what the group has committed."""

    def join(self) -> None: ...

    def read(self) -> Records: ...

    def begin(self) -> None: ...

    def send(self, value: bytes) -> None: ...

    def send_offsets(self, offsets: dict[int, int]) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def rewind(self) -> None: ...


class Diary:
    def __init__(self, path: Path) -> None:
        self._file = path.open("a")

    def note(self, **what: Any) -> None:
        """In the hands of the system when this returns, so that kill -9 does not lose it."""
        self._file.write(json.dumps(what) + "\n")
        self._file.flush()


def copy(member: Member, name: str, seed: int, diary: Diary) -> None:
    chance = random.Random(seed)
    member.join()
    number = 0
    while True:
        records = member.read()
        if not records:
            continue
        number += 1
        who = f"{name}-{seed}-{number}"
        sent = [f"{value.decode()} {who}" for _, _, value in records]
        diary.note(name=who, read=[[at, offset, value.decode()] for at, offset, value in records], sent=sent)
        asked = False
        try:
            member.begin()
            for value in sent:
                member.send(value.encode())
            member.send_offsets({at: offset + 1 for at, offset, _ in records})
            if chance.random() < ABORTED:
                raise MustAbort("by chance")
            diary.note(name=who, asks="commit")
            asked = True
            member.commit()
            diary.note(name=who, outcome=Outcome.COMMITTED.value)
        except MustAbort as fault:
            member.abort()
            # A commit that was asked for and refused may have been carried out before, when its answer was lost.
            outcome = Outcome.UNKNOWN if asked else Outcome.ABORTED
            diary.note(name=who, outcome=outcome.value, why=str(fault))
            member.rewind()


def read_diary(path: Path, source: str) -> list[Transacted]:
    """What the members that wrote it have done. A transaction without an end is aborted, if no commit was asked for."""
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    begun = {line["name"]: line for line in lines if "sent" in line}
    asked = {line["name"] for line in lines if "asks" in line}
    ended = {line["name"]: Outcome(line["outcome"]) for line in lines if "outcome" in line}
    return [
        Transacted(
            name,
            ended.get(name, Outcome.UNKNOWN if name in asked else Outcome.ABORTED),
            line["sent"],
            [Poll(name, [Seen(f"{source}-{at}", offset, value) for at, offset, value in line["read"]])],
        )
        for name, line in begun.items()
    ]


class Confluent:
    def __init__(self, bootstrap: str, source: str, target: str, group: str, name: str) -> None:
        from confluent_kafka import Consumer, Producer, TopicPartition

        self._place: Any = TopicPartition
        self._source, self._target = source, target
        common = {"bootstrap.servers": bootstrap, "log_level": 2}
        self._consumer: Any = Consumer(
            {
                **common,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": 500,
            }
        )
        self._producer: Any = Producer({**common, "transactional.id": name, "transaction.timeout.ms": TIMEOUT_MS})

    def join(self) -> None:
        self._retrying(self._producer.init_transactions)
        self._consumer.subscribe([self._source])

    def read(self) -> Records:
        messages = self._consumer.consume(RECORDS_MAX, READ_S)
        return [(each.partition(), each.offset(), each.value()) for each in messages if not each.error()]

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, value: bytes) -> None:
        self._producer.produce(self._target, value)

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
                error = fault.args[0]
                if error.txn_requires_abort():
                    raise MustAbort(str(error)) from fault
                if not error.retriable() or time.monotonic() > end:
                    raise
            else:
                return

    def rewind(self) -> None:
        for place in self._consumer.committed(self._consumer.assignment(), CALL_S):
            self._consumer.seek(self._place(place.topic, place.partition, max(place.offset, 0)))


class KafkaPython:
    def __init__(self, bootstrap: str, source: str, target: str, group: str, name: str) -> None:
        from kafka import KafkaConsumer, KafkaProducer, TopicPartition
        from kafka.structs import OffsetAndMetadata

        self._place: Any = TopicPartition
        self._offset: Any = OffsetAndMetadata
        self._source, self._target = source, target
        servers = bootstrap.split(",")
        self._producer: Any = KafkaProducer(
            bootstrap_servers=servers, transactional_id=name, transaction_timeout_ms=TIMEOUT_MS
        )
        self._consumer: Any = KafkaConsumer(
            bootstrap_servers=servers,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            max_poll_records=RECORDS_MAX,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=500,
        )

    def join(self) -> None:
        self._calling(self._producer.init_transactions)
        while not self._consumer.partitions_for_topic(self._source):
            pass  # as leader of the group it would otherwise assign nothing
        self._consumer.subscribe([self._source])

    def read(self) -> Records:
        found = self._consumer.poll(int(READ_S * 1000))
        return [(each.partition, each.offset, each.value) for some in found.values() for each in some]

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, value: bytes) -> None:
        self._calling(self._producer.send, self._target, value)

    def send_offsets(self, offsets: dict[int, int]) -> None:
        made = {self._place(self._source, at): self._offset(offset, "", -1) for at, offset in offsets.items()}
        self._calling(self._producer.send_offsets_to_transaction, made, self._consumer.group_metadata())

    def commit(self) -> None:
        self._calling(self._producer.commit_transaction)

    def abort(self) -> None:
        self._producer.abort_transaction()

    def _calling(self, call: Any, *arguments: Any) -> None:
        from kafka import errors

        fatal = (
            errors.ProducerFencedError,
            errors.OutOfOrderSequenceNumberError,
            errors.AuthorizationError,
            errors.IllegalStateError,
        )
        try:
            call(*arguments)
        except fatal:
            raise
        except errors.KafkaError as fault:  # as its documentation says: abort, unless it is one of those above
            raise MustAbort(repr(fault)) from fault

    def rewind(self) -> None:
        for place in self._consumer.assignment():
            self._consumer.seek(place, self._consumer.committed(place) or 0)


class Aiokafka:
    """Its offset commits in transactions do not carry the member's generation, so the broker cannot detect a member
    that has lost its partitions. As with older Kafka clients, each partition of the source therefore has its own
    transactional id. The member that gets the partition uses its id, which fences the previous member."""

    def __init__(self, bootstrap: str, source: str, target: str, group: str, name: str) -> None:
        self._bootstrap, self._source, self._target, self._group = bootstrap, source, target, group
        self._loop = asyncio.new_event_loop()
        self._producers: dict[int, Any] = {}
        self._consumer: Any = None
        self._reading = 0  # the partition of the present transaction
        self._waiting: list[tuple[int, int, bytes]] = []

    def _run(self, work: Any) -> Any:
        from aiokafka import errors

        try:
            return self._loop.run_until_complete(asyncio.wait_for(work, CALL_S))
        except (errors.ProducerFenced, errors.IllegalOperation):
            raise
        except errors.KafkaError as fault:
            raise MustAbort(repr(fault)) from fault

    def join(self) -> None:
        self._run(self._join())

    async def _join(self) -> None:
        from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener

        outer = self

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
                outer._waiting = []
                for producer in outer._producers.values():
                    await producer.stop()
                outer._producers.clear()

            async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
                for place in assigned:
                    producer = AIOKafkaProducer(
                        bootstrap_servers=outer._bootstrap,
                        transactional_id=f"{outer._group}-{place.partition}",
                        transaction_timeout_ms=TIMEOUT_MS,
                    )
                    await producer.start()
                    outer._producers[place.partition] = producer
                    outer._consumer.seek(place, await outer._consumer.committed(place) or 0)

        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=self._group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=500,
        )
        self._consumer.subscribe([self._source], listener=Listener())
        await self._consumer.start()

    def read(self) -> Records:
        """Of one partition, whose transactional id it then uses."""
        if not self._waiting:
            try:
                found = self._run(self._consumer.getmany(timeout_ms=int(READ_S * 1000), max_records=RECORDS_MAX))
            except TimeoutError:
                return []
            self._waiting = [(each.partition, each.offset, each.value) for some in found.values() for each in some]
        if not self._waiting:
            return []
        self._reading = self._waiting[0][0]
        taken = [each for each in self._waiting if each[0] == self._reading]
        self._waiting = [each for each in self._waiting if each[0] != self._reading]
        return taken if self._reading in self._producers else []

    def begin(self) -> None:
        self._run(self._producers[self._reading].begin_transaction())

    def send(self, value: bytes) -> None:
        self._run(self._producers[self._reading].send(self._target, value))

    def send_offsets(self, offsets: dict[int, int]) -> None:
        from aiokafka import TopicPartition

        made = {TopicPartition(self._source, index): offset for index, offset in offsets.items()}
        self._run(self._producers[self._reading].send_offsets_to_transaction(made, self._group))

    def commit(self) -> None:
        self._run(self._producers[self._reading].commit_transaction())

    def abort(self) -> None:
        self._run(self._producers[self._reading].abort_transaction())

    def rewind(self) -> None:
        self._waiting = []
        self._run(self._rewind())

    async def _rewind(self) -> None:
        for place in self._consumer.assignment():
            self._consumer.seek(place, await self._consumer.committed(place) or 0)


class Chronik:
    """Our own client, with the same duty."""

    def __init__(self, bootstrap: str, source: str, target: str, group: str, name: str) -> None:
        self._bootstrap, self._source, self._target, self._group = bootstrap, source, target, group
        self._name = name
        self._loop = asyncio.new_event_loop()
        self._waiting: Records = []

    def _run(self, work: Any) -> Any:
        from chronik.client.errors import TransactionFailed

        try:
            return self._loop.run_until_complete(work)
        except TransactionFailed as fault:
            raise MustAbort(str(fault)) from fault

    def join(self) -> None:
        self._run(self._join())

    async def _join(self) -> None:
        from chronik.client.consumer import Consumer
        from chronik.client.fetch_answers import FetchOptions
        from chronik.client.routing import ClusterClient
        from chronik.client.transactions import TransactionalProducer
        from chronik.runtime.real import real_runtime
        from chronik.wire.isolation import READ_COMMITTED

        self._cluster = ClusterClient(real_runtime(), self._bootstrap)
        self._producer = TransactionalProducer(self._cluster, self._name, timeout_ms=TIMEOUT_MS)
        await self._producer.begin()
        await self._producer.commit()  # takes the id over
        self._consumer = Consumer(
            self._cluster,
            group_id=self._group,
            options=FetchOptions(isolation_level=READ_COMMITTED),
            auto_commit_ms=None,
            session_timeout_ms=SESSION_MS,
            heartbeat_ms=500,
        )
        self._consumer.subscribe([self._source])

    def read(self) -> Records:
        """Partitions come and go in `poll`, so what it gave before is ours until the next call."""
        if not self._waiting:
            self._waiting = [
                (each.at.partition, record.offset, record.value or b"")
                for each in self._run(self._consumer.poll(int(READ_S * 1000)))
                for record in each.records
            ]
        taken, self._waiting = self._waiting[:RECORDS_MAX], self._waiting[RECORDS_MAX:]
        return taken

    def begin(self) -> None:
        self._run(self._producer.begin())

    def send(self, value: bytes) -> None:
        self._run(self._producer.send(self._target, value))

    def send_offsets(self, offsets: dict[int, int]) -> None:
        from chronik.client.topology import TopicPartition

        made = {TopicPartition(self._source, index): offset for index, offset in offsets.items()}
        self._run(self._producer.send_offsets(made, self._consumer.membership))

    def commit(self) -> None:
        self._run(self._producer.commit())

    def abort(self) -> None:
        self._run(self._producer.abort())

    def rewind(self) -> None:
        self._waiting = []
        self._run(self._rewind())

    async def _rewind(self) -> None:
        from chronik.client.admin import offsets

        found = await offsets.committed(self._cluster, self._group, is_stable=True)
        await self._consumer.seek({at: found[at].offset if at in found else 0 for at in self._consumer.assignment})


MEMBERS: dict[str, Any] = {
    "chronik": Chronik,
    "confluent": Confluent,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
}


def main(words: Sequence[str]) -> None:
    library, bootstrap, source, target, group, name, seed, diary = words
    copy(MEMBERS[library](bootstrap, source, target, group, name), name, int(seed), Diary(Path(diary)))


if __name__ == "__main__":
    main(sys.argv[1:])
