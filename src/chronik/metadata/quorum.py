"""What the quorum's leader does about the quorum itself: says how far its members are, takes nodes in, lets them go.

These commands write no records: members are in the log as changes of their own. A node that joins only listens until it
has all that was committed when it asked and says that it would vote, and votes from then on: a wrong address costs the
cluster nothing but a wait. One that does not vote yet, made a voter, could keep the others from electing a leader, for
whose word it waits itself.
A voter goes only where those that stay can decide without it, or nobody could undo it. One change at a time; a request
that is repeated while it is under way, or soon after, is the same request.
"""

from __future__ import annotations

import asyncio
from functools import partial
from math import inf

from chronik.metadata.commands import (
    AddVoter,
    AddVoterReply,
    Command,
    DescribeQuorum,
    DescribeQuorumReply,
    QuorumMember,
    RemoveVoter,
    RemoveVoterReply,
    Reply,
    RequestId,
)
from chronik.metadata.errors import NotController, refuse
from chronik.raft.addresses import Address
from chronik.raft.changes import Action, Change
from chronik.raft.driver import RaftNode
from chronik.raft.errors import Dropped, MembershipRefused, NotLeader, OutcomeUnknown, RaftError
from chronik.raft.messages import Role
from chronik.runtime.interfaces import Clock
from chronik.runtime.invariants import check
from chronik.runtime.units import NS_PER_MS
from chronik.wire.error_codes import ErrorCode

QUORUM_COMMANDS = (DescribeQuorum, AddVoter, RemoveVoter)
REMEMBERED_MAX = 64  # answers that a node may ask for again
LOOK_EVERY_S = 0.02  # how far a node that joins has come
NOWHERE = Address("", 0)  # of a founder that nobody could join
ABSENT_MS = 1_000  # many heartbeats; a voter that is silent or lags for so long cannot be counted on


class QuorumDuties:
    """Good for one store; only asked while its node leads."""

    def __init__(self, clock: Clock) -> None:
        self.own_address: Address | None = None
        self._clock = clock
        self._answers: dict[tuple[int, int, int], asyncio.Future[Reply]] = {}  # by request, oldest first
        self._changing = asyncio.Lock()

    def carry_out(self, raft: RaftNode, command: Command, request: RequestId) -> asyncio.Future[Reply]:
        key = request[:3]
        if key not in self._answers:
            if len(self._answers) >= REMEMBERED_MAX:
                del self._answers[next(iter(self._answers))]
                check(
                    len(self._answers) < REMEMBERED_MAX,
                    "23 answers that are remembered are bounded",
                    count=len(self._answers),
                )
            done = self._answers[key] = asyncio.ensure_future(self._work(raft, command))
            done.add_done_callback(partial(self._ended, key))
        return asyncio.shield(self._answers[key])

    def _ended(self, key: tuple[int, int, int], done: asyncio.Future[Reply]) -> None:
        """That this node does not lead is no answer to keep: it may lead again when it is asked again."""
        error = None if done.cancelled() else done.exception()  # read here: whoever asked may have gone
        if (done.cancelled() or isinstance(error, NotController)) and self._answers.get(key) is done:
            del self._answers[key]

    async def _work(self, raft: RaftNode, command: Command) -> Reply:
        try:
            if isinstance(command, AddVoter):
                async with self._changing:
                    await _confirm(raft)
                    return await self._add(raft, command)
            if isinstance(command, RemoveVoter):
                async with self._changing:
                    await _confirm(raft)
                    return await self._remove(raft, command)
            await _confirm(raft)
            return self._describe(raft)
        except MembershipRefused as error:
            refuse(ErrorCode.INVALID_REQUEST, str(error))
        except (NotLeader, OutcomeUnknown, Dropped) as error:
            raise NotController(raft.leader_id) from error
        except RaftError as error:
            refuse(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))

    def _describe(self, raft: RaftNode) -> DescribeQuorumReply:
        now_ns = self._clock.monotonic_ns()
        matches, lags_ms = raft.match_indexes(), raft.lag_ms()
        members = []
        for node_id in sorted((*raft.members.voters, *raft.members.learners)):
            heard_ns = now_ns if node_id == raft.node_id else raft.health.heard_ns(node_id)
            address = raft.addresses.get(node_id, NOWHERE)
            members.append(
                QuorumMember(
                    node_id=node_id,
                    is_voter=node_id in raft.members.voters,
                    match_index=matches.get(node_id, 0),
                    lag_ms=lags_ms.get(node_id, 0),
                    silent_ms=-1 if heard_ns is None else (now_ns - heard_ns) // NS_PER_MS,
                    host=address.host,
                    port=address.port,
                )
            )
        return DescribeQuorumReply(
            leader_id=raft.node_id, term=raft.term, commit_index=raft.commit_index, members=members
        )

    async def _add(self, raft: RaftNode, command: AddVoter) -> AddVoterReply:
        node_id = command.node_id
        if node_id in raft.members.voters:
            refuse(ErrorCode.DUPLICATE_VOTER, f"node {node_id} votes already")
        if node_id < 0 or not command.host or not command.port:
            refuse(ErrorCode.INVALID_REQUEST, f"node {node_id} at {command.host}:{command.port} cannot be reached")
        if self.own_address and raft.addresses.get(raft.node_id, NOWHERE) == NOWHERE:
            await raft.change_membership(Change(Action.UPDATE, raft.node_id), self.own_address)
        was_known = node_id in raft.members.learners
        await raft.change_membership(Change(Action.ADD_LEARNER, node_id), Address(command.host, command.port))
        if not await _caught_up(raft, node_id, command.timeout_ms):
            if not was_known:
                await raft.change_membership(Change(Action.REMOVE, node_id))
            refuse(
                ErrorCode.REQUEST_TIMED_OUT,
                f"node {node_id} at {command.host}:{command.port} did not take the log within {command.timeout_ms} ms: "
                "is it running, does it listen there for the quorum, and can it be reached?",
            )
        await raft.change_membership(Change(Action.ADD_VOTER, node_id))
        return AddVoterReply()

    async def _remove(self, raft: RaftNode, command: RemoveVoter) -> RemoveVoterReply:
        node_id, members = command.node_id, raft.members
        if node_id not in (*members.voters, *(members.learners if command.entirely else ())):
            refuse(ErrorCode.VOTER_NOT_FOUND, f"node {node_id} does not vote; these do: {list(members.voters)}")
        if members.voters == (node_id,):
            refuse(ErrorCode.INVALID_REQUEST, f"node {node_id} is the only voter: add another one first")
        if node_id in members.voters:
            self._require_majority_without(raft, node_id)
        action = Action.REMOVE if command.entirely else Action.ADD_LEARNER
        await raft.change_membership(Change(action, node_id))
        return RemoveVoterReply()

    def _require_majority_without(self, raft: RaftNode, node_id: int) -> None:
        """Voters that are down or far behind commit nothing: were they the majority, none could be added either."""
        stay = [voter for voter in raft.members.voters if voter != node_id]
        lags_ms = raft.lag_ms()
        lost = [
            voter
            for voter in stay
            if voter != raft.node_id and (self._silent_ms(raft, voter) > ABSENT_MS or lags_ms.get(voter, 0) > ABSENT_MS)
        ]
        if 2 * (len(stay) - len(lost)) <= len(stay):
            refuse(
                ErrorCode.INVALID_REQUEST,
                f"without node {node_id} the quorum could decide nothing: of the voters that stay, {stay}, "
                f"{lost} are down or far behind; bring them back or remove them first",
            )

    def _silent_ms(self, raft: RaftNode, peer: int) -> float:
        heard_ns = raft.health.heard_ns(peer)
        return inf if heard_ns is None else (self._clock.monotonic_ns() - heard_ns) / NS_PER_MS


async def _confirm(raft: RaftNode) -> None:
    """A leader deposed without knowing would describe the past, or refuse by it: who removes a node that is said to be
    no voter throws its disk away."""
    await raft.read_index()
    if raft.role is not Role.LEADER:
        raise NotController(raft.leader_id)


async def _caught_up(raft: RaftNode, node_id: int, timeout_ms: int) -> bool:
    """Whether the node holds all that is committed now and would vote, in time."""
    target = raft.commit_index
    loop = asyncio.get_running_loop()
    give_up_s = loop.time() + timeout_ms / 1000
    while raft.match_indexes().get(node_id, 0) < target or not raft.may_vote(node_id):
        if raft.role is not Role.LEADER:
            raise NotController(raft.leader_id)
        if loop.time() > give_up_s:
            return False
        await asyncio.sleep(LOOK_EVERY_S)
    return True
