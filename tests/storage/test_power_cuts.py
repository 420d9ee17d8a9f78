"""Power cuts at any call to the disk: data that was reported as durable is found, byte for byte, and nothing else is
invented.

One cycle is a few lives of a node. In each life random work runs until the power goes in the middle of some call; then
the disk keeps, of what was not synced, a random part. The model is a list of batches for each log, and of each batch
whether somebody was told that it is durable.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random

import pytest

from chronik.sim.disk import PowerCut, SimDisk
from chronik.storage.config import LogConfig
from chronik.storage.log import Log
from chronik.storage.logs import Logs
from chronik.storage.producer_state import ProducerState
from tests.storage.driving import (
    NOW_MS,
    append,
    batch,
    batches_of,
    durable,
    open_logs,
    random_value,
    records_of,
    topic_id,
)

CYCLES = 1000
SMALL_SEGMENTS = LogConfig(segment_bytes=8_000, index_interval_bytes=500)


@dataclass
class Model:
    """The possible contents of one log: batches by offset, and the end of the acknowledged part."""

    written: dict[int, bytes] = field(default_factory=dict)
    past: list[dict[int, bytes]] = field(default_factory=list)  # contents before each truncation or loss
    durable_end: int = 0
    start: int = 0
    sequence: int = 0
    epoch: int = 0


class Life:
    """A node from one start to the next loss of power."""

    def __init__(self, random: Random, models: list[Model]) -> None:
        self.random = random
        self.models = models
        self.is_off = False
        self.uniform = random.random() < 0.5

    async def run(self, disk: SimDisk) -> None:
        asyncio.get_running_loop().set_exception_handler(_ignore_power_cuts)
        try:
            logs = await open_logs(disk, journal_bytes_max=4_000)
            self.check(logs)
            disk.cut_after(self.random.randint(1, 250))
            while True:
                await self.step(logs)
        except PowerCut:
            self.is_off = True

    async def step(self, logs: Logs) -> None:
        random = self.random
        index = random.randrange(len(self.models))
        model = self.models[index]
        log = logs.create(f"t{index}", topic_id(index), 0, SMALL_SEGMENTS)
        action = random.random()
        if action < 0.55:
            self.append(log, model)
        elif action < 0.80:
            self.wait(log, model)
        elif action < 0.92:
            for _ in range(random.randint(1, 4)):
                await asyncio.sleep(0)
        elif action < 0.95:
            self.truncate(log, model)
        elif action < 0.97:
            offset = random.randint(log.start_offset, max(log.start_offset, log.durable_offset))
            model.start = max(model.start, offset)
            log.advance_start(offset)
        elif action < 0.99:
            _forget(asyncio.ensure_future(logs.maintain(NOW_MS)))
        else:
            _forget(asyncio.ensure_future(logs.checkpoint()))

    def append(self, log: Log, model: Model) -> None:
        random = self.random
        large = 300_000 if random.random() < 0.01 else 700
        values = [random_value(random, large) for _ in range(random.randint(1, 3))]
        if self.uniform:  # batches of before and after a truncation then start at the same bytes
            values = [random.randbytes(200)]
        sent = batch(values, producer=(5, 0, model.sequence)) if random.random() < 0.5 else batch(values)
        offset = log.end_offset
        # Noted before the call: the power may go after the bytes were written.
        model.written[offset] = sent.data[61:].tobytes()
        append(log, sent, epoch=model.epoch)  # also batches larger than a segment
        if sent.producer_id >= 0:
            model.sequence += len(values)

    def wait(self, log: Log, model: Model) -> None:
        end = log.end_offset
        generation = log.generation
        future = log.when_durable(end)

        def promised(done: asyncio.Future[None]) -> None:
            if not self.is_off and done.exception() is None and log.generation == generation:
                model.durable_end = max(model.durable_end, end)

        if future is None:
            model.durable_end = max(model.durable_end, end)
        else:
            future.add_done_callback(promised)

    def truncate(self, log: Log, model: Model) -> None:
        """As a follower does: records after the truncation point were never acknowledged, whatever is on the disk."""
        offset = self.random.randint(log.start_offset, log.end_offset)
        boundary = max([at for at in model.written if at <= offset], default=0)
        if boundary < model.start:
            return
        model.durable_end = min(model.durable_end, boundary)
        log.truncate_to(boundary)
        model.past.append(model.written)
        model.written = {at: data for at, data in model.written.items() if at < boundary}
        model.sequence = next_sequence(log)
        model.epoch += 1

    def check(self, logs: Logs) -> None:
        for index, model in enumerate(self.models):
            log = logs.get(topic_id(index), 0)
            if log is None:
                assert model.durable_end == 0, f"log {index} is gone, {model.durable_end} records were durable"
                model.past.append(model.written)
                model.written = {}
                model.start = model.sequence = 0
                continue
            log.config = SMALL_SEGMENTS
            assert log.damage is None, log.damage
            assert log.durable_offset <= log.end_offset
            assert log.end_offset >= model.durable_end, "acknowledged records are lost"
            assert log.start_offset <= model.start, "a log starts later than anybody asked for"
            found = batches_of(log)
            batches = [(each.base_offset, each.data[61:].tobytes()) for each in found]
            for at, data in batches:
                assert at >= model.durable_end or model.written.get(at) == data, "acknowledged bytes differ"
            # Truncation may come undone as long as nothing is acknowledged on top of it, but never half of it.
            states = [_from(state, batches[0][0]) for state in (model.written, *model.past)] if batches else []
            assert not batches or batches in [state[: len(batches)] for state in states], "a state that never was"
            offsets = [each.base_offset for each in found]
            promised = [at for at in sorted(model.written) if log.start_offset <= at < model.durable_end]
            assert [at for at in offsets if at < model.durable_end and at >= log.start_offset] == promised
            self.check_producers(log)
            model.past.append(model.written)
            model.written = dict(batches)
            model.start = log.start_offset
            model.sequence = next_sequence(log)

    def check_producers(self, log: Log) -> None:
        if log.start_offset > 0:
            return  # only the log's snapshot knows what was written below the start
        again = ProducerState()
        for each in batches_of(log):
            if each.producer_id >= 0:
                last = each.base_sequence + each.last_offset_delta
                again.append(
                    5, 0, each.base_sequence, last, each.base_offset, each.last_offset, NOW_MS, transactional=False
                )
        found = {producer_id: producer.batches for producer_id, producer in log.producers.producers.items()}
        # After a truncation fewer of the last batches may be known: see ProducerState.take_back_from.
        assert all(found.values())
        assert found == {
            producer_id: producer.batches[-len(found.get(producer_id, [])) :]
            for producer_id, producer in again.producers.items()
        }


def _from(state: dict[int, bytes], offset: int) -> list[tuple[int, bytes]]:
    return sorted((at, data) for at, data in state.items() if at >= offset)


def next_sequence(log: Log) -> int:
    producer = log.producers.producers.get(5)
    return producer.last_sequence + 1 if producer is not None else 0


def _forget(task: asyncio.Future[None]) -> None:
    """Maintenance that a power cut interrupts has no caller to report to."""
    task.add_done_callback(lambda done: done.cancelled() or done.exception())


def _ignore_power_cuts(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    if not isinstance(context.get("exception"), PowerCut):
        loop.default_exception_handler(context)


def cycle(seed: int) -> None:
    random = Random(seed)
    disk = SimDisk(seed)
    models = [Model() for _ in range(random.randint(1, 4))]
    for _ in range(random.randint(2, 4)):
        asyncio.run(Life(random, models).run(disk))
        disk = disk.process_killed() if random.random() < 0.25 else disk.power_cut()
    life = Life(random, models)

    async def last_look() -> None:
        life.check(await open_logs(disk))

    asyncio.run(last_look())


@pytest.mark.parametrize(
    "first_seed", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(100, CYCLES, 100))]
)
def test_what_was_durable_survives_power_cuts_at_any_call(first_seed: int) -> None:
    """The promise of acks=all. A failing seed is printed; `cycle(seed)` replays it exactly."""
    for seed in range(first_seed, first_seed + 100):
        try:
            cycle(seed)
        except AssertionError as error:
            raise AssertionError(f"cycle({seed}): {error}") from error


def _values(log: Log) -> list[bytes | None]:
    return [record.value for record in records_of(log)]


def test_a_truncation_never_comes_undone_by_half() -> None:
    """Old batches in one segment before new ones in the next: epochs would not tell that the log has diverged."""

    async def scenario(seed: int) -> None:
        disk = SimDisk(seed)
        logs = await open_logs(disk)
        log = logs.create("t", topic_id(1), 0, LogConfig(segment_bytes=3000))
        for index in range(20):
            append(log, batch([b"old%02d" % index * 40]))
        await logs.checkpoint()
        old = _values(log)
        log.truncate_to(7)
        for index in range(7, 20):
            append(log, batch([b"new%02d" % index * 40]), epoch=1)
        assert len(log.segments) > 1
        new = _values(log)
        again = (await open_logs(disk.power_cut())).get(topic_id(1), 0)
        assert again is not None
        found = _values(again)
        assert found in (old[: len(found)], new[: len(found)])

    for seed in range(300):
        asyncio.run(scenario(seed))


def test_what_recovery_has_cut_stays_cut() -> None:
    """A stale batch from before the truncation, after a batch that is acknowledged later, would be an invented
    record."""

    async def scenario(seed: int) -> None:
        disk = SimDisk(seed)
        logs = await open_logs(disk)
        log, other = (logs.create("t", topic_id(1), partition, LogConfig()) for partition in range(2))
        append(log, batch([b"kept" * 100]))
        await logs.checkpoint()
        size = log.segments[0].size_bytes
        append(log, batch([b"torn" * 100]))
        append(log, batch([b"gone" * 100]))
        disk.open(log.segments[0].path).sync()  # by the kernel, when it pleases
        disk = disk.process_killed()
        disk.flip_bit(f"{log.directory}/{0:020}.log", size + 100)
        logs = await open_logs(disk)
        log, other = (logs.create("t", topic_id(1), partition, LogConfig()) for partition in range(2))
        assert _values(log) == [b"kept" * 100]
        append(other, batch([b"x"]))
        append(log, batch([b"anew" * 100]))
        await asyncio.gather(durable(log), durable(other))
        again = (await open_logs(disk.power_cut())).get(topic_id(1), 0)
        assert again is not None
        assert _values(again) == [b"kept" * 100, b"anew" * 100]

    for seed in range(60):
        asyncio.run(scenario(seed))
