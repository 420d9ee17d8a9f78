"""What partition leaders and group coordinators ask of the share coordinator, wherever it runs.

A persister never raises for what a coordinator answers: it returns the error code. Transport, the search for the
coordinator, and attempts after errors that pass are its own business. It gives up after a time, with the last error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from chronik.wire.error_codes import ErrorCode
from chronik.wire.uuids import uuid_text

UNKNOWN_OFFSET: Final = -1  # a start offset that the partition's leader has not determined yet
UNKNOWN_COUNT: Final = -1
NO_LEADER_EPOCH: Final = -1  # of a caller that does not lead the partition: it is not compared


class SharePartitionKey(NamedTuple):
    group_id: str
    topic_id: bytes
    partition: int

    @property
    def text(self) -> str:
        """As FindCoordinator asks for it; the state topic's partition follows from its hash."""
        return f"{self.group_id}:{uuid_text(self.topic_id)}:{self.partition}"


class StateBatch(NamedTuple):
    """What became of the records from the first to the last offset, both included."""

    first_offset: int
    last_offset: int
    delivery_state: int  # 0 available, 2 acknowledged, 4 archived
    delivery_count: int


class ShareState(NamedTuple):
    state_epoch: int
    start_offset: int  # UNKNOWN_OFFSET: not known yet
    batches: list[StateBatch]


class ShareSummary(NamedTuple):
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int  # records from the start offset on that are done with; UNKNOWN_COUNT: not told


class Initialization(NamedTuple):
    topic_id: bytes
    partition: int
    state_epoch: int
    start_offset: int


Partition = tuple[bytes, int]  # topic id and partition


class Persister(Protocol):
    async def initialize(
        self, group_id: str, partitions: Sequence[Initialization | tuple[bytes, int, int, int]]
    ) -> dict[Partition, ErrorCode]:
        """Makes the coordinator keep state for these partitions, and forget what it kept before."""

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> ShareState | ErrorCode:
        """The state, for the leader of this epoch. Leaders of older epochs are refused from then on."""

    async def write(
        self,
        key: SharePartitionKey,
        leader_epoch: int,
        state_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> ErrorCode:
        """Stores what changed. NONE: it is committed."""

    async def summaries(
        self, group_id: str, partitions: Sequence[tuple[bytes, int, int]]
    ) -> dict[Partition, ShareSummary | ErrorCode]:
        """Topic id, partition and leader epoch (or NO_LEADER_EPOCH) of each."""

    async def delete(self, group_id: str, partitions: Sequence[Partition]) -> dict[Partition, ErrorCode]: ...
