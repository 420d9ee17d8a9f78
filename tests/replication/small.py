"""One replica by itself: a real log on a disk in memory, and a partition's state set by hand."""

from __future__ import annotations

from chronik.metadata.image import Partition
from chronik.replication.progress import FollowerProgress
from chronik.replication.replica import Replica
from chronik.replication.topic_settings import TopicSettings
from chronik.sim.disk import SimDisk
from chronik.storage.config import LogConfig, LogsConfig
from chronik.storage.logs import Logs
from chronik.wire.batches import build, split
from chronik.wire.records import Record
from tests.raft.virtual_time import machine

TOPIC_ID = b"t" * 16
KEY = (TOPIC_ID, 0)
NOW_MS = 1_700_000_000_000


class Session:
    """The part of a follower's session that a replica needs. Records its calls."""

    def __init__(self, broker_id: int, broker_epoch: int = 7) -> None:
        self.broker_id, self.broker_epoch = broker_id, broker_epoch
        self.heard_ns = 0
        self.more_count = self.committed_count = 0

    def has_more(self, progress: FollowerProgress) -> None:
        self.more_count += 1

    def has_committed_more(self, progress: FollowerProgress) -> None:
        self.committed_count += 1


class Keeper:
    def __init__(self) -> None:
        self.caught: list[int] = []
        self.without_space: list[Replica] = []

    def caught_up(self, replica: Replica, progress: FollowerProgress) -> None:
        self.caught.append(progress.broker_id)

    def found_no_space(self, replica: Replica) -> None:
        self.without_space.append(replica)


class NobodyFull:
    """In place of FullReplicas: there is always room."""

    changed: object = None
    keys: tuple[object, ...] = ()

    def forget(self, key: object) -> None: ...


class One:
    """Node 1's replica of a partition of nodes 1, 2 and 3."""

    replica: Replica

    def __init__(self, logs: Logs, disk: SimDisk) -> None:
        self.logs, self.disk = logs, disk
        self.keeper = Keeper()
        self.followers: dict[int, FollowerProgress] = {}

    @classmethod
    async def make(
        cls,
        *,
        leader: int = 1,
        epoch: int = 1,
        min_insync: int = 1,
        isr: tuple[int, ...] = (1, 2, 3),
        elr: tuple[int, ...] = (),
        is_from_before: bool = False,
        is_elr_kept: bool = False,
    ) -> One:
        disk = SimDisk(0)
        runtime = machine(disk, 0)
        one = cls(await Logs.open(runtime, "/data", LogsConfig()), disk)
        settings = TopicSettings(LogConfig(), min_insync, "producer", None)
        log = one.logs.create("t", TOPIC_ID, 0, settings.log)
        one.replica = Replica(
            log,
            1,
            Partition(leader, epoch, epoch, (1, 2, 3), isr, elr),
            settings,
            clock=runtime.clock,
            keeper=one.keeper,
            followers=one.followers,
            is_from_before=is_from_before,
            is_elr_kept=is_elr_kept,
        )
        return one

    def write(self, *values: bytes, timestamp_ms: int = NOW_MS) -> int:
        """Appends a batch; returns the end of the log."""
        made = [Record(at, timestamp_ms, None, value, ()) for at, value in enumerate(values)]
        return self.replica.append(split(memoryview(build(made)))[0], now_ms=NOW_MS).last_offset + 1

    async def write_durably(self, *values: bytes, timestamp_ms: int = NOW_MS) -> int:
        end_offset = self.write(*values, timestamp_ms=timestamp_ms)
        waiting = self.replica.log.when_durable(end_offset)
        if waiting is not None:
            await waiting
        return end_offset

    def reports(self, broker_id: int, end_offset: int) -> FollowerProgress:
        """A follower was found to hold a prefix of this log."""
        progress = self.followers.get(broker_id)
        if progress is None:
            progress = self.followers[broker_id] = FollowerProgress(KEY, Session(broker_id))  # type: ignore[arg-type]
        progress.end_offset = end_offset
        progress.session.heard_ns = self.replica._clock.monotonic_ns()
        self.replica.count(progress)
        return progress

    def change(self, **fields: object) -> None:
        """A new image."""
        state = self.replica.state
        self.replica.change(state._replace(partition_epoch=state.partition_epoch + 1, **fields))  # type: ignore[arg-type]


def fetched(values: list[bytes], *, offset: int, epoch: int) -> memoryview:
    """A batch as a leader sends it."""
    made = [Record(offset + at, NOW_MS, None, value, ()) for at, value in enumerate(values)]
    return memoryview(bytearray(build(made, base_offset=offset, leader_epoch=epoch)))
