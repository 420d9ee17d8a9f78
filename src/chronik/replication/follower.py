"""One partition that this node follows: its position, and the effect of a leader's response.

A response counts only if its request named the partition in the current leader epoch; others are ignored. Truncation
uses leader epochs (KIP-101, KIP-279): it goes back to where the two logs diverge, and never below the high watermark.
Nothing is opened for a partition without records.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, cast

from chronik.replication.progress import Key
from chronik.runtime.invariants import broken, check
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.fetch import FetchPartition

if TYPE_CHECKING:
    from chronik.replication.replica import Replica
    from chronik.runtime.pieces import Work
    from chronik.storage.log import Log
    from chronik.wire.messages.fetch import EpochEndOffset, PartitionData

NOT_NAMED = 2**62  # later than every request


class Outcome(Enum):
    NOTHING = auto()  # the position is unchanged
    MOVED = auto()  # the position has changed
    REFUSED = auto()  # the leader does not serve this partition; retry later
    PREPARES = auto()  # the log must be truncated, and `preparing` must be run in slices first


class Follower:
    __slots__ = ("_open", "_opened", "error_code", "key", "leader_epoch", "named_in", "preparing")

    def __init__(
        self, key: Key, leader_epoch: int, *, opened: Callable[[Key], Replica | None], open_: Callable[[Key], Replica]
    ) -> None:
        self.key = key
        self.leader_epoch = leader_epoch  # another epoch gets another Follower
        self.named_in = NOT_NAMED  # number of the last request that reported the position
        self.error_code = 0  # of the last response
        self.preparing: Work[None] | None = None  # see Outcome.PREPARES
        self._opened = opened
        self._open = open_

    @property
    def log(self) -> Log | None:
        """None for a partition without records."""
        replica = self._opened(self.key)
        return replica.log if replica is not None else None

    def position(self, bytes_max: int) -> FetchPartition:
        """The position of this follower, as part of a request."""
        log = self.log
        return FetchPartition(
            partition=self.key[1],
            current_leader_epoch=self.leader_epoch,
            fetch_offset=log.end_offset if log is not None else 0,
            last_fetched_epoch=log.epochs.latest if log is not None else -1,
            log_start_offset=log.start_offset if log is not None else 0,
            partition_max_bytes=bytes_max,
            high_watermark=log.high_watermark if log is not None else 0,
        )

    def apply(self, answer: PartitionData, request_number: int) -> Outcome:
        """Raises WireError for data that a leader may not send, and StorageError if it cannot be written."""
        if request_number < self.named_in:
            return Outcome.NOTHING
        self.error_code = answer.error_code
        replica = self._replica_for(answer)
        if replica is None:
            return Outcome.NOTHING if not answer.error_code else Outcome.REFUSED
        if replica.is_leader or replica.leader_epoch != self.leader_epoch:
            return Outcome.NOTHING
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and answer.log_start_offset >= 0:
            # The leader's log starts after the end of ours, or the two have nothing in common: fetch everything again.
            replica.restart_at(answer.log_start_offset)
            return Outcome.MOVED
        if answer.error_code:
            return Outcome.REFUSED
        if answer.diverging_epoch.end_offset >= 0:
            if self.preparing is not None:
                return Outcome.NOTHING  # in progress: the leader is asked again when it is done
            offset = last_common_offset(replica.log, answer.diverging_epoch)
            self.preparing = replica.log.preparing_cut(offset)
            if self.preparing is not None:
                return Outcome.PREPARES
            replica.truncate_to(offset)
            return Outcome.MOVED
        if request_number < self.named_in:
            broken("9 an answer is of where the follower stands", partition=replica.name, request=request_number)
        before = (replica.log.start_offset, replica.log.end_offset)
        if answer.records:
            replica.append_fetched(cast(memoryview, answer.records))  # as the decoder returns it
        replica.learn(answer.high_watermark, answer.log_start_offset)
        # A response without a whole batch does not change the position, so the partition is requested again.
        now = (replica.log.start_offset, replica.log.end_offset)
        if now < before:
            broken("9 an answer with records takes a follower forward", partition=replica.name, before=before, now=now)
        return Outcome.MOVED if answer.records or now != before else Outcome.NOTHING

    def _replica_for(self, answer: PartitionData) -> Replica | None:
        """The replica. It is created if there is something to store; watermarks of an empty log are not."""
        replica = self._opened(self.key)
        starts_later = answer.log_start_offset > 0
        if replica is None and (answer.records or starts_later) and self.error_code in (0, OUT_OF_RANGE):
            replica = self._open(self.key)
        return replica


OUT_OF_RANGE = int(ErrorCode.OFFSET_OUT_OF_RANGE)


def cuts(answer: PartitionData) -> bool:
    """Whether this response truncates or restarts the log."""
    return answer.diverging_epoch.end_offset >= 0 or answer.error_code == OUT_OF_RANGE


def last_common_offset(log: Log, leader: EpochEndOffset) -> int:
    """The offset up to which both logs may agree: the end, in both, of the largest epoch that both have."""
    ours = log.epochs.end_of(leader.epoch, log.end_offset)
    common = max(log.start_offset, min(leader.end_offset, ours.end_offset))
    check(common <= log.end_offset, "9 a common offset is in both logs", log=log, offset=common)
    return common
