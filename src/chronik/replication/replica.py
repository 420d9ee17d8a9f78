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
from chronik.storage.log import Appended, Log, LogRead
from chronik.wire.batches import BatchView

EPOCH_UNKNOWN = -1  # what a client says that does not track leader epochs


class Replica:
    def __init__(self, log: Log, node_id: int, partition: Partition) -> None:
        self.log = log
        self.node_id = node_id
        self.is_gone = False  # set when the topic is deleted or the partition moved away
        self.state = partition  # leader, epochs, replicas and isr as of the newest image
        self._watchers: dict[Callable[[], None], None] = {}  # a dict keeps their order; a set would not
        self._high_watermark = log.durable_offset
        log.on_durable = self._committed_may_advance

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

    def change(self, partition: Partition) -> None:
        """Follows a new image."""
        self.state = partition
        self._committed_may_advance()
        self._wake()

    def end(self) -> None:
        """The partition is gone: whoever waits for it looks again and finds out."""
        self.is_gone = True
        self._wake()

    def require_leader(self, epoch: int = EPOCH_UNKNOWN) -> None:
        """Refuses what only the leader of the asked epoch may answer."""
        if epoch != EPOCH_UNKNOWN and epoch != self.state.leader_epoch:
            current = self.state.leader_epoch
            raise (FencedEpoch if epoch < current else UnknownEpoch)(self.name, epoch, current)
        if self.state.leader != self.node_id:
            raise NotLeader(self.name, self.state.leader)

    # --- writing

    def append(self, batches: list[BatchView], buffer: memoryview, *, now_ms: int) -> Appended:
        """Assigns offsets and appends to the page cache. What is durable is told by `when_committed`."""
        appended = self.log.append(batches, buffer, leader_epoch=self.state.leader_epoch, now_ms=now_ms)
        if self.log.config.durability == "os":
            self._committed_may_advance()
        return appended

    def require_in_sync(self, replicas_min: int) -> None:
        if len(self.state.isr) < replicas_min:
            raise NotEnoughReplicas(self.name, self.state.isr, replicas_min)

    def when_committed(self, offset: int) -> asyncio.Future[None] | None:
        """Resolves when everything before `offset` survives; None when it already does."""
        if offset <= self.high_watermark:
            return None
        return self.log.when_durable(offset)

    # --- reading

    @property
    def high_watermark(self) -> int:
        return self._high_watermark

    @property
    def last_stable_offset(self) -> int:
        return min(self._high_watermark, self.log.last_stable_offset)

    def read(self, offset: int, *, bytes_max: int, offset_limit: int, at_least_one: bool) -> LogRead:
        return self.log.read(offset, bytes_max=bytes_max, offset_limit=offset_limit, at_least_one=at_least_one)

    # --- waiting

    def watch(self, wake: Callable[[], None]) -> None:
        """Calls `wake` whenever more may be readable, until `unwatch`."""
        self._watchers[wake] = None

    def unwatch(self, wake: Callable[[], None]) -> None:
        self._watchers.pop(wake, None)

    def _committed_may_advance(self) -> None:
        committed = self.log.end_offset if self.log.config.durability == "os" else self.log.durable_offset
        if committed > self._high_watermark:
            self._high_watermark = committed
            self._wake()

    def _wake(self) -> None:
        for wake in list(self._watchers):
            wake()
