"""The leader's lease: never two at once, never stale, and expired before another node may lead."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chronik.raft.config import RaftConfig
from chronik.raft.leases import Lease
from tests.raft.lease_story import StaleLease, lease_story, restart_story, transfer_story

SEEDS_MAX = 200


def test_a_lease_counts_from_the_time_of_sending() -> None:
    """The response may take long, but a follower's promise starts no earlier than the heartbeat was sent."""
    lease = Lease(100)
    lease.asked(b"a", term=3, now_ns=1000)
    assert lease.confirmed(b"a")
    assert lease.holds(3, 1099)
    assert not lease.holds(3, 1100)


def test_a_later_round_prolongs_it_and_an_earlier_one_does_not_shorten_it() -> None:
    lease = Lease(100)
    lease.asked(b"a", term=3, now_ns=1000)
    lease.asked(b"b", term=3, now_ns=1050)
    lease.confirmed(b"b")
    lease.confirmed(b"a")
    assert lease.until_ns == 1150


def test_a_lease_belongs_to_a_term() -> None:
    """A node that leads again later has to be confirmed again, however much of the old lease would be left."""
    lease = Lease(100)
    lease.asked(b"a", term=3, now_ns=1000)
    lease.confirmed(b"a")
    assert not lease.holds(4, 1050)
    lease.asked(b"b", term=4, now_ns=1010)
    lease.confirmed(b"b")
    assert lease.holds(4, 1050)
    assert not lease.holds(3, 1050)


def test_handing_over_ends_it_for_the_whole_term() -> None:
    """The request to campaign may arrive late, after the transfer was cancelled; then no promise holds any more."""
    lease = Lease(100)
    lease.asked(b"a", term=3, now_ns=1000)
    lease.confirmed(b"a")
    lease.asked(b"b", term=3, now_ns=1010)
    lease.revoke(3)
    assert not lease.holds(3, 1011)
    lease.confirmed(b"b")
    assert not lease.holds(3, 1011)
    assert lease.until_ns == 0
    lease.asked(b"c", term=4, now_ns=2000)
    lease.confirmed(b"c")
    assert lease.holds(4, 2001)


def test_an_unknown_context_confirms_nothing() -> None:
    assert not Lease(100).confirmed(b"never asked")


@pytest.mark.slow
def test_no_two_leases_at_once_and_none_that_misses_a_write() -> None:
    """Cuts, crashes, transfers, slow messages and clocks apart by the allowed drift."""
    held_ms = [lease_story(seed) for seed in range(12)]
    assert min(held_ms) > 500, "a lease that is never held would pass too"


@pytest.mark.parametrize("story", [restart_story, transfer_story])
def test_the_two_ways_to_break_a_promise_are_closed(story: Callable[[int], None]) -> None:
    """Forgetting it by a restart, and being told to by a transfer."""
    for seed in range(20):
        story(seed)


def caught(story: Callable[[int], object]) -> None:
    for seed in range(SEEDS_MAX):
        try:
            story(seed)
        except StaleLease:
            return
    pytest.fail(f"not caught within {SEEDS_MAX} seeds")


@pytest.mark.slow
def test_a_lease_longer_than_the_election_timeout_is_caught() -> None:
    """The configuration refuses it; this shows that the refusal is needed, and that the net would catch it."""
    config = RaftConfig(tick_ms=10, heartbeat_ticks=1, election_ticks=10, lease_ms=88)
    object.__setattr__(config, "lease_ms", 300)
    caught(lambda seed: lease_story(seed, config=config))


def test_forgetting_the_promise_at_a_restart_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that restarts within the lease must not vote at once: the leader relies on its earlier promise."""
    original = RaftConfig.core_config
    monkeypatch.setattr(
        RaftConfig,
        "core_config",
        lambda self, node_id, randomness, may_have_promised: original(
            self, node_id, randomness, may_have_promised=False
        ),
    )
    caught(restart_story)


def test_keeping_the_lease_while_handing_over_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lease, "revoke", lambda self, term: None)
    caught(transfer_story)


@pytest.mark.slow
def test_counting_the_lease_from_the_answer_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here by 30 ms, in life by a pause of the leader between sending and hearing."""
    asked = Lease.asked
    late_ns = 30_000_000
    monkeypatch.setattr(
        Lease, "asked", lambda self, context, term, now_ns: asked(self, context, term, now_ns + late_ns)
    )
    caught(lease_story)
