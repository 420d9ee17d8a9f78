"""One partition on this node: who leads it, what is committed, and the log underneath.

Invariants: the high watermark never goes back and never passes what the in-sync replicas hold durably; only a leader
appends; a request of another leader epoch is refused, never guessed at. `append` runs without an await, so offsets are
assigned in the order in which requests arrived.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from chronik.metadata.image import Partition
from chronik.replication.errors import FencedEpoch, NotEnoughReplicas, NotLeader, UnknownEpoch
from chronik.replication.topic_settings import TopicSettings
from chronik.storage.log import Appended, Log, LogRead
from chronik.wire.batches import BatchView, split

EPOCH_UNKNOWN = -1  # what a client says that does not track leader epochs


class Replica:
    def __init__(self, log: Log, node_id: int, state: Partition, settings: TopicSettings) -> None:
        self.log = log
        self.node_id = node_id
        self.is_gone = False  # set when the topic is deleted or the partition moved away
        self.state = state  # leader, epochs, replicas and isr as of the newest image
        self.settings = settings  # what the topic's configuration says; replaced when it changes
        self.high_watermark = log.durable_offset
        self._watchers: dict[Callable[[], None], None] = {}  # a dict keeps their order; a set would not
        log.high_watermark = self.high_watermark
        log.on_durable = self._commit
        self._begin_epoch()
        self.when_committed(log.end_offset)  # what recovery found behind the durable mark is committed now

    # --- who we are

    @property
    def name(self) -> str:
        return f"{self.log.topic}-{self.log.partition}"

    @property
    def is_leader(self) -> bool:
        return self.state.leader == self.node_id

    @property
    def leader_epoch(self) -> int:
        return self.state.leader_epoch

    def change(self, state: Partition) -> None:
        """Follows a new image."""
        self.state = state
        self._begin_epoch()
        self._commit()
        self._wake()

    def _begin_epoch(self) -> None:
        """A leader's epoch begins where it found the end of the log, also while nothing is written in it."""
        if self.is_leader:
            self.log.epochs.assign(self.state.leader_epoch, self.log.end_offset)

    def end(self) -> None:
        """The partition is gone: whoever waits for it looks again and finds out."""
        self.is_gone = True
        self._wake()

    def require_leader(self, epoch: int = EPOCH_UNKNOWN) -> None:
        """Refuses what only the leader of the asked epoch may answer."""
        if epoch != EPOCH_UNKNOWN and epoch != self.state.leader_epoch:
            current = self.state.leader_epoch
            raise (FencedEpoch if epoch < current else UnknownEpoch)(self.name, epoch, current)
        if self.state.leader != self.node_id or self.is_gone:
            raise NotLeader(self.name, self.state.leader)

    def require_in_sync(self) -> None:
        # A partition of fewer replicas than min.insync.replicas needs all of them, not the impossible.
        needed = min(self.settings.min_insync_replicas, len(self.state.replicas))
        if len(self.state.isr) < needed:
            raise NotEnoughReplicas(self.name, self.state.isr, needed)

    # --- writing

    def append(self, batches: list[BatchView], *, now_ms: int, from_client: bool = True) -> Appended:
        """Assigns offsets and writes to the page cache. What survives is told by `when_committed`."""
        appended = self.log.append(
            batches, leader_epoch=self.state.leader_epoch, now_ms=now_ms, from_client=from_client
        )
        if self.log.config.durability == "os":
            self._commit()
        return appended

    def when_committed(self, offset: int) -> asyncio.Future[None] | None:
        """Resolves when everything before `offset` survives; None when it already does.

        Asking starts the group commit: an append that nobody waits for is committed by asking and not waiting.
        """
        return None if offset <= self.high_watermark else self.log.when_durable(offset)

    # --- reading

    @property
    def last_stable_offset(self) -> int:
        return self.log.last_stable_offset(self.high_watermark)

    def read(self, offset: int, *, bytes_max: int, offset_limit: int, at_least_one: bool) -> LogRead:
        return self.log.read(offset, bytes_max=bytes_max, offset_limit=offset_limit, at_least_one=at_least_one)

    # --- waiting

    def watch(self, wake: Callable[[], None]) -> None:
        """Calls `wake` whenever more may be readable, until `unwatch`."""
        self._watchers[wake] = None

    def unwatch(self, wake: Callable[[], None]) -> None:
        self._watchers.pop(wake, None)

    def _commit(self) -> None:
        """Advances the high watermark to what every in-sync replica holds durably."""
        committed = self.log.durable_offset
        if committed > self.high_watermark:
            self.high_watermark = self.log.high_watermark = committed
            if self._watchers:
                self._wake()

    def _wake(self) -> None:
        for wake in list(self._watchers):
            wake()


class CoordinatorPartition:
    """A led replica of an internal topic, as a coordinator uses it (coordinator.shard.StatePartition)."""

    def __init__(self, replica: Replica, now_ms: Callable[[], int]) -> None:
        self._replica = replica
        self._now_ms = now_ms
        self.index = replica.log.partition
        self.leader_epoch = (
            replica.leader_epoch
        )  # as of its loading: a later one is another partition to the coordinator

    @property
    def start_offset(self) -> int:
        return self._replica.log.start_offset

    @property
    def end_offset(self) -> int:
        return self._replica.log.end_offset

    def append(self, batch: bytes) -> int:
        self._replica.require_leader(self.leader_epoch)
        self._replica.require_in_sync()
        batches = split(memoryview(batch))
        return self._replica.append(batches, now_ms=self._now_ms(), from_client=False).last_offset + 1

    def when_committed(self, offset: int) -> asyncio.Future[None] | None:
        return self._replica.when_committed(offset)

    def read(self, offset: int, bytes_max: int) -> list[memoryview]:
        log = self._replica.log
        return log.read(offset, bytes_max=bytes_max, offset_limit=log.end_offset, at_least_one=True).buffers
