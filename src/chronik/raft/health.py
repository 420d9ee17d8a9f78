"""What a quorum node counts for operators: silent peers, lost messages, expired leases, lag of peers.

Never affects consensus, waits or raises; callers pass all times. Counters start at 0 with the process. A leader's view
of its peers' progress is dropped when it stops leading.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from chronik.raft.messages import FROM_LEADER, NOBODY, Message, Role

if TYPE_CHECKING:
    from chronik.raft.core import Core

logger = logging.getLogger("chronik.raft")

ROUNDS_KEPT_MAX = 1024  # appends that some peer lacks; beyond this every second one is dropped: coarser lag


class Health:
    def __init__(self) -> None:
        self.split_brains = 0  # messages of a second leader in one term; must be 0
        self.lease_expirations = 0  # how often a leader's lease ran out before a majority renewed it
        self.heartbeat_failures = 0  # heartbeats that a peer had not answered when the next one left
        self.undelivered = 0  # messages that did not reach their peer
        self.write_errors = 0  # log writes that the disk refused
        self._heard_ns: dict[int, int] = {}
        self._beat_ns: int | None = None  # when the previous heartbeats were sent
        self._had_lease = False
        self._rounds: deque[tuple[int, int]] = deque()  # as leader: (last index of an append round, its time)

    def received(self, message: Message, core: Core, now_ns: int) -> None:
        """Call this before the core handles the message."""
        self._heard_ns[message.sender] = now_ns
        if message.kind not in FROM_LEADER or message.term != core.term or message.sender == core.id:
            return
        if core.leader not in (NOBODY, message.sender):
            if not self.split_brains:
                logger.error(
                    "two leaders in term %d: %d, and now %d: stop one of them, and compare the nodes' state hashes",
                    core.term, core.leader, message.sender,
                )  # fmt: skip
            self.split_brains += 1

    def heard_ns(self, peer: int) -> int | None:
        """When the peer's last message arrived; None if none did."""
        return self._heard_ns.get(peer)

    def beat(self, peers: Iterable[int], now_ns: int) -> None:
        """A leader sends heartbeats now."""
        if self._beat_ns is not None:
            before_ns = self._beat_ns
            self.heartbeat_failures += sum(self._heard_ns.get(peer, -1) < before_ns for peer in peers)
        self._beat_ns = now_ns

    def lease_is(self, *, held: bool) -> None:
        """Call this at every tick of a leader."""
        self.lease_expirations += self._had_lease and not held
        self._had_lease = held

    def appended(self, last_index: int, now_ns: int) -> None:
        """A leader added entries to its log."""
        self._rounds.append((last_index, now_ns))
        if len(self._rounds) > ROUNDS_KEPT_MAX:
            self._rounds = deque(list(self._rounds)[::2])

    def lag_ns(self, match: int, now_ns: int) -> int:
        """As leader: the age of the oldest entry that a peer lacks; 0 when it lacks none."""
        return next((now_ns - at_ns for index, at_ns in self._rounds if index > match), 0)

    def matched(self, lowest: int) -> None:
        """Every peer holds the log up to here: drops the rounds up to it."""
        while self._rounds and self._rounds[0][0] <= lowest:
            self._rounds.popleft()

    def resigned(self, core: Core) -> None:
        """A node that stops leading drops the others' progress. The end of its lease is not an expiry."""
        if core.role is not Role.LEADER:
            self._rounds.clear()
            self._beat_ns, self._had_lease = None, False
