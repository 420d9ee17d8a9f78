"""The markers that the coordinator requests to end a transaction in its partitions.

The coordinator first writes its decision, which is final, and then the markers. So every partition must get its marker.
`broker/transaction_markers.py` finds the leaders, retries until each marker is committed, and reports each partition.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from chronik.coordinator.transactions.transaction import TopicPartition


class MarkerOrder(NamedTuple):
    """One transaction's markers. The producer epoch is that of the decision; with epoch bump, this is a new epoch."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commits: bool
    transaction_version: int  # of the client; determines how partitions compare epochs
    coordinator_epoch: int


class Finished(Protocol):
    def __call__(self, partition: TopicPartition) -> None:
        """The partition's marker is committed, or the partition no longer exists."""


class MarkerWriter(Protocol):
    def write(self, state_partition: int, order: MarkerOrder, partition: TopicPartition, finished: Finished) -> None:
        """Queues the marker for one partition. It is written in a batch with others."""

    def forget(self, state_partition: int) -> None:
        """Drops the orders of a partition of `__transaction_state` that this node no longer leads."""
