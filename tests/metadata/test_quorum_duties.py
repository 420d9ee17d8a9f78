"""The quorum's leader manages the quorum: nodes join and leave one at a time, and no request costs the majority."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import pytest

from chronik.metadata.commands.add_voter import AddVoter
from chronik.metadata.commands.command import Command, RequestId
from chronik.metadata.commands.describe_quorum import DescribeQuorum
from chronik.metadata.commands.remove_voter import RemoveVoter
from chronik.metadata.errors import MetadataRefused, NotController
from chronik.metadata.quorum import REMEMBERED_MAX, QuorumDuties
from chronik.raft.addresses import Address
from chronik.raft.driver import RaftNode
from chronik.raft.messages import Membership, Role
from tests.raft.quorum_in_memory import Quorum
from tests.raft.test_driver import in_virtual_time

_sequence = count(1)


class Leader:
    """The leader of a quorum in memory, and its duties."""

    def __init__(self, raft: RaftNode) -> None:
        self.raft = raft
        self.duties = QuorumDuties(raft._runtime.clock)

    @classmethod
    async def of(cls, *founders: int) -> tuple[Quorum, Leader]:
        quorum = Quorum(*founders)
        await quorum.start(*founders)
        return quorum, cls(await quorum.leader())

    async def ask(self, command: Command, request: RequestId | None = None) -> Any:
        return await self.duties.carry_out(self.raft, command, request or RequestId(1, 1, next(_sequence), 1))

    async def refuses(self, command: Command) -> str:
        with pytest.raises(MetadataRefused) as refused:
            await self.ask(command)
        return refused.value.error_code.name


def joins(node_id: int, timeout_ms: int = 2_000) -> AddVoter:
    return AddVoter(node_id=node_id, host=f"node-{node_id}", port=9093, timeout_ms=timeout_ms)


@in_virtual_time
async def test_a_node_votes_once_it_has_everything() -> None:
    quorum, leader = await Leader.of(1)
    for number in range(20):
        await leader.raft.propose(b"%d" % number)
    await quorum.start(2)
    await leader.ask(joins(2))
    assert leader.raft.members == Membership((1, 2))
    assert quorum.ledgers[2].values == [b"%d" % number for number in range(20)]
    await leader.raft.propose(b"by both")
    assert await leader.refuses(joins(2)) == "DUPLICATE_VOTER"


@in_virtual_time
async def test_a_node_that_would_not_vote_is_no_voter() -> None:
    """A new node waits for a leader before it votes. If it were a voter, the leader would wait for it in return: with
    two such nodes and two others that vote, the quorum would never have a leader."""
    quorum, leader = await Leader.of(1)
    await quorum.start(2)
    quorum.nodes[2].abstain()
    assert await leader.refuses(joins(2, timeout_ms=500)) == "REQUEST_TIMED_OUT"
    assert leader.raft.members == Membership((1,))
    added = asyncio.ensure_future(leader.ask(joins(2)))
    await asyncio.sleep(0.5)
    assert leader.raft.members == Membership((1,), (2,))
    quorum.nodes[2].take_part()
    await added
    assert leader.raft.members == Membership((1, 2))


@in_virtual_time
async def test_a_node_that_never_comes_leaves_everything_as_it_was() -> None:
    """If it became a voter at once, a quorum of one would lose its majority forever."""
    _, leader = await Leader.of(1)
    assert await leader.refuses(joins(2)) == "REQUEST_TIMED_OUT"
    assert leader.raft.members == Membership((1,))
    async with asyncio.timeout(1):
        await leader.raft.propose(b"still decides alone")


@in_virtual_time
async def test_the_address_of_a_founder_alone_is_told_before_others_come() -> None:
    """A joining node must find it after a change of leaders."""
    quorum = Quorum(1)
    quorum.founders[1] = Address("", 0)
    await quorum.start(1)
    leader = Leader(await quorum.leader())
    leader.duties.own_address = Address("node-1", 9093)
    await quorum.start(2)
    await leader.ask(joins(2))
    await quorum.until(lambda: quorum.nodes[2].addresses.get(1) == Address("node-1", 9093))


@in_virtual_time
async def test_a_voter_that_is_removed_listens_on_or_leaves() -> None:
    """A broker reads metadata as long as it is one, whether it votes or not."""
    quorum, leader = await Leader.of(1, 2, 3)
    others = [node_id for node_id in (1, 2, 3) if node_id != leader.raft.node_id]
    await leader.ask(RemoveVoter(node_id=others[0]))
    assert leader.raft.members.learners == (others[0],)
    await leader.raft.propose(b"heard")
    await quorum.until(lambda: quorum.ledgers[others[0]].values == [b"heard"])
    assert await leader.refuses(RemoveVoter(node_id=others[0])) == "VOTER_NOT_FOUND"
    await leader.ask(RemoveVoter(node_id=others[0], entirely=True))
    assert leader.raft.members == Membership(tuple(sorted((leader.raft.node_id, others[1]))))
    assert await leader.refuses(RemoveVoter(node_id=9)) == "VOTER_NOT_FOUND"


@in_virtual_time
async def test_the_leader_may_be_removed_and_another_leads() -> None:
    quorum, leader = await Leader.of(1, 2, 3)
    await leader.ask(RemoveVoter(node_id=leader.raft.node_id))
    await quorum.until(lambda: any(n.role is Role.LEADER and n is not leader.raft for n in quorum.nodes.values()))
    assert leader.raft.node_id in leader.raft.members.learners


@in_virtual_time
async def test_the_last_voter_stays() -> None:
    _, leader = await Leader.of(1)
    for entirely in (False, True):
        with pytest.raises(MetadataRefused, match="node 1 is the only voter: add another one first"):
            await leader.ask(RemoveVoter(node_id=1, entirely=entirely))


@in_virtual_time
async def test_a_repeated_request_is_the_same_request() -> None:
    """A node that heard no answer in time asks again; a second change would be refused as a duplicate."""
    quorum, leader = await Leader.of(1)
    request = RequestId(2, 7, 1, 1)
    first = asyncio.ensure_future(leader.ask(joins(2), request))
    await asyncio.sleep(0.1)
    second = asyncio.ensure_future(leader.ask(joins(2), request))
    await quorum.start(2)
    await asyncio.gather(first, second)
    await leader.ask(joins(2), request)
    assert len(leader.duties._answers) == 1
    for _ in range(REMEMBERED_MAX + 5):
        await leader.ask(DescribeQuorum())
    assert len(leader.duties._answers) == REMEMBERED_MAX


@in_virtual_time
async def test_a_request_refused_while_the_leadership_was_in_doubt_is_carried_out_when_it_is_not() -> None:
    """A failed transfer is temporary. A node that repeats its request with the same id must not get the old refusal
    forever."""
    _, leader = await Leader.of(1, 2, 3)
    other = next(node_id for node_id in (1, 2, 3) if node_id != leader.raft.node_id)
    leader.raft._core.transferee = other
    request = RequestId(2, 7, 1, 1)
    with pytest.raises(NotController):
        await leader.ask(RemoveVoter(node_id=other), request)
    await asyncio.sleep(1)
    assert leader.raft.role is Role.LEADER
    await leader.ask(RemoveVoter(node_id=other), request)
    assert leader.raft.members.learners == (other,)


@in_virtual_time
async def test_a_voter_that_the_majority_needs_is_not_removed() -> None:
    """With one of three down, the other two decide; of one and the one that is down neither could, nor take it back."""
    quorum, leader = await Leader.of(1, 2, 3)
    down, other = [node_id for node_id in (1, 2, 3) if node_id != leader.raft.node_id]
    quorum.network.isolate(down)
    await asyncio.sleep(3)
    for needed in (other, leader.raft.node_id):
        assert await leader.refuses(RemoveVoter(node_id=needed)) == "INVALID_REQUEST"
    with pytest.raises(MetadataRefused, match=rf"\[{down}\] are down or far behind"):
        await leader.ask(RemoveVoter(node_id=other))
    await leader.ask(RemoveVoter(node_id=down))
    await leader.ask(RemoveVoter(node_id=other))
    assert leader.raft.members == Membership((leader.raft.node_id,), tuple(sorted((down, other))))


@in_virtual_time
async def test_a_voter_whose_disk_stalls_is_none_to_count_on() -> None:
    """It answers heartbeats, and acknowledges nothing."""
    quorum, leader = await Leader.of(1, 2, 3)
    stalled, other = [node_id for node_id in (1, 2, 3) if node_id != leader.raft.node_id]
    quorum.disks[stalled].delay_s = 3600.0
    await leader.raft.propose(b"x")
    await asyncio.sleep(3)
    assert await leader.refuses(RemoveVoter(node_id=other)) == "INVALID_REQUEST"
    await leader.ask(RemoveVoter(node_id=stalled))


@in_virtual_time
async def test_the_description_is_true() -> None:
    quorum, leader = await Leader.of(1, 2, 3)
    silent = next(node_id for node_id in (1, 2, 3) if node_id != leader.raft.node_id)
    quorum.network.isolate(silent)
    await leader.raft.propose(b"x")
    await asyncio.sleep(0.5)
    reply = await leader.ask(DescribeQuorum())
    assert (reply.leader_id, reply.term) == (leader.raft.node_id, leader.raft.term)
    assert reply.commit_index == leader.raft.commit_index
    for member in reply.members:
        is_silent = member.node_id == silent
        assert member.is_voter
        assert (member.match_index < reply.commit_index) == is_silent
        assert (member.lag_ms > 400) == (member.silent_ms > 400) == is_silent
        assert (member.host, member.port) == (f"node-{member.node_id}", 9093)


@pytest.mark.parametrize(
    "command", [DescribeQuorum(), RemoveVoter(node_id=4), joins(2)], ids=lambda c: type(c).__name__
)
@in_virtual_time
async def test_a_leader_that_hears_nobody_describes_and_refuses_nothing(command: Command) -> None:
    """It may have been deposed long ago: node 4 may vote by now, and node 2 may no longer vote."""
    quorum, leader = await Leader.of(1, 2, 3)
    quorum.network.isolate(leader.raft.node_id)
    asked = asyncio.ensure_future(leader.ask(command))
    await asyncio.sleep(0.05)
    assert not asked.done()
    await quorum.until(lambda: leader.raft.role is not Role.LEADER)
    quorum.network.heal()
    await asyncio.wait([asked], timeout=5)
    assert asked.done()
    assert isinstance(asked.exception(), NotController), "whoever it follows now can tell"
