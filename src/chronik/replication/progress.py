"""What a leader knows about one follower of one partition: its durable end offset, and since when it lags.

A follower asks for more only after what it has is on disk, so the offset it asks for is its durable end. The offset
counts once the leader has verified that the follower's log is a prefix of its own (`counted_epoch`), and only in that
leader epoch. Pure state: sessions and the replica write it.
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
        self.leader_epoch = -1  # the epoch in which the follower asks
        self.counted_epoch = NOT_COUNTED  # the epoch in which `end_offset` was found to be a prefix of ours
        self.bytes_max = 0  # in one answer
        self.awaits_follower = False  # it was sent something and has not said yet what became of it
        self.sent_offset = -1  # from where on records were sent that it has not told of yet
        self.told_high_watermark = self.told_start_offset = -1  # as far as we know that it heard them
        self.goal_offset = -1  # an end of our log that it has to reach
        self.goal_ns = 0  # since when

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
        """The follower says where it stands; whether that is true of our log is still to be found out."""
        self.end_offset, self.last_epoch, self.leader_epoch = end_offset, last_epoch, leader_epoch
        self.start_offset = self.told_start_offset = start_offset
        self.bytes_max = bytes_max
        self.told_high_watermark = high_watermark
        self.counted_epoch = NOT_COUNTED
        self.awaits_follower = False
        self.sent_offset = -1

    def lags(self, log_end_offset: int, now_ns: int, lag_ns_max: int) -> bool:
        """Whether it was silent, or behind an end of the log that it was first seen behind, for longer than allowed.

        Called now and then; each time an end was reached, the present one becomes the next to reach.
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
