"""The language of the transcripts: one line is one thing a client, the clock or the log does.

    join NAME [v=9] [id=new|ID] [instance=ID] [session=10000] [rebalance=60000] [protocols=range,roundrobin]
              [type=consumer] [topics=t] [reason=...]          what is not said is as in the client's last join
    sync NAME [v=5] [generation=N] [protocol=range] [type=consumer] NAME=WHAT ...      heartbeat NAME [generation=N]
    leave NAME ... [v=5] | leave instance=ID        commit NAME|- [v=9] [generation=N] [retention=MS] t-0=5 t-1=7/text
    commit ... txn=PRODUCER        as part of the producer's transaction
    end-txn PRODUCER commit|abort [epoch=0]         the marker that ends the transaction in the partition
    fetch [v=9] [stable] t-0 ... | fetch all        delete-offsets t-0 ...
    describe [v=6]      list [states=Stable,Empty] [types=classic]      delete-group [GROUP]
    wait MS             the clock moves; timers fire
    log hold | log commit [COUNT] | log release | log refuse ERROR | log accept       what the partition does
    log show            the records written since the last time
    move                the partition goes to a new leader that has what was committed; members are told
    crash               as `move`, but the old coordinator just stops: nobody is told anything
    expire              offsets.retention is checked
    group NAME          the group that the lines after it are about

Answers are printed in the order in which they come, with members by the names of their clients.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from typing import Any

from chronik.coordinator.groups.config import GroupsConfig
from chronik.coordinator.groups.records import RECORD_TYPES
from chronik.coordinator.open_transactions import Producer, Transaction
from chronik.coordinator.records import decode_record
from chronik.wire import batches, records
from chronik.wire.compiler import encode
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from chronik.wire.messages.delete_groups import DeleteGroupsRequest
from chronik.wire.messages.describe_groups import DescribeGroupsRequest
from chronik.wire.messages.group_records import GroupMetadataKey
from chronik.wire.messages.heartbeat import HeartbeatRequest
from chronik.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from chronik.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from chronik.wire.messages.list_groups import ListGroupsRequest
from chronik.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from chronik.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from chronik.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from chronik.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from chronik.wire.records import ControlType
from tests.coordinator.virtual import (
    WALL_MS,
    FakeCaller,
    FakeClock,
    FakePartition,
    Refused,
    let_everything_happen,
    make_coordinator,
)


def subscription(topics: list[str]) -> bytes:
    return b"\x00\x00" + encode(ConsumerProtocolSubscription(topics=topics, user_data=None), 0)


class Script:
    def __init__(self, settings: dict[str, str]) -> None:
        self.clock = FakeClock()
        self.config = GroupsConfig(**{name: int(value) for name, value in settings.items()})
        self.partition = FakePartition()
        self.coordinator = make_coordinator(self.clock, self.config)
        self.group = "g"
        self.ids: dict[str, str] = {}  # client to member id
        self.names: dict[str, str] = {}  # member id to client
        self.generations: dict[str, int] = {}
        self.protocols: dict[str, str] = {}
        self.habits: dict[str, dict[str, str]] = {}  # how a client joined last; it joins like that again
        self.output: list[str] = []
        self._shown_offset = 0
        self._tasks: list[asyncio.Future[Any]] = []

    async def run(self, commands: list[str]) -> list[str]:
        self.output = []
        if self.clock.now_ns == 0 and not self._tasks:
            await self.coordinator.load(self.partition)
        for command in commands:
            verb, *words = shlex.split(command)
            options = dict(word.split("=", 1) for word in words if self._is_option(word))
            plain = [word for word in words if not self._is_option(word)]
            result = getattr(self, "do_" + verb.replace("-", "_"))(plain, options)
            if asyncio.iscoroutine(result):
                await result
            await let_everything_happen()
        return [self._with_names(line) for line in self.output]

    def _with_names(self, line: str) -> str:
        """A member may be seen by others before its client has learnt its id."""
        for member_id, name in self.names.items():
            line = line.replace(member_id, name)
        return line

    def _is_option(self, word: str) -> bool:
        """`v=3` is one; `a=p0` in a sync is the assignment of client a, and `t-0=5` in a commit an offset."""
        name = re.match(r"^([a-z]+)=", word)
        return name is not None and name[1] not in self.ids

    # --- members

    def do_join(self, plain: list[str], options: dict[str, str]) -> None:
        (name,) = plain
        options = {**self.habits.get(name, {}), **options}
        self.habits[name] = {word: value for word, value in options.items() if word != "id"}
        version = int(options.get("v", 9))
        member_id = self._id(options, name)
        metadata = subscription(options.get("topics", "t").split(","))
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=int(options.get("session", 10_000)),
            rebalance_timeout_ms=int(options.get("rebalance", 60_000)),
            member_id="" if member_id == "new" else member_id,
            group_instance_id=options.get("instance"),
            protocol_type=options.get("type", "consumer"),
            protocols=[
                JoinGroupRequestProtocol(name=each, metadata=metadata)
                for each in options.get("protocols", "range").split(",")
                if each
            ],
            reason=options.get("reason"),
        )
        self._await(self.coordinator.join_group(request, FakeCaller(version, name)), lambda r: self._joined(name, r))

    def _joined(self, name: str, response: JoinGroupResponse) -> str:
        error = ErrorCode.of(response.error_code)
        if error in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self.ids[name] = response.member_id
            if response.member_id not in self.names:
                count = sum(known.rstrip("0123456789") == name for known in self.names.values())
                self.names[response.member_id] = f"{name}{count + 1}" if count else name
        if error is not ErrorCode.NONE:
            return f"{name} join {error.name}"
        self.generations[name] = response.generation_id
        self.protocols[name] = response.protocol_name or ""
        members = " ".join(self._name(member.member_id) for member in response.members)
        skip = " skip_assignment" if response.skip_assignment else ""
        return (
            f"{name} joined as {self._name(response.member_id)} generation={response.generation_id} "
            f"{response.protocol_type}/{response.protocol_name} leader={self._name(response.leader)}"
            f"{f' members=[{members}]' if members else ''}{skip}"
        )

    def _id(self, options: dict[str, str], name: str) -> str:
        """The id a client sends: its last one, unless the line says whose (`id=b2` is b's second)."""
        asked = options.get("id", self.ids.get(name, ""))
        return next((known for known, called in self.names.items() if called == asked), asked)

    def _name(self, member_id: str) -> str:
        return self.names.get(member_id, member_id or "-")

    def do_sync(self, plain: list[str], options: dict[str, str]) -> None:
        name, *given = plain
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=int(options.get("generation", self.generations.get(name, 0))),
            member_id=self._id(options, name),
            group_instance_id=options.get("instance"),
            protocol_type=options.get("type", "consumer"),
            protocol_name=options.get("protocol", self.protocols.get(name, "range")) or None,
            assignments=[
                SyncGroupRequestAssignment(member_id=self.ids.get(who, who), assignment=what.encode())
                for who, what in (each.split("=", 1) for each in given)
            ],
        )
        self._await(
            self.coordinator.sync_group(request, FakeCaller(int(options.get("v", 5)))),
            lambda r: (
                f"{name} sync {ErrorCode.of(r.error_code).name}"
                if r.error_code
                else f"{name} synced {r.assignment.decode() or 'nothing'}"
            ),
        )

    def do_heartbeat(self, plain: list[str], options: dict[str, str]) -> None:
        for name in plain:
            request = HeartbeatRequest(
                group_id=self.group,
                generation_id=int(options.get("generation", self.generations.get(name, 0))),
                member_id=self._id(options, name),
                group_instance_id=options.get("instance"),
            )
            response = self.coordinator.heartbeat(request, FakeCaller(4))
            self._await(response, lambda r, name=name: f"{name} heartbeat {ErrorCode.of(r.error_code).name}")

    def do_leave(self, plain: list[str], options: dict[str, str]) -> None:
        version = int(options.get("v", 5))
        leaving = [MemberIdentity(member_id=self.ids.get(name, name)) for name in plain]
        if "instance" in options:
            leaving.append(MemberIdentity(member_id="", group_instance_id=options["instance"]))
        request = LeaveGroupRequest(group_id=self.group, member_id=leaving[0].member_id, members=leaving)

        def told(response: Any) -> str:
            parts = [f"leave {ErrorCode.of(response.error_code).name}"]
            for member in response.members:
                who = self._name(member.member_id) if member.member_id else member.group_instance_id
                parts.append(f"{who}:{ErrorCode.of(member.error_code).name}")
            return " ".join(parts)

        self._await(self.coordinator.leave_group(request, FakeCaller(version)), told)

    # --- offsets

    def do_commit(self, plain: list[str], options: dict[str, str]) -> None:
        name, *given = plain
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for each in given:
            where, _, what = each.partition("=")
            topic, _, index = where.rpartition("-")
            offset, _, metadata = what.partition("/")
            partition = OffsetCommitRequestPartition(
                partition_index=int(index), committed_offset=int(offset), committed_metadata=metadata
            )
            topics.setdefault(topic, []).append(partition)
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=int(options.get("generation", self.generations.get(name, -1))),
            member_id=self._id(options, name),
            group_instance_id=options.get("instance"),
            retention_time_ms=int(options.get("retention", -1)),
            topics=[OffsetCommitRequestTopic(name=topic, partitions=parts) for topic, parts in topics.items()],
        )

        def told(response: Any) -> str:
            errors = " ".join(
                f"{topic.name}-{each.partition_index}:{ErrorCode.of(each.error_code).name}"
                for topic in response.topics
                for each in topic.partitions
            )
            return f"{name} commit {errors}"

        transaction = Transaction(Producer(int(options["txn"]), 0)) if "txn" in options else None
        answer = self.coordinator.offset_commit(request, FakeCaller(int(options.get("v", 9))), transaction)
        self._await(answer, told)

    def do_end_txn(self, plain: list[str], options: dict[str, str]) -> None:
        producer_id, outcome = plain
        producer = Producer(int(producer_id), int(options.get("epoch", 0)))
        answer = self.coordinator.end_transaction(0, producer, ControlType[outcome.upper()], 0, 0)
        self._await(answer, lambda error: f"end-txn {producer_id} {outcome} {error.name}")

    def do_fetch(self, plain: list[str], options: dict[str, str]) -> None:
        version = int(options.get("v", 9))
        wanted = [each for each in plain if each not in ("all", "stable")]
        topics: dict[str, list[int]] = {}
        for each in wanted:
            topic, _, index = each.rpartition("-")
            topics.setdefault(topic, []).append(int(index))
        if version >= 8:
            new = [OffsetFetchRequestTopics(name=topic, partition_indexes=parts) for topic, parts in topics.items()]
            group = OffsetFetchRequestGroup(group_id=self.group, topics=None if "all" in plain else new)
            request = OffsetFetchRequest(groups=[group], require_stable="stable" in plain)
        else:
            old = [OffsetFetchRequestTopic(name=topic, partition_indexes=parts) for topic, parts in topics.items()]
            request = OffsetFetchRequest(group_id=self.group, topics=None if "all" in plain else old)

        def told(response: Any) -> str:
            answer = response.groups[0] if version >= 8 else response
            parts = []
            for topic in answer.topics:
                for each in topic.partitions:
                    error = f":{ErrorCode.of(each.error_code).name}" if each.error_code else ""
                    text = f"/{each.metadata}" if each.metadata else ""
                    parts.append(f"{topic.name}-{each.partition_index}={each.committed_offset}{text}{error}")
            error = f" {ErrorCode.of(answer.error_code).name}" if answer.error_code else ""
            return f"fetch{error} {' '.join(parts) or 'nothing'}"

        self._await(self.coordinator.offset_fetch(request, FakeCaller(version)), told)

    def do_delete_offsets(self, plain: list[str], options: dict[str, str]) -> None:
        topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
        for each in plain:
            topic, _, index = each.rpartition("-")
            topics.setdefault(topic, []).append(OffsetDeleteRequestPartition(partition_index=int(index)))
        request = OffsetDeleteRequest(
            group_id=self.group,
            topics=[OffsetDeleteRequestTopic(name=topic, partitions=parts) for topic, parts in topics.items()],
        )

        def told(response: Any) -> str:
            errors = " ".join(
                f"{topic.name}-{each.partition_index}:{ErrorCode.of(each.error_code).name}"
                for topic in response.topics
                for each in topic.partitions
            )
            return f"delete-offsets {ErrorCode.of(response.error_code).name} {errors}".rstrip()

        self._await(self.coordinator.offset_delete(request, FakeCaller(0)), told)

    async def do_expire(self, plain: list[str], options: dict[str, str]) -> None:
        count = await self.coordinator.expire(self.clock.wall_ms())
        self.output.append(f"expired with {count} records")

    # --- looking

    def do_describe(self, plain: list[str], options: dict[str, str]) -> None:
        version = int(options.get("v", 6))
        response = self.coordinator.describe_groups(DescribeGroupsRequest(groups=[self.group]), FakeCaller(version))
        (group,) = response.groups
        error = f" {ErrorCode.of(group.error_code).name}" if group.error_code else ""
        members = " ".join(
            f"{self._name(member.member_id)}:{member.member_assignment.decode() or 'nothing'}"
            for member in group.members
        )
        kind = f" {group.protocol_type}/{group.protocol_data}" if group.protocol_type else ""
        self.output.append(f"group {group.group_id} {group.group_state}{error}{kind} [{members}]")

    def do_list(self, plain: list[str], options: dict[str, str]) -> None:
        request = ListGroupsRequest(
            states_filter=options["states"].split(",") if "states" in options else [],
            types_filter=options["types"].split(",") if "types" in options else [],
        )
        response = self.coordinator.list_groups(request, FakeCaller(5))
        error = f" {ErrorCode.of(response.error_code).name}" if response.error_code else ""
        groups = " ".join(f"{each.group_id}:{each.group_state}:{each.group_type}" for each in response.groups)
        self.output.append(f"groups{error} [{groups}]")

    def do_delete_group(self, plain: list[str], options: dict[str, str]) -> None:
        request = DeleteGroupsRequest(groups_names=plain or [self.group])
        self._await(
            self.coordinator.delete_groups(request, FakeCaller(2)),
            lambda r: "deleted " + " ".join(f"{x.group_id}:{ErrorCode.of(x.error_code).name}" for x in r.results),
        )

    def do_group(self, plain: list[str], options: dict[str, str]) -> None:
        (self.group,) = plain

    # --- time and the log

    async def do_wait(self, plain: list[str], options: dict[str, str]) -> None:
        await asyncio.sleep(int(plain[0]) / 1000)

    def do_log(self, plain: list[str], options: dict[str, str]) -> None:
        what, *rest = plain
        if what == "hold":
            self.partition.commits_at_once = False
        elif what == "release":
            self.partition.commits_at_once = True
            self.partition.commit()
        elif what == "commit":
            self.partition.commit(self.partition.committed_offset + int(rest[0]) if rest else None)
        elif what == "refuse":
            self.partition.refuses_with = Refused(ErrorCode[rest[0]])
        elif what == "accept":
            self.partition.refuses_with = None
        elif what == "show":
            self._show_log()

    def _show_log(self) -> None:
        for data in self.partition.log:
            (batch,) = batches.split(memoryview(data))
            for record in records.iterate(batch, 1 << 20):
                if record.offset < self._shown_offset:
                    continue
                whose = f" txn={batch.producer_id}" if batch.is_transactional else ""
                if batch.is_control:
                    self.output.append(f"  log {records.control_type(record).name}{whose}")
                    continue
                value = None if record.value is None else memoryview(record.value)
                text = self._record_text(decode_record(RECORD_TYPES, memoryview(record.key), value))
                self.output.append(f"  {text}{whose}")
        self._shown_offset = self.partition.end_offset

    def _record_text(self, record: Any) -> str:
        key, value = record.key, record.value
        if isinstance(key, GroupMetadataKey):
            if value is None:
                return f"log group {key.group} removed"
            members = " ".join(
                f"{self._name(member.member_id)}:{member.assignment.decode() or 'nothing'}" for member in value.members
            )
            return (
                f"log group {key.group} generation={value.generation} {value.protocol_type}/{value.protocol} "
                f"leader={self._name(value.leader or '')} since={value.current_state_timestamp - WALL_MS} [{members}]"
            )
        where = f"{key.group} {key.topic}-{key.partition}"
        if value is None:
            return f"log offset {where} removed"
        text = f"/{value.metadata}" if value.metadata else ""
        expiry = f" until={value.expire_timestamp - WALL_MS}" if value.expire_timestamp != -1 else ""
        return f"log offset {where}={value.offset}{text} at={value.commit_timestamp - WALL_MS}{expiry}"

    async def do_move(self, plain: list[str], options: dict[str, str]) -> None:
        self.coordinator.unload(self.partition.index)
        await let_everything_happen()
        await self.do_crash(plain, options)

    async def do_crash(self, plain: list[str], options: dict[str, str]) -> None:
        self.partition = self.partition.after_failover()
        self.coordinator = make_coordinator(self.clock, self.config, seed=self.partition.leader_epoch)
        await self.coordinator.load(self.partition)

    # ---

    def _await(self, answer: Any, told: Any) -> None:
        if not isinstance(answer, asyncio.Future):
            self.output.append(told(answer))
            return

        async def wait() -> None:
            response = await answer
            self.output.append(told(response))

        self._tasks.append(asyncio.ensure_future(wait()))
