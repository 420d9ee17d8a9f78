"""Records which run of a query may write, which batch was decided last, and the transactions of that batch.

The register is a set of committed offsets of the group `chronik-spark/<query>`: the offset is the number of the next
batch, the texts beside it hold the rest. The offsets belong to partitions of __consumer_offsets, which exists wherever
offsets can be committed and is never deleted, unlike the topics that a query writes to. They are never used as
positions.

`change` is a compare-and-set. Each attempt first takes over the transactional id named like the group, then reads, then
commits the new texts in a transaction of that id. An attempt that takes the id over later fences this one, so nothing
was written between its read and its commit.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from chronik.client.errors import Refused, refuse
from chronik.client.topology import TopicPartition
from chronik.pipeline import transactions
from chronik.pipeline.errors import PipelineError
from chronik.pipeline.transactions import GONE, Handle, retrying
from chronik.runtime.units import NS_PER_MS
from chronik.wire.error_codes import ErrorCode
from chronik.wire.internal_topics import OFFSETS_TOPIC
from chronik.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient

TEXT_CHARS_MAX: Final = 4_000  # Kafka's default for offset.metadata.max.bytes is 4,096
PIECES_MAX: Final = 50  # default partition count of __consumer_offsets; enough for about 5,000 tasks
PAST_MAX: Final = 16
LASTS_MS: Final = 60_000  # timeout of the register's own transactions
ATTEMPT_MS_MAX: Final = 100


class Part(NamedTuple):
    """The transaction of one task. Its transactional id is `<group>/<run>/<task>-<worker>`."""

    task: int
    worker: str
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Register:
    run: str = ""  # the run that may decide batches
    past: tuple[str, ...] = ()  # earlier runs, which may no longer decide
    batch: int = -1  # the last decided batch
    decided_by: str = ""  # the run that decided it
    parts: tuple[Part, ...] = ()  # the transactions of that batch
    adds_by_writing: bool = False  # whether the parts were begun with transaction.version 2

    def claimed(self, run: str) -> Register:
        return replace(self, run=run, past=(*self.past, self.run)[-PAST_MAX:] if self.run else self.past)

    def decided(self, batch: int, parts: tuple[Part, ...], *, adds_by_writing: bool) -> Register:
        return Register(self.run, self.past, batch, self.run, parts, adds_by_writing)

    def undone(self) -> Register:
        """None of its transactions was committed: the batch must be written again."""
        return replace(self, batch=self.batch - 1, parts=())

    def to_texts(self) -> list[str]:
        """Pieces that fit beside an offset; the first holds their number."""
        parts = " ".join(f"{each.task},{each.worker},{each.producer_id},{each.epoch}" for each in self.parts)
        told = json.dumps(
            {
                "run": self.run,
                "past": self.past,
                "by": self.decided_by,
                "adds_by_writing": self.adds_by_writing,
                "parts": parts,
            }
        )
        pieces = [told[at : at + TEXT_CHARS_MAX] for at in range(0, len(told), TEXT_CHARS_MAX)]
        return [f"{len(pieces)}:{pieces[0]}", *pieces[1:]]

    @classmethod
    def from_texts(cls, batch: int, texts: list[str]) -> Register:
        count, _, first = texts[0].partition(":")
        told = json.loads("".join([first, *texts[1 : int(count)]]))
        parts = tuple(
            Part(int(task), worker, int(producer_id), int(epoch))
            for task, worker, producer_id, epoch in (each.split(",") for each in told["parts"].split())
        )
        return cls(told["run"], tuple(told["past"]), batch, told["by"], parts, told["adds_by_writing"])


def group_of(query_id: str) -> str:
    return f"chronik-spark/{query_id}"


def run_prefix(query_id: str, run: str) -> str:
    return f"{group_of(query_id)}/{run}/"


def id_of(query_id: str, run: str, task: int, worker: str) -> str:
    return f"{run_prefix(query_id, run)}{task}-{worker}"


def handle_of(query_id: str, run: str, part: Part) -> Handle:
    return Handle(id_of(query_id, run, part.task, part.worker), part.producer_id, part.epoch)


async def read(cluster: ClusterClient, query_id: str, *, timeout_ms: int, is_stable: bool = False) -> Register:
    """The last committed register. With `is_stable` it waits until a change in progress ends.

    Callers that decide based on the result use `change`. Others must not wait: the process that started a change may
    be dead.
    """
    group_id = group_of(query_id)

    async def attempt() -> Register:
        # Names the partitions: only named partitions report pending offsets.
        asked = [OffsetFetchRequestTopics(name=OFFSETS_TOPIC, partition_indexes=list(range(PIECES_MAX)))]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group_id, topics=asked)], require_stable=is_stable
        )
        answer = await cluster.ask_coordinator(group_id, request, OffsetFetchResponse, version_min=8, version_max=9)
        [told] = answer.groups
        what = f"cannot read the offsets of group {group_id!r}"
        cluster.refuse_from_coordinator(group_id, told.error_code, what)
        found: dict[int, tuple[int, str]] = {}
        for topic in told.topics:
            for each in topic.partitions:
                refuse(each.error_code, what)
                found[each.partition_index] = (each.committed_offset, each.metadata or "")
        offset, _ = found.get(0, (-1, ""))
        return Register() if offset < 0 else Register.from_texts(offset - 1, [found[i][1] for i in sorted(found)])

    return await retrying(cluster, attempt, timeout_ms)


async def change(
    cluster: ClusterClient, query_id: str, make: Callable[[Register], Register | None], *, timeout_ms: int
) -> Register:
    """Replaces the register by `make` of the current one; None leaves it unchanged. Returns the resulting register."""
    key = group_of(query_id)
    end_ns = cluster.clock.monotonic_ns() + timeout_ms * NS_PER_MS
    while True:
        begun = await transactions.begin(cluster, key, lasts_ms=LASTS_MS, timeout_ms=timeout_ms)
        present = await read(cluster, query_id, timeout_ms=timeout_ms, is_stable=True)
        wanted = make(present)
        if wanted is None:
            return present
        if await _write(cluster, begun, key, wanted, timeout_ms=timeout_ms):
            return wanted
        if cluster.clock.monotonic_ns() >= end_ns:
            raise Refused(ErrorCode.PRODUCER_FENCED, f"cannot commit offsets of group {key!r}", "others keep doing so")
        # Fenced. Reading shows the outcome of this attempt and of the other one, without fencing a third.
        await asyncio.sleep(cluster.randomness.below(ATTEMPT_MS_MAX) / 1000)
        present = await read(cluster, query_id, timeout_ms=timeout_ms)
        if make(present) is None:
            return present


async def _write(
    cluster: ClusterClient, begun: transactions.OpenTransaction, group_id: str, wanted: Register, *, timeout_ms: int
) -> bool:
    texts = wanted.to_texts()
    room = min(PIECES_MAX, len((await cluster.topic(OFFSETS_TOPIC)).partitions))
    if len(texts) > room:
        raise PipelineError("TOO_MANY_TASKS", tasks=len(wanted.parts), pieces=len(texts), room=room)
    offsets = {TopicPartition(OFFSETS_TOPIC, i): (wanted.batch + 1, text) for i, text in enumerate(texts)}
    try:
        await transactions.commit_offsets(cluster, begun, group_id, offsets, timeout_ms=timeout_ms)
    except Refused as fault:
        if fault.kafka_error in GONE:
            return False
        raise
    return await transactions.end(
        cluster, begun.handle, commits=True, adds_by_writing=begun.adds_by_writing, timeout_ms=timeout_ms
    )
