"""The share protocol in one shard: replays its records, and carries out what heartbeats and time bring about.

Records are replayed when they are appended, and answers wait until they are committed; so do answers without records.
Shares the table of groups with the other kinds.

Before partitions can be assigned, the share coordinator has to keep state for them. A heartbeat that finds partitions
without state writes them down as initializing and starts a task that asks the share coordinator; the heartbeat itself
is answered meanwhile. What was being asked when the coordinator moved is asked again by the next one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary

from chronik.coordinator.groups.config import GroupsConfig
from chronik.coordinator.groups.consumer.requests import Refused, refuse
from chronik.coordinator.groups.consumer.topics import Topics
from chronik.coordinator.groups.group import Group
from chronik.coordinator.groups.member_memory import MEMBER_BYTES_MAX, MemberMemory
from chronik.coordinator.groups.requests import Caller
from chronik.coordinator.groups.share import records, requests
from chronik.coordinator.groups.share.deciding import Change
from chronik.coordinator.groups.share.group import ShareGroup
from chronik.coordinator.groups.share.member import JOINS, LEAVES, Member
from chronik.coordinator.groups.share.settings import ShareGroupSettings, settings_of
from chronik.coordinator.groups.share.state_partitions import OfTopic
from chronik.coordinator.shard import CoordinatorRecord, OnWritten, Writer
from chronik.coordinator.share.persister import UNKNOWN_OFFSET, Initialization, Persister
from chronik.coordinator.timers import Timers
from chronik.metadata.delta import Changes
from chronik.metadata.image import Image
from chronik.runtime.interfaces import Clock
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from chronik.wire.messages.share_group_records import ShareGroupMetadataKey

log = logging.getLogger("chronik.coordinator.groups")

RETRY_MS: Final = 1_000  # before something that failed is tried again
SOON_MS: Final = (
    500  # until the next heartbeat of a member that waits for partitions: Kafka's waits for a whole interval
)

HeartbeatReply = Callable[[ShareGroupHeartbeatResponse], None]


class ShareParts(NamedTuple):
    """What share groups need besides what all groups need."""

    persister: Persister
    start: Callable[[str, Coroutine[Any, Any, None]], object]  # runs a coroutine as a task of the node


class ShareProtocol:
    def __init__(
        self,
        groups: dict[str, Group],
        config: GroupsConfig,
        clock: Clock,
        writer: Writer,
        timers: Timers,
        memory: MemberMemory,
        topics: Topics,
        parts: ShareParts | None,
    ) -> None:
        self.topics = topics  # of the shard; the consumer protocol follows the image
        self.parts = parts
        self.is_over = False
        self._config = config
        self._groups = groups
        self._clock = clock
        self._writer = writer
        self._timers = timers
        self._memory = memory
        self._is_loading = True
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._asked: dict[str, dict[bytes, frozenset[int]]] = {}  # partitions that are being initialized, by group

    # --- what the log holds

    def replay(self, group_id: str, record: CoordinatorRecord) -> None:
        group = self._groups.get(group_id)
        if type(group) is not ShareGroup:
            if record.value is None:
                return
            group = ShareGroup(group_id, self._memory)
            group.is_loading = self._is_loading
            self._groups[group_id] = group
        if record.value is None and type(record.key) is ShareGroupMetadataKey:
            group.let_go()
            del self._groups[group_id]
        else:
            group.replay(record)

    def loaded(self) -> None:
        self._is_loading = False
        for group in self._all():
            group.is_loading = False
            for member in group.members.values():
                self._keep_alive(group, member)
        self._forget_deleted()

    def unloaded(self) -> None:
        self.is_over = True
        for group in self._all():
            group.let_go()

    def image_changed(self, image: Image, changes: Changes) -> None:
        """`topics` has followed the image already."""
        touched = (*changes.topics_added, *changes.topics_removed, *(after for _, after in changes.topics_changed))
        names = {topic.name for topic in touched}
        if names:
            for group in self._all():
                group.is_stale = group.is_stale or any(group.subscribes_to(name) for name in names)
        if changes.topics_removed and not self._is_loading:
            self._forget_deleted()

    def _forget_deleted(self) -> None:
        """The share coordinator removes its state of deleted topics by itself."""
        is_refused = False
        for group in self._all():
            gone = [key for key in group.state_partitions.topic_ids() if self.topics.name_of(key) is None]
            if gone:
                record = records.state_partitions_record(group.group_id, group.state_partitions.forget(gone))
                is_refused |= not self._writer.write([record], partial(_log_failure, group.group_id))
        if is_refused:
            self._timers.set("deleted topics", RETRY_MS, self._forget_deleted)

    def _all(self) -> list[ShareGroup]:
        return [group for group in self._groups.values() if type(group) is ShareGroup]

    def find(self, group_id: str) -> ShareGroup | None:
        group = self._groups.get(group_id)
        return group if type(group) is ShareGroup else None

    def group(self, group_id: str) -> ShareGroup:
        group = self._groups.get(group_id)
        if type(group) is not ShareGroup:
            what = "does not exist" if group is None else "is not a share group"
            refuse(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id} {what}")
        return group

    def found_or_made(self, group_id: str) -> ShareGroup:
        """A group that does not exist yet is made of the records that are written for it."""
        return self.group(group_id) if group_id in self._groups else ShareGroup(group_id, MemberMemory())

    # --- ShareGroupHeartbeat

    def heartbeat(self, request: ShareGroupHeartbeatRequest, caller: Caller, reply: HeartbeatReply) -> None:
        try:
            requests.require_valid(request)
            if request.member_epoch == LEAVES:
                self._leave(request, reply)
            else:
                self._beat(request, caller, reply)
        except Refused as fault:
            reply(requests.refused(fault.error, str(fault)))

    def _beat(self, request: ShareGroupHeartbeatRequest, caller: Caller, reply: HeartbeatReply) -> None:
        group_id, member_id, joins = request.group_id, request.member_id, request.member_epoch == JOINS
        group = self.found_or_made(group_id) if joins else self.group(group_id)
        requests.require_room(group, member_id, self._config.share.size_max)
        before = group.members.get(member_id)
        if before is None:
            if not joins:
                refuse(ErrorCode.UNKNOWN_MEMBER_ID, f"member {member_id} is not in group {group_id}")
            before = Member(member_id)
        requests.require_epoch(before, request.member_epoch)
        updated = requests.told(before, request, caller.client_id or "", caller.client_host)
        self._require_memory(group, before, updated)
        settings = self.settings(group_id)
        change = Change(group, self.topics, settings.assignment_interval_ms, self._clock.wall_ms(), before)
        if updated != before or group.is_stale or not self._is_settled(group, before):
            change.subscribe(updated)
        wanted = self._without_state(group, change.subscribed()) if change.records or group.is_stale else {}
        written = change.records
        if wanted:
            kept = group.state_partitions.begin(wanted)
            written.append(records.state_partitions_record(group_id, kept))
        after = change.member
        with_assignment = joins or request.subscribed_topic_names is not None or after.assigned != before.assigned
        interval_ms = settings.heartbeat_interval_ms
        if change.awaits_assignment or wanted or group.state_partitions.initializing:
            interval_ms = min(interval_ms, SOON_MS)
        answer = requests.answer(after, interval_ms, with_assignment=with_assignment)
        if self._writer.write(written, lambda error: reply(requests.refused(error) if error else answer)):
            self._beaten(group_id, after, settings, wanted, change)

    def _beaten(
        self,
        group_id: str,
        member: Member,
        settings: ShareGroupSettings,
        wanted: Mapping[bytes, OfTopic],
        change: Change,
    ) -> None:
        """The records are in the log, and in the group."""
        group = self.find(group_id)
        if group is None:
            return
        if group.is_stale or change.records:  # most heartbeats only say that the member is alive
            awaits_state = bool(wanted or group.state_partitions.initializing)
            group.is_stale = awaits_state or group.lacks_assignment(self.topics)
        self._keep_alive(group, member, settings)
        if wanted:
            self._initialize(group_id, wanted, change.epoch)

    def _is_settled(self, group: ShareGroup, member: Member) -> bool:
        return group.target_epoch >= group.epoch and member.member_epoch == group.target_epoch

    def _require_memory(self, group: ShareGroup, before: Member, after: Member) -> None:
        size_bytes = after.size_bytes
        if size_bytes > MEMBER_BYTES_MAX:
            refuse(ErrorCode.MESSAGE_TOO_LARGE, f"the subscription takes {size_bytes} bytes: subscribe to less")
        held_bytes = before.size_bytes if before.member_id in group.members else 0
        if not self._memory.has_room(size_bytes - held_bytes):
            refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE, "this broker's memory for members of groups is full")

    def _leave(self, request: ShareGroupHeartbeatRequest, reply: HeartbeatReply) -> None:
        group = self.group(request.group_id)
        member = group.members.get(request.member_id)
        if member is None:
            refuse(ErrorCode.UNKNOWN_MEMBER_ID, f"member {request.member_id} is not in group {group.group_id}")
        answer = requests.left(request.member_id)
        self._remove(group, member, lambda error: reply(requests.refused(error) if error else answer))

    def _remove(self, group: ShareGroup, member: Member, done: OnWritten) -> bool:
        names = {name for key, each in group.members.items() if key != member.member_id for name in each.topics}
        written = records.member_removed(group.group_id, member.member_id)
        written.append(records.epoch_record(group.group_id, group.epoch + 1, self.topics.hash_of(names)))
        if not self._writer.write(written, done):
            return False
        self._timers.cancel(_session(group.group_id, member.member_id))
        return True

    def _fence(self, group_id: str, member_id: str) -> None:
        group = self.find(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None:
            return
        log.info("group %s: member %s was silent for its session time-out", group_id, member_id)
        if not self._remove(group, member, partial(_log_failure, group_id)):
            self._timers.set(_session(group_id, member_id), RETRY_MS, partial(self._fence, group_id, member_id))

    def _keep_alive(self, group: ShareGroup, member: Member, settings: ShareGroupSettings | None = None) -> None:
        timeout_ms = (settings or self.settings(group.group_id)).session_timeout_ms
        key = _session(group.group_id, member.member_id)
        self._timers.set(key, timeout_ms, partial(self._fence, group.group_id, member.member_id))

    def settings(self, group_id: str) -> ShareGroupSettings:
        return settings_of(group_id, self.topics.image, self._config.share)

    # --- partitions get state

    def _without_state(self, group: ShareGroup, names: set[str]) -> dict[bytes, OfTopic]:
        """Partitions of these topics that have no state, and that nobody is asking about."""
        if self.parts is None:
            return {}
        asked = self._asked.get(group.group_id, {})
        found = {}
        for name in sorted(names):
            topic = self.topics.image.topic_named(name)
            if topic is None:
                continue
            known = group.state_partitions.initialized.get(topic.topic_id)
            has_state = frozenset() if known is None else known.partitions
            left = frozenset(range(len(topic.partitions))) - has_state - asked.get(topic.topic_id, frozenset())
            if left:
                found[topic.topic_id] = OfTopic(name, left)
        return found

    def _initialize(self, group_id: str, wanted: Mapping[bytes, OfTopic], epoch: int) -> None:
        self.ask_about(group_id, wanted)
        if self.parts is not None:
            self.parts.start(f"state of share group {group_id}", self._initialized(group_id, wanted, epoch))

    @property
    def persister(self) -> Persister:
        """For administration, which `parts` are made for."""
        if self.parts is None:
            refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE, "this coordinator was made without a share coordinator")
        return self.parts.persister

    def serves(self) -> bool:
        """To be asked after each wait: the coordinator may have moved."""
        return not self.is_over

    def exclusive(self, group_id: str) -> asyncio.Lock:
        """Held by whatever asks the share coordinator about a group: one at a time, as two requests about one partition
        could be carried out in either order."""
        lock = self._locks.get(group_id)
        if lock is None:
            lock = self._locks[group_id] = asyncio.Lock()
        return lock

    async def _initialized(self, group_id: str, wanted: Mapping[bytes, OfTopic], epoch: int) -> None:
        """Asks the share coordinator, and writes down what it keeps state for now."""
        async with self.exclusive(group_id):
            group = self.find(group_id)
            if group is None or not self.serves():
                return
            # An operator may have given some of them state, or taken it away, while this waited for its turn.
            initializing = group.state_partitions.initializing
            partitions = [
                Initialization(topic_id, index, epoch, UNKNOWN_OFFSET)
                for topic_id, each in wanted.items()
                if topic_id in initializing
                for index in sorted(each.partitions & initializing[topic_id].partitions)
            ]
            errors = await self.persister.initialize(group_id, partitions) if partitions else {}
            if not self.serves():
                return
            failed = {error.name for error in errors.values() if error is not ErrorCode.NONE}
            if failed:
                names = ", ".join(sorted(failed))
                log.warning("group %s: no state for some of its partitions yet: %s", group_id, names)
                self._timers.set(("share state", group_id, epoch), RETRY_MS, partial(self.answered, group_id, wanted))
            await self.note_initialized(group_id, wanted, errors)
            if not failed and self.serves():
                self.answered(group_id, wanted)

    async def note_initialized(
        self, group_id: str, wanted: Mapping[bytes, OfTopic], errors: Mapping[tuple[bytes, int], ErrorCode]
    ) -> ErrorCode:
        group = self.find(group_id)
        done = {
            topic_id: OfTopic(each.name, kept)
            for topic_id, each in wanted.items()
            if self.topics.name_of(topic_id) is not None
            and (kept := frozenset(i for i in each.partitions if errors.get((topic_id, i)) is ErrorCode.NONE))
        }
        if group is None or not done:
            return ErrorCode.NONE
        return await self.written([records.state_partitions_record(group_id, group.state_partitions.end(done))])

    def ask_about(self, group_id: str, wanted: Mapping[bytes, OfTopic]) -> None:
        """The share coordinator is about to be asked about these. Heartbeats ask for nothing there until `answered`."""
        asked = self._asked.setdefault(group_id, {})
        for topic_id, each in wanted.items():
            asked[topic_id] = asked.get(topic_id, frozenset()) | each.partitions

    def answered(self, group_id: str, wanted: Mapping[bytes, OfTopic]) -> None:
        group = self.find(group_id)
        if group is not None:
            group.is_stale = True  # somebody may have joined meanwhile, and still lacks what was asked about
        asked = self._asked.get(group_id, {})
        for topic_id, each in wanted.items():
            left = asked.get(topic_id, frozenset()) - each.partitions
            if left:
                asked[topic_id] = left
            else:
                asked.pop(topic_id, None)
        if not asked:
            self._asked.pop(group_id, None)

    def written(self, changes: list[CoordinatorRecord]) -> asyncio.Future[ErrorCode]:
        """The outcome of a write. Only before the shard is over."""
        outcome: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self._writer.write(changes, lambda error: None if outcome.done() else outcome.set_result(error))
        return outcome


def _session(group_id: str, member_id: str) -> tuple[str, str, str]:
    return "share session", group_id, member_id


def _log_failure(group_id: str, error: ErrorCode) -> None:
    if error is not ErrorCode.NONE:
        log.warning("group %s: its new state was not written: %s", group_id, error.name)
