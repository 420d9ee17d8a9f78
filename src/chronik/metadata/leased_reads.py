"""Decides whether this node may answer metadata reads by itself: a leader by its own lease, a follower by a grant.

The rules are in `leases`; this module connects them to the Raft node, its notes and the clock. A node that uses its
lease renews it three times per lease duration, so that a lost note has no effect.
"""

from __future__ import annotations

import asyncio
import logging
import struct

from chronik.metadata.leases import (
    FollowerLease,
    Grant,
    Grants,
    decode_ask,
    decode_grant,
    encode_ask,
    encode_grant,
)
from chronik.raft.config import RaftConfig
from chronik.raft.driver import RaftNode
from chronik.raft.interfaces import Notes
from chronik.runtime.buggify import FOLLOWER_LEASE_UNUSED, LEASE_REFUSED
from chronik.runtime.interfaces import Clock
from chronik.runtime.invariants import check
from chronik.runtime.units import NS_PER_MS

logger = logging.getLogger("chronik.metadata")

LEASE_ASK, LEASE_GRANT = b"L", b"G"  # first byte of a note
ASKS_PER_LEASE = 3


class LeasedReads:
    """Created once the Raft node is open; `close` ends its timer."""

    def __init__(self, raft: RaftNode, notes: Notes, clock: Clock, config: RaftConfig, *, incarnation: int) -> None:
        self._raft, self._notes, self._clock, self._config = raft, notes, clock, config
        self._loop = asyncio.get_running_loop()
        self.lease = FollowerLease(incarnation=incarnation)
        self.grants: Grants | None = None  # while this node leads
        self._timer: asyncio.TimerHandle | None = None
        self._turn()

    def may_read(self) -> bool:
        """Whether the applied state contains everything acknowledged anywhere before this call."""
        raft, now_ns = self._raft, self._clock.monotonic_ns()
        if self.grants is not None:
            # A majority of followers may commit before a leader with a slow disk has applied.
            return raft.holds_lease(now_ns) and raft.applied_index >= raft.commit_index
        if FOLLOWER_LEASE_UNUSED.is_on and FOLLOWER_LEASE_UNUSED.fires():
            return False
        return self.lease.holds(
            term=raft.term, applied_index=raft.applied_index, last_index=raft.last_index, now_ns=now_ns
        )

    def leadership_changed(self, *, is_self: bool) -> None:
        self.lease.drop()
        lease_ns = self._config.lease_ms * NS_PER_MS
        self.grants = Grants(lease_ns=lease_ns, drift_permille=self._config.drift_permille) if is_self else None
        if not is_self:
            self._ask()

    async def drain(self) -> None:
        """Before a leadership transfer: stops granting, and returns when all leases have expired."""
        while self.grants is not None:
            self.grants.is_closed = True
            if not self.grants.holders(self._clock.monotonic_ns()):
                return
            await asyncio.sleep(self._config.lease_ms / 10_000)

    def receive(self, peer: int, note: bytes) -> None:
        try:
            if note[:1] == LEASE_ASK:
                self._answer(peer, decode_ask(note[1:]))
            elif peer == self._raft.leader_id:
                self.lease.granted(decode_grant(note[1:]))
        except struct.error:
            logger.warning("node %d sent a note of %d bytes that is not a lease", peer, len(note))

    def close(self) -> None:
        self.lease.drop()
        if self._timer is not None:
            self._timer.cancel()

    def _turn(self) -> None:
        self._timer = self._loop.call_later(self._config.lease_ms / 1000 / ASKS_PER_LEASE, self._turn)
        if self.grants is None:
            self._ask()
            return
        holders = self.grants.holders(self._clock.monotonic_ns())
        for holder in holders:
            if self._notes.has_died(holder):
                self.grants.forget(holder)
        self._raft.require(self.grants.holders(self._clock.monotonic_ns()))

    def _ask(self) -> None:
        leader = self._raft.leader_id
        if leader is not None and leader != self._raft.node_id:
            self._notes.send_note(leader, LEASE_ASK + encode_ask(self.lease.ask(self._clock.monotonic_ns())))

    def _answer(self, peer: int, number: int) -> None:
        """Grants a lease, unless commits could then wait too long or a holder could become stale.

        A single voter grants none: it could be back from a crash before a grant expires. A removed node gets none: it
        receives no entries, and commits would wait for it. A node that has lacked an entry for a whole lease gets none:
        its disk is probably full or stalled.
        """
        raft, now_ns = self._raft, self._clock.monotonic_ns()
        if (
            self.grants is None
            or len(raft.members.voters) == 1
            or raft.handing_over.is_due
            or not raft.holds_lease(now_ns)
        ):
            return
        if peer not in raft.members.voters and peer not in raft.members.learners:
            return
        if raft.lag_ms().get(peer, 0) >= self._config.lease_ms or (LEASE_REFUSED.is_on and LEASE_REFUSED.fires()):
            return
        duration_ns = self.grants.grant_ns(peer, now_ns, raft.lease_until_ns)
        if duration_ns:
            holders = self.grants.holders(now_ns)
            check(peer in holders, "6 who is granted a lease is waited for", peer=peer, holders=sorted(holders))
            raft.require(holders)  # before the holder receives the grant
            grant = Grant(number, raft.term, raft.commit_index, duration_ns)
            self._notes.send_note(peer, LEASE_GRANT + encode_grant(grant))
