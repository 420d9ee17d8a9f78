"""One complete node or several: acknowledged entries survive, and nothing is acknowledged before it is durable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from itertools import pairwise
from typing import Any

import pytest

from chronik.raft.addresses import Address
from chronik.raft.changes import Action, Change
from chronik.raft.codec import decode_message
from chronik.raft.config import RaftConfig
from chronik.raft.errors import MembershipRefused, NotLeader, OutcomeUnknown, Stopped
from chronik.raft.messages import Message, MessageKind, Role
from chronik.runtime.invariants import InvariantBroken
from tests.raft.quorum_in_memory import CONFIG, DIRECTORY, Port, Quorum
from tests.raft.virtual_time import run


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def wrapped(*arguments: Any, **named: Any) -> None:
        run(lambda: test(*arguments, **named))

    return wrapped


# One node


@in_virtual_time
async def test_a_single_voter_leads_at_once_and_answers_after_one_fsync() -> None:
    """No election timeout is waited for, and a command costs one round of the disk."""
    quorum = Quorum(1)
    before = asyncio.get_running_loop().time()
    await quorum.start(1)
    node = quorum.nodes[1]
    assert asyncio.get_running_loop().time() - before < CONFIG.tick_ms / 1000
    assert node.role is Role.LEADER
    syncs = quorum.disks[1].calls["sync"]
    assert await node.propose(b"one") == node.applied_index == node.commit_index
    assert quorum.disks[1].calls["sync"] == syncs + 1
    assert quorum.ledgers[1].values == [b"one"]


@in_virtual_time
async def test_a_node_may_have_the_number_0() -> None:
    """Many configurations of Kafka begin with it. It votes, is voted for, remembers both, and leads."""
    quorum = Quorum(0, 1, 2)
    await quorum.start(0, 1, 2)
    leader = await quorum.leader()
    await leader.propose(b"one")
    if leader.node_id != 0:
        leader.transfer_leadership(0)
    await quorum.until(lambda: all(node.leader_id == 0 for node in quorum.nodes.values()))
    assert await quorum.nodes[0].propose(b"two")
    quorum.crash(0)
    await quorum.until(lambda: any(node.role is Role.LEADER for node in quorum.nodes.values()))
    await quorum.start(0)
    await quorum.until(lambda: quorum.ledgers[0].values == [b"one", b"two"])
    assert quorum.nodes[0].leader_id in (1, 2)


@in_virtual_time
async def test_commands_of_one_turn_share_one_fsync() -> None:
    quorum = Quorum(1)
    await quorum.start(1)
    syncs = quorum.disks[1].calls["sync"]
    indexes = await asyncio.gather(*(quorum.nodes[1].propose(b"%d" % number) for number in range(500)))
    assert indexes == list(range(indexes[0], indexes[0] + 500))
    assert quorum.disks[1].calls["sync"] == syncs + 1
    assert quorum.ledgers[1].values == [b"%d" % number for number in range(500)]


@in_virtual_time
async def test_commands_that_come_while_the_disk_is_busy_share_the_next_fsync() -> None:
    quorum = Quorum(1)
    await quorum.start(1)
    node, disk = quorum.nodes[1], quorum.disks[1]
    disk.delay_s = 0.05
    syncs = disk.calls["sync"]
    commands = []
    for number in range(100):
        commands.append(node.propose(b"%d" % number))
        await asyncio.sleep(0.001)
    await asyncio.gather(*commands)
    assert disk.calls["sync"] - syncs <= 5


@in_virtual_time
async def test_a_restart_brings_everything_back() -> None:
    quorum = Quorum(1)
    await quorum.start(1)
    for number in range(20):
        await quorum.nodes[1].propose(b"%d" % number)
    term = quorum.nodes[1].term
    quorum.crash(1)
    await quorum.start(1)
    assert quorum.ledgers[1].values == [b"%d" % number for number in range(20)]
    assert quorum.nodes[1].term > term
    assert quorum.ledgers[1].leaders[-1] == (1, quorum.nodes[1].term, True)


@pytest.mark.slow
def test_what_was_acknowledged_survives_a_power_cut_at_any_step() -> None:
    """The disk loses power in the middle of any call, with snapshots every few commands."""
    config = RaftConfig(tick_ms=10, heartbeat_ticks=2, election_ticks=10, lease_ms=45, snapshot_every_bytes=600,
                        trailing_entries=3)  # fmt: skip

    async def story(steps: int) -> None:
        quorum = Quorum(1, seed=steps, config=config)
        await quorum.start(1)
        acknowledged: list[bytes] = []
        quorum.disks[1].cut_after(steps)
        for number in range(60):
            command = quorum.nodes[1].propose(b"value-%d" % number)
            command.add_done_callback(lambda done: done.exception())
            for _ in range(12):
                await asyncio.sleep(0)
            if not command.done() or command.exception():
                break
            acknowledged.append(b"value-%d" % number)
        quorum.crash(1)
        await quorum.start(1)
        values = quorum.ledgers[1].values
        assert values[: len(acknowledged)] == acknowledged
        assert len(values) <= len(acknowledged) + 1
        await quorum.nodes[1].propose(b"goes on")
        await quorum.stop()

    for steps in range(0, 150, 1):
        run(lambda steps=steps: story(steps))


@in_virtual_time
async def test_a_failed_fsync_ends_the_node_and_nothing_more_is_acknowledged() -> None:
    """The kernel may have dropped the pages: a second fsync would succeed and prove nothing."""
    quorum = Quorum(1)
    await quorum.start(1)
    node = quorum.nodes[1]
    heard: list[BaseException] = []
    node.on_failure = heard.append
    quorum.disks[1].fail("sync", "journal")
    with pytest.raises(OutcomeUnknown):
        await node.propose(b"lost")
    assert node.stopped
    assert len(heard) == 1
    with pytest.raises(Stopped):
        await node.propose(b"refused")
    with pytest.raises(Stopped):
        await node.read_index()
    assert not node.holds_lease(0)


@in_virtual_time
async def test_a_full_disk_is_waited_for() -> None:
    """Nothing of the round was kept, so it can be written again when there is space."""
    quorum = Quorum(1)
    await quorum.start(1)
    quorum.disks[1].capacity_bytes = 0
    command = quorum.nodes[1].propose(b"patient" * 1000)
    await asyncio.sleep(1)
    assert not command.done()
    quorum.disks[1].capacity_bytes = None
    await command
    assert quorum.ledgers[1].values == [b"patient" * 1000]


@in_virtual_time
async def test_a_leader_whose_disk_stays_full_hands_over() -> None:
    """The others have the entries that it cannot write, and would wait for it forever, because it still sends
    heartbeats. Until its disk accepts the waiting writes, it follows and does not campaign."""
    quorum = Quorum(1, 2, 3)
    await quorum.start(1, 2, 3)
    full = await quorum.leader()
    quorum.disks[full.node_id].capacity_bytes = 0
    command = full.propose(b"too much" * 100_000)
    with pytest.raises(OutcomeUnknown):
        async with asyncio.timeout(3):
            await command
    healthy = [node for node in quorum.nodes.values() if node is not full]
    await quorum.until(lambda: any(node.role is Role.LEADER for node in healthy))
    leader = next(node for node in healthy if node.role is Role.LEADER)
    await leader.propose(b"second")
    quorum.network.isolate(leader.node_id)
    await asyncio.sleep(2)
    assert full.role is Role.FOLLOWER
    quorum.network.heal()
    quorum.disks[full.node_id].capacity_bytes = None
    await (await quorum.leader()).propose(b"third")
    await quorum.until(lambda: quorum.ledgers[full.node_id].values[-2:] == [b"second", b"third"])
    await asyncio.sleep(CONFIG.tick_ms / 1000)
    (await quorum.leader()).transfer_leadership(full.node_id)
    await quorum.until(lambda: full.role is Role.LEADER)


@in_virtual_time
async def test_a_leader_whose_disk_is_full_stays_where_no_other_could_be_elected() -> None:
    """With two voters, or with another one down: its vote cannot be written, so stepping down would end reads as
    well."""
    quorum = Quorum(1, 2, 3)
    await quorum.start(1, 2, 3)
    full = await quorum.leader()
    quorum.crash(next(node_id for node_id in quorum.nodes if node_id != full.node_id))
    await asyncio.sleep(1)
    quorum.disks[full.node_id].capacity_bytes = 0
    command = full.propose(b"patient" * 100_000)
    await asyncio.sleep(3)
    assert full.role is Role.LEADER
    assert not command.done()
    await full.read_index()
    quorum.disks[full.node_id].capacity_bytes = None
    await command


@in_virtual_time
async def test_an_error_of_the_state_machine_ends_the_node() -> None:
    """Going on without that entry would give this node another state than its peers."""
    quorum = Quorum(1)
    await quorum.start(1)

    def broken(index: int, term: int, data: bytes) -> None:
        raise ValueError("no such record")

    quorum.ledgers[1].apply = broken  # type: ignore[method-assign]
    with pytest.raises(OutcomeUnknown, match="no such record"):
        await quorum.nodes[1].propose(b"poison")
    assert quorum.nodes[1].stopped


def test_a_lease_must_end_before_another_leader_can_exist() -> None:
    with pytest.raises(InvariantBroken, match="below 89"):
        RaftConfig(tick_ms=10, election_ticks=10, lease_ms=90)


# Several nodes


@in_virtual_time
async def test_three_nodes_elect_one_and_hold_the_same() -> None:
    quorum = Quorum(1, 2, 3)
    await quorum.start(1, 2, 3)
    leader = await quorum.leader()
    await asyncio.gather(*(leader.propose(b"%d" % number) for number in range(50)))
    await quorum.until(lambda: all(len(ledger.values) == 50 for ledger in quorum.ledgers.values()))
    assert quorum.ledgers[1].values == quorum.ledgers[2].values == quorum.ledgers[3].values
    follower = next(node for node in quorum.nodes.values() if node is not leader)
    with pytest.raises(NotLeader) as caught:
        await follower.propose(b"wrong door")
    assert caught.value.leader_id == leader.node_id


@in_virtual_time
async def test_founders_do_not_wait_for_an_election_timeout() -> None:
    """No other leader can exist yet, so the first founder campaigns at once, and continues even with a minority."""
    quorum = Quorum(1, 2, 3)
    loop = asyncio.get_running_loop()
    await quorum.start(1)
    await asyncio.sleep(0.05)
    before = loop.time()
    await quorum.start(2)
    await (await quorum.leader()).propose(b"first")
    assert loop.time() - before < 0.05 < CONFIG.election_ticks * CONFIG.tick_ms / 1000


@in_virtual_time
async def test_a_founder_that_saw_a_leader_for_a_moment_waits_like_all_others() -> None:
    """Seen and lost between two ticks: the quorum is founded all the same."""
    quorum = Quorum(1, 2, 3)
    await quorum.start(1)
    asked: list[float] = []
    carry = quorum.network.carry

    def watched(sender: Port, to: int, data: bytes) -> None:
        if decode_message(data).kind is MessageKind.PRE_VOTE:
            asked.append(asyncio.get_running_loop().time())
        carry(sender, to, data)

    quorum.network.ports[1].receive(Message(MessageKind.HEARTBEAT, 1, 2, 2))
    quorum.network.ports[1].receive(Message(MessageKind.APPEND_REPLY, 1, 3, 3))
    assert quorum.nodes[1].leader_id is None
    quorum.network.carry = watched  # type: ignore[method-assign]
    await quorum.until(lambda: len(asked) >= 6)
    rounds = sorted(set(asked))
    timeout_s = CONFIG.election_ticks * CONFIG.tick_ms / 1000
    assert all(later - earlier > 0.9 * timeout_s for earlier, later in pairwise(rounds))


@in_virtual_time
async def test_a_founder_knows_by_its_vote_that_it_took_part() -> None:
    """A founder never counts as a node that lost its disk, however early it learns of the cluster; a later node may."""
    quorum = Quorum(1, 2, 3)
    await quorum.start(1, 2)
    await quorum.leader()
    await quorum.start(3)
    assert [quorum.nodes[node_id].has_taken_part for node_id in (1, 2, 3)] == [True, True, False]
    quorum.crash(2)
    await quorum.start(2)
    assert quorum.nodes[2].has_taken_part


@in_virtual_time
async def test_a_voter_that_lost_its_disk_confirms_no_outdated_leader() -> None:
    """It elected the new leader and has forgotten that. The old leader, isolated from the others, only reaches this
    node."""
    quorum = Quorum(1, 2, 3)
    await quorum.start(1, 2, 3)
    old = await quorum.leader()
    await old.propose(b"first")
    quorum.network.isolate(old.node_id)
    others = [node for node in quorum.nodes.values() if node is not old]
    await quorum.until(lambda: any(node.role is Role.LEADER for node in others), every_s=0.001)
    new = next(node for node in others if node.role is Role.LEADER)
    wiped = next(node.node_id for node in others if node is not new)
    await new.propose(b"second")
    quorum.crash(wiped)
    del quorum.disks[wiped]
    await quorum.start(wiped)
    quorum.nodes[wiped].abstain()
    quorum.network.cut = {frozenset((new.node_id, other)) for other in quorum.nodes if other != new.node_id}
    reading = asyncio.ensure_future(quorum.nodes[wiped].read_index())
    await asyncio.sleep(2)
    assert not reading.done()
    quorum.network.heal()
    await reading
    assert quorum.ledgers[wiped].values == [b"first", b"second"]


@in_virtual_time
async def test_a_founder_that_led_once_waits_like_all_others() -> None:
    """Campaigning at every tick would disturb the candidates that it has just voted for."""
    quorum = Quorum(1, 2, 3)
    await quorum.start(1, 2, 3)
    assert (await quorum.leader()).node_id == 1
    await asyncio.sleep(0.1)
    asked: list[float] = []
    carry = quorum.network.carry

    def watched(sender: Port, to: int, data: bytes) -> None:
        if sender.node_id == 1 and decode_message(data).kind is MessageKind.PRE_VOTE:
            asked.append(asyncio.get_running_loop().time())
        carry(sender, to, data)

    quorum.network.carry = watched  # type: ignore[method-assign]
    quorum.network.isolate(1)
    await quorum.until(lambda: len(asked) >= 6)
    rounds = sorted(set(asked))
    timeout_s = CONFIG.election_ticks * CONFIG.tick_ms / 1000
    assert all(later - earlier >= timeout_s - 0.001 for earlier, later in pairwise(rounds))


@in_virtual_time
async def test_a_node_about_to_join_does_not_found_a_quorum_of_its_own() -> None:
    """It has heard of a term, so there is a quorum already, whatever its configuration says."""
    quorum = Quorum(1)
    await quorum.start(1, 2)
    quorum.network.ports[2].receive(Message(MessageKind.HEARTBEAT, 2, 1, 7))
    await quorum.until(lambda: quorum.nodes[2].term == 7)
    await asyncio.sleep(0.1)
    quorum.crash(2)
    quorum.founders[2] = Address("node-2", 9093)
    await quorum.start(2)
    assert quorum.nodes[2].members.voters == ()
    assert quorum.nodes[2].term == 7


@in_virtual_time
async def test_a_leader_that_proposes_before_its_peers_listen_loses_nothing() -> None:
    """The classic race: the first entries reach no peer. Once a peer is up, it gets them all without a new command."""
    quorum = Quorum(1, 2, 3)
    await quorum.start(1, 2)
    leader = await quorum.leader()
    await leader.propose(b"first")
    await leader.propose(b"second")
    await asyncio.sleep(2)
    await quorum.start(3)
    await quorum.until(lambda: quorum.ledgers[3].values == [b"first", b"second"], within_s=1)


@in_virtual_time
async def test_the_others_go_on_when_the_leader_dies_and_it_catches_up_later() -> None:
    quorum = Quorum(1, 2, 3)
    await quorum.start(1, 2, 3)
    first = await quorum.leader()
    await first.propose(b"before")
    quorum.crash(first.node_id)
    second = await quorum.leader()
    assert second.term > first.term
    await second.propose(b"after")
    await quorum.start(first.node_id)
    await quorum.until(lambda: quorum.ledgers[first.node_id].values == [b"before", b"after"])


@in_virtual_time
async def test_a_cut_off_leader_steps_down_and_its_commands_have_no_known_outcome() -> None:
    """They are in its log and may still be committed or replaced: neither answer would be true."""
    quorum = Quorum(1, 2, 3)
    await quorum.start(1, 2, 3)
    old = await quorum.leader()
    quorum.network.isolate(old.node_id)
    command = old.propose(b"maybe")
    with pytest.raises(OutcomeUnknown):
        await command
    new = await quorum.leader()
    assert new is not old
    await new.propose(b"sure")
    quorum.network.heal()
    await quorum.until(lambda: quorum.ledgers[old.node_id].values == [b"sure"])


@in_virtual_time
async def test_lost_messages_are_made_up_for() -> None:
    """A tenth of everything is lost without a word to the sender; still every command arrives everywhere, in order."""
    quorum = Quorum(1, 2, 3, seed=4)
    await quorum.start(1, 2, 3)
    leader = await quorum.leader()
    quorum.network.loss = 0.1
    for number in range(40):
        leader = await quorum.leader(within_s=60)
        try:
            await asyncio.wait_for(leader.propose(b"%d" % number), 30)
        except (OutcomeUnknown, NotLeader):
            continue
    quorum.network.loss = 0.0
    await quorum.until(lambda: len({tuple(ledger.values) for ledger in quorum.ledgers.values()}) == 1)
    assert len(quorum.ledgers[1].values) > 20


@in_virtual_time
async def test_the_leadership_moves_on_request() -> None:
    quorum = Quorum(1, 2, 3)
    await quorum.start(1, 2, 3)
    leader = await quorum.leader()
    await leader.propose(b"before")
    heir = next(node_id for node_id in quorum.nodes if node_id != leader.node_id)
    before = asyncio.get_running_loop().time()
    leader.transfer_leadership(heir)
    await quorum.until(lambda: quorum.nodes[heir].role is Role.LEADER)
    assert asyncio.get_running_loop().time() - before < CONFIG.election_ticks * CONFIG.tick_ms / 1000
    assert (await quorum.leader()).node_id == heir


# Reads


@in_virtual_time
async def test_a_read_point_on_any_node_covers_what_was_acknowledged_before() -> None:
    quorum = Quorum(1, 2, 3)
    await quorum.start(1, 2, 3)
    leader = await quorum.leader()
    for number in range(10):
        index = await leader.propose(b"%d" % number)
        for node in quorum.nodes.values():
            assert await node.read_index() >= index
            assert quorum.ledgers[node.node_id].values[-1] == b"%d" % number


@in_virtual_time
async def test_a_read_waits_out_a_partition() -> None:
    """An isolated node must not answer from its current state. When it is back, it answers from the updated state."""
    quorum = Quorum(1, 2, 3)
    await quorum.start(1, 2, 3)
    leader = await quorum.leader()
    away = next(node for node in quorum.nodes.values() if node is not leader)
    quorum.network.isolate(away.node_id)
    read = asyncio.ensure_future(away.read_index())
    index = await leader.propose(b"meanwhile")
    await asyncio.sleep(1)
    assert not read.done()
    quorum.network.heal()
    assert await read >= index


# Snapshots and members

SMALL = RaftConfig(tick_ms=10, heartbeat_ticks=2, election_ticks=10, lease_ms=45, snapshot_every_bytes=4000,
                   trailing_entries=10)  # fmt: skip


@in_virtual_time
async def test_the_log_is_cut_behind_snapshots_and_a_restart_begins_there() -> None:
    quorum = Quorum(1, config=SMALL)
    await quorum.start(1)
    for number in range(300):
        await quorum.nodes[1].propose(b"value-%04d" % number)
    assert sum(name.startswith("journal-") for name in quorum.disks[1].list(DIRECTORY)) == 1
    quorum.crash(1)
    await quorum.start(1)
    assert quorum.ledgers[1].values == [b"value-%04d" % number for number in range(300)]
    assert quorum.ledgers[1].restored_at[0] > 100
    assert len(quorum.ledgers[1].applied) < 200


@in_virtual_time
async def test_a_node_far_behind_is_caught_up_by_a_snapshot() -> None:
    quorum = Quorum(1, 2, 3, config=SMALL)
    await quorum.start(1, 2, 3)
    leader = await quorum.leader()
    away = next(node_id for node_id in quorum.nodes if node_id != leader.node_id)
    quorum.crash(away)
    for number in range(300):
        await leader.propose(b"value-%04d" % number)
    await quorum.start(away)
    await quorum.until(lambda: quorum.ledgers[away].values == quorum.ledgers[leader.node_id].values)
    assert quorum.ledgers[away].restored_at
    assert quorum.nodes[away].applied_index == quorum.nodes[away].commit_index == leader.applied_index
    assert quorum.nodes[away].members == leader.members
    quorum.crash(away)
    await quorum.start(away)
    assert quorum.nodes[away].members == leader.members
    await quorum.until(lambda: quorum.ledgers[away].values == quorum.ledgers[leader.node_id].values)


@in_virtual_time
async def test_the_quorum_grows_from_one_to_five_and_shrinks_again_while_serving() -> None:
    """New nodes start with nothing but their id: members, addresses and data come from the log and its snapshots."""
    quorum = Quorum(1, config=SMALL)
    await quorum.start(1)
    sent = 0

    async def serve() -> None:
        nonlocal sent
        for _ in range(40):
            leader = await quorum.leader()
            await leader.propose(b"value-%04d" % sent)
            sent += 1

    await serve()
    for joining in (2, 3, 4, 5):
        await quorum.start(joining)
        leader = await quorum.leader()
        address = Address(f"node-{joining}", 9093)
        await leader.change_membership(Change(Action.ADD_LEARNER, joining), address)
        await serve()
        members = await (await quorum.leader()).change_membership(Change(Action.ADD_VOTER, joining))
        assert joining in members.voters
        await serve()
    await quorum.until(lambda: len({tuple(ledger.values) for ledger in quorum.ledgers.values()}) == 1)
    assert {node.members.voters for node in quorum.nodes.values()} == {(1, 2, 3, 4, 5)}
    assert quorum.nodes[5].addresses[2] == Address("node-2", 9093)
    for leaving in (1, 2, 3, 4):
        leader = await quorum.leader()
        await leader.change_membership(Change(Action.REMOVE, leaving))
        await asyncio.sleep(0.5)
        quorum.crash(leaving)
        await serve()
    last = quorum.nodes[5]
    assert last.members.voters == (5,)
    assert quorum.ledgers[5].values == [b"value-%04d" % number for number in range(sent)]
    quorum.crash(5)
    await quorum.start(5)
    assert quorum.ledgers[5].values == [b"value-%04d" % number for number in range(sent)]


@in_virtual_time
async def test_a_second_change_at_a_time_is_refused() -> None:
    quorum = Quorum(1, 2, 3)
    await quorum.start(1, 2, 3)
    leader = await quorum.leader()
    first = asyncio.ensure_future(leader.change_membership(Change(Action.ADD_LEARNER, 4), Address("node-4", 1)))
    second = asyncio.ensure_future(leader.change_membership(Change(Action.ADD_LEARNER, 5), Address("node-5", 1)))
    assert (await first).learners == (4,)
    with pytest.raises(MembershipRefused):
        await second
    with pytest.raises(MembershipRefused, match="address"):
        await leader.change_membership(Change(Action.ADD_VOTER, 6))
