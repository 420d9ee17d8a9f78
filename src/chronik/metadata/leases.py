"""Read leases of followers: how long a node may answer metadata reads by itself, and why that is never stale.

A follower asks, the leader grants. While a grant is valid, the leader commits only entries that its holder has on disk,
so no node or client can know of anything that a holder lacks. A holder answers only when it has applied all its
entries. Each grant ends before the leader's own lease does, so no later leader can commit during a grant. The holder
counts from when it ASKED, which is before the leader granted, and the duration is shortened by the possible drift
between two clocks.

A holder that is known to be dead does not delay commits. An unreachable one delays them for the rest of its grant. One
that keeps asking although its disk is stalled delays them by two leases: it may lack an entry for one lease before it
counts as stalled, and its last grant lasts for another.

Reads no clock: every time is monotonic ns of the calling node.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from chronik.runtime.invariants import check

_ASK = struct.Struct(">Q")  # round
_GRANT = struct.Struct(">QQQQ")  # round, term, index that must be applied, duration in ns

# Questions that one process can ask before its numbers reach those of the next one: incarnations are milliseconds.
ASKS_BITS = 20
ASKED_MAX = 16  # unanswered rounds that are remembered


class Grant(NamedTuple):
    number: int  # of the requested round
    term: int
    commit_index: int  # the leader's commit index when it granted the lease
    duration_ns: int


def encode_ask(number: int) -> bytes:
    return _ASK.pack(number)


def decode_ask(body: bytes | memoryview) -> int:
    (number,) = _ASK.unpack_from(body)
    return int(number)


def encode_grant(grant: Grant) -> bytes:
    return _GRANT.pack(*grant)


def decode_grant(body: bytes | memoryview) -> Grant:
    return Grant(*_GRANT.unpack_from(body))


class Grants:
    """The grants of one leadership, kept by the leader."""

    def __init__(self, *, lease_ns: int, drift_permille: int) -> None:
        self._lease_ns, self._drift_permille = lease_ns, drift_permille
        self._until_ns: dict[int, int] = {}  # by holder
        self.is_closed = False  # set before a transfer of leadership: no new grants

    def grant_ns(self, node_id: int, now_ns: int, leader_until_ns: int) -> int:
        """How long the node may read from now on; 0: it may not."""
        duration_ns = min(self._lease_ns, leader_until_ns - now_ns)
        if duration_ns <= 0 or self.is_closed:
            return 0
        self._until_ns[node_id] = max(self._until_ns.get(node_id, 0), now_ns + duration_ns)
        check(
            now_ns + duration_ns <= leader_until_ns,
            "6 a grant ends before its leader's lease",
            node=node_id,
            until_ns=now_ns + duration_ns,
            leader_until_ns=leader_until_ns,
        )
        return duration_ns * (1000 - self._drift_permille) // 1000

    def holders(self, now_ns: int) -> frozenset[int]:
        self._until_ns = {node_id: until for node_id, until in self._until_ns.items() if until > now_ns}
        return frozenset(self._until_ns)

    def forget(self, node_id: int) -> None:
        """The node is dead, so it reads nothing."""
        self._until_ns.pop(node_id, None)


class FollowerLease:
    """The lease as its holder sees it."""

    def __init__(self, *, incarnation: int = 0) -> None:
        self.expirations = 0  # leases that expired before their renewal
        # Each process starts at its own number: a late grant must not answer a question of this process.
        self._count = incarnation << ASKS_BITS
        self._asked_ns: dict[int, int] = {}  # by round
        self._term = self._index = self._until_ns = 0

    def ask(self, now_ns: int) -> int:
        """The number of the round to ask for now."""
        self._count += 1
        check(
            self._count not in self._asked_ns and len(self._asked_ns) <= ASKED_MAX,
            "6 each round asks for a lease of its own",
            number=self._count,
        )
        self._asked_ns[self._count] = now_ns
        if len(self._asked_ns) > ASKED_MAX:
            del self._asked_ns[next(iter(self._asked_ns))]
        if self._until_ns and now_ns >= self._until_ns:
            self._until_ns = 0
            self.expirations += 1
        return self._count

    def granted(self, grant: Grant) -> None:
        asked_ns = self._asked_ns.pop(grant.number, None)
        if asked_ns is None or grant.term < self._term:
            return
        until_ns = asked_ns + grant.duration_ns
        if grant.term > self._term or until_ns > self._until_ns:
            self._term, self._index, self._until_ns = grant.term, grant.commit_index, until_ns

    def drop(self) -> None:
        """The leader has changed or is unknown."""
        self._until_ns = 0

    def holds(self, *, term: int, applied_index: int, last_index: int, now_ns: int) -> bool:
        """Whether the applied state may be read: it contains everything acknowledged anywhere."""
        return (
            now_ns < self._until_ns
            and term == self._term
            and applied_index >= self._index
            and applied_index >= last_index
        )
