"""The responses to members of a consumer group, depending on their requests and on the group's state."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chronik.coordinator.groups import GroupsConfig
from chronik.coordinator.groups.consumer.member import MemberState
from chronik.coordinator.groups.member_memory import MemberMemory
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.coordinator.consumer.cluster import GROUP, REBALANCE_MS, Shard, parts, topic_id
from tests.coordinator.virtual import FakeCaller, Refused, let_everything_happen

SESSION_S = 45


def test_a_member_alone_gets_everything_and_then_only_news() -> None:
    async def story(shard: Shard) -> None:
        joined = shard.join("a")
        assert (joined.error_code, joined.member_epoch, parts(joined)) == (0, 2, {"t": [0, 1, 2, 3]})
        assert parts(shard.beat("a", 2)) is None, "nothing has changed"
        full = shard.beat("a", 2, {"t": [0, 1, 2, 3]}, **shard.joining())
        assert parts(full) == {"t": [0, 1, 2, 3]}, "a member that says everything is told everything"

    Shard().play(story)


def test_a_second_member_gets_nothing_that_the_first_one_still_has() -> None:
    """Two members that read one partition at a time would commit over each other."""

    async def story(shard: Shard) -> None:
        shard.join("a")
        assert parts(shard.join("b")) == {}
        asked = shard.beat("a", 2)
        assert (asked.member_epoch, parts(asked)) == (2, {"t": [0, 1]}), "it gives up before its epoch rises"
        assert parts(shard.beat("b", 3, {})) is None, "not before the first one says so"
        done = shard.beat("a", 2, {"t": [0, 1]})
        assert done.member_epoch == 3
        assert parts(shard.beat("b", 3, {})) == {"t": [2, 3]}
        assert shard.group.state == "Stable"

    Shard().play(story)


def test_a_member_that_does_not_give_up_is_out_after_its_rebalance_timeout() -> None:
    async def story(shard: Shard) -> None:
        shard.join("a")
        shard.join("b")
        shard.beat("a", 2)
        for _ in range(REBALANCE_MS // 5_000 - 1):
            await asyncio.sleep(5)
            assert shard.beat("a", 2, {"t": [0, 1, 2, 3]}).error_code == 0
            shard.beat("b", 3, {})
        await asyncio.sleep(5.1)
        assert shard.beat("a", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert parts(shard.beat("b", 3, {})) == {"t": [0, 1, 2, 3]}

    Shard().play(story)


def test_a_silent_member_is_out_after_its_session() -> None:
    async def story(shard: Shard) -> None:
        shard.join("a")
        await asyncio.sleep(SESSION_S - 1)
        shard.beat("a", 2)
        await asyncio.sleep(SESSION_S - 1)
        assert "a" in shard.group.members
        await asyncio.sleep(1.1)
        assert shard.group.members == {}
        assert shard.group.epoch == 3

    Shard().play(story)


def test_partitions_of_a_member_whose_removal_is_not_in_the_log_stay_its_own() -> None:
    """Otherwise a coordinator after this one would still give them to the silent member."""

    async def story(shard: Shard) -> None:
        shard.join("a")
        shard.join("b")
        await asyncio.sleep(SESSION_S - 1)
        shard.beat("b", 3, {})
        shard.partition.refuses_with = Refused(ErrorCode.NOT_ENOUGH_REPLICAS)
        await asyncio.sleep(2)
        assert shard.group.owner_of(topic_id("t"), 0) == "a"
        shard.partition.refuses_with = None
        await asyncio.sleep(2)
        assert "a" not in shard.group.members, "the removal is tried again"
        assert parts(shard.beat("b", 3, {})) == {"t": [0, 1, 2, 3]}

    Shard().play(story)


def test_a_member_that_missed_an_answer_goes_on() -> None:
    """With the epoch before, as long as it has nothing that it has lost."""

    async def story(shard: Shard) -> None:
        shard.join("a")
        shard.now_has({"t": 4, "u": 1})
        shard.beat("a", 2, subscribed_topic_names=["t", "u"])  # the answer is lost
        assert shard.beat("a", 2).error_code == ErrorCode.FENCED_MEMBER_EPOCH, "it may have anything"
        assert shard.beat("a", 2, {"t": [0, 9]}).error_code == ErrorCode.FENCED_MEMBER_EPOCH
        again = shard.beat("a", 2, {"t": [0, 1, 2, 3]}, **shard.joining(["t", "u"]))
        assert (again.error_code, again.member_epoch, parts(again)) == (0, 3, {"t": [0, 1, 2, 3], "u": [0]})
        assert shard.beat("a", 4).error_code == ErrorCode.FENCED_MEMBER_EPOCH, "an epoch that nobody gave out"
        assert shard.join("a").error_code == 0, "who joins is always let in"

    Shard().play(story)


def test_two_heartbeats_on_their_way_are_both_in_the_target() -> None:
    """Decided on the state before the first one, the second target would lack the first member."""

    async def story(shard: Shard) -> None:
        shard.partition.commits_at_once = False
        first = shard.ask("a", 0, {}, **shard.joining())
        second = shard.ask("b", 0, {}, **shard.joining())
        assert isinstance(first, asyncio.Future)
        assert isinstance(second, asyncio.Future)
        await let_everything_happen()
        assert not first.done(), "an answer tells only what is committed"
        shard.partition.commit()
        await let_everything_happen()
        assert first.done()
        assert second.done()
        assert [first.result().member_epoch, second.result().member_epoch] == [2, 3]
        assert {key: len(target.get(topic_id("t"), ())) for key, target in shard.group.targets.items()} == {
            "a": 2,
            "b": 2,
        }

    Shard().play(story)


def test_an_answer_without_news_waits_for_what_it_tells() -> None:
    """The epoch that it confirms may not be committed yet."""

    async def story(shard: Shard) -> None:
        shard.partition.commits_at_once = False
        shard.ask("a", 0, {}, **shard.joining())
        answer = shard.ask("a", 2)
        assert isinstance(answer, asyncio.Future)
        await let_everything_happen()
        assert not answer.done()
        shard.partition.commit()
        await let_everything_happen()
        assert answer.result().member_epoch == 2

    Shard().play(story)


def test_a_second_target_waits_for_its_interval_and_the_member_comes_back_for_it() -> None:
    """Kafka's member would come back after a whole heartbeat interval, and own nothing until then."""

    async def story(shard: Shard) -> None:
        shard.join("a")
        late = shard.join("b")
        assert (late.member_epoch, late.heartbeat_interval_ms) == (2, 500)
        assert shard.group.state == "Assigning"
        await asyncio.sleep(1)
        answer = shard.beat("b", 2, {})
        assert (answer.member_epoch, shard.group.state) == (3, "Reconciling")
        assert shard.beat("a", 2, {"t": [0, 1]}).heartbeat_interval_ms == 5_000

    Shard(GroupsConfig()).play(story)


def test_a_clock_that_was_set_back_does_not_hold_up_the_next_target() -> None:
    """Kafka's group waits until the old time is reached again, possibly for hours."""

    async def story(shard: Shard) -> None:
        shard.join("a")
        wall_ms = shard.clock.wall_ms
        shard.clock.wall_ms = lambda: wall_ms() - 3_600_000  # type: ignore[method-assign]
        assert shard.join("b").member_epoch == 3

    Shard(GroupsConfig()).play(story)


def test_static_members_keep_target_and_partitions_over_a_restart() -> None:
    async def story(shard: Shard) -> None:
        shard.join("a", instance_id="one")
        shard.join("b")
        shard.beat("a", 2, instance_id="one")
        shard.beat("a", 2, {"t": [0, 1]}, instance_id="one")
        shard.beat("b", 3, {})
        epoch = shard.group.epoch
        assert shard.join("c", instance_id="one").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
        assert shard.beat("a", -2, instance_id="one").member_epoch == -2
        back = shard.join("c", instance_id="one")
        assert (back.member_epoch, parts(back)) == (epoch, {"t": [0, 1]})
        assert shard.group.epoch == epoch, "nobody else hears of it"
        assert shard.beat("a", 3, instance_id="one").error_code == ErrorCode.FENCED_INSTANCE_ID

    Shard().play(story)


def test_a_static_member_that_does_not_come_back_is_out_after_its_session() -> None:
    async def story(shard: Shard) -> None:
        shard.join("a", instance_id="one")
        shard.beat("a", -2, instance_id="one")
        await asyncio.sleep(SESSION_S + 1)
        assert shard.group.members == {}

    Shard().play(story)


def test_new_partitions_are_assigned_and_other_changes_of_a_topic_are_not_noticed() -> None:
    async def story(shard: Shard) -> None:
        shard.join("a")
        shard.now_has({"t": 4})
        shard.beat("a", 2)
        assert shard.group.epoch == 2, "only leaders have changed"
        shard.now_has({"t": 5})
        grown = shard.beat("a", 2)
        assert (grown.member_epoch, parts(grown)) == (3, {"t": [0, 1, 2, 3, 4]})
        shard.now_has({"t": 5, "other": 3})
        shard.beat("a", 3)
        assert shard.group.epoch == 3, "a topic that nobody reads"

    Shard().play(story)


def test_a_topic_that_was_deleted_is_given_up() -> None:
    async def story(shard: Shard) -> None:
        shard.now_has({"t": 1, "u": 1})
        shard.join("a", ("t", "u"))
        shard.now_has({"t": 1})
        shard.beat("a", 2)
        done = shard.beat("a", 2, {"t": [0]})
        assert (done.member_epoch, shard.group.members["a"].assigned.keys()) == (3, {topic_id("t")})

    Shard().play(story)


# --- regular expressions


def test_an_expression_is_resolved_after_the_answer_and_raises_the_epoch_if_it_found_topics() -> None:
    async def story(shard: Shard) -> None:
        shard.now_has({"t.1": 1, "t.2": 1, "u": 1})
        shard.is_visible = lambda name: name != "t.2"
        everything = shard.joining(None, subscribed_topic_regex=r"t\..*")
        first = shard.beat("a", 0, {}, **everything)
        assert (first.member_epoch, parts(first), first.heartbeat_interval_ms) == (1, {}, 500)
        await asyncio.sleep(0.01)
        found = shard.beat("a", 1, {})
        assert parts(found) == {"t.1": [0]}, "what it may not see does not match"
        epoch = shard.group.epoch
        shard.now_has({"t.1": 1, "t.2": 1, "t.3": 1, "u": 1})
        await asyncio.sleep(11)
        shard.beat("a", epoch)
        await asyncio.sleep(0.01)
        assert parts(shard.beat("a", epoch)) == {"t.1": [0], "t.3": [0]}

    Shard().play(story)


def test_resolving_again_without_a_change_leaves_the_epoch() -> None:
    """Otherwise every group with an expression would rebalance every ten minutes."""

    async def story(shard: Shard) -> None:
        shard.beat("a", 0, {}, **shard.joining(None, subscribed_topic_regex="t.*"))
        await asyncio.sleep(0.01)
        epoch = shard.beat("a", 1, {}).member_epoch
        for _ in range(20):
            await asyncio.sleep(40)
            assert shard.beat("a", epoch).error_code == 0
        resolved = shard.group.resolved["t.*"]
        assert resolved.resolved_at_ms > shard.clock.wall_ms() - 610_000, "it was resolved again"
        assert shard.group.epoch == epoch

    Shard().play(story)


@pytest.mark.parametrize("pattern", ["(", r"(a)\1", "(?=a)"])
def test_only_expressions_that_are_matched_in_linear_time_are_accepted(pattern: str) -> None:
    async def story(shard: Shard) -> None:
        answer = shard.beat("a", 0, {}, **shard.joining(None, subscribed_topic_regex=pattern))
        assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION

    Shard().play(story)


def test_the_last_subscriber_of_an_expression_takes_it_away() -> None:
    async def story(shard: Shard) -> None:
        shard.beat("a", 0, {}, **shard.joining(None, subscribed_topic_regex="t.*"))
        await asyncio.sleep(0.01)
        assert list(shard.group.resolved) == ["t.*"]
        shard.beat("a", -1)
        assert shard.group.resolved == {}

    Shard().play(story)


def test_an_expression_over_many_topics_lets_other_work_have_its_turn() -> None:
    async def story(shard: Shard) -> None:
        shard.now_has({f"t{n}": 1 for n in range(5_000)})
        shard.beat("a", 0, {}, **shard.joining(None, subscribed_topic_regex="t4999"))
        assert shard.group.resolved == {}, "the first slice has not seen all topics"
        await asyncio.sleep(0.1)
        assert shard.group.resolved["t4999"].topics == {"t4999"}

    Shard().play(story)


# --- bounds


def test_the_size_of_a_group_is_bounded() -> None:
    async def story(shard: Shard) -> None:
        shard.join("a")
        assert shard.join("b").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert shard.join("a").error_code == 0

    Shard(GroupsConfig(consumer_size_max=1)).play(story)


def test_members_count_in_memory_and_give_it_back() -> None:
    async def story(shard: Shard) -> None:
        memory = shard.coordinator.memory
        shard.join("a", [f"topic-{n}" for n in range(100)])
        held = memory.held_bytes
        assert held > 100 * len("topic-99")
        shard.beat("a", 2, subscribed_topic_names=["t"])
        assert memory.held_bytes < held
        shard.beat("a", -1)
        assert memory.held_bytes == 0
        shard.join("a")
        shard.coordinator.unload(0)
        assert memory.held_bytes == 0

    Shard().play(story)


def test_topics_that_an_expression_found_count_in_memory_and_give_it_back() -> None:
    async def story(shard: Shard) -> None:
        memory = shard.coordinator.memory
        shard.now_has({f"topic-{n}": 1 for n in range(100)})
        shard.beat("a", 0, {}, **shard.joining(None, subscribed_topic_regex="nothing"))
        held = memory.held_bytes
        shard.beat("a", 1, subscribed_topic_regex="topic.*")
        await asyncio.sleep(11)
        shard.beat("a", 1)
        await asyncio.sleep(0.01)
        assert memory.held_bytes > held + 100 * len("topic-99")
        shard.beat("a", -1)
        assert memory.held_bytes == 0
        shard.beat("a", 0, {}, **shard.joining(None, subscribed_topic_regex="topic.*"))
        await asyncio.sleep(0.01)
        shard.coordinator.unload(0)
        assert memory.held_bytes == 0

    Shard().play(story)


def test_a_member_for_which_there_is_no_memory_is_asked_to_come_later() -> None:
    async def story(shard: Shard) -> None:
        shard.coordinator.unload(0)
        shard.coordinator.memory = MemberMemory(held_bytes_max=3_000)
        await shard.coordinator.load(shard.partition)
        assert shard.join("a").error_code == 0
        many = [f"topic-{n}" for n in range(100)]
        assert shard.join("b", many).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert shard.beat("a", 2).error_code == 0

    Shard().play(story)


# --- group configs


def test_a_group_has_settings_of_its_own_within_the_brokers_limits() -> None:
    async def story(shard: Shard) -> None:
        shard.now_has({"t": 4}, {"consumer.heartbeat.interval.ms": "7000", "consumer.session.timeout.ms": "999999"})
        assert shard.join("a").heartbeat_interval_ms == 7_000
        await asyncio.sleep(59)
        assert "a" in shard.group.members
        await asyncio.sleep(2)
        assert "a" not in shard.group.members, "60 s is the most that the broker allows"

    Shard().play(story)


# --- commits


def commit(shard: Shard, member: str, epoch: int, partition: int, version: int = 9) -> ErrorCode:
    part = OffsetCommitRequestPartition(partition_index=partition, committed_offset=7, committed_metadata="")
    request = OffsetCommitRequest(
        group_id=GROUP,
        member_id=member,
        generation_id_or_member_epoch=epoch,
        topics=[OffsetCommitRequestTopic(name="t", partitions=[part])],
    )
    answer: Any = shard.coordinator.offset_commit(request, FakeCaller(version))
    return ErrorCode.of(answer.topics[0].partitions[0].error_code)


def test_a_commit_with_an_older_epoch_counts_for_partitions_that_the_member_has_had_since() -> None:
    """A commit that crosses a change of epoch is not lost, and none of a former owner counts."""

    async def story(shard: Shard) -> None:
        shard.join("a")
        shard.join("b")
        shard.beat("a", 2)
        assert commit(shard, "a", 2, 2) is ErrorCode.NONE, "it still has to give that partition up"
        shard.beat("a", 2, {"t": [0, 1]})
        shard.beat("b", 3, {})
        assert commit(shard, "a", 2, 0) is ErrorCode.NONE
        assert commit(shard, "a", 2, 2) is ErrorCode.STALE_MEMBER_EPOCH, "another member reads it now"
        assert commit(shard, "a", 4, 0) is ErrorCode.STALE_MEMBER_EPOCH
        assert commit(shard, "b", 2, 2) is ErrorCode.STALE_MEMBER_EPOCH, "older than its assignment"
        assert commit(shard, "a", 3, 0, version=8) is ErrorCode.UNSUPPORTED_VERSION
        assert commit(shard, "c", 3, 0) is ErrorCode.UNKNOWN_MEMBER_ID
        assert commit(shard, "", -1, 0) is ErrorCode.UNKNOWN_MEMBER_ID, "the group is not empty"

    Shard().play(story)


# --- the next coordinator


def test_the_next_coordinator_goes_on_with_the_state_of_the_log() -> None:
    async def story(shard: Shard) -> None:
        shard.join("a", instance_id="one")
        shard.join("b")
        shard.beat("a", 2, instance_id="one")
        before = shard.group.members, shard.group.targets, shard.group.epoch, shard.group.target_epoch
        assert before[0]["a"].state is MemberState.UNREVOKED
        await shard.fail_over()
        after = shard.group.members, shard.group.targets, shard.group.epoch, shard.group.target_epoch
        assert after == before
        await asyncio.sleep(REBALANCE_MS / 1000 - 1)
        shard.beat("b", 3, {})
        await asyncio.sleep(1.1)
        assert list(shard.group.members) == ["b"], "its rebalance time-out began again, and ended"

    Shard().play(story)


def test_an_empty_group_is_deleted_with_its_offsets() -> None:
    from chronik.wire.messages.delete_groups import DeleteGroupsRequest

    async def story(shard: Shard) -> None:
        shard.join("a")
        assert commit(shard, "a", 2, 0) is ErrorCode.NONE
        request = DeleteGroupsRequest(groups_names=[GROUP])
        answer: Any = shard.coordinator.delete_groups(request, FakeCaller(2))
        assert answer.results[0].error_code == ErrorCode.NON_EMPTY_GROUP
        shard.beat("a", -1)
        answer = shard.coordinator.delete_groups(request, FakeCaller(2))
        assert answer.results[0].error_code == 0
        assert shard.kind is None
        await shard.fail_over()
        assert shard.kind is None

    Shard().play(story)


def test_an_older_release_of_kafka_leaves_a_record_that_is_removed() -> None:
    """Releases before 4.1 wrote the group's topics; 4.1 and later remove that record with the next epoch."""
    from chronik.coordinator.shard import CoordinatorRecord
    from chronik.wire.messages.consumer_group_records import (
        ConsumerGroupPartitionMetadataKey,
        ConsumerGroupPartitionMetadataValue,
    )

    async def story(shard: Shard) -> None:
        shard.join("a")
        key = ConsumerGroupPartitionMetadataKey(group_id=GROUP)
        old = CoordinatorRecord(key, ConsumerGroupPartitionMetadataValue(topics=[]))
        shard.coordinator._runtime.write(0, [old], lambda error: None)
        assert shard.group.has_old_metadata
        shard.now_has({"t": 5})
        shard.beat("a", 2)
        assert not shard.group.has_old_metadata

    Shard().play(story)
