"""What a node knows to be committed after any kind of stop: membership changes always, other entries after a clean
stop."""

from __future__ import annotations

import asyncio

import pytest

from chronik.raft.changes import Action, Change
from tests.raft.quorum_in_memory import Quorum
from tests.raft.test_driver import in_virtual_time
from tests.raft.virtual_time import run


@pytest.mark.parametrize("end", ["power cut", "kill", "stop"])
@pytest.mark.parametrize("by_the_survivor", [True, False])
def test_the_last_voter_left_elects_itself_after_any_end(end: str, by_the_survivor: bool) -> None:
    """The other node may be discarded once its removal is acknowledged. If the log had the change but not its commit,
    the survivor would ask the other node for its vote forever."""

    async def story() -> None:
        quorum = Quorum(1, 2)
        await quorum.start(1, 2)
        leader = await quorum.leader()
        await leader.propose(b"kept")
        survivor = leader.node_id if by_the_survivor else 3 - leader.node_id
        await leader.change_membership(Change(Action.REMOVE, 3 - survivor))
        if not by_the_survivor:
            await quorum.until(lambda: quorum.nodes[survivor].members.voters == (survivor,))
            await asyncio.sleep(0.05)
        quorum.crash(3 - survivor)
        if end == "stop":
            await quorum.nodes.pop(survivor).stop()
            quorum.network.ports.pop(survivor)
        else:
            quorum.crash(survivor, power_cut=end == "power cut")
        async with asyncio.timeout(5):
            await quorum.start(survivor)
        assert quorum.nodes[survivor].members.voters == (survivor,)
        await quorum.nodes[survivor].propose(b"goes on")
        assert quorum.ledgers[survivor].values == [b"kept", b"goes on"]

    run(story)


@in_virtual_time
async def test_a_change_is_answered_once_its_commit_is_durable() -> None:
    """The caller may act on the answer. A leader that removed itself no longer leads by then, and still answers."""
    quorum = Quorum(1, 2, 3)
    await quorum.start(1, 2, 3)
    leader = await quorum.leader()
    others = tuple(node_id for node_id in quorum.nodes if node_id != leader.node_id)
    disk = quorum.disks[leader.node_id]
    disk.delay_s = 0.03
    change = asyncio.ensure_future(leader.change_membership(Change(Action.REMOVE, leader.node_id)))
    await quorum.until(lambda: leader.members.voters == others, every_s=0.001)
    assert not change.done()
    assert (await change).voters == others


@in_virtual_time
async def test_a_node_that_is_stopped_knows_what_was_committed() -> None:
    """A commit alone is not worth a round of the disk; the last one is written at the end."""
    quorum = Quorum(1, 2, 3)
    await quorum.start(1, 2, 3)
    leader = await quorum.leader()
    await leader.propose(b"one")
    await asyncio.sleep(0.1)
    commit_index = leader.commit_index
    for node_id in (1, 2, 3):
        await quorum.nodes.pop(node_id).stop()
        quorum.network.ports.pop(node_id)
    for node_id in (1, 2, 3):
        await quorum.start(node_id)
        assert quorum.nodes[node_id].applied_index == commit_index
        quorum.crash(node_id)
