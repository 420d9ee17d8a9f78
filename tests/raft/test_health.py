"""A metric of the quorum changes if, and only if, the event that it names happens."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chronik.raft.health import ROUNDS_KEPT_MAX, Health
from chronik.raft.messages import NOBODY, Message, MessageKind, Role
from tests.raft.quorum_in_memory import Quorum
from tests.raft.test_driver import in_virtual_time


async def three() -> Quorum:
    quorum = Quorum(1, 2, 3)
    await quorum.start(1, 2, 3)
    await quorum.leader()
    return quorum


def numbers(health: Health) -> tuple[int, int, int, int, int]:
    return (
        health.split_brains,
        health.lease_expirations,
        health.heartbeat_failures,
        health.undelivered,
        health.write_errors,
    )


@in_virtual_time
async def test_a_healthy_quorum_counts_nothing() -> None:
    """An alert on any of these is worth waking up for."""
    quorum = await three()
    await asyncio.sleep(2)
    leader = await quorum.leader()
    await leader.propose(b"x")
    await asyncio.sleep(1)
    # A candidate asks before all of them listen: only that may have been lost.
    assert [numbers(node.health)[:3] for node in quorum.nodes.values()] == [(0, 0, 0)] * 3
    assert leader.lag_ms() == {1: 0, 2: 0, 3: 0}


@in_virtual_time
async def test_a_silent_follower_is_counted_and_named_by_its_lag() -> None:
    quorum = await three()
    leader = await quorum.leader()
    silent = next(node_id for node_id in quorum.nodes if node_id != leader.node_id)
    before = leader.health.undelivered
    quorum.network.isolate(silent)
    await leader.propose(b"it cannot have this")
    await asyncio.sleep(1)
    assert leader.health.undelivered > before
    assert leader.health.heartbeat_failures > 10
    lags = leader.lag_ms()
    assert 900 < lags.pop(silent) < 1100
    assert set(lags.values()) == {0}
    assert leader.health.lease_expirations == 0, "the other two are a majority"
    quorum.network.heal()
    await quorum.until(lambda: leader.lag_ms()[silent] == 0)


@in_virtual_time
async def test_a_leader_without_a_majority_loses_its_lease_once() -> None:
    quorum = await three()
    leader = await quorum.leader()
    await quorum.until(lambda: leader.holds_lease(leader._runtime.clock.monotonic_ns()))
    quorum.network.isolate(leader.node_id)
    await quorum.until(lambda: leader.role is not Role.LEADER)
    assert leader.health.lease_expirations == 1
    assert leader.lag_ms() == {}
    assert sum(node.health.split_brains for node in quorum.nodes.values()) == 0


@in_virtual_time
async def test_a_refused_write_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    """A full disk is waited for and tried again; each try that fails is an error of the log."""
    quorum = Quorum(1)
    await quorum.start(1)
    node = quorum.nodes[1]
    quorum.disks[1].capacity_bytes = 0
    command = node.propose(b"patient" * 1000)
    await asyncio.sleep(0.9)
    assert node.health.write_errors == 5, "at once, and every 200 ms"
    quorum.disks[1].capacity_bytes = None
    await command
    failures = node.health.write_errors
    await node.propose(b"more")
    assert node.health.write_errors == failures


@in_virtual_time
async def test_a_second_leader_of_one_term_is_told_apart_from_a_new_leader(caplog: pytest.LogCaptureFixture) -> None:
    """A term must never have two leaders. If it has, an operator must learn of it at once."""
    quorum = await three()
    leader = await quorum.leader()
    follower, other = (node for node in quorum.nodes.values() if node is not leader)

    def heartbeat(sender: int, term: int, to: Any) -> None:
        to._receive(Message(MessageKind.HEARTBEAT, to.node_id, sender, term))

    heartbeat(leader.node_id, leader.term, follower)
    heartbeat(other.node_id, leader.term - 1, follower)  # of the past
    assert follower.health.split_brains == 0
    heartbeat(other.node_id, leader.term, follower)
    assert follower.health.split_brains == 1
    heartbeat(other.node_id, leader.term, leader)
    assert leader.health.split_brains == 1
    assert "two leaders in term" in caplog.text


def test_lag_is_that_of_the_oldest_entry_a_peer_lacks() -> None:
    health = Health()
    for index in range(1, 6):
        health.appended(index, 100 * index)
    assert [health.lag_ns(match, 1000) for match in (0, 1, 4, 5)] == [900, 800, 500, 0]
    health.matched(3)
    assert [health.lag_ns(match, 1000) for match in (0, 3, 4, 5)] == [600, 600, 500, 0]
    health.resigned(cast(Any, SimpleNamespace(role=Role.FOLLOWER, leader=NOBODY)))
    assert health.lag_ns(0, 1000) == 0


def test_a_peer_away_for_ever_costs_little_and_its_lag_stays_right() -> None:
    """Rounds are kept for the slowest peer; a dead one must not make them pile up."""
    health = Health()
    for index in range(1, 50 * ROUNDS_KEPT_MAX):
        health.appended(index, index)
    assert len(health._rounds) <= ROUNDS_KEPT_MAX
    now_ns = 50 * ROUNDS_KEPT_MAX
    assert health.lag_ns(0, now_ns) == now_ns - 1
    assert health.lag_ns(now_ns - 1, now_ns) == 0
