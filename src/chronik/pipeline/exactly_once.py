"""A batch of a streaming query appears in its topics exactly once, whatever is killed and however often it is repeated.

1. A task reads the register (`batch_register`). If it holds another run of the query, this run replaces it, and the
   other one can decide nothing after that. If an earlier attempt decided the batch, the task writes nothing. Otherwise
   it writes its rows in its own transaction and leaves that open: its part of the batch.
2. The driver has the parts of all tasks. It checks that they are still open, then writes the batch's number and the
   list of its parts into the register, in one transaction. This decides the batch; only one decision can succeed.
3. The driver commits the parts. If it dies before the last one, Spark repeats the batch, and only step 3 is repeated.

So only parts of a decision are ever committed. A superseded attempt (a second driver, a driver presumed dead, a task
that Spark has abandoned) is not part of one, and its transactions are aborted. The division of rows among tasks does
not matter: a repeated batch may have other tasks, or other rows.

Two attempts that may run at the same time never share a transactional id, because taking an id over aborts its open
transaction, which could be part of a decision. Hence each id includes the run and the worker process.

One case remains: parts that were decided but not committed are aborted after `kafka.transaction.timeout.ms`. If no
driver returns before that, BATCH_TORN reports it, or the batch is written again if none of its parts was committed.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from chronik.client.batching import Identity
from chronik.client.errors import ClientError
from chronik.client.producer import Producer
from chronik.pipeline import transactions
from chronik.pipeline.batch_register import Part, Register, change, handle_of, id_of, read, run_prefix
from chronik.pipeline.errors import PipelineError
from chronik.pipeline.transactions import OpenTransaction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chronik.client.routing import ClusterClient
    from chronik.client.topology import Topic
    from chronik.pipeline.sink_options import SinkOptions
    from chronik.wire.records import EncodedRecords, Headers

AGE_MAX: Final = 0.8  # share of the transaction timeout at the decision; the rest is for committing the parts
RUN_CHARS: Final = 13  # of a run's id, enough to distinguish the runs of one query
CLEAN_UP_MS: Final = 5_000

_worker = (0, "")


@dataclass(frozen=True, slots=True)
class BatchTask:
    """The identity of a writing task. Spark passes all of this to the task."""

    query_id: str
    run: str
    batch: int
    task: int


@dataclass(frozen=True, slots=True)
class TaskResult:
    """A task's report to the driver."""

    query_id: str
    run: str
    part: Part | None = None  # None: the task had no rows, or had nothing to do
    is_decided: bool = False  # an earlier attempt has written the batch
    adds_by_writing: bool = False
    begun_ms: int = 0


class TaskWriter:
    """Writes the rows of one task. Use it in `async with`: an error aborts the transaction."""

    def __init__(self, cluster: ClusterClient, task: BatchTask, options: SinkOptions) -> None:
        self._cluster, self._task, self._options = cluster, task, options
        self._begun: OpenTransaction | None = None
        self._begun_ms = 0
        self._producer: Producer | None = None

    async def is_decided(self) -> bool:
        """Whether an earlier attempt has decided the batch. A run's first task also supersedes the previous run.

        Raises QUERY_SUPERSEDED.
        """
        task, timeout_ms = self._task, self._options.delivery_timeout_ms

        def claim(present: Register) -> Register | None:
            _require_present(task, present)
            return None if present.run == task.run else present.claimed(task.run)

        register = await read(self._cluster, task.query_id, timeout_ms=timeout_ms)
        if claim(register) is not None:
            register = await change(self._cluster, task.query_id, claim, timeout_ms=timeout_ms)
        return register.batch >= task.batch

    async def __aenter__(self) -> TaskWriter:
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._producer is None or self._begun is None:
            return
        await self._producer.close(flushes=False)
        if exception[0] is None:
            return
        with suppress(ClientError):  # otherwise its timeout or the next batch's clean-up ends it
            await transactions.end(
                self._cluster,
                self._begun.handle,
                commits=False,
                adds_by_writing=self._begun.adds_by_writing,
                timeout_ms=CLEAN_UP_MS,
            )

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Headers = (),
    ) -> None:
        producer = self._producer or await self._begin()
        await producer.send(topic, value, key=key, partition=partition, headers=headers)

    async def send_encoded(self, topic: str, partition: int | None, records: EncodedRecords) -> None:
        producer = self._producer or await self._begin()
        await producer.send_encoded(topic, partition, records)

    async def topic(self, name: str) -> Topic:
        producer = self._producer or await self._begin()
        return await producer.topic(name)

    async def finish(self) -> TaskResult:
        """Returns when every row is acknowledged. The transaction stays open."""
        query_id, run = self._task.query_id, self._task.run
        if self._producer is None or self._begun is None:
            return TaskResult(query_id, run)
        await self._producer.flush()
        handle = self._begun.handle
        part = Part(self._task.task, worker_name(), handle.producer_id, handle.epoch)
        return TaskResult(query_id, run, part, adds_by_writing=self._begun.adds_by_writing, begun_ms=self._begun_ms)

    async def _begin(self) -> Producer:
        options, task = self._options, self._task
        key = id_of(task.query_id, task.run, task.task, worker_name())
        self._begun_ms = self._cluster.clock.wall_ms()
        self._begun = await transactions.begin(
            self._cluster, key, lasts_ms=options.transaction_timeout_ms, timeout_ms=options.delivery_timeout_ms
        )
        self._producer = Producer(
            self._cluster,
            codec=options.codec,
            delivery_timeout_ms=options.delivery_timeout_ms,
            creates_topics=True,
            transaction=self._begun,
        )
        self._producer.become(Identity(self._begun.handle.producer_id, self._begun.handle.epoch))
        return self._producer


async def commit_batch(cluster: ClusterClient, batch: int, results: Sequence[TaskResult], options: SinkOptions) -> None:
    """Decides the batch, unless an earlier attempt has, and commits its parts."""
    parts = tuple(each.part for each in results if each.part is not None)
    if not parts and not any(each.is_decided for each in results):
        return
    timeout_ms = options.delivery_timeout_ms
    task = BatchTask(results[0].query_id, results[0].run, batch, -1)
    adds_by_writing = any(each.adds_by_writing for each in results)
    if not any(each.is_decided for each in results):
        await _require_open(cluster, task, results, options)

    def decide(present: Register) -> Register | None:
        _require_present(task, present)
        return None if present.batch >= batch else present.decided(batch, parts, adds_by_writing=adds_by_writing)

    register = await change(cluster, task.query_id, decide, timeout_ms=timeout_ms)
    if register.batch == batch:
        await _commit_parts(cluster, task, register, timeout_ms)
    await _clean_up(cluster, task, register)


async def abort_batch(cluster: ClusterClient, batch: int, results: Sequence[TaskResult], options: SinkOptions) -> None:
    """Ends the transactions of a failed batch, unless it was decided after all.

    Even an unchanged write to the register fences a decision in progress.
    """
    if not results:
        return
    task = BatchTask(results[0].query_id, results[0].run, batch, -1)
    register = await change(cluster, task.query_id, lambda _: None, timeout_ms=options.delivery_timeout_ms)
    if register.batch < batch:
        await _clean_up(cluster, task, register)


async def _commit_parts(cluster: ClusterClient, task: BatchTask, register: Register, timeout_ms: int) -> None:
    ended = await asyncio.gather(
        *(
            transactions.end(
                cluster,
                handle_of(task.query_id, register.decided_by, part),
                commits=True,
                adds_by_writing=register.adds_by_writing,
                timeout_ms=timeout_ms,
            )
            for part in register.parts
        )
    )
    if all(ended):
        return
    lost = [part.task for part, is_committed in zip(register.parts, ended, strict=True) if not is_committed]
    if len(lost) < len(ended):
        raise PipelineError("BATCH_TORN", batch=task.batch, query=task.query_id, tasks=", ".join(map(str, lost)))

    def undo(present: Register) -> Register | None:
        return present.undone() if (present.batch, present.parts) == (task.batch, register.parts) else None

    await change(cluster, task.query_id, undo, timeout_ms=timeout_ms)
    raise PipelineError("BATCH_ABORTED", batch=task.batch, query=task.query_id, reason="after it was decided")


async def _require_open(
    cluster: ClusterClient, task: BatchTask, results: Sequence[TaskResult], options: SinkOptions
) -> None:
    """A part whose transaction has timed out must not become part of a decision."""
    age_ms = cluster.clock.wall_ms() - min(each.begun_ms for each in results if each.part is not None)
    if age_ms > AGE_MAX * options.transaction_timeout_ms:
        reason = f"its first task began {age_ms} ms ago; raise kafka.transaction.timeout.ms, or make batches smaller"
        raise PipelineError("BATCH_ABORTED", batch=task.batch, query=task.query_id, reason=reason)
    handles = [handle_of(task.query_id, task.run, each.part) for each in results if each.part is not None]
    gone = await transactions.not_open(cluster, handles, timeout_ms=options.delivery_timeout_ms)
    if gone:
        _require_present(task, await read(cluster, task.query_id, timeout_ms=options.delivery_timeout_ms))
        reason = f"the cluster has ended the transaction of {gone[0].transactional_id}"
        raise PipelineError("BATCH_ABORTED", batch=task.batch, query=task.query_id, reason=reason)


async def _clean_up(cluster: ClusterClient, task: BatchTask, register: Register) -> None:
    """Aborts transactions that failed attempts left open, because they block readers of committed records.

    Between two batches no attempt of this run is active, and past runs can no longer decide anything. If this fails,
    the transactions end with their timeout.
    """
    runs = {task.run, *register.past}
    with suppress(ClientError):
        left = await transactions.open_ids(cluster, [run_prefix(task.query_id, run) for run in runs])
        for key in left:
            await transactions.begin(cluster, key, lasts_ms=CLEAN_UP_MS, timeout_ms=CLEAN_UP_MS)


def _require_present(task: BatchTask, register: Register) -> None:
    if task.run in register.past:
        raise PipelineError("QUERY_SUPERSEDED", query=task.query_id, run=task.run, by=register.run)


def worker_name() -> str:
    """The name of this process. A forked process has another one."""
    global _worker
    if _worker[0] != os.getpid():
        _worker = (os.getpid(), uuid.uuid4().hex[:12])
    return _worker[1]
