"""A leader's knowledge about one follower of one partition: its durable end offset, and since when it lags.

A follower requests more only after its records are on disk, so the offset in its request is its durable end offset. The
offset counts after the leader has verified that the follower's log is a prefix of its own (`counted_epoch`), and only
in that leader epoch. Pure state: sessions and the replica write it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.runtime.invariants import check

if TYPE_CHECKING:
    from chronik.replication.sessions import FollowerSession

Key = tuple[bytes, int]  # topic id, partition
NOT_COUNTED = -1


class FollowerProgress:
    __slots__ = (
        "awaits_follower",
        "bytes_max",
        "counted_epoch",
        "end_offset",
        "goal_ns",
        "goal_offset",
        "key",
        "last_epoch",
        "leader_epoch",
        "sent_offset",
        "session",
        "start_offset",
        "told_high_watermark",
        "told_start_offset",
    )

    def __init__(self, key: Key, session: FollowerSession) -> None:
        self.key = key
        self.session = session
        self.end_offset = 0
        self.start_offset = -1
        self.last_epoch = -1  # the leader epoch of the follower's last record
        self.leader_epoch = -1  # the leader epoch in the follower's request
        self.counted_epoch = NOT_COUNTED  # the epoch in which `end_offset` was verified against the leader's log
        self.bytes_max = 0  # per response
        self.awaits_follower = False  # a response was sent, and the follower has not reported its position since
        self.sent_offset = -1  # start of the records in that response
        self.told_high_watermark = self.told_start_offset = -1  # the last values that the follower is known to have
        self.goal_offset = -1  # a log end offset of the leader that the follower has to reach
        self.goal_ns = 0  # the time when it was set

    @property
    def broker_id(self) -> int:
        return self.session.broker_id

    @property
    def broker_epoch(self) -> int:
        return self.session.broker_epoch

    def named(
        self,
        *,
        start_offset: int,
        end_offset: int,
        last_epoch: int,
        leader_epoch: int,
        bytes_max: int,
        high_watermark: int,
    ) -> None:
        """Sets the position that the follower reported. It is not yet verified against the leader's log."""
        self.end_offset, self.last_epoch, self.leader_epoch = end_offset, last_epoch, leader_epoch
        self.start_offset = self.told_start_offset = start_offset
        self.bytes_max = bytes_max
        self.told_high_watermark = high_watermark
        self.counted_epoch = NOT_COUNTED
        self.awaits_follower = False
        self.sent_offset = -1

    def lags(self, log_end_offset: int, now_ns: int, lag_ns_max: int) -> bool:
        """Whether the follower was silent for too long, or has not reached the goal offset for too long.

        Called periodically. When the goal is reached, the current log end offset becomes the next goal.
        """
        if now_ns - self.session.heard_ns > lag_ns_max:
            return True
        check(
            now_ns >= self.goal_ns,
            "25 the monotonic clock never goes back",
            key=self.key,
            before=self.goal_ns,
            now=now_ns,
        )
        if self.end_offset >= self.goal_offset or self.end_offset >= log_end_offset:
            self.goal_offset, self.goal_ns = log_end_offset, now_ns
            return False
        return now_ns - self.goal_ns > lag_ns_max
