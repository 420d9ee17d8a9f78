"""The consumer protocol in one shard: replays its records, and carries out the effects of heartbeats and timers.

Records are replayed when they are appended, and responses wait until they are committed. Responses without records wait
as well, because they depend on earlier records. Shares the table of groups with the other kinds.

A member has a session timer and, while it must revoke partitions, a rebalance timer. When either expires, the member is
removed. Its partitions are free once the removal is in the log.
"""

from __future__ import annotations

import logging
from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection
from functools import partial
from typing import NamedTuple

from chronik.coordinator.groups.classic.group import ClassicGroup, GroupState
from chronik.coordinator.groups.classic.protocol import ClassicProtocol
from chronik.coordinator.groups.config import GroupsConfig
from chronik.coordinator.groups.consumer import heartbeats, migration, records, regexes
from chronik.coordinator.groups.consumer.deciding import Change
from chronik.coordinator.groups.consumer.group import ConsumerGroup
from chronik.coordinator.groups.consumer.member import JOINS, LEAVES, LEAVES_FOR_A_WHILE, Member, MemberState
from chronik.coordinator.groups.consumer.requests import Refused, refuse, require_valid
from chronik.coordinator.groups.consumer.settings import ConsumerGroupSettings, settings_of
from chronik.coordinator.groups.consumer.topics import Topics
from chronik.coordinator.groups.group import Group
from chronik.coordinator.groups.member_memory import MEMBER_BYTES_MAX, MemberMemory
from chronik.coordinator.groups.requests import Caller
from chronik.coordinator.shard import CoordinatorRecord, OnWritten, Writer
from chronik.coordinator.timers import Timers
from chronik.metadata.delta import Changes
from chronik.metadata.image import Image, Topic
from chronik.runtime.interfaces import Clock, Randomness
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from chronik.wire.messages.consumer_group_records import ConsumerGroupMetadataKey

log = logging.getLogger("chronik.coordinator.groups")

RETRY_MS = 1_000  # before the retry of a removal that the log refused
SOON_MS = 500  # until the next heartbeat of a member that waits for partitions; Kafka's waits for a whole interval

HeartbeatReply = Callable[[ConsumerGroupHeartbeatResponse], None]


class Removal(NamedTuple):
    """Members that leave: the records, and the classic group that remains if this is a downgrade."""

    records: list[CoordinatorRecord]
    classic: ClassicGroup | None = None


class ConsumerProtocol:
    def __init__(
        self,
        groups: dict[str, Group],
        config: GroupsConfig,
        clock: Clock,
        randomness: Randomness,
        writer: Writer,
        timers: Timers,
        memory: MemberMemory,
        classic: ClassicProtocol,
    ) -> None:
        self.config = config
        self.clock = clock
        self.timers = timers
        self.topics = Topics()
        self.memory = memory
        self.classic = classic
        self._groups = groups
        self._randomness = randomness
        self._writer = writer
        self._is_loading = True
        self._newest_topic_version = 0  # the newest image with a new topic
        self._resolutions: dict[str, regexes.Resolution] = {}  # by group

    # --- replay

    def replay(self, group_id: str, record: CoordinatorRecord) -> None:
        group = self._groups.get(group_id)
        if type(group) is not ConsumerGroup:
            if record.value is None:
                return
            group = self._add(group_id)
        if record.value is None and type(record.key) is ConsumerGroupMetadataKey:
            group.let_go()
            del self._groups[group_id]
        else:
            group.replay(record)

    def _add(self, group_id: str) -> ConsumerGroup:
        """A classic group of this name ends here: the records that convert it are in the log."""
        self.classic.release(group_id)
        group = ConsumerGroup(group_id, self.memory, self.topics)
        group.is_loading = self._is_loading
        self._groups[group_id] = group
        return group

    def loaded(self) -> None:
        self._is_loading = False
        for group in self._all():
            group.is_loading = False
            for member in group.members.values():
                self.keep_alive(group, member)
                self.watch_revocation(group, member)

    def unloaded(self) -> None:
        self._resolutions.clear()
        for group in self._all():
            group.let_go()

    def image_changed(self, image: Image, changes: Changes) -> None:
        self.topics.follow(image)
        if changes.topics_added or not self._newest_topic_version:
            self._newest_topic_version = image.version
        names = {topic.name for topic in (*changes.topics_added, *changes.topics_removed)}
        names.update(after.name for before, after in changes.topics_changed if _is_other_shape(before, after))
        if names:
            for group in self._all():
                if not group.is_stale and any(group.subscribes_to(name) for name in names):
                    group.is_stale = True

    def _all(self) -> list[ConsumerGroup]:
        return [group for group in self._groups.values() if type(group) is ConsumerGroup]

    def group(self, group_id: str) -> ConsumerGroup:
        group = self._groups.get(group_id)
        if type(group) is not ConsumerGroup:
            what = "does not exist" if group is None else "is no consumer group"
            refuse(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id} {what}")
        return group

    # --- ConsumerGroupHeartbeat

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        caller: Caller,
        visible: regexes.Visible,
        reply: HeartbeatReply,
    ) -> None:
        answer = self._without_news(request, caller)
        if answer is not None:
            self._answer_when_settled(answer, reply)
            return
        try:
            require_valid(request, caller.version, self.config.consumer_assignors)
            if request.member_epoch in (LEAVES, LEAVES_FOR_A_WHILE):
                self._leave(request, reply)
            else:
                self._beat(request, caller, visible, reply)
        except Refused as fault:
            reply(heartbeats.refused(fault.error, str(fault)))

    def _answer_when_settled(self, answer: ConsumerGroupHeartbeatResponse, reply: HeartbeatReply) -> None:
        self._writer.when_settled(lambda error: reply(answer if not error else heartbeats.refused(error)))

    def _without_news(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller
    ) -> ConsumerGroupHeartbeatResponse | None:
        """The response to a member that has reached its target and sends nothing new; None for other members."""
        group = self._groups.get(request.group_id)
        if type(group) is not ConsumerGroup or group.is_stale or group.target_epoch < group.epoch:
            return None
        member = group.members.get(request.member_id)
        if (
            member is None
            or request.member_epoch <= JOINS
            or not member.is_reconciled_to(group.target_epoch)
            or not heartbeats.brings_no_news(request, member, caller.client_id or "", caller.client_host)
        ):
            return None
        settings = self.settings(group.group_id)
        self.keep_alive(group, member, settings)
        return heartbeats.answer(member, settings.heartbeat_interval_ms, with_assignment=False)

    def _beat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        caller: Caller,
        visible: regexes.Visible,
        reply: HeartbeatReply,
    ) -> None:
        group_id, now_ms = request.group_id, self.clock.wall_ms()
        joins = request.member_epoch == JOINS
        written: list[CoordinatorRecord] = []
        group = self._found_or_made(group_id, written) if joins else self.group(group_id)
        heartbeats.require_room(group, request.member_id, self.config.consumer_size_max)
        member_id = request.member_id or self.new_member_id()
        named = request.topic_partitions
        found = heartbeats.find_member(
            group,
            member_id,
            request.instance_id,
            joins=joins,
            classic=False,
            epoch=request.member_epoch,
            named=named,
        )
        before = found.member
        if found.replaced is not None:
            written += heartbeats.replace_member(group, found.replaced, before)
        settings = self.settings(group_id)
        change = Change(group, self.topics, self.config, settings, now_ms, written, before, found.replaced)
        updated = heartbeats.told(before, request, caller.client_id or "", caller.client_host)
        self.require_memory(group, before, updated)
        names_changed = change.subscribe(updated)
        regex_changed, is_resolved = self.regex_changes(group, before, updated, written)
        if names_changed or is_resolved or group.is_stale:
            change.refresh(bump=names_changed or is_resolved)
        change.assign()
        change.reconcile(named, subscription_changed=names_changed or regex_changed)
        after = change.member
        with_assignment = joins or heartbeats.is_full(request) or after.assigned != before.assigned
        interval_ms = settings.heartbeat_interval_ms
        is_unresolved = bool(updated.regex) and updated.regex not in group.resolved
        if change.awaits_assignment or after.state is MemberState.UNRELEASED or is_unresolved:
            interval_ms = min(interval_ms, SOON_MS)
        answer = heartbeats.answer(after, interval_ms, with_assignment=with_assignment)
        if self.write(written, lambda error: reply(heartbeats.refused(error) if error else answer)):
            self.changed(change)
            self.keep_alive(group, after, settings)
            if updated.regex or group.regexes:
                self._resolve_if_due(group_id, visible, now_ms)

    def changed(self, change: Change) -> None:
        """The records of the change are in the log, and replayed in the group."""
        group = self._groups.get(change.group.group_id)
        if type(group) is not ConsumerGroup:
            return
        if change.is_refreshed:
            group.is_stale = False
        if change.has_moved:
            self.watch_revocation(group, change.member)

    def write(self, written: list[CoordinatorRecord], done: OnWritten) -> bool:
        return self._writer.write(written, done)

    def _found_or_made(self, group_id: str, written: list[CoordinatorRecord]) -> ConsumerGroup:
        """The group that a member joins. If it does not exist in this form, it is created from the records in
        `written`, and is only used for this decision until they are replayed."""
        found = self._groups.get(group_id)
        if type(found) is ConsumerGroup:
            return found
        if type(found) is not ClassicGroup and found is not None:
            return self.group(group_id)
        if found is not None and found.state is not GroupState.EMPTY:
            policy = self.config.consumer_migration_policy
            converted, group = migration.upgrade(found, policy, self.config.consumer_size_max, self.topics)
            written += converted
            return group
        if found is not None:
            written += found.removal()
        return ConsumerGroup(group_id, MemberMemory(), self.topics)

    def require_memory(self, group: ConsumerGroup, before: Member, after: Member) -> None:
        size_bytes = after.size_bytes
        if size_bytes > MEMBER_BYTES_MAX:
            refuse(ErrorCode.MESSAGE_TOO_LARGE, f"the subscription takes {size_bytes} bytes: subscribe to less")
        held_bytes = before.size_bytes if before.member_id in group.members else 0
        if not self.memory.has_room(size_bytes - held_bytes):
            refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE, "this broker's memory for members of groups is full")

    def _leave(self, request: ConsumerGroupHeartbeatRequest, reply: HeartbeatReply) -> None:
        group = self.group(request.group_id)
        if request.instance_id is None:
            found = group.members.get(request.member_id)
            if found is None:
                refuse(ErrorCode.UNKNOWN_MEMBER_ID, f"member {request.member_id} is not in group {group.group_id}")
            member = found
        else:
            holder = group.static_member(request.instance_id)
            member = heartbeats.require_static(holder, request.member_id, request.instance_id)
        answer = heartbeats.left(member.member_id, request.member_epoch)

        def done(error: ErrorCode) -> None:
            reply(heartbeats.refused(error) if error else answer)

        if request.instance_id is not None and request.member_epoch == LEAVES_FOR_A_WHILE:
            if self.write(heartbeats.leave_for_a_while(group, member), done):
                self.timers.cancel(member_key("revocation", group.group_id, member.member_id))
        else:
            self.remove(group, [member], done)

    # --- members that leave

    def remove(self, group: ConsumerGroup, leaving: Collection[Member], done: OnWritten) -> bool:
        gone = {each.member_id for each in leaving}
        removal = self._removal(group, gone, leaving)
        if not self.write(removal.records, done):
            return False
        for member_id in gone:
            for kind in ("member session", "revocation", "rejoin", "resync"):
                self.timers.cancel(member_key(kind, group.group_id, member_id))
        if removal.classic is not None:
            self.classic.take_over(removal.classic, "the last member of the consumer protocol is gone")
        return True

    def _removal(self, group: ConsumerGroup, gone: Collection[str], leaving: Collection[Member]) -> Removal:
        policy, size_max = self.config.consumer_migration_policy, self.config.size_max
        if migration.may_downgrade(group, gone, policy, size_max):
            return Removal(*migration.downgrade(group, gone, None, self.memory, self.topics, self.clock.wall_ms()))
        unused = set(heartbeats.regexes_of_none(group, leaving))
        names = {topic for key, each in group.members.items() if key not in gone for topic in each.topics}
        names.update(topic for key, each in group.resolved.items() if key not in unused for topic in each.topics)
        return Removal(heartbeats.remove_members(group, leaving, self.topics.hash_of(names)))

    def fence(self, group_id: str, member_id: str, reason: str) -> None:
        group = self._groups.get(group_id)
        member = group.members.get(member_id) if type(group) is ConsumerGroup else None
        if type(group) is not ConsumerGroup or member is None:
            return
        log.info("group %s: member %s is removed: %s", group_id, member_id, reason)
        if not self.remove(group, [member], partial(_log_failure, group_id)):
            self.timers.set(
                member_key("member session", group_id, member_id),
                RETRY_MS,
                partial(self.fence, group_id, member_id, reason),
            )

    def keep_alive(self, group: ConsumerGroup, member: Member, settings: ConsumerGroupSettings | None = None) -> None:
        if member.classic is not None:
            timeout_ms = member.classic.session_timeout_ms
        else:
            timeout_ms = (settings or self.settings(group.group_id)).session_timeout_ms
        group_id, member_id = group.group_id, member.member_id
        self.timers.set(
            member_key("member session", group_id, member_id),
            timeout_ms,
            partial(self.fence, group_id, member_id, "it was silent for its session time-out"),
        )

    def watch_revocation(self, group: ConsumerGroup, member: Member) -> None:
        """Removes a member that has not revoked its partitions after its rebalance time-out. Classic members rejoin
        instead, and have a separate timer for that."""
        if member.uses_classic_protocol:
            return
        key = member_key("revocation", group.group_id, member.member_id)
        if member.state is not MemberState.UNREVOKED:
            self.timers.cancel(key)
            return
        over = partial(self._revocation_over, group.group_id, member.member_id, member.member_epoch)
        self.timers.set(key, max(member.rebalance_timeout_ms, 0), over)

    def _revocation_over(self, group_id: str, member_id: str, epoch: int) -> None:
        group = self._groups.get(group_id)
        member = group.members.get(member_id) if type(group) is ConsumerGroup else None
        if member is not None and member.member_epoch == epoch:
            self.fence(group_id, member_id, f"it did not give up partitions at epoch {epoch} in time")

    # --- regular expressions

    def regex_changes(
        self, group: ConsumerGroup, before: Member, after: Member, written: list[CoordinatorRecord]
    ) -> tuple[bool, bool]:
        """Whether the member's expression has changed, and whether its topics are known already."""
        if after.regex == before.regex:
            return False, False
        if before.regex and group.regexes.get(before.regex) == 1:
            written.append(records.regex_removed(group.group_id, before.regex))
        if not after.regex:
            return True, True
        if after.regex not in group.regexes:
            regexes.require_expression(after.regex)
            return True, False
        return True, after.regex in group.resolved

    def _resolve_if_due(self, group_id: str, visible: regexes.Visible, now_ms: int) -> None:
        group = self._groups.get(group_id)
        if type(group) is not ConsumerGroup or group_id in self._resolutions:
            return
        if regexes.is_due(group, group.regexes, self._newest_topic_version, now_ms):
            self._resolutions[group_id] = regexes.Resolution(group.regexes, self.topics.image, visible, now_ms)
            self._resolve_on(group_id)

    def _resolve_on(self, group_id: str) -> None:
        """Resolves one slice, and sets a timer for the next one, so that other work can run in between."""
        resolution = self._resolutions[group_id]
        if resolution.go_on():
            self.timers.set(("expressions", group_id), 0, partial(self._resolve_on, group_id))
            return
        del self._resolutions[group_id]
        group = self._groups.get(group_id)
        if type(group) is ConsumerGroup:
            written = regexes.resolved(group, resolution, self.topics)
            if written:
                self.write(written, partial(_log_failure, group_id))

    # ---

    def settings(self, group_id: str) -> ConsumerGroupSettings:
        return settings_of(group_id, self.topics.image, self.config)

    def new_member_id(self) -> str:
        """In Kafka's text format for UUIDs, for clients that do not generate their member ids."""
        return "A" + urlsafe_b64encode(self._randomness.bytes(15)).decode() + "A"


def member_key(kind: str, group_id: str, member_id: str) -> tuple[str, str, str]:
    return kind, group_id, member_id


def _is_other_shape(before: Topic, after: Topic) -> bool:
    """Whether partitions were added or moved. Leader and ISR changes are frequent and do not affect a group."""
    if len(before.partitions) != len(after.partitions):
        return True
    return any(
        old is not new and old.replicas != new.replicas
        for old, new in zip(before.partitions, after.partitions, strict=True)
    )


def _log_failure(group_id: str, error: ErrorCode) -> None:
    if error is not ErrorCode.NONE:
        log.warning("group %s: its new state was not written: %s", group_id, error.name)
