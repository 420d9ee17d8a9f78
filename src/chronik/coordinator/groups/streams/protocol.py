"""The streams protocol in one shard: replays its records, and carries out what heartbeats and time bring about.

Records are replayed when they are appended, and answers wait until they are committed; so do answers without records.
Shares the table of groups with the other kinds.

A member has a session timer, and a rebalance timer while it has to give up tasks. A new group waits for a while before
its first rebalance, so that an application with many threads starts with one assignment. Internal topics that are
missing are told to the caller of `heartbeat`, who creates them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from chronik.coordinator.groups.classic.group import ClassicGroup, GroupState
from chronik.coordinator.groups.classic.protocol import ClassicProtocol
from chronik.coordinator.groups.config import GroupsConfig
from chronik.coordinator.groups.consumer.requests import Refused, refuse
from chronik.coordinator.groups.consumer.topics import Topics
from chronik.coordinator.groups.group import Group
from chronik.coordinator.groups.member_memory import MEMBER_BYTES_MAX, MemberMemory
from chronik.coordinator.groups.requests import Caller
from chronik.coordinator.groups.streams import describing, records, requests
from chronik.coordinator.groups.streams.deciding import Change
from chronik.coordinator.groups.streams.group import StreamsGroup
from chronik.coordinator.groups.streams.member import JOINS, LEAVES, Member, MemberState
from chronik.coordinator.groups.streams.settings import StreamsGroupSettings, settings_of
from chronik.coordinator.groups.streams.topology import InternalTopic, Status, StatusCode, Topology, topology_of
from chronik.coordinator.shard import CoordinatorRecord, OnWritten, Writer
from chronik.coordinator.timers import Timers
from chronik.metadata.delta import Changes
from chronik.metadata.image import Image
from chronik.runtime.interfaces import Clock
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from chronik.wire.messages.streams_group_records import StreamsGroupMetadataKey

log = logging.getLogger("chronik.coordinator.groups")

RETRY_MS: Final = 1_000  # before a removal that the log refused is tried again
SOON_MS: Final = 500  # until the next heartbeat of a member that waits: Kafka's waits for a whole interval

HeartbeatReply = Callable[[StreamsGroupHeartbeatResponse, tuple[InternalTopic, ...]], None]


class StreamsProtocol:
    def __init__(
        self,
        groups: dict[str, Group],
        config: GroupsConfig,
        clock: Clock,
        writer: Writer,
        timers: Timers,
        memory: MemberMemory,
        topics: Topics,
        classic: ClassicProtocol,
    ) -> None:
        self.topics = topics  # of the shard; the consumer protocol follows the image
        self._groups = groups
        self._config = config
        self._clock = clock
        self._writer = writer
        self._timers = timers
        self._memory = memory
        self._classic = classic
        self._is_loading = True

    # --- what the log holds

    def replay(self, group_id: str, record: CoordinatorRecord) -> None:
        group = self._groups.get(group_id)
        if type(group) is not StreamsGroup:
            if record.value is None:
                return
            self._classic.release(group_id)
            group = StreamsGroup(group_id, self._memory)
            group.is_loading = self._is_loading
            self._groups[group_id] = group
        if record.value is None and type(record.key) is StreamsGroupMetadataKey:
            group.let_go()
            self._timers.cancel(_first_rebalance(group_id))
            del self._groups[group_id]
        else:
            group.replay(record)

    def loaded(self) -> None:
        self._is_loading = False
        for group in self._all():
            group.is_loading = False
            for member in group.members.values():
                self._keep_alive(group, member)
                self._watch_revocation(group, member)

    def unloaded(self) -> None:
        for group in self._all():
            group.let_go()

    def image_changed(self, image: Image, changes: Changes) -> None:
        """`topics` has followed the image already."""
        names = {topic.name for topic in (*changes.topics_added, *changes.topics_removed)}
        names.update(after.name for _, after in changes.topics_changed)
        if names:
            for group in self._all():
                if group.topology is not None and not names.isdisjoint(group.topology.topics):
                    group.is_stale = True

    def _all(self) -> list[StreamsGroup]:
        return [group for group in self._groups.values() if type(group) is StreamsGroup]

    def find(self, group_id: str) -> StreamsGroup | None:
        group = self._groups.get(group_id)
        return group if type(group) is StreamsGroup else None

    def _group(self, group_id: str) -> StreamsGroup:
        group = self._groups.get(group_id)
        if type(group) is not StreamsGroup:
            what = "does not exist" if group is None else "is not a streams group"
            refuse(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id} {what}")
        return group

    # --- StreamsGroupHeartbeat

    def heartbeat(self, request: StreamsGroupHeartbeatRequest, caller: Caller, reply: HeartbeatReply) -> None:
        try:
            requests.require_valid(request)
            if request.member_epoch == LEAVES:
                self._leave(request, reply)
            else:
                self._beat(request, caller, reply)
        except Refused as fault:
            reply(requests.refused(fault.error, str(fault)), ())

    def _beat(self, request: StreamsGroupHeartbeatRequest, caller: Caller, reply: HeartbeatReply) -> None:
        group_id, joins = request.group_id, request.member_epoch == JOINS
        written: list[CoordinatorRecord] = []
        group = self._found_or_made(group_id, written) if joins else self._group(group_id)
        if joins and len(group.members) >= self._config.streams.size_max:
            message = f"group {group_id} has {self._config.streams.size_max} members, as many as it may"
            refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, message)
        before = group.members.get(request.member_id)
        if before is None:
            if not joins:
                refuse(ErrorCode.UNKNOWN_MEMBER_ID, f"member {request.member_id} is not in group {group_id}")
            before = Member(request.member_id)
        named = requests.named_tasks(request)
        requests.require_epoch(before, request.member_epoch, named)
        settings = self.settings(group_id)
        updated = requests.told(before, request, caller.client_id or "", caller.client_host)
        sent = None if request.topology is None else topology_of(request.topology)
        self._require_memory(group, before, updated, sent)
        change = Change(group, self.topics, settings, self._clock.wall_ms(), written, before)
        change.tell(updated, sent)
        configured = change.refresh()
        change.raise_epoch(configured, named)
        delay_ms = settings.initial_rebalance_delay_ms
        begins = not group.members and delay_ms > 0
        change.assign(configured, is_delayed=begins or _first_rebalance(group_id) in self._timers)
        after = change.reconcile(updated, named)
        if configured.status is not None:
            change.statuses.append(configured.status)
        shutdown_member_id = group.shutdown_member_id or (request.member_id if request.shutdown_application else None)
        if shutdown_member_id is not None:
            detail = (
                f"Streams group member {shutdown_member_id} encountered a fatal error and requested a shutdown for "
                "the entire application."
            )
            change.statuses.append(Status(StatusCode.SHUTDOWN_APPLICATION, detail))
        has_other_tasks = joins or after.assigned != before.assigned
        interval_ms = settings.heartbeat_interval_ms
        if after.state is MemberState.UNRELEASED or _waits(change.statuses):
            interval_ms = min(interval_ms, SOON_MS)
        # A client that names other tasks than it should have did not get the answer that told it.
        with_tasks = has_other_tasks or (named is not None and named != after.assigned.undated)
        answer = requests.answer(after, interval_ms, change.statuses, with_tasks=with_tasks)
        is_new = group_id not in self._groups or type(self._groups[group_id]) is not StreamsGroup
        endpoint_epoch = group.endpoint_epoch + (has_other_tasks and after.endpoint is not None)
        if endpoint_epoch != request.endpoint_information_epoch:
            others = [each for key, each in group.members.items() if key != after.member_id]
            answer.partitions_by_user_endpoint = describing.endpoints(
                [*others, after], configured, change.partitions_of
            )
        answer.endpoint_information_epoch = 0 if is_new else endpoint_epoch

        def done(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                reply(answer, configured.missing)
            else:
                reply(requests.refused(error), ())

        if not self._writer.write(written, done):
            return
        made = self.find(group_id)
        if made is None:
            return
        if change.is_refreshed:
            made.configured, made.is_stale = configured, False
        made.shutdown_member_id = shutdown_member_id
        if not is_new:
            made.endpoint_epoch = endpoint_epoch
        if begins:
            self._timers.set(_first_rebalance(group_id), delay_ms, partial(self._rebalance_first, group_id))
        self._keep_alive(made, after, settings)
        if (after.state, after.member_epoch, after.revoking) != (before.state, before.member_epoch, before.revoking):
            self._watch_revocation(made, after)

    def _found_or_made(self, group_id: str, written: list[CoordinatorRecord]) -> StreamsGroup:
        """The group that a member joins. One that does not exist in this form yet is made of the records in `written`,
        and is only looked at until these are replayed."""
        found = self._groups.get(group_id)
        if type(found) is ClassicGroup and found.state is GroupState.EMPTY:
            written += found.removal()
        elif found is not None:
            return self._group(group_id)
        return StreamsGroup(group_id, MemberMemory())

    def _require_memory(self, group: StreamsGroup, before: Member, after: Member, sent: Topology | None) -> None:
        size_bytes = after.size_bytes + (sent.size_bytes if sent is not None and group.topology is None else 0)
        if size_bytes > MEMBER_BYTES_MAX:
            refuse(ErrorCode.MESSAGE_TOO_LARGE, f"the member and its topology take {size_bytes} bytes")
        held_bytes = before.size_bytes if before.member_id in group.members else 0
        if not self._memory.has_room(size_bytes - held_bytes):
            refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE, "this broker's memory for members of groups is full")

    # --- what time brings about

    def _rebalance_first(self, group_id: str) -> None:
        """The wait of a new group is over: everybody who has come by now gets tasks."""
        group = self.find(group_id)
        if group is None or not group.members or group.configured is None or group.epoch <= group.target_epoch:
            return
        change = Change(group, self.topics, self.settings(group_id), self._clock.wall_ms(), [], None)
        change.assign(group.configured, is_delayed=False)
        if change.records and not self._writer.write(change.records, partial(_log_failure, group_id)):
            self._timers.set(_first_rebalance(group_id), RETRY_MS, partial(self._rebalance_first, group_id))

    def _leave(self, request: StreamsGroupHeartbeatRequest, reply: HeartbeatReply) -> None:
        group = self._group(request.group_id)
        member = group.members.get(request.member_id)
        if member is None:
            refuse(ErrorCode.UNKNOWN_MEMBER_ID, f"member {request.member_id} is not in group {group.group_id}")
        if request.shutdown_application and group.shutdown_member_id is None:
            group.shutdown_member_id = request.member_id
        answer = requests.left(request.member_id, request.member_epoch)
        self._remove(group, member, lambda error: reply(requests.refused(error) if error else answer, ()))

    def _remove(self, group: StreamsGroup, member: Member, done: OnWritten) -> bool:
        written = records.member_removed(group.group_id, member.member_id)
        written.append(
            records.epoch_record(
                group.group_id,
                group.epoch + 1,
                group.metadata_hash,
                group.validated_topology_epoch,
                group.standby_replicas,
            )
        )
        if not self._writer.write(written, done):
            return False
        for kind in (SESSION, REVOCATION):
            self._timers.cancel((kind, group.group_id, member.member_id))
        return True

    def _fence(self, group_id: str, member_id: str, reason: str) -> None:
        group = self.find(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None:
            return
        log.info("group %s: member %s is removed: %s", group_id, member_id, reason)
        if not self._remove(group, member, partial(_log_failure, group_id)):
            self._timers.set(
                (SESSION, group_id, member_id), RETRY_MS, partial(self._fence, group_id, member_id, reason)
            )

    def _keep_alive(self, group: StreamsGroup, member: Member, settings: StreamsGroupSettings | None = None) -> None:
        timeout_ms = (settings or self.settings(group.group_id)).session_timeout_ms
        group_id, member_id = group.group_id, member.member_id
        over = partial(self._fence, group_id, member_id, "it was silent for its session time-out")
        self._timers.set((SESSION, group_id, member_id), timeout_ms, over)

    def _watch_revocation(self, group: StreamsGroup, member: Member) -> None:
        """A member that does not give up what it has to is out after its rebalance time-out."""
        key = (REVOCATION, group.group_id, member.member_id)
        if member.state is not MemberState.UNREVOKED:
            self._timers.cancel(key)
        else:
            over = partial(self._revocation_over, group.group_id, member.member_id, member.member_epoch)
            self._timers.set(key, max(member.rebalance_timeout_ms, 0), over)

    def _revocation_over(self, group_id: str, member_id: str, epoch: int) -> None:
        group = self.find(group_id)
        member = None if group is None else group.members.get(member_id)
        if member is not None and member.member_epoch == epoch and member.state is MemberState.UNREVOKED:
            self._fence(group_id, member_id, f"it did not give up tasks at epoch {epoch} in time")

    def settings(self, group_id: str) -> StreamsGroupSettings:
        return settings_of(group_id, self.topics.image, self._config.streams)


SESSION, REVOCATION = "streams session", "streams revocation"
WAITS_FOR: Final = (
    StatusCode.ASSIGNMENT_DELAYED,
    StatusCode.MISSING_INTERNAL_TOPICS,
    StatusCode.MISSING_SOURCE_TOPICS,
)


def _waits(statuses: list[Status]) -> bool:
    return any(each.code in WAITS_FOR for each in statuses)


def _first_rebalance(group_id: str) -> tuple[str, str]:
    return "first streams rebalance", group_id


def _log_failure(group_id: str, error: ErrorCode) -> None:
    if error is not ErrorCode.NONE:
        log.warning("group %s: its new state was not written: %s", group_id, error.name)
