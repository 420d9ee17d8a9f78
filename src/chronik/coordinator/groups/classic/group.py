"""A classic group: its state, its members, and the rules by which they agree on a leader and a protocol.

    Empty -> PreparingRebalance -> CompletingRebalance -> Stable, and from the last two back to PreparingRebalance.
    A preparing group that loses all members becomes Empty. Every state can change to Dead.

There are two kinds of state. `stored` is the group's record in the log: only replay changes it, and it survives a
failover. Everything else describes the current rebalance and is not stored, as in Kafka: a new coordinator starts from
`stored`, and members that were in a rebalance join again. An assignment is sent to members only after it is in
`stored`, so a generation that members have acted on is never forgotten.

This class only keeps state and answers questions. `rebalance` sets timers, writes and waits.

Invariants: `leader_id` is a member whenever there is one; the counts of joined members and of supported protocols agree
with the members; a static id stands for exactly one member.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from chronik.coordinator.groups.classic.members import JoinReply, Member, Protocols, SyncReply, join_error, sync_error
from chronik.coordinator.groups.classic.subscriptions import CONSUMER, subscribed_topics
from chronik.coordinator.groups.group import NO_TIMESTAMP, Expiry
from chronik.coordinator.groups.member_memory import MEMBER_BYTES, MemberMemory
from chronik.coordinator.groups.records import group_removed
from chronik.coordinator.shard import CoordinatorRecord
from chronik.runtime.invariants import broken, check
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.describe_groups import DescribedGroup
from chronik.wire.messages.group_records import GroupMetadataValue
from chronik.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from chronik.wire.messages.offset_commit import OffsetCommitRequest
from chronik.wire.messages.sync_group import SyncGroupResponse


class GroupState(StrEnum):
    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


CAN_FOLLOW: Final = {
    GroupState.EMPTY: (GroupState.PREPARING,),
    GroupState.PREPARING: (GroupState.EMPTY, GroupState.COMPLETING, GroupState.STABLE),
    GroupState.COMPLETING: (GroupState.PREPARING,),
    GroupState.STABLE: (GroupState.COMPLETING,),
    GroupState.DEAD: tuple(GroupState),
}


class ClassicGroup:
    type: Final = "classic"

    def __init__(self, group_id: str, memory: MemberMemory, now_ms: int = NO_TIMESTAMP) -> None:
        self.group_id = group_id
        self.memory = memory  # counts the memory of the members
        self.stored: GroupMetadataValue | None = None  # None: the log only has offsets of this group
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.DEAD
        self.state_since_ms = now_ms
        self.generation = 0
        self.protocol_type: str | None = None  # None: a simple group, which only stores offsets
        self.protocol: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}  # group.instance.id to member id
        self.pending_joins: dict[str, None] = {}  # ids sent with MEMBER_ID_REQUIRED to clients that have not joined yet
        self.pending_syncs: dict[str, None] = {}  # members of this generation that have not sent SyncGroup
        self.joined_count = 0  # members with a waiting JoinGroup
        self.is_assigned = False  # the leader has sent this generation's assignment
        self.has_new_member = False  # since the initial delay was last started
        self.topics: frozenset[str] | None = None  # subscribed topics; None if unknown
        self._supporters: dict[str, int] = {}  # protocol name to the number of members that support it

    # --- the group's record

    def restore(self) -> None:
        """Starts from the replayed record. Members count as present until their sessions expire."""
        stored = self.stored
        if stored is None:
            return
        self.state = GroupState.STABLE if stored.members else GroupState.EMPTY
        self.state_since_ms = stored.current_state_timestamp
        self.generation = stored.generation
        self.protocol_type = stored.protocol_type or None
        self.protocol = stored.protocol
        for member in stored.members:
            self.add(Member.from_record(member, stored.protocol or ""), self.protocol_type or "")
        self.leader_id = stored.leader if stored.leader in self.members else next(iter(self.members), None)
        self.topics = self._subscribed_topics()
        self._check_books()

    def to_stored(self, assignments: dict[str, bytes]) -> GroupMetadataValue:
        check(
            assignments.keys() >= self.members.keys() or not self.members,
            "18 an assignment is of all members",
            group=self.group_id,
            generation=self.generation,
        )
        check(
            self.stored is None or self.generation >= self.stored.generation,
            "18 generations only go up",
            group=self.group_id,
            before=self.stored and self.stored.generation,
            now=self.generation,
        )
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader_id,
            current_state_timestamp=self.state_since_ms,
            members=[
                member.to_record(self.protocol, assignments[member_id]) for member_id, member in self.members.items()
            ],
        )

    def begin_as_stable(self) -> None:
        """Continues after a downgrade from a consumer group: the members have an assignment and need not rejoin."""
        self.state = GroupState.STABLE
        self.protocol = self.select_protocol()
        self.topics = self._subscribed_topics()
        self._check_books()

    # --- state

    def transition(self, state: GroupState, now_ms: int) -> None:
        check(
            self.state in CAN_FOLLOW[state],
            "30 a group goes from state to state as allowed",
            group=self.group_id,
            before=self.state,
            now=state,
        )
        self.previous_state, self.state = self.state, state
        self.state_since_ms = now_ms

    def begin_generation(self, now_ms: int) -> None:
        """Ends the join phase: the present members form the next generation."""
        check(
            self.state is GroupState.PREPARING,
            "18 a generation begins with a round of joining",
            group=self.group_id,
            state=self.state,
        )
        self._check_books()
        self.generation += 1
        self.is_assigned = False
        self.protocol = self.select_protocol() if self.members else None
        check(
            self.protocol is None or self._supporters.get(self.protocol) == len(self.members),
            "18 all members support the protocol of their group",
            group=self.group_id,
            protocol=self.protocol,
            generation=self.generation,
        )
        self.topics = self._subscribed_topics()
        self.transition(GroupState.COMPLETING if self.members else GroupState.EMPTY, now_ms)
        self.pending_syncs.clear()

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member reads the topic. If the subscriptions are unknown, a group of consumers may read every
        topic."""
        return self.uses_consumer_protocol if self.topics is None else topic in self.topics

    def _subscribed_topics(self) -> frozenset[str] | None:
        if not self.uses_consumer_protocol:
            return None
        if not self.members:
            return frozenset()
        if self.protocol is None:
            return None
        return subscribed_topics([member.metadata(self.protocol) for member in self.members.values()])

    # --- interface of all kinds of groups

    def may_commit(self, request: OffsetCommitRequest, version: int) -> ErrorCode:
        """Allowed for a member of the current generation; for every client (generation -1) while the group has no
        members."""
        generation = request.generation_id_or_member_epoch
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation < 0 and self.state is GroupState.EMPTY:
            return ErrorCode.NONE
        if generation < 0 and not request.member_id and request.group_instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if error := self.identify(request.member_id, request.group_instance_id):
            return error
        if generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        # The member knows the current generation, but owns no partitions until it has its assignment.
        return ErrorCode.REBALANCE_IN_PROGRESS if self.state is GroupState.COMPLETING else ErrorCode.NONE

    def may_commit_in_transaction(self, request: OffsetCommitRequest) -> ErrorCode:
        """Allowed for a member of the current generation, whatever the group's state, and for a producer that names
        neither a member nor a generation."""
        generation = request.generation_id_or_member_epoch
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation < 0 and self.state is GroupState.EMPTY:
            return ErrorCode.NONE
        if generation < 0 and not request.member_id and request.group_instance_id is None:
            return ErrorCode.NONE
        if error := self.identify(request.member_id, request.group_instance_id):
            return error
        return ErrorCode.NONE if generation == self.generation else ErrorCode.ILLEGAL_GENERATION

    def may_fetch_offsets(self, member_id: str | None, epoch: int) -> ErrorCode:
        return ErrorCode.NONE

    def may_delete_offsets(self) -> ErrorCode:
        if self.state is GroupState.DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        is_known = self.state is GroupState.EMPTY or self.uses_consumer_protocol
        return ErrorCode.NONE if is_known else ErrorCode.NON_EMPTY_GROUP

    def may_be_deleted(self) -> ErrorCode:
        if self.state is GroupState.DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.NONE if self.state is GroupState.EMPTY else ErrorCode.NON_EMPTY_GROUP

    def describe(self) -> DescribedGroup | None:
        if self.state is GroupState.DEAD:
            return None
        protocol = self.protocol if self.state is GroupState.STABLE else None
        return DescribedGroup(
            error_code=ErrorCode.NONE,
            group_id=self.group_id,
            group_state=self.state,
            protocol_type=self.protocol_type or "",
            protocol_data=protocol or "",
            members=[member.to_described(protocol) for member in self.members.values()],
        )

    def expire(self) -> Expiry:
        if self.state is GroupState.EMPTY:
            since_ms = NO_TIMESTAMP if self.protocol_type is None else self.state_since_ms
            return Expiry(offsets_may_go=True, since_ms=since_ms, group_may_go=not self.pending_joins)
        is_known = self.state is GroupState.STABLE and self.uses_consumer_protocol and self.topics is not None
        return Expiry(offsets_may_go=is_known, since_ms=NO_TIMESTAMP, group_may_go=False)

    @property
    def is_stored(self) -> bool:
        return self.stored is not None

    def removal(self) -> list[CoordinatorRecord]:
        return [group_removed(self.group_id)]

    # --- members

    def add(self, member: Member, protocol_type: str) -> None:
        if member.group_instance_id is not None:
            check(
                member.group_instance_id not in self.static_members,
                "18 a static id has one member",
                group=self.group_id,
                instance=member.group_instance_id,
            )
            self.static_members[member.group_instance_id] = member.member_id
        check(
            member.member_id not in self.members, "18 a member joins once", group=self.group_id, member=member.member_id
        )
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count_protocols(member.protocols, +1)
        self._count_bytes(member)
        self._join_no_longer_pending(member.member_id)

    def await_id(self, member_id: str) -> None:
        """Expects the client that got this id to join with it."""
        check(
            member_id not in self.members and member_id not in self.pending_joins,
            "18 a member's id is given once",
            group=self.group_id,
            member=member_id,
        )
        self.pending_joins[member_id] = None
        self.memory.change(MEMBER_BYTES + len(member_id))

    def _join_no_longer_pending(self, member_id: str) -> None:
        if member_id in self.pending_joins:
            del self.pending_joins[member_id]
            self.memory.change(-MEMBER_BYTES - len(member_id))

    def _count_bytes(self, member: Member, size_bytes: int | None = None) -> None:
        """`size_bytes` is 0 when the member is removed."""
        size_bytes = member.size_bytes if size_bytes is None else size_bytes
        more_bytes, member.held_bytes = size_bytes - member.held_bytes, size_bytes
        self.memory.change(more_bytes)

    def let_go(self) -> None:
        """Another coordinator has the group now: its members no longer count here."""
        for member in self.members.values():
            self._count_bytes(member, 0)
        for member_id in list(self.pending_joins):
            self._join_no_longer_pending(member_id)

    def remove(self, member_id: str) -> Member | None:
        """Removes a member or a pending one. Its pending request fails with UNKNOWN_MEMBER_ID."""
        self._join_no_longer_pending(member_id)
        self.pending_syncs.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count_bytes(member, 0)
            # A new member may be dropped while its join waits; it joins again if it is still alive.
            self.answer_join(member, join_error(ErrorCode.UNKNOWN_MEMBER_ID))
            self.answer_sync(member, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
            self._count_protocols(member.protocols, -1)
            if member.group_instance_id is not None:
                del self.static_members[member.group_instance_id]
        if member_id == self.leader_id:
            self.leader_id = next(iter(self.members), None)
        self._check_books()
        return member

    def update(self, member: Member, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int) -> None:
        self._count_protocols(member.protocols, -1)
        member.protocols = protocols
        self._count_protocols(protocols, +1)
        self._count_bytes(member)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def assign(self, member: Member, assignment: bytes) -> None:
        member.assignment = assignment
        self._count_bytes(member)

    def replace_static(self, old_member_id: str, new_member_id: str) -> Member:
        """Gives a static member's place, including its assignment, to its next process, and fences the old one."""
        member = self.members.pop(old_member_id)
        instance_id = member.group_instance_id
        check(
            instance_id is not None and self.static_members.get(instance_id) == old_member_id,
            "18 only static members are replaced",
            group=self.group_id,
            member=old_member_id,
            instance=instance_id,
        )
        check(
            new_member_id not in self.members,
            "18 a member's id is given once",
            group=self.group_id,
            member=new_member_id,
        )
        self.answer_join(member, join_error(ErrorCode.FENCED_INSTANCE_ID, old_member_id))
        self.answer_sync(member, sync_error(ErrorCode.FENCED_INSTANCE_ID))
        member.member_id = new_member_id
        self.members[new_member_id] = member
        self.static_members[str(instance_id)] = new_member_id
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        return member

    def identify(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Checks the member's identity. If another member has the static id now, this one was replaced and is
        fenced."""
        if group_instance_id is not None:
            current = self.static_members.get(group_instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    @property
    def has_all_joined(self) -> bool:
        return self.joined_count == len(self.members) and not self.pending_joins

    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Keeps the leader if it has rejoined; else elects the first member that has. False if no leader can be
        elected."""
        if self.leader_id is not None and self.members[self.leader_id].join_reply is not None:
            return True
        joined = next((member for member in self.members.values() if member.join_reply is not None), None)
        if self.leader_id is None or joined is None:
            return False
        self.leader_id = joined.member_id
        return True

    # --- protocols

    def supports(self, protocol_type: str, names: set[str]) -> bool:
        """Whether a client with these protocols could join: all members must support one of them."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(names)
        everyone = len(self.members)
        return protocol_type == self.protocol_type and any(self._supporters.get(name, 0) == everyone for name in names)

    def select_protocol(self) -> str:
        """Each member votes for its first protocol that all members support. The first protocol wins a tie."""
        everyone = len(self.members)
        candidates = frozenset(name for name, count in self._supporters.items() if count == everyone)
        check(
            len(candidates) > 0,
            "18 all members support a protocol of their group",
            group=self.group_id,
            members=everyone,
            supporters=self._supporters,
        )
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=votes.__getitem__)

    def _check_books(self) -> None:
        """Checks that `leader_id`, static ids and pending ids agree with the members."""
        if (self.leader_id is None) != (not self.members):
            broken("18 a group with members has a leader", group=self.group_id, leader=self.leader_id)
        if self.leader_id is not None and self.leader_id not in self.members:
            broken("18 a group's leader is a member", group=self.group_id, leader=self.leader_id)
        if len(self.static_members) > len(self.members):
            broken("18 a static id stands for one member", group=self.group_id, static=len(self.static_members))
        if not 0 <= self.joined_count <= len(self.members):
            broken("27 a member waits for one join", group=self.group_id, waiting=self.joined_count)
        if self.pending_joins and not self.members.keys().isdisjoint(self.pending_joins):
            broken("18 who has joined is not expected to join", group=self.group_id)
        if self.generation < 0:
            broken("18 generations are counted from 0", group=self.group_id, generation=self.generation)

    def _count_protocols(self, protocols: Protocols, step: int) -> None:
        for name in {name for name, _ in protocols}:
            count = self._supporters.get(name, 0) + step
            if count < 0:
                broken("26 protocols are counted by member", group=self.group_id, protocol=name, count=count)
            if count:
                self._supporters[name] = count
            else:
                del self._supporters[name]

    # --- responses

    def await_join(self, member: Member, reply: JoinReply) -> None:
        """Keeps a join until it is answered. An earlier join of the same member is answered now, so none stays
        unanswered."""
        self.answer_join(member, join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        self.joined_count += 1
        check(
            self.joined_count <= len(self.members),
            "27 a member waits for one join",
            group=self.group_id,
            waiting=self.joined_count,
            members=len(self.members),
        )
        member.join_reply = reply

    def await_sync(self, member: Member, reply: SyncReply) -> None:
        self.answer_sync(member, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync_reply = reply

    def answer_join(self, member: Member, response: JoinGroupResponse) -> None:
        reply, member.join_reply = member.join_reply, None
        if reply is not None:
            self.joined_count -= 1
            check(self.joined_count >= 0, "27 a join is answered once", group=self.group_id, member=member.member_id)
            reply(response)

    def answer_sync(self, member: Member, response: SyncGroupResponse) -> bool:
        reply, member.sync_reply = member.sync_reply, None
        if reply is not None:
            reply(response)
        return reply is not None

    def joined(self, member_id: str, *, with_members: bool, skip_assignment: bool = False) -> JoinGroupResponse:
        """The JoinGroup response for `member_id`. Only the member that must assign gets the list of members."""
        return JoinGroupResponse(
            error_code=ErrorCode.NONE,
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol,
            leader=self.leader_id or "",
            skip_assignment=skip_assignment,
            member_id=member_id,
            members=self._joined_members() if with_members else [],
        )

    def _joined_members(self) -> list[JoinGroupResponseMember]:
        return [member.to_joined(self.protocol) for member in self.members.values()]
