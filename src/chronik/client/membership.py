"""A member of a classic group: joins, takes part in assignment rounds, sends heartbeats, leaves.

A round is JoinGroup, which the coordinator answers when all members have joined, and SyncGroup, which distributes the
leader's assignment. `join` returns this member's partitions, after as many rounds as necessary. Then heartbeats run in
the background until `needs_join` reports that the group is rebalancing: the owner must revoke partitions and join
again.
This module never fetches or commits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from chronik.client.admin.groups import CONSUMER_PROTOCOL, assigned_partitions
from chronik.client.assignors import Assignor, Subscription, assignor_named
from chronik.client.errors import BadAnswer, ClientError, Refused, Unreachable
from chronik.client.leaders import by_topic
from chronik.client.topology import TopicPartition
from chronik.peer.backoff import Backoff
from chronik.runtime.invariants import check
from chronik.runtime.tasks import Tasks
from chronik.wire.compiler import decoder_of, encode
from chronik.wire.error_codes import ErrorCode
from chronik.wire.errors import Malformed
from chronik.wire.messages import consumer_protocol as protocol
from chronik.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from chronik.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from chronik.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from chronik.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient

SESSION_TIMEOUT_MS: Final = 45_000
REBALANCE_TIMEOUT_MS: Final = 60_000
HEARTBEAT_MS: Final = 3_000
ANSWER_TIMEOUT_MS: Final = 10_000
TOPICS_CHECK_MS: Final = 60_000  # how soon the leader notices a topic's new partitions
PURPOSE: Final = "group"  # a separate connection, since a join may take as long as the slowest member
NO_GENERATION: Final = -1
_VERSION_BYTES: Final = 2

# Errors that mean that the coordinator no longer knows this member; it must join as a new one.
FORGOTTEN: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})
REJOIN: Final = FORGOTTEN | {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.MEMBER_ID_REQUIRED}


class Member(NamedTuple):
    """The member on whose behalf offsets are committed; without a member id, the group as a whole."""

    group_id: str
    member_id: str = ""
    generation: int = NO_GENERATION
    instance_id: str | None = None


class Membership:
    def __init__(
        self,
        cluster: ClusterClient,
        group_id: str,
        *,
        topics: Sequence[str],
        assignors: Sequence[str] = ("range",),
        instance_id: str | None = None,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        rebalance_timeout_ms: int = REBALANCE_TIMEOUT_MS,
        heartbeat_ms: int = HEARTBEAT_MS,
    ) -> None:
        self._cluster = cluster
        self.group_id = group_id
        self.topics = tuple(topics)
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = NO_GENERATION
        self.needs_join = True
        self.is_forgotten = False  # since it last owned partitions: others may have continued reading them
        self.fault: ClientError | None = None  # the permanent error that ended this membership
        self._assignors = [assignor_named(name) for name in assignors]
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._heartbeat_ms = heartbeat_ms
        self._counts: dict[str, int] = {}  # topic: partition count in the leader's last assignment
        self._is_leader = False
        self._tasks = Tasks("membership")
        self._backoff = Backoff(cluster.randomness)

    @property
    def is_cooperative(self) -> bool:
        """Whether members keep reading their partitions during a rebalance."""
        return all(assignor.is_cooperative for assignor in self._assignors)

    async def join(self, owned: Sequence[TopicPartition]) -> tuple[TopicPartition, ...]:
        """Takes part in rounds until one ends with an assignment. `owned` are the partitions that this member still
        reads. If the group has dropped the member (`is_forgotten`, also during the join) it claims none of them.
        """
        if self.fault is not None:
            raise self.fault
        await self._tasks.stop()
        while True:
            self.needs_join = False
            try:
                partitions = await self._round(() if self.is_forgotten else owned)
            except (Refused, Unreachable) as fault:
                if not self._may_join_again(fault):
                    raise
                if fault.retriable:
                    await asyncio.sleep(self._backoff.next_ms() / 1000)
            else:
                self._backoff.reset()
                self._tasks.start("heartbeats", self._heartbeats())
                return partitions

    async def leave(self) -> None:
        """Releases this member's partitions at once. A static member keeps its membership instead."""
        await self._tasks.stop()
        if not self.member_id or self.instance_id is not None:
            return
        request = LeaveGroupRequest(
            group_id=self.group_id, members=[MemberIdentity(member_id=self.member_id, reason="the consumer was closed")]
        )
        with suppress(Refused, Unreachable):  # the session timeout has the same effect, later
            await self._cluster.ask_coordinator(
                self.group_id, request, LeaveGroupResponse, version_min=3, timeout_ms=ANSWER_TIMEOUT_MS, purpose=PURPOSE
            )
        self._forget()

    # --- one round

    async def _round(self, owned: Sequence[TopicPartition]) -> tuple[TopicPartition, ...]:
        joined = await self._join(owned)
        chosen = joined.protocol_name or ""
        self._is_leader = joined.leader == self.member_id
        assignments: list[SyncGroupRequestAssignment] = []
        if self._is_leader:
            await self._learn_counts({topic for member in joined.members for topic in _subscription(member).topics})
            if not joined.skip_assignment:
                assignments = self._decide(chosen, joined.members)
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=CONSUMER_PROTOCOL,
            protocol_name=chosen,
            assignments=assignments,
        )
        response = await self._cluster.ask_coordinator(
            self.group_id, request, SyncGroupResponse, timeout_ms=self._answer_timeout_ms(), purpose=PURPOSE
        )
        self._refuse(response.error_code, "sync")
        return assigned_partitions(response.assignment)

    async def _join(self, owned: Sequence[TopicPartition]) -> JoinGroupResponse:
        metadata = _encode_subscription(self.topics, owned, self.generation)
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=CONSUMER_PROTOCOL,
            protocols=[JoinGroupRequestProtocol(name=each.name, metadata=metadata) for each in self._assignors],
        )
        response = await self._cluster.ask_coordinator(
            self.group_id, request, JoinGroupResponse, timeout_ms=self._answer_timeout_ms(), purpose=PURPOSE
        )
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        self._refuse(response.error_code, "join")
        self.member_id, self.generation = response.member_id, response.generation_id
        return response

    def _decide(self, chosen: str, members: list[JoinGroupResponseMember]) -> list[SyncGroupRequestAssignment]:
        subscriptions = {member.member_id: _subscription(member) for member in members}
        assigned = self._assignor(chosen).assign(self._counts, subscriptions)
        check(
            assigned.keys() <= subscriptions.keys(),
            "18 only members are assigned partitions",
            group=self.group_id,
            generation=self.generation,
        )
        given = [at for partitions in assigned.values() for at in partitions]
        check(
            len(set(given)) == len(given),
            "18 one owner per partition and generation",
            group=self.group_id,
            generation=self.generation,
            partitions=len(given),
        )
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=_encode_assignment(partitions))
            for member_id, partitions in assigned.items()
        ]

    def _assignor(self, name: str) -> Assignor:
        for assignor in self._assignors:
            if assignor.name == name:
                return assignor
        raise BadAnswer(f"group {self.group_id!r} chose the assignor {name!r}, which this member did not offer")

    async def _learn_counts(self, topics: set[str]) -> None:
        topology = await self._cluster.retrying(lambda: self._cluster.refresh(sorted(topics)))
        self._counts = {
            name: len(topology.topics[name].partitions) for name in sorted(topics) if name in topology.topics
        }

    def _answer_timeout_ms(self) -> int:
        return self._rebalance_timeout_ms + ANSWER_TIMEOUT_MS

    # --- staying alive

    async def _heartbeats(self) -> None:
        since_check_ms = 0
        while not self.needs_join:
            await asyncio.sleep(self._heartbeat_ms / 1000)
            try:
                await self._heartbeat()
                since_check_ms += self._heartbeat_ms
                if self._is_leader and since_check_ms >= TOPICS_CHECK_MS:
                    since_check_ms = 0
                    before = dict(self._counts)
                    await self._learn_counts(set(self.topics) | before.keys())
                    self.needs_join = self._counts != before
            except Unreachable:
                continue  # the session survives a few lost heartbeats
            except Refused as fault:
                if self._may_join_again(fault):
                    self.needs_join = not fault.retriable
                else:
                    self.fault = fault
                    self.needs_join = True

    async def _heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        response = await self._cluster.ask_coordinator(
            self.group_id, request, HeartbeatResponse, timeout_ms=ANSWER_TIMEOUT_MS, purpose=PURPOSE
        )
        self._refuse(response.error_code, "stay in")

    # --- errors

    def _refuse(self, code: int, verb: str) -> None:
        self._cluster.refuse_from_coordinator(self.group_id, code, f"cannot {verb} group {self.group_id!r}")

    def _may_join_again(self, fault: ClientError) -> bool:
        """Whether joining again helps; records that the coordinator has dropped this member."""
        code = fault.kafka_error if isinstance(fault, Refused) else None
        if code in FORGOTTEN:
            self._forget()
        return fault.retriable or code in REJOIN

    def _forget(self) -> None:
        self.member_id, self.generation = "", NO_GENERATION
        self.is_forgotten = True


def _encode_subscription(topics: Sequence[str], owned: Sequence[TopicPartition], generation: int) -> bytes:
    version = protocol.ConsumerProtocolSubscription.versions.last
    subscription = protocol.ConsumerProtocolSubscription(
        topics=sorted(topics), owned_partitions=_wire_partitions(owned), generation_id=generation
    )
    return version.to_bytes(_VERSION_BYTES, "big") + encode(subscription, version)


def _encode_assignment(partitions: Sequence[TopicPartition]) -> bytes:
    version = protocol.ConsumerProtocolAssignment.versions.last
    assignment = protocol.ConsumerProtocolAssignment(assigned_partitions=_wire_partitions(partitions))
    return version.to_bytes(_VERSION_BYTES, "big") + encode(assignment, version)


def _wire_partitions(partitions: Sequence[TopicPartition]) -> list[protocol.TopicPartition]:
    return [
        protocol.TopicPartition(topic=topic, partitions=[at.partition for at in them])
        for topic, them in by_topic(partitions).items()
    ]


def _subscription(member: JoinGroupResponseMember) -> Subscription:
    """A member's subscription, from any client; a newer version is decoded as the newest known one."""
    data = memoryview(member.metadata)
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    try:
        told, _ = decoder_of(
            protocol.ConsumerProtocolSubscription, min(version, protocol.ConsumerProtocolSubscription.versions.last)
        )(data, _VERSION_BYTES)
    except Malformed as fault:
        raise BadAnswer(f"the subscription of member {member.member_id!r} cannot be read: {fault}") from fault
    owned = tuple(TopicPartition(each.topic, index) for each in told.owned_partitions for index in each.partitions)
    return Subscription(tuple(told.topics), owned, told.generation_id, member.group_instance_id)
