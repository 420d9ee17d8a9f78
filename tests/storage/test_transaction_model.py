"""Transactions on two replicas, compared with a model that keeps every batch and recomputes everything after each step.

A walk is a few hundred random steps: producers of both transaction versions, markers, truncations, failovers, restarts,
power cuts, checkpoints, compaction and deleted records. After each step the last stable offset, the aborted
transactions and what a reader of committed records gets are compared with the model. Only the format of batches is
shared with the code under test.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import NamedTuple

import pytest

from chronik.runtime.pieces import at_once
from chronik.sim.disk import SimDisk
from chronik.storage import aborted_index
from chronik.storage.aborted_mending import mending
from chronik.storage.config import LogConfig
from chronik.storage.log import Log
from chronik.storage.logs import Logs
from chronik.storage.origins import Origin
from chronik.wire import records
from chronik.wire.batches import BatchView, split
from tests.storage.driving import NOW_MS, batch, durable, marker, open_logs, topic_id

TOPIC = topic_id(1)
PRODUCERS = 5
STEPS = 160


class Written(NamedTuple):
    """One batch of one record, or a marker."""

    offset: int
    producer_id: int
    epoch: int
    kind: str  # "plain", "data", "commit" or "abort"
    key: bytes = b""
    value: bytes = b""


class Transaction(NamedTuple):
    producer_id: int
    first: int
    marker: int  # -1: open
    is_aborted: bool
    offsets: tuple[int, ...]


def transactions_of(log: list[Written]) -> list[Transaction]:
    """In the order in which they ended; open ones last."""
    found: list[Transaction] = []
    open_ones: dict[int, list[int]] = {}
    for each in log:
        if each.kind == "data":
            open_ones.setdefault(each.producer_id, []).append(each.offset)
        elif each.kind in ("commit", "abort") and each.producer_id in open_ones:
            offsets = open_ones.pop(each.producer_id)
            found.append(Transaction(each.producer_id, offsets[0], each.offset, each.kind == "abort", tuple(offsets)))
    return found + [Transaction(each, offsets[0], -1, False, tuple(offsets)) for each, offsets in open_ones.items()]


class Node:
    """One replica, through restarts."""

    def __init__(self, disk: SimDisk, logs: Logs, config: LogConfig) -> None:
        self.disk, self.logs, self.config = disk, logs, config

    @classmethod
    async def make(cls, disk: SimDisk, config: LogConfig) -> Node:
        logs = await open_logs(disk)
        logs.create("t", TOPIC, 0, config)
        return cls(disk, logs, config)

    @property
    def log(self) -> Log:
        log = self.logs.get(TOPIC, 0)
        assert log is not None
        assert log.lost is None, log.lost
        return log

    async def restart(self, how: str) -> None:
        if how == "closed":
            await self.logs.close()
        self.disk = self.disk.power_cut() if how == "power" else self.disk.process_killed()
        self.logs = await open_logs(self.disk)
        log = self.logs.create("t", TOPIC, 0, self.config)  # nothing, if it is there
        log.config = self.config


class Walk:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.compacts = self.random.random() < 0.5
        self.config = LogConfig(
            segment_bytes=self.random.choice([400, 900, 4000]),
            cleanup_policy="compact" if self.compacts else "delete",
            min_cleanable_dirty_ratio=0.0,
            delete_retention_ms=self.random.choice([0, 1000]),
            retention_ms=-1,
        )
        self.written: list[Written] = []
        self.start = 0
        self.high_watermark = 0
        self.stable = 0  # the highest value that was reported
        self.epoch = 0  # of the leader
        self.now_ms = NOW_MS
        self.number = 0
        self.producer_epochs = dict.fromkeys(range(PRODUCERS), 0)
        self.nodes: list[Node] = []  # the leader first

    @property
    def leader(self) -> Log:
        return self.nodes[0].log

    async def run(self) -> None:
        self.nodes = [await Node.make(SimDisk(self.random.randrange(1000)), self.config) for _ in range(2)]
        steps = [self.send] * 10 + [self.end] * 5 + [self.commit] * 4 + [self.replicate] * 3
        steps += [self.truncate, self.fail_over, self.restart, self.maintain, self.checkpoint, self.delete_records]
        for _ in range(STEPS):
            await self.random.choice(steps)()
            self.check()

    # --- what happens

    def _append(self, made: BatchView, kind: str, key: bytes = b"", value: bytes = b"", version: int = 0) -> None:
        producer_id, epoch = made.producer_id, made.producer_epoch
        guard = None
        if kind == "data":
            guard = self.leader.producers.guard_for(producer_id, epoch, made.base_sequence, is_tv2=producer_id % 2 == 0)
        origin = Origin.COORDINATOR if kind in ("commit", "abort") else Origin.CLIENT
        appended = self.leader.append(
            made, leader_epoch=self.epoch, now_ms=NOW_MS, guard=guard, origin=origin, transaction_version=version
        )
        assert not appended.is_duplicate
        self.written.append(Written(appended.first_offset, producer_id, epoch, kind, key, value))

    async def send(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            self.number += 1
            key, value = b"k%d" % self.random.randrange(6), b"v%d" % self.number
            producer_id = self.random.randrange(PRODUCERS + 1)
            if producer_id == PRODUCERS:
                self._append(batch([value], keys=[key]), "plain", key, value)
                continue
            known = self.leader.producers.producers.get(producer_id)
            epoch = max(self.producer_epochs[producer_id], known.epoch if known else 0)
            self.producer_epochs[producer_id] = epoch
            sequence = known.last_sequence + 1 if known is not None and known.epoch == epoch else 0
            made = batch([value], keys=[key], producer=(producer_id, epoch, sequence), transactional=True)
            self._append(made, "data", key, value)

    async def end(self) -> None:
        """Even producers are of version 2: the marker has the next epoch. Odd ones keep theirs."""
        producer_id = self.random.randrange(PRODUCERS)
        version = 2 if producer_id % 2 == 0 else 0
        known = self.leader.producers.producers.get(producer_id)
        epoch = max(self.producer_epochs[producer_id], known.epoch if known else 0)
        if version == 2:
            epoch = self.producer_epochs[producer_id] = epoch + 1
        kind = self.random.choice(["commit", "abort"])
        self._append(marker(producer_id, epoch, committed=kind == "commit"), kind, version=version)

    async def replicate(self) -> None:
        leader, follower = self.leader, self.nodes[1].log
        while follower.end_offset < leader.end_offset:
            if follower.end_offset < leader.start_offset:
                follower.restart_at(leader.start_offset)
                continue
            read = leader.read(follower.end_offset, bytes_max=300, offset_limit=leader.end_offset)
            if not read.buffers:
                break
            follower.append_fetched(memoryview(bytes(read.buffers[0])))

    async def commit(self) -> None:
        """The follower has everything up to some point, durably on both."""
        await self.replicate()
        for node in self.nodes:
            await durable(node.log)
        low = max(self.high_watermark, self.start)
        self.high_watermark = self.random.randint(low, max(low, self.nodes[1].log.end_offset))
        for node in self.nodes:
            node.log.high_watermark = min(self.high_watermark, node.log.end_offset)

    async def truncate(self) -> None:
        """A former leader truncates what no other replica has; here the leader itself does so, in a new epoch."""
        offsets = [each.offset for each in self.written if each.offset >= self.high_watermark]
        if not offsets:
            return
        cut = self.random.choice(offsets)
        for node in self.nodes:
            if cut < node.log.end_offset:
                node.log.truncate_to(cut)
        self.written = [each for each in self.written if each.offset < cut]
        self.epoch += 1

    async def fail_over(self) -> None:
        """The follower becomes leader, without the records that it had not fetched."""
        follower = self.nodes[1].log
        if follower.end_offset < max(self.high_watermark, self.start):
            return
        end = follower.end_offset
        self.nodes.reverse()
        self.written = [each for each in self.written if each.offset < end]
        if self.nodes[1].log.end_offset > end:
            self.nodes[1].log.truncate_to(end)
        self.epoch += 1

    async def restart(self) -> None:
        node = self.random.choice(self.nodes)
        await node.restart(self.random.choice(["closed", "killed", "power"]))
        log = node.log
        log.advance_start(min(self.start, log.end_offset))  # as its leader or DeleteRecords does
        log.high_watermark = min(self.high_watermark, log.end_offset)
        if log is self.leader:
            assert log.end_offset >= self.high_watermark
            self.written = [each for each in self.written if each.offset < log.end_offset]
            follower = self.nodes[1].log
            if follower.end_offset > log.end_offset:
                follower.truncate_to(log.end_offset)
            self.epoch += 1

    async def maintain(self) -> None:
        self.now_ms += self.random.choice([0, 500, 5000])
        await self.random.choice(self.nodes).logs.maintain(self.now_ms)

    async def checkpoint(self) -> None:
        await self.random.choice(self.nodes).logs.checkpoint()

    async def delete_records(self) -> None:
        if self.compacts or self.random.random() < 0.7:
            return
        self.start = self.random.randint(self.start, max(self.start, self.high_watermark))
        for node in self.nodes:
            node.log.advance_start(self.start)
        self.stable = max(self.stable, self.start)

    # --- what must hold

    def check(self) -> None:
        all_of_them = transactions_of(self.written)
        undecided = [each for each in all_of_them if each.marker < 0 or each.marker >= self.high_watermark]
        remaining = [offset for each in undecided for offset in each.offsets if offset >= self.start]
        stable = min([self.high_watermark, *remaining])  # deleted records do not hold it back
        for node in self.nodes:
            log = node.log
            if log.end_offset < self.high_watermark:
                continue  # it has just lost the tail of its files and will fetch it again
            found = log.last_stable_offset(self.high_watermark)
            assert found == stable, "every replica says the same, whatever it has been through"
            if log is self.leader:
                assert found >= self.stable, "it went back on the leader, or over a failover"
                self.stable = max(self.stable, found)
            self.check_reader(log, all_of_them, found)

    def check_reader(self, log: Log, all_of_them: list[Transaction], stable: int) -> None:
        first = self.random.randint(min(self.start, stable), stable)
        aborted = {offset for each in all_of_them if each.is_aborted for offset in each.offsets}
        expected = {
            each.offset: each
            for each in self.written
            if each.kind in ("plain", "data") and first <= each.offset < stable and each.offset not in aborted
        }
        seen = dict(_read_committed(log, max(first, log.start_offset), stable, self.random.choice([1, 200, 5000])))
        if not self.compacts:
            expected = {offset: each for offset, each in expected.items() if offset >= log.start_offset}
            assert seen == {offset: each.value for offset, each in expected.items()}
            return
        assert seen.items() <= {offset: each.value for offset, each in expected.items()}.items()
        latest = {each.key: each for each in expected.values()}
        lost = [each for each in latest.values() if each.offset not in seen]
        assert not lost, "the last committed record of a key stays"


def _read_committed(log: Log, offset: int, stable: int, bytes_max: int) -> list[tuple[int, bytes | None]]:
    """As Kafka's clients read: a batch is skipped from the first offset of an aborted transaction to its marker."""
    seen: list[tuple[int, bytes | None]] = []
    while offset < stable:
        read = log.read(offset, bytes_max=bytes_max, offset_limit=stable)
        if not read.buffers:
            break
        at_once(mending(log))
        aborted = log.aborted_transactions(offset, read.next_offset)
        assert aborted == sorted(aborted, key=lambda each: each.first_offset)
        skipped: set[int] = set()
        for each in split(memoryview(bytes(read.buffers[0]))):
            while aborted and aborted[0].first_offset <= each.last_offset:
                skipped.add(aborted.pop(0).producer_id)
            if each.is_control:
                skipped.discard(each.producer_id)
            elif not (each.is_transactional and each.producer_id in skipped):
                seen += [(r.offset, r.value) for r in records.iterate(each, 1 << 20) if r.offset >= offset]
        offset = read.next_offset
    return seen


def walk(seed: int) -> None:
    asyncio.run(Walk(seed).run())


@pytest.mark.parametrize(
    "first_seed", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(20, 400, 20))]
)
def test_transactions_agree_with_a_model_that_keeps_everything(
    first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers of committed records see each committed record once, in order, and nothing else; they never go back."""
    monkeypatch.setattr(aborted_index, "BLOCK_ENTRIES", 4)  # so that a walk fills some blocks
    monkeypatch.setattr("chronik.storage.aborted_transactions.BLOCK_ENTRIES", 4)
    for seed in range(first_seed, first_seed + 20):
        try:
            walk(seed)
        except AssertionError as error:
            raise AssertionError(f"walk({seed}): {error}") from error
