"""The leader's lease: how long it may answer reads without a quorum round. Reads no clock: callers pass every time.

A follower that answers a heartbeat votes for no other node for at least (election_ticks - 1) of its ticks. The lease
starts when the heartbeat was SENT, which is earlier, and is shorter than that promise minus the clock drift. So it
expires before another leader can exist. A leadership transfer deliberately breaks the followers' promises: once one
begins, the term has no lease, whatever the outcome of the transfer.
"""

from __future__ import annotations

from chronik.runtime.invariants import broken, check

ASKED_MAX = 64  # pending rounds; a leader without a quorum steps down long before this


class Lease:
    def __init__(self, duration_ns: int) -> None:
        self.duration_ns = duration_ns
        self.until_ns = 0
        self._term = 0
        self._revoked_term = 0
        self._sent_ns: dict[bytes, tuple[int, int]] = {}  # context: (term, time sent)

    def asked(self, context: bytes, term: int, now_ns: int) -> None:
        """Records that a heartbeat round with this context is sent now."""
        if context in self._sent_ns:
            broken("6 a round of heartbeats has a context of its own", term=term)
        if term < self._term:
            broken("6 a lease is asked for in the newest term", term=term, before=self._term)
        self._sent_ns[context] = (term, now_ns)
        if len(self._sent_ns) > ASKED_MAX:
            del self._sent_ns[next(iter(self._sent_ns))]

    def confirmed(self, context: bytes) -> bool:
        """A majority answered the round. False: the context is unknown."""
        asked = self._sent_ns.pop(context, None)
        if asked is None:
            return False
        term, sent_ns = asked
        if term != self._revoked_term:
            later = sent_ns + self.duration_ns
            self.until_ns = max(self.until_ns, later) if term == self._term else later
            if term < self._term or later < self.duration_ns:
                broken(
                    "6 a lease is counted from when its round was sent", term=term, before=self._term, until_ns=later
                )
            self._term = term
        return True

    def revoke(self, term: int) -> None:
        check(term >= self._revoked_term, "6 a lease is revoked in the newest term", term=term, last=self._revoked_term)
        self._revoked_term = term
        self.until_ns = 0

    def holds(self, term: int, now_ns: int) -> bool:
        return term == self._term != self._revoked_term and now_ns < self.until_ns
