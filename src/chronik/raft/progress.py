"""A leader's view of one peer's log, and how fast it may send. Owns all transitions; sends nothing itself.

Invariant: 0 <= match < next. Three states:
PROBE      the peer's log end is a guess: one append at a time until it answers.
REPLICATE  the peer is in step: appends are pipelined up to the in-flight limits.
SNAPSHOT   the peer needs compacted entries: nothing is sent until the snapshot is installed.
"""

from __future__ import annotations

from collections import deque
from enum import IntEnum

from chronik.runtime.invariants import broken, check


class ProgressState(IntEnum):
    PROBE = 0
    REPLICATE = 1
    SNAPSHOT = 2


class Inflights:
    """Unanswered appends, oldest first: last index and bytes of each."""

    __slots__ = ("_sent", "count_max", "size_bytes", "size_bytes_max")

    def __init__(self, count_max: int, size_bytes_max: int) -> None:
        self.count_max, self.size_bytes_max = count_max, size_bytes_max
        self._sent: deque[tuple[int, int]] = deque()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._sent)

    @property
    def full(self) -> bool:
        return len(self._sent) >= self.count_max or 0 < self.size_bytes_max <= self.size_bytes

    def add(self, index: int, size_bytes: int) -> None:
        check(
            not self.full, "23 nothing is sent beyond the in-flight limits", count=len(self._sent), size=self.size_bytes
        )
        self._sent.append((index, size_bytes))
        self.size_bytes += size_bytes

    def free_to(self, index: int) -> None:
        """An answer for `index` also answers everything sent before it."""
        while self._sent and self._sent[0][0] <= index:
            self.size_bytes -= self._sent.popleft()[1]
            check(
                self.size_bytes >= 0 and (self.size_bytes == 0 or len(self._sent) > 0),
                "26 bytes in flight are those of the appends in flight",
                size=self.size_bytes,
                count=len(self._sent),
            )

    def clear(self) -> None:
        self._sent.clear()
        self.size_bytes = 0


class Progress:
    def __init__(
        self, *, match: int, next_index: int, is_learner: bool, inflights: Inflights, recently_active: bool
    ) -> None:
        self.match, self.next = match, next_index
        self.is_learner, self.inflights = is_learner, inflights
        self.recently_active = recently_active  # responded since the last quorum check
        # From its last answer; None: no answer yet. A new member, or one that lost its disk, catches up first. It does
        # not remember its votes, so until then its answers prove nothing about other leaders.
        self.may_vote: bool | None = None
        self.pace = ProgressState.PROBE
        self.paused_flow = False  # cleared by any answer, so that a lost append cannot block the peer forever
        self.pending_snapshot = 0
        self.sent_commit = 0  # highest commit index sent, limited to the entries that the peer has

    @property
    def paused(self) -> bool:
        return self.pace is ProgressState.SNAPSHOT or self.paused_flow

    def become_probe(self) -> None:
        # After a snapshot the peer's log ends at the snapshot, even if its answer has not arrived yet.
        reached = max(self.match, self.pending_snapshot if self.pace is ProgressState.SNAPSHOT else 0)
        self._enter(ProgressState.PROBE)
        self._turn_back_to(reached + 1)
        self._in_order()

    def become_replicate(self) -> None:
        self._enter(ProgressState.REPLICATE)
        self.next = self.match + 1
        self._in_order()

    def become_snapshot(self, index: int) -> None:
        self._enter(ProgressState.SNAPSHOT)
        self.pending_snapshot = index
        self.next = index + 1
        self.sent_commit = index
        self._in_order()

    def acknowledge(self, index: int) -> bool:
        """The peer holds everything up to `index`. False: an old answer without new information."""
        if index <= self.match:
            return False
        self.match = index
        self.next = max(self.next, index + 1)
        self._in_order()
        self.paused_flow = False
        return True

    def reject(self, rejected: int, agrees_at: int) -> bool:
        """The peer refused an append after `rejected` and may agree at `agrees_at`. False: the refusal is outdated."""
        if self.pace is ProgressState.REPLICATE:
            if rejected <= self.match:
                return False
            self._turn_back_to(self.match + 1)
            return True
        if self.next - 1 != rejected:
            return False
        if rejected == self.match:
            # It lacks entries that it acknowledged, so it lost its disk. Not going back further would retry forever;
            # a `match` that is too low is always safe.
            self.match = 0
        self._turn_back_to(max(min(rejected, agrees_at + 1), self.match + 1))
        self._in_order()
        self.paused_flow = False
        return True

    def sent_entries(self, count: int, size_bytes: int) -> None:
        check(
            self.pace is not ProgressState.SNAPSHOT, "3 no append is sent while a snapshot is under way", next=self.next
        )
        if self.pace is ProgressState.PROBE:
            self.paused_flow = self.paused_flow or count > 0
            return
        if count:
            self.next += count
            self.inflights.add(self.next - 1, size_bytes)
        # A full window still lets one empty append through after each heartbeat answer; it finds lost ones.
        self.paused_flow = self.inflights.full

    def commit_helps(self, commit: int) -> bool:
        """Whether sending `commit` gives the peer new information."""
        return commit > self.sent_commit and self.sent_commit < self.next - 1

    def _in_order(self) -> None:
        if not 0 <= self.match < self.next:
            broken("3 a peer is sent what follows what it holds: 0 <= match < next", match=self.match, next=self.next)

    def _turn_back_to(self, next_index: int) -> None:
        self.next = next_index
        self.sent_commit = min(self.sent_commit, next_index - 1)

    def _enter(self, pace: ProgressState) -> None:
        self.pace = pace
        self.paused_flow = False
        self.pending_snapshot = 0
        self.inflights.clear()
