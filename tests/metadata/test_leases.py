"""Read leases, without a clock: what a grant guarantees, and when a holder may answer."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.metadata.leased_reads import LEASE_ASK, LeasedReads
from chronik.metadata.leases import (
    ASKED_MAX,
    FollowerLease,
    Grant,
    Grants,
    decode_ask,
    decode_grant,
    encode_ask,
    encode_grant,
)
from chronik.raft.config import RaftConfig
from chronik.raft.messages import Membership

LEASE_NS, DRIFT = 350_000_000, 10


def leader() -> Grants:
    return Grants(lease_ns=LEASE_NS, drift_permille=DRIFT)


def test_a_grant_ends_with_the_leaders_own_lease() -> None:
    """After that another leader may exist, which does not know this grant."""
    assert leader().grant_ns(2, now_ns=1000, leader_until_ns=1000 + 100_000) == 99_000
    assert leader().grant_ns(2, now_ns=1000, leader_until_ns=1000) == 0
    assert leader().grant_ns(2, now_ns=1000, leader_until_ns=10 * LEASE_NS) == LEASE_NS * 990 // 1000


def test_a_holder_counts_until_its_grant_is_over_or_it_is_dead() -> None:
    """For so long nothing may be committed that it lacks."""
    grants = leader()
    grants.grant_ns(2, 0, LEASE_NS)
    grants.grant_ns(3, 100, LEASE_NS)
    assert grants.holders(LEASE_NS - 1) == {2, 3}
    assert grants.holders(LEASE_NS) == frozenset()
    grants.grant_ns(2, LEASE_NS, 2 * LEASE_NS)
    grants.forget(2)
    assert grants.holders(LEASE_NS) == frozenset()


def test_a_later_and_shorter_grant_does_not_shorten_an_earlier_one() -> None:
    """The holder may have heard of the first only."""
    grants = leader()
    grants.grant_ns(2, 0, 1000)
    grants.grant_ns(2, 10, 500)
    assert grants.holders(999) == {2}


def test_nothing_is_granted_to_a_node_that_was_removed() -> None:
    """It gets no more entries, and entries that a holder lacks are not committed, so nothing could be written any
    more."""

    class Raft:
        node_id, term, commit_index, lease_until_ns = 1, 2, 7, LEASE_NS
        leader_id = node_id
        members = Membership((1, 2), (3,))
        required: frozenset[int] = frozenset()
        handing_over = SimpleNamespace(is_due=False)

        def lag_ms(self) -> dict[int, int]:
            return {}

        def holds_lease(self, now_ns: int) -> bool:
            return True

        def require(self, holders: frozenset[int]) -> None:
            self.required = holders

    class Notes:
        told: ClassVar[list[int]] = []

        def send_note(self, peer: int, note: bytes) -> bool:
            self.told.append(peer)
            return True

    async def ask() -> frozenset[int]:
        raft, clock = Raft(), SimpleNamespace(monotonic_ns=lambda: 0)
        leased = LeasedReads(raft, Notes(), clock, RaftConfig(), incarnation=1)  # type: ignore[arg-type]
        leased.leadership_changed(is_self=True)
        for peer in (2, 3, 4):
            leased.receive(peer, LEASE_ASK + encode_ask(1))
        leased.close()
        return raft.required

    assert asyncio.run(ask()) == {2, 3}
    assert Notes.told == [2, 3]


def test_nothing_is_granted_before_a_hand_over() -> None:
    """Otherwise a successor could be elected while a node still reads by this leader's grant."""
    grants = leader()
    grants.is_closed = True
    assert grants.grant_ns(2, 0, LEASE_NS) == 0
    assert grants.holders(0) == frozenset()


@pytest.mark.parametrize(
    ("term", "applied", "last", "now_ns", "holds"),
    [
        (5, 10, 10, 1099, True),
        (5, 10, 10, 1100, False),  # counted from when it asked, at 100
        (6, 10, 10, 200, False),  # another leader's term
        (5, 9, 9, 200, False),  # it lacks entries committed before the grant
        (5, 10, 11, 200, False),  # the last entry may be committed, and acknowledged, already
        (5, 12, 12, 200, True),
    ],
)
def test_a_holder_answers_only_what_cannot_be_stale(
    term: int, applied: int, last: int, now_ns: int, *, holds: bool
) -> None:
    """Term, time, the commit index at the grant and its own applied index: if any of them is insufficient, it must
    ask."""
    lease = FollowerLease()
    lease.granted(Grant(lease.ask(100), 5, 10, 1000))
    assert lease.holds(term=term, applied_index=applied, last_index=last, now_ns=now_ns) is holds


def test_a_grant_that_was_not_asked_for_or_is_too_old_changes_nothing() -> None:
    """Notes may be late, doubled, or of a leader that is gone."""
    lease = FollowerLease()
    lease.granted(Grant(7, 5, 0, 1000))
    assert not lease.holds(term=5, applied_index=0, last_index=0, now_ns=1)
    first = lease.ask(0)
    for _ in range(ASKED_MAX):
        lease.ask(1)
    lease.granted(Grant(first, 5, 0, 1000))
    assert not lease.holds(term=5, applied_index=0, last_index=0, now_ns=1), "that round is forgotten"
    lease.granted(Grant(lease.ask(10), 6, 0, 1000))
    lease.granted(Grant(lease.ask(20), 5, 0, 9000))
    assert not lease.holds(term=5, applied_index=0, last_index=0, now_ns=30)
    assert lease.holds(term=6, applied_index=0, last_index=0, now_ns=30)


def test_a_lease_that_runs_out_is_counted_once() -> None:
    """Operators see whether followers answer by themselves."""
    lease = FollowerLease()
    lease.granted(Grant(lease.ask(0), 5, 0, 1000))
    lease.ask(500)
    assert lease.expirations == 0
    lease.ask(2000)
    lease.ask(3000)
    assert lease.expirations == 1


@given(
    asked_ns=st.integers(0, 10**12),
    travel_ns=st.integers(0, 10**9),
    left_ns=st.integers(1, 10**9),
    drift_permille=st.integers(-DRIFT // 2, DRIFT // 2),
)
def test_a_holder_stops_before_the_leader_stops_waiting_for_it(
    asked_ns: int, travel_ns: int, left_ns: int, drift_permille: int
) -> None:
    """However long messages take, and however the holder's clock runs within the bound, no read is stale."""
    grants, lease = leader(), FollowerLease()
    number = lease.ask(asked_ns)
    granted_at_ns = asked_ns + travel_ns  # in the leader's time, which begins with the holder's
    duration_ns = grants.grant_ns(2, granted_at_ns, granted_at_ns + left_ns)
    lease.granted(Grant(number, 1, 0, duration_ns))
    until_ns = granted_at_ns + min(left_ns, LEASE_NS)
    elapsed_ns = until_ns - asked_ns
    holders_clock_ns = asked_ns + elapsed_ns * (1000 + drift_permille) // 1000
    assert grants.holders(until_ns - 1) == {2}
    assert not lease.holds(term=1, applied_index=0, last_index=0, now_ns=holders_clock_ns)


def test_notes_of_leases_are_these_bytes() -> None:
    """Nodes of two releases must understand each other."""
    assert encode_ask(258).hex() == "0000000000000102"
    assert decode_ask(bytes.fromhex("0000000000000102")) == 258
    data = bytes.fromhex("0000000000000001000000000000000200000000000000030000000000000004")
    assert encode_grant(Grant(1, 2, 3, 4)) == data
    assert decode_grant(data) == Grant(1, 2, 3, 4)
