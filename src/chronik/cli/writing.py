"""How `chronik produce` writes, record by record or in transactions, and what it reports.

Only what is certain is counted: a record that was acknowledged, or one whose transaction was committed. Leaving the
block without `finish` aborts the open transaction; so does Ctrl-C.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from chronik.cli.inputs import Input
    from chronik.client.batching import Delivery, RecordPosition
    from chronik.client.producer import Producer
    from chronik.client.routing import ClusterClient
    from chronik.client.transactions import TransactionalProducer

WINDOW = 10_000  # records whose receipts are kept at a time


class Writer(Protocol):
    @property
    def summary(self) -> Summary: ...

    @property
    def producer(self) -> Producer: ...

    async def write(self, topic: str, record: Input) -> bool:
        """Whether records have been counted since the last one."""

    async def finish(self, *, is_complete: bool) -> None: ...


@asynccontextmanager
async def opened(
    cluster: ClusterClient,
    transactional_id: str | None,
    *,
    transaction_records: int | None,
    transaction_timeout_ms: int,
    **options: Any,
) -> AsyncIterator[Writer]:
    """`options` are those of a producer."""
    from chronik.client.producer import Producer
    from chronik.client.transactions import TransactionalProducer

    if transactional_id is None:
        async with Producer(cluster, **options) as plain:
            yield PlainWriter(plain)
        return
    async with TransactionalProducer(
        cluster, transactional_id, timeout_ms=transaction_timeout_ms, **options
    ) as producer:
        yield TransactionWriter(producer, transaction_records)


class PlainWriter:
    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        self.summary = Summary()
        self._pending: list[Delivery] = []

    async def write(self, topic: str, record: Input) -> bool:
        self._pending.append(await _send(self.producer, topic, record))
        if len(self._pending) < WINDOW:
            return False
        await self.summary.settle(self._pending)
        return True

    async def finish(self, *, is_complete: bool) -> None:
        await self.producer.flush()
        await self.summary.settle(self._pending)


class TransactionWriter:
    """Commits after every `record_count` records, or once at the end. Input that ends in an error is not committed."""

    def __init__(self, transactional: TransactionalProducer, record_count: int | None) -> None:
        self.producer = transactional.producer
        self.summary = Summary()
        self._transactional = transactional
        self._record_count = record_count
        self._open = Summary()  # of the open transaction
        self._pending: list[Delivery] = []
        self._is_open = False

    async def write(self, topic: str, record: Input) -> bool:
        if not self._is_open:
            await self._transactional.begin()
            self._is_open = True
        self._pending.append(await _send(self._transactional, topic, record))
        if self._open.record_count + len(self._pending) == self._record_count:
            await self._commit()
            return True
        if len(self._pending) >= WINDOW:
            await self._open.settle(self._pending)
        return False

    async def finish(self, *, is_complete: bool) -> None:
        if self._is_open and is_complete:
            await self._commit()
        elif self._is_open:
            await self._transactional.abort()

    async def _commit(self) -> None:
        await self._transactional.commit()
        await self._open.settle(self._pending)
        self.summary.add(self._open)
        self._open, self._is_open = Summary(), False


async def _send(producer: Producer | TransactionalProducer, topic: str, record: Input) -> Delivery:
    return await producer.send(
        topic,
        record.value,
        key=record.key,
        partition=record.partition,
        timestamp=record.timestamp,
        headers=record.headers,
    )


class Summary:
    """How many records went where."""

    def __init__(self) -> None:
        self.record_count = 0
        self._partitions: dict[int, tuple[int, int, int]] = {}  # count, first and last offset

    async def settle(self, pending: list[Delivery]) -> None:
        for delivery in pending:
            self._add(await delivery)
        pending.clear()

    def add(self, other: Summary) -> None:
        self.record_count += other.record_count
        for partition, (count, first, last) in other._partitions.items():
            known, lowest, highest = self._partitions.get(partition, (0, first, last))
            self._partitions[partition] = (known + count, min(lowest, first), max(highest, last))

    def _add(self, position: RecordPosition) -> None:
        self.record_count += 1
        count, first, last = self._partitions.get(position.partition, (0, position.offset, position.offset))
        self._partitions[position.partition] = (
            count + 1,
            min(first, position.offset),
            max(last, position.offset),
        )

    def rows(self, topic: str) -> list[dict[str, Any]]:
        return [
            {
                "topic": topic,
                "partition": partition,
                "records": count,
                "first_offset": None if first < 0 else first,
                "last_offset": None if last < 0 else last,
            }
            for partition, (count, first, last) in sorted(self._partitions.items())
        ]
