"""The group coordinator's interface for the broker's handlers: one method per API, wire structs in and out.

A method returns its response, or a future of it when something has to be waited for: other members, or the log. What
may take long is also there as a computation in pieces (`describing_groups`). A method never raises for what a client
did, and its futures never fail: every error is a code in the response. Authorisation, topic existence and the mapping
between topic ids and names (OffsetCommit and OffsetFetch v10) are the handlers' business; a topic id that is given
along with a name is stored and compared.

A group that a request names lives in the partition `partition_for` says. If this node does not lead it, the answer is
NOT_COORDINATOR; while it is being loaded, COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from chronik.coordinator.errors import CoordinatorError, MemberRefused, NotCoordinator
from chronik.coordinator.groups import descriptions, offsets
from chronik.coordinator.groups.classic.members import join_error, sync_error
from chronik.coordinator.groups.config import GroupsConfig
from chronik.coordinator.groups.consumer.describing import describe_group, not_described
from chronik.coordinator.groups.consumer.heartbeats import refused
from chronik.coordinator.groups.consumer.regexes import Visible
from chronik.coordinator.groups.member_memory import MemberMemory
from chronik.coordinator.groups.pending_offsets import NONE_PENDING
from chronik.coordinator.groups.requests import Caller
from chronik.coordinator.groups.shard import GroupShard, offset_delete_refused
from chronik.coordinator.groups.share import administration
from chronik.coordinator.groups.share.describing import describe_group as describe_share_group
from chronik.coordinator.groups.share.describing import not_described as share_not_described
from chronik.coordinator.groups.share.protocol import ShareParts
from chronik.coordinator.groups.share.requests import refused as share_refused
from chronik.coordinator.groups.share.state_partitions import OfTopic
from chronik.coordinator.groups.streams.describing import describe_group as describe_streams_group
from chronik.coordinator.groups.streams.describing import not_described as streams_not_described
from chronik.coordinator.groups.streams.requests import refused as streams_refused
from chronik.coordinator.groups.streams.topology import InternalTopic
from chronik.coordinator.open_transactions import Producer, Transaction
from chronik.coordinator.partitions import partition_for
from chronik.coordinator.runtime import CoordinatorRuntime
from chronik.coordinator.shard import CoordinatorRecord, Decision, StatePartition
from chronik.metadata.delta import Changes
from chronik.metadata.image import Image
from chronik.runtime.interfaces import Clock, Randomness
from chronik.runtime.invariants import check
from chronik.runtime.pieces import ITEMS_PER_PIECE, Work, at_once
from chronik.wire.error_codes import ErrorCode
from chronik.wire.internal_topics import OFFSETS_TOPIC
from chronik.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from chronik.wire.messages.consumer_group_describe import DescribedGroup as ConsumerGroupDescription
from chronik.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from chronik.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from chronik.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from chronik.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from chronik.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from chronik.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from chronik.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from chronik.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from chronik.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from chronik.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from chronik.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from chronik.wire.messages.share_group_describe import DescribedGroup as ShareGroupDescription
from chronik.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from chronik.wire.messages.streams_group_describe import DescribedGroup as StreamsGroupDescription
from chronik.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from chronik.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from chronik.wire.records import ControlType

NULLABLE_PROTOCOL_SINCE: Final = 7  # of JoinGroup; before, a missing name is ""
PROTOCOL_REQUIRED_SINCE: Final = 5  # of SyncGroup; its schema allows null, Kafka does not
MANY_LEAVE_SINCE: Final = 3  # of LeaveGroup

R = TypeVar("R")
NowOrLater: TypeAlias = "R | asyncio.Future[R]"


class StreamsAnswer(NamedTuple):
    """`missing` are internal topics that the caller creates, with its own permissions."""

    response: StreamsGroupHeartbeatResponse
    missing: tuple[InternalTopic, ...] = ()


class GroupCoordinator:
    def __init__(
        self,
        config: GroupsConfig,
        clock: Clock,
        randomness: Randomness,
        partition_count: int,
        memory: MemberMemory | None = None,
        share: ShareParts | None = None,
    ) -> None:
        """Without `share`, partitions of share groups never get state."""
        self.config = config
        self.memory = memory or MemberMemory()
        self.partition_count = partition_count  # of __consumer_offsets; set it when the topic exists with another
        self._runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            OFFSETS_TOPIC,
            lambda writer, timers, _: GroupShard(config, clock, randomness, writer, timers, self.memory, share),
            clock,
            config.offset_commit_timeout_ms,
        )

    # --- partitions come and go

    def partition_for(self, group_id: str) -> int:
        return partition_for(group_id, self.partition_count)

    async def load(self, partition: StatePartition) -> None:
        """This node leads the partition now. Returns when its groups are served."""
        await self._runtime.load(partition)

    def unload(self, partition_index: int, leader_epoch: int | None = None) -> None:
        """This node no longer leads the partition as of `leader_epoch`. Pending requests fail with NOT_COORDINATOR."""
        self._runtime.unload(partition_index, leader_epoch)

    # --- JoinGroup, SyncGroup, Heartbeat, LeaveGroup

    def join_group(self, request: JoinGroupRequest, caller: Caller) -> NowOrLater[JoinGroupResponse]:
        answer: _Reply[JoinGroupResponse] = _Reply()
        name_null = None if caller.version >= NULLABLE_PROTOCOL_SINCE else ""

        def reply(response: JoinGroupResponse) -> None:
            if response.protocol_name is None:
                response.protocol_name = name_null
            answer.give(response)

        timeout_ms = request.session_timeout_ms
        if not request.group_id:
            reply(join_error(ErrorCode.INVALID_GROUP_ID, request.member_id))
        elif not self.config.session_timeout_ms_min <= timeout_ms <= self.config.session_timeout_ms_max:
            reply(join_error(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id))
        else:
            try:
                self._carry_out(request.group_id, self._shard(request.group_id).join(request, caller, reply))
            except CoordinatorError as error:
                reply(join_error(error.kafka_error))
        return answer.take()

    def sync_group(self, request: SyncGroupRequest, caller: Caller) -> NowOrLater[SyncGroupResponse]:
        has_protocol = request.protocol_type is not None and request.protocol_name is not None
        if caller.version >= PROTOCOL_REQUIRED_SINCE and not has_protocol:
            return sync_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if not request.group_id:
            return sync_error(ErrorCode.INVALID_GROUP_ID)
        answer: _Reply[SyncGroupResponse] = _Reply()
        try:
            self._carry_out(request.group_id, self._shard(request.group_id).sync(request, answer.give))
        except CoordinatorError as error:
            return sync_error(error.kafka_error)
        return answer.take()

    def heartbeat(self, request: HeartbeatRequest, caller: Caller) -> HeartbeatResponse:
        if not request.group_id:
            return HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        try:
            error = self._shard(request.group_id).heartbeat(request)
        except CoordinatorError as failure:
            error = failure.kafka_error
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            error = ErrorCode.NONE  # sessions only start when loading is done, so nothing is due yet
        return HeartbeatResponse(error_code=error)

    def leave_group(self, request: LeaveGroupRequest, caller: Caller) -> NowOrLater[LeaveGroupResponse]:
        if not request.group_id:
            return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        is_one = caller.version < MANY_LEAVE_SINCE
        leaving = [MemberIdentity(member_id=request.member_id)] if is_one else request.members
        answer: _Reply[LeaveGroupResponse] = _Reply()

        def left(members: list[MemberResponse], error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                answer.give(LeaveGroupResponse(error_code=error))
            elif is_one:
                answer.give(LeaveGroupResponse(error_code=members[0].error_code))
            else:
                answer.give(LeaveGroupResponse(error_code=ErrorCode.NONE, members=members))

        try:
            self._carry_out(request.group_id, self._shard(request.group_id).leave(request.group_id, leaving, left))
        except CoordinatorError as error:
            return LeaveGroupResponse(error_code=error.kafka_error)
        return answer.take()

    # --- ConsumerGroupHeartbeat, ConsumerGroupDescribe

    def consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, visible: Visible
    ) -> NowOrLater[ConsumerGroupHeartbeatResponse]:
        """`visible` says which topics the member may know of: an expression that it subscribes to matches no others."""
        answer: _Reply[ConsumerGroupHeartbeatResponse] = _Reply()
        try:
            self._shard(request.group_id).consumer.heartbeat(request, caller, visible, answer.give)
        except CoordinatorError as error:
            return refused(error.kafka_error)
        return answer.take()

    def consumer_group_describe(self, group_id: str) -> NowOrLater[ConsumerGroupDescription]:
        """As the group is now, told once that is committed."""
        answer: _Reply[ConsumerGroupDescription] = _Reply()
        try:
            index = self.partition_for(group_id)
            shard = self._runtime.shard(index)
            described = describe_group(group_id, shard.groups.get(group_id), shard.consumer)
            failed = partial(not_described, group_id)
            self._runtime.when_settled(index, lambda error: answer.give(failed(error) if error else described))
        except CoordinatorError as error:
            return not_described(group_id, error.kafka_error)
        return answer.take()

    # --- ShareGroupHeartbeat, ShareGroupDescribe

    def share_group_heartbeat(
        self, request: ShareGroupHeartbeatRequest, caller: Caller
    ) -> NowOrLater[ShareGroupHeartbeatResponse]:
        answer: _Reply[ShareGroupHeartbeatResponse] = _Reply()
        try:
            self._shard(request.group_id).share.heartbeat(request, caller, answer.give)
        except CoordinatorError as error:
            return share_refused(error.kafka_error)
        return answer.take()

    def share_group_describe(self, group_id: str) -> NowOrLater[ShareGroupDescription]:
        """As the group is now, told once that is committed."""
        if not group_id:
            return share_not_described(group_id, ErrorCode.INVALID_GROUP_ID)
        answer: _Reply[ShareGroupDescription] = _Reply()
        try:
            index = self.partition_for(group_id)
            shard = self._runtime.shard(index)
            described = describe_share_group(group_id, shard.groups.get(group_id), shard.share.topics)
            failed = partial(share_not_described, group_id)
            self._runtime.when_settled(index, lambda error: answer.give(failed(error) if error else described))
        except CoordinatorError as error:
            return share_not_described(group_id, error.kafka_error)
        return answer.take()

    # --- StreamsGroupHeartbeat, StreamsGroupDescribe

    def streams_group_heartbeat(
        self, request: StreamsGroupHeartbeatRequest, caller: Caller
    ) -> NowOrLater[StreamsAnswer]:
        answer: _Reply[StreamsAnswer] = _Reply()
        try:
            self._shard(request.group_id).streams.heartbeat(
                request, caller, lambda response, missing: answer.give(StreamsAnswer(response, missing))
            )
        except CoordinatorError as error:
            return StreamsAnswer(streams_refused(error.kafka_error))
        return answer.take()

    def streams_group_describe(self, group_id: str) -> NowOrLater[StreamsGroupDescription]:
        """As the group is now, told once that is committed."""
        answer: _Reply[StreamsGroupDescription] = _Reply()
        try:
            index = self.partition_for(group_id)
            described = describe_streams_group(group_id, self._runtime.shard(index).groups.get(group_id))
            failed = partial(streams_not_described, group_id)
            self._runtime.when_settled(index, lambda error: answer.give(failed(error) if error else described))
        except CoordinatorError as error:
            return streams_not_described(group_id, error.kafka_error)
        return answer.take()

    def share_partitions(self, group_id: str) -> Mapping[bytes, OfTopic] | ErrorCode:
        """Those that the share group has state for, by topic id. A group that does not exist has none."""
        try:
            group = self._shard(group_id).share.find(group_id)
        except CoordinatorError as error:
            return error.kafka_error
        return {} if group is None else group.state_partitions.initialized

    async def alter_share_group_offsets(self, request: AlterShareGroupOffsetsRequest) -> AlterShareGroupOffsetsResponse:
        try:
            return await administration.alter_offsets(self._shard(request.group_id).share, request)
        except CoordinatorError as error:
            return administration.alter_refused(error.kafka_error)

    async def delete_share_group_offsets(
        self, request: DeleteShareGroupOffsetsRequest
    ) -> DeleteShareGroupOffsetsResponse:
        try:
            return await administration.delete_offsets(self._shard(request.group_id).share, request)
        except CoordinatorError as error:
            return administration.delete_refused(error.kafka_error)

    # --- OffsetCommit, OffsetFetch, OffsetDelete

    def offset_commit(
        self, request: OffsetCommitRequest, caller: Caller, transaction: Transaction | None = None
    ) -> NowOrLater[OffsetCommitResponse]:
        """Offsets of a `transaction` are stored now and count when it commits."""
        try:
            shard = self._shard(request.group_id)
            records, response = shard.commit(request, caller.version, in_transaction=transaction is not None)
        except CoordinatorError as error:
            return offsets.commit_refused(request, error.kafka_error)
        refuse = partial(offsets.commit_refused, request)
        return self._after(request.group_id, records, response, refuse, transaction=transaction)

    def committing_offsets(
        self, request: OffsetCommitRequest, caller: Caller, transaction: Transaction | None = None
    ) -> Work[NowOrLater[OffsetCommitResponse]]:
        """`offset_commit` in pieces, for one of many partitions: first the batch is made, then it is admitted and
        written without a pause between."""
        producer = None if transaction is None else transaction.producer
        try:
            records, response = yield from self._shard(request.group_id).committing(request)
            batch = (yield from self._runtime.encoding(records, producer)) if records else None
            shard = self._shard(request.group_id)
            error = shard.admit_commit(request, caller.version, in_transaction=transaction is not None)
        except CoordinatorError as failure:
            return offsets.commit_refused(request, failure.kafka_error)
        if error is not ErrorCode.NONE:
            return offsets.commit_refused(request, error)
        refuse = partial(offsets.commit_refused, request)
        return self._after(request.group_id, records, response, refuse, batch, transaction)

    def end_transaction(
        self,
        partition_index: int,
        producer: Producer,
        outcome: ControlType,
        coordinator_epoch: int,
        transaction_version: int,
    ) -> NowOrLater[ErrorCode]:
        """Writes the marker that ends the producer's transaction in a partition of __consumer_offsets. NONE: the
        marker is committed, and the transaction's offsets count, or are gone."""
        answer: _Reply[ErrorCode] = _Reply()
        try:
            self._runtime.end_transaction(
                partition_index, producer, outcome, coordinator_epoch, answer.give, transaction_version
            )
        except CoordinatorError as error:
            return error.kafka_error
        return answer.take()

    def offset_fetch(self, request: OffsetFetchRequest, caller: Caller) -> NowOrLater[OffsetFetchResponse]:
        """With require_stable the answer waits for commits that are on their way, so that none is missed. Offsets that
        an open transaction is about to change are UNSTABLE_OFFSET_COMMIT then."""
        fetching = self.fetching_offsets(request, caller)
        if not isinstance(fetching, asyncio.Future):
            return at_once(fetching)
        answer: asyncio.Future[OffsetFetchResponse] = asyncio.get_running_loop().create_future()

        def fetched(done: asyncio.Future[Work[OffsetFetchResponse]]) -> None:
            if not answer.done():
                answer.set_result(at_once(done.result()))

        fetching.add_done_callback(fetched)
        return answer

    def fetching_offsets(self, request: OffsetFetchRequest, caller: Caller) -> NowOrLater[Work[OffsetFetchResponse]]:
        """`offset_fetch` in two steps: what has to be waited for, and then the computation of the answer."""
        asked = descriptions.fetched_groups(request, caller.version)
        answer: _Reply[Work[OffsetFetchResponse]] = _Reply()
        waiting = dict.fromkeys(self.partition_for(group.group_id) for group in asked) if request.require_stable else {}
        unsettled: set[int] = set()  # partitions whose commits did not get through in time

        def stored(wanted: OffsetFetchRequestGroup) -> descriptions.StoredOffsets:
            group_id = wanted.group_id
            index = self.partition_for(group_id)
            if index in unsettled:
                raise NotCoordinator(OFFSETS_TOPIC, index)  # what older consumers understand as: try again
            shard = self._runtime.shard(index)
            group = shard.groups.get(group_id)
            if group is not None and (error := group.may_fetch_offsets(wanted.member_id, wanted.member_epoch)):
                raise MemberRefused(error, group_id)
            unstable = shard.open_transactions.of(group_id) if request.require_stable else NONE_PENDING
            return shard.offsets.of(group_id), unstable

        def settled(index: int, error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                unsettled.add(index)
            del waiting[index]
            if not waiting:
                answer.give(descriptions.fetch_response(asked, stored, caller.version))

        if not waiting:
            return descriptions.fetch_response(asked, stored, caller.version)
        for index in list(waiting):
            try:
                self._runtime.when_settled(index, partial(settled, index))
            except CoordinatorError:
                settled(index, ErrorCode.NONE)  # told when the answer is made
        return answer.take()

    def offset_delete(self, request: OffsetDeleteRequest, caller: Caller) -> NowOrLater[OffsetDeleteResponse]:
        if not request.group_id:
            return offset_delete_refused(ErrorCode.INVALID_GROUP_ID)
        try:
            records, response = self._shard(request.group_id).delete_offsets(request)
        except CoordinatorError as error:
            return offset_delete_refused(error.kafka_error)
        return self._after(request.group_id, records, response, offset_delete_refused)

    # --- DescribeGroups, ListGroups, DeleteGroups

    def describe_groups(self, request: DescribeGroupsRequest, caller: Caller) -> DescribeGroupsResponse:
        return at_once(self.describing_groups(request, caller))

    def describing_groups(self, request: DescribeGroupsRequest, caller: Caller) -> Work[DescribeGroupsResponse]:
        def describe(group_id: str) -> DescribedGroup:
            try:
                group = self._shard(group_id).groups.get(group_id)
            except CoordinatorError as error:
                return descriptions.described_error(group_id, error.kafka_error)
            return descriptions.described(group_id, group, caller.version)

        groups = []
        for group_id in request.groups:
            groups.append(describe(group_id))
            yield 1 + len(groups[-1].members) // ITEMS_PER_PIECE
        return DescribeGroupsResponse(groups=groups)

    def list_groups(self, request: ListGroupsRequest, caller: Caller) -> ListGroupsResponse:
        return at_once(self.listing_groups(request, caller))

    def listing_groups(self, request: ListGroupsRequest, caller: Caller) -> Work[ListGroupsResponse]:
        try:
            shards = self._runtime.shards()
        except CoordinatorError as error:
            return ListGroupsResponse(error_code=error.kafka_error, groups=[])
        groups = [group for shard in shards for group in shard.groups.values()]
        found: list[ListedGroup] = []
        for start in range(0, len(groups), ITEMS_PER_PIECE):
            found += descriptions.listed(groups[start : start + ITEMS_PER_PIECE], request)
            yield 1
        return ListGroupsResponse(error_code=ErrorCode.NONE, groups=found)

    def delete_groups(self, request: DeleteGroupsRequest, caller: Caller) -> NowOrLater[DeleteGroupsResponse]:
        results = [DeletableGroupResult(group_id=name, error_code=0) for name in request.groups_names]
        answer: _Reply[DeleteGroupsResponse] = _Reply()
        waiting = len(results)

        def deleted(result: DeletableGroupResult, error: ErrorCode) -> None:
            nonlocal waiting
            result.error_code = error
            waiting -= 1
            check(waiting >= 0, "27 each group of a request is answered once", group=result.group_id)
            if waiting == 0:
                answer.give(DeleteGroupsResponse(throttle_time_ms=0, results=results))

        for result in results:
            try:
                shard = self._shard(result.group_id)
            except CoordinatorError as failure:
                deleted(result, failure.kafka_error)
                continue
            group = shard.share.find(result.group_id)
            if group is not None and group.state_partitions.topic_ids() and shard.share.parts is not None:
                name = f"end of share group {result.group_id}"
                shard.share.parts.start(name, self._delete_share_group(shard, result, partial(deleted, result)))
                continue
            records, error = shard.delete_group(result.group_id)
            shard.remove(records, partial(deleted, result), error)
        if not results:
            answer.give(DeleteGroupsResponse(throttle_time_ms=0, results=[]))
        return answer.take()

    async def _delete_share_group(
        self, shard: GroupShard, result: DeletableGroupResult, deleted: Callable[[ErrorCode], None]
    ) -> None:
        """First its state at the share coordinator, then the group, if nobody has joined it meanwhile."""
        error = await administration.delete_all_state(shard.share, result.group_id)
        if error is ErrorCode.NONE and shard.share.is_over:
            error = ErrorCode.NOT_COORDINATOR
        if error is not ErrorCode.NONE:
            deleted(error)
            return
        records, error = shard.delete_group(result.group_id)
        shard.remove(records, deleted, error)

    # --- what time and others bring about

    def image_changed(self, image: Image, changes: Changes) -> None:
        """The metadata changed: every shard that is served here hears of it."""
        self._runtime.image_changed(image, changes)

    def committed_offsets(self) -> Iterator[tuple[str, str, int, int]]:
        """Group, topic, partition and offset of what is stored here; what comes or goes meanwhile may be missing."""
        for _, shard in self._runtime.active():
            for group_id in shard.offsets.groups():
                for topic, partitions in list(shard.offsets.of(group_id).items()):
                    for index, value in list(partitions.items()):
                        yield group_id, topic, index, value.offset

    async def expire(self, now_ms: int) -> int:
        """Removes offsets past their retention and groups nobody needs; returns the number of records written.

        Call it every offsets.retention.check.interval.ms.
        """
        count = 0
        for index, shard in self._runtime.active():
            for records in shard.expire(now_ms):
                if not self._runtime.serves(index, shard):
                    break
                count += len(records)
                shard.remove(records)
                await asyncio.sleep(0)
        return count

    # ---

    def _shard(self, group_id: str) -> GroupShard:
        return self._runtime.shard(self.partition_for(group_id))

    def _carry_out(self, group_id: str, decision: Decision) -> None:
        if decision.records:
            self._runtime.write(self.partition_for(group_id), *decision)

    def _after(
        self,
        group_id: str,
        records: list[CoordinatorRecord],
        response: R,
        refuse: Callable[[ErrorCode], R],
        batch: bytes | None = None,
        transaction: Transaction | None = None,
    ) -> NowOrLater[R]:
        """The response, once the records are committed. `batch` holds them if they are encoded already."""
        if not records:
            return response
        answer: _Reply[R] = _Reply()

        def written(error: ErrorCode) -> None:
            answer.give(response if error is ErrorCode.NONE else refuse(error))

        index = self.partition_for(group_id)
        if transaction is None:
            self._runtime.write(index, records, written, batch)
        else:
            self._runtime.write_in_transaction(index, records, written, *transaction, batch)
        return answer.take()


class _Reply(Generic[R]):
    """An answer that may be known before anybody has to wait for it: then no future is made."""

    __slots__ = ("_future", "_response")

    def __init__(self) -> None:
        self._response: R | None = None
        self._future: asyncio.Future[R] | None = None

    def give(self, response: R) -> None:
        if self._future is None:
            check(self._response is None, "27 a request is answered once", answer=type(response).__name__)
            self._response = response
        elif not self._future.done():  # done already: the client has gone and its handler was cancelled
            self._future.set_result(response)

    def take(self) -> NowOrLater[R]:
        if self._response is not None:
            return self._response
        self._future = asyncio.get_running_loop().create_future()
        return self._future
