"""A group of another kind beside classic ones: offsets, lists and descriptions know it by its protocol alone."""

from __future__ import annotations

from collections.abc import Callable

from chronik.coordinator.groups import descriptions
from chronik.coordinator.groups.config import GroupsConfig
from chronik.coordinator.groups.group import NO_TIMESTAMP, Expiry
from chronik.coordinator.groups.records import group_removed, offset_record, offset_removed
from chronik.coordinator.groups.shard import GroupShard
from chronik.coordinator.shard import CoordinatorRecord
from chronik.coordinator.timers import Timers
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.describe_groups import DescribedGroup
from chronik.wire.messages.group_records import OffsetCommitValue
from chronik.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from chronik.wire.messages.list_groups import ListGroupsRequest
from chronik.wire.messages.offset_commit import OffsetCommitRequest
from chronik.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.coordinator.test_decisions import NoWriter
from tests.coordinator.virtual import FakeCaller, FakeClock, FakeRandomness, run_virtually

RETENTION_MS = 1_000


class OtherGroup:
    """Reads the topic `read`, and lets the member `m` commit."""

    group_id = "other"
    type = "consumer"
    state = "Assigning"
    protocol_type = "consumer"
    is_stored = True
    expiry = Expiry(offsets_may_go=True, since_ms=NO_TIMESTAMP, group_may_go=False)
    deletion = ErrorCode.NON_EMPTY_GROUP

    def subscribes_to(self, topic: str) -> bool:
        return topic == "read"

    def may_commit(self, request: OffsetCommitRequest, version: int) -> ErrorCode:
        return ErrorCode.NONE if request.member_id == "m" else ErrorCode.STALE_MEMBER_EPOCH

    def may_commit_in_transaction(self, request: OffsetCommitRequest) -> ErrorCode:
        return ErrorCode.NONE if request.member_id == "m" else ErrorCode.ILLEGAL_GENERATION

    def may_delete_offsets(self) -> ErrorCode:
        return ErrorCode.NONE

    def may_be_deleted(self) -> ErrorCode:
        return self.deletion

    def describe(self) -> DescribedGroup | None:
        return None

    def expire(self) -> Expiry:
        return self.expiry

    def removal(self) -> list[CoordinatorRecord]:
        return [group_removed("first"), group_removed("second")]


def play(story: Callable[[GroupShard, OtherGroup], None]) -> None:
    """A shard with one group of each kind; the other one has offsets of two topics, committed at time 0."""
    clock = FakeClock()

    async def begun() -> None:
        config = GroupsConfig(offsets_retention_ms=RETENTION_MS)
        shard = GroupShard(config, clock, FakeRandomness(), NoWriter(), Timers(clock))
        other = shard.groups["other"] = OtherGroup()
        value = OffsetCommitValue(offset=5, metadata="", commit_timestamp=0)
        for number, (group, topic) in enumerate((("other", "read"), ("other", "unread"), ("classic", "t"))):
            shard.replay(offset_record(group, topic, 0, value), number)
        assert shard.groups["other"] is other, "offsets do not change what kind a group is"
        shard.loaded()
        story(shard, other)
        shard.unloaded()

    run_virtually(begun(), clock)


def test_a_list_has_every_kind_and_filters_by_it() -> None:
    """Operators tell kinds apart by the type in ListGroups."""

    def story(shard: GroupShard, other: OtherGroup) -> None:
        def listed(**filters: list[str]) -> list[tuple[str, str, str]]:
            found = descriptions.listed(shard.groups.values(), ListGroupsRequest(**filters))
            return [(each.group_id, each.group_type, each.group_state) for each in found]

        assert listed() == [("other", "consumer", "Assigning"), ("classic", "classic", "Empty")]
        assert listed(types_filter=["Consumer"]) == [("other", "consumer", "Assigning")]
        assert listed(types_filter=["classic"]) == [("classic", "classic", "Empty")]
        assert listed(states_filter=["assigning"], types_filter=["classic"]) == []

    play(story)


def test_a_kind_that_describe_groups_does_not_know_is_told_as_not_found() -> None:
    """Kafka answers so for consumer groups; clients then ask with the API of that kind."""

    def story(shard: GroupShard, other: OtherGroup) -> None:
        told = descriptions.described("other", other, 6)
        assert (told.error_code, told.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")

    play(story)


def test_the_group_decides_who_may_commit() -> None:
    def story(shard: GroupShard, other: OtherGroup) -> None:
        def asked(member_id: str) -> ErrorCode:
            request = OffsetCommitRequest(
                group_id="other", generation_id_or_member_epoch=3, member_id=member_id, topics=[]
            )
            return shard.admit_commit(request, 9)

        assert (asked("m"), asked("somebody")) == (ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH)

    play(story)


def test_a_classic_join_does_not_replace_a_group_of_another_kind() -> None:
    """Its members would lose their group without a word."""

    def story(shard: GroupShard, other: OtherGroup) -> None:
        replies: list[JoinGroupResponse] = []
        request = JoinGroupRequest(
            group_id="other", session_timeout_ms=10_000, member_id="", protocol_type="consumer", protocols=[]
        )
        assert shard.classic.join(request, FakeCaller(9), replies.append).records == []
        assert [reply.error_code for reply in replies] == [ErrorCode.INCONSISTENT_GROUP_PROTOCOL]
        assert shard.groups["other"] is other

    play(story)


def test_offsets_of_topics_that_are_read_stay_and_the_others_go() -> None:
    """By age, and on an explicit deletion."""

    def story(shard: GroupShard, other: OtherGroup) -> None:
        removed = offset_removed("other", "unread", 0)
        expired = [record for records in shard.expire(RETENTION_MS) for record in records if "other" in str(record)]
        assert expired == [removed]
        topics = [
            OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
            for name in ("read", "unread")
        ]
        records, answer = shard.delete_offsets(OffsetDeleteRequest(group_id="other", topics=topics))
        assert records == [removed]
        errors = [topic.partitions[0].error_code for topic in answer.topics]
        assert errors == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]

    play(story)


def test_offsets_stay_while_the_group_says_so() -> None:
    def story(shard: GroupShard, other: OtherGroup) -> None:
        other.expiry = Expiry(offsets_may_go=False, since_ms=NO_TIMESTAMP, group_may_go=False)
        assert not [record for records in shard.expire(10**9) for record in records if "other" in str(record)]
        other.expiry = Expiry(offsets_may_go=True, since_ms=10**9, group_may_go=False)
        assert not [record for records in shard.expire(10**9) for record in records if "other" in str(record)]

    play(story)


def test_a_group_is_removed_by_its_own_records() -> None:
    """Kinds differ in how many records they have in the log."""

    def story(shard: GroupShard, other: OtherGroup) -> None:
        assert shard.delete_group("other") == ([], ErrorCode.NON_EMPTY_GROUP)
        other.deletion = ErrorCode.NONE
        records, error = shard.delete_group("other")
        assert (records[2:], error) == (other.removal(), ErrorCode.NONE)

    play(story)
