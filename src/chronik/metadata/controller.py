"""Takes commands in order and decides each on the newest state, including what is proposed but not yet committed.

The working state is the last committed image with the records of all commands decided since. It lives as long as one
leadership; if a proposal fails, it is thrown away with everything decided on top of it. The controller never waits,
never sees the quorum, and answers nobody: `store` proposes what it decided and releases the replies when that holds.

A request that was applied before, by this controller or an earlier one, is not decided again: the state has its reply.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chronik.metadata.commands import (
    REPLY_OF,
    AllocateProducerIds,
    AlterConfigs,
    AlterPartition,
    AlterReassignments,
    BrokerHeartbeat,
    Command,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    FenceBroker,
    RegisterBroker,
    Reply,
    ReportLostReplicas,
    RequestId,
    UnregisterBroker,
    UpdateFeatures,
)
from chronik.metadata.decisions.brokers import broker_heartbeat, fence_broker, register_broker, unregister_broker
from chronik.metadata.decisions.configs import alter_configs
from chronik.metadata.decisions.decision import Decision, Rules
from chronik.metadata.decisions.features import update_features
from chronik.metadata.decisions.lost_replicas import report_lost_replicas
from chronik.metadata.decisions.partitions import alter_partition, create_partitions
from chronik.metadata.decisions.producer_ids import allocate_producer_ids
from chronik.metadata.decisions.reassignments import alter_reassignments, elect_leaders
from chronik.metadata.decisions.topics import create_topics, delete_topics
from chronik.metadata.delta import Delta
from chronik.metadata.errors import refuse
from chronik.metadata.image import Image, View
from chronik.metadata.records import AppliedRequestRecord, Record
from chronik.metadata.replay import replay
from chronik.metadata.sessions import BrokerSessions
from chronik.runtime.invariants import broken
from chronik.wire.compiler import decode, encode
from chronik.wire.error_codes import ErrorCode


class Controller:
    """Good for one leadership. `now_ns` of the methods is the monotonic clock's, for brokers' sessions only."""

    def __init__(self, image: Image, rules: Rules, *, session_timeout_ns: int, now_ns: int) -> None:
        self.rules = rules
        self.sessions = BrokerSessions(image, timeout_ns=session_timeout_ns, now_ns=now_ns)
        self._delta = Delta(image)

    @property
    def newest(self) -> View:
        """The state that the next command will be decided on."""
        return self._delta

    def handle(self, command: Command, request: RequestId, now_ns: int) -> Decision[Reply]:
        """Decides, and takes the decision as made. Raises MetadataRefused; then nothing changed."""
        if (earlier := self._reply_to(command, request)) is not None:
            return Decision([], earlier)
        decision = self._decide(command, now_ns)
        if not decision.records:
            return decision
        applied = AppliedRequestRecord(
            node_id=request.node_id,
            incarnation=request.incarnation,
            sequence=request.sequence,
            answered_below=request.answered_below,
            reply=encode(decision.reply, 0),
        )
        decision.records.append(applied)
        self.assume(decision.records)
        if not self.has_decided(request):
            broken(
                "5 what was decided is remembered under its request",
                node=request.node_id,
                incarnation=request.incarnation,
                sequence=request.sequence,
            )
        return decision

    def has_decided(self, request: RequestId) -> bool:
        """Whether this very request changed the newest state, and its reply is there to be given again."""
        applied = self._delta.applied.get(request.node_id)
        return (
            applied is not None and applied.incarnation == request.incarnation and request.sequence in applied.replies
        )

    def assume(self, records: list[Record]) -> None:
        """Goes on from a state in which these records hold."""
        replay(self._delta, records)

    def settle(self) -> None:
        """Lets go of what older states are not needed for; call it now and then, for example with each proposal."""
        before = self._delta
        self._delta = Delta(before.finish(0)[0])
        if len(self._delta.topics_by_name) != len(self._delta.topics) or self._delta.brokers != before.brokers:
            broken("4 what was decided stays decided", topics=len(self._delta.topics), brokers=len(before.brokers))

    def _decide(self, command: Command, now_ns: int) -> Decision[Reply]:
        view, rules = self._delta, self.rules
        if isinstance(command, RegisterBroker):
            alive = self.sessions.alive(command.broker_id, now_ns)
            registration = register_broker(view, command, rules, session_alive=alive)
            if registration.records:
                self.sessions.forget(command.broker_id)
            return registration
        decision = DECISIONS[type(command)](view, command, rules)
        if isinstance(command, BrokerHeartbeat):
            if decision.reply.is_fenced:
                self.sessions.forget(command.broker_id)
            else:
                self.sessions.heard(command.broker_id, now_ns)
        elif isinstance(command, (FenceBroker, UnregisterBroker)):
            self.sessions.forget(command.broker_id)
        return decision

    def _reply_to(self, command: Command, request: RequestId) -> Reply | None:
        """The reply given when this very request was applied; None when it is new."""
        applied = self._delta.applied.get(request.node_id)
        if applied is None or request.incarnation > applied.incarnation:
            return None
        if request.incarnation < applied.incarnation or request.sequence < applied.answered_below:
            refuse(
                ErrorCode.STALE_BROKER_EPOCH,
                f"request {request.sequence} of node {request.node_id} comes from its past, and nobody waits for it",
            )
        reply = applied.replies.get(request.sequence)
        return None if reply is None else decode(REPLY_OF[type(command)], 0, reply)


DECISIONS: dict[type[Command], Callable[[View, Any, Rules], Decision[Any]]] = {
    CreateTopics: create_topics,
    DeleteTopics: lambda view, command, _: delete_topics(view, command),
    CreatePartitions: lambda view, command, _: create_partitions(view, command),
    AlterConfigs: alter_configs,
    BrokerHeartbeat: broker_heartbeat,
    FenceBroker: fence_broker,
    UnregisterBroker: unregister_broker,
    AlterPartition: alter_partition,
    ReportLostReplicas: report_lost_replicas,
    ElectLeaders: elect_leaders,
    AlterReassignments: alter_reassignments,
    AllocateProducerIds: lambda view, command, _: allocate_producer_ids(view, command),
    UpdateFeatures: lambda view, command, _: update_features(view, command),
}
