"""Streams groups on a node, in virtual time: internal topics, tasks, statuses, refusals, and restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from chronik.coordinator.groups.streams.topology import StatusCode
from chronik.metadata.commands.alter_configs import AlterConfigs, ConfigChange, ResourceChange
from chronik.metadata.image import ResourceType
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from chronik.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from chronik.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from chronik.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from chronik.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from chronik.wire.messages.streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    TaskOffset,
    Topology,
)
from tests.broker.apis.streams_apps import (
    NO_DELAY,
    PARTITIONS,
    App,
    described,
    has_coordinator,
    ids_of,
    info,
    make_world,
    part,
    statuses,
    word_count,
)
from tests.broker.hostile import TOPIC, World, run


def play(test: Coroutine[Any, Any, None]) -> None:
    run(test)


def test_internal_topics_are_made_and_tasks_assigned() -> None:
    """A word count runs although nobody created its repartition and changelog topics."""

    async def test() -> None:
        world = await make_world()
        app = App(world, "a")
        answer = await app.join()
        assert statuses(answer) == [StatusCode.MISSING_INTERNAL_TOPICS]
        assert (answer.active_tasks, answer.heartbeat_interval_ms < 5_000) == ([], True)
        answer = await app.beat()
        assert (statuses(answer), app.active) == ([], {"0": [0, 1, 2, 3], "1": [0, 1, 2, 3]})
        image = world.node.store.image
        made = {name: len(topic.partitions) for name in ("words", "counts") if (topic := image.topic_named(name))}
        assert made == {"words": PARTITIONS, "counts": PARTITIONS}
        assert dict(image.config(ResourceType.TOPIC, "counts")) == {"cleanup.policy": "compact"}
        group = await described(world)
        assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", app.epoch, app.epoch)
        assert group.topology is not None
        assert group.topology.subtopologies is not None
        assert group.topology.subtopologies[1].state_changelog_topics[0].partitions == PARTITIONS
        await world.node.stop()

    play(test())


def test_tasks_move_to_a_new_member_once_the_old_one_gave_them_up() -> None:
    async def test() -> None:
        world = await make_world()
        first, second = App(world, "a"), App(world, "b")
        await first.join()
        await first.settle()
        await second.join()
        assert second.active == {}, "the first has everything still"
        had = first.active
        answer = await first.beat(active_tasks=ids_of(had))
        assert (answer.member_epoch < second.epoch, sum(map(len, first.active.values()))) == (True, 4)
        await first.beat(active_tasks=ids_of(had))
        await second.beat()
        assert second.active == {}, "the first says that it has everything still"
        await first.beat()
        await second.beat()
        everything = sorted((name, p) for app in (first, second) for name, parts in app.active.items() for p in parts)
        assert everything == [(name, p) for name in "01" for p in range(PARTITIONS)]
        assert (await described(world)).group_state == "Stable"
        await world.node.stop()

    play(test())


def test_a_new_group_waits_for_more_members_before_its_first_assignment() -> None:
    async def test() -> None:
        world = await make_world(group_streams_initial_rebalance_delay_ms=3_000)
        for topic in ("words", "counts"):
            await world.create(topic, PARTITIONS)
        first, second = App(world, "a"), App(world, "b")
        assert statuses(await first.join()) == [StatusCode.ASSIGNMENT_DELAYED]
        await asyncio.sleep(1)
        assert statuses(await second.join()) == [StatusCode.ASSIGNMENT_DELAYED]
        assert (first.epoch, second.epoch) == (0, 0)
        await asyncio.sleep(2.5)
        await first.join()
        await second.join()
        assert [sum(map(len, app.active.values())) for app in (first, second)] == [4, 4]
        await world.node.stop()

    play(test())


def test_standby_tasks_are_kept_by_another_process() -> None:
    async def test() -> None:
        world = await make_world()
        change = ConfigChange(key="streams.num.standby.replicas", value="1")
        resource = ResourceChange(resource_type=ResourceType.GROUP, resource_name="g", configs=[change])
        await world.node.store.submit(AlterConfigs(resources=[resource], incremental=True))
        apps = [App(world, "a", "p"), App(world, "b", "q")]
        for app in apps:
            await app.join()
        for _ in range(5):
            for app in apps:
                await app.beat()
        for app, other in (apps, apps[::-1]):
            assert app.standby["1"] == other.active["1"]
            assert "0" not in app.standby, "subtopology 0 has no state"
        await world.node.stop()

    play(test())


def test_what_the_topology_needs_is_told_and_waited_for() -> None:
    async def test() -> None:
        world = await make_world()
        app = App(world, "a")
        answer = await app.join(word_count(source="later"))
        assert [(each.status_code, each.status_detail) for each in answer.status or ()] == [
            (StatusCode.MISSING_SOURCE_TOPICS, "Source topics later are missing.")
        ]
        assert (await described(world)).group_state == "NotReady"
        await world.create("later", 2)
        await app.beat()
        await app.beat()
        assert app.active == {"0": [0, 1], "1": [0, 1]}
        await world.node.stop()

    play(test())


def test_a_topology_cannot_change_and_older_ones_are_told() -> None:
    async def test() -> None:
        world = await make_world()
        await App(world, "a").join(word_count(epoch=3))
        assert statuses(await App(world, "b").join(word_count(epoch=2, source="other")))[0] == StatusCode.STALE_TOPOLOGY
        for other in (word_count(epoch=3, source="other"), word_count(epoch=4)):
            assert (await App(world, "c").join(other)).error_code == ErrorCode.INVALID_REQUEST
        await world.node.stop()

    play(test())


def test_a_member_can_end_the_whole_application() -> None:
    async def test() -> None:
        world = await make_world()
        first, second = App(world, "a"), App(world, "b")
        for app in (first, second):
            await app.join()
        await first.beat(shutdown_application=True)
        assert StatusCode.SHUTDOWN_APPLICATION in statuses(await second.beat())
        for app in (first, second):
            assert (await app.ask(-1)).error_code == 0
        assert StatusCode.SHUTDOWN_APPLICATION not in statuses(await App(world, "c").join())
        await world.node.stop()

    play(test())


def test_silent_members_and_those_that_keep_what_they_should_give_up_are_removed() -> None:
    async def test() -> None:
        world = await make_world()
        slow, quick = App(world, "slow"), App(world, "quick")
        await slow.join(rebalance_timeout_ms=10_000)
        await slow.settle()
        had = slow.active
        await quick.join()
        for _ in range(3):
            await slow.beat(active_tasks=ids_of(had))
            await quick.beat()
            await asyncio.sleep(4)
        assert (await slow.beat(active_tasks=ids_of(had))).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        await quick.settle()
        assert sum(map(len, quick.active.values())) == 2 * PARTITIONS
        await asyncio.sleep(46)
        assert (await quick.beat()).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert (await described(world)).group_state == "Empty"
        await world.node.stop()

    play(test())


def test_a_member_that_missed_an_answer_is_let_in_with_its_previous_epoch() -> None:
    async def test() -> None:
        world = await make_world()
        app = App(world, "a")
        await app.join()
        epoch = app.epoch
        await app.beat()
        assert app.epoch > epoch
        none = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
        assert (await app.ask(epoch, **none)).member_epoch == app.epoch
        strange = {**none, "active_tasks": ids_of({"0": [0], "2": []})}
        assert (await app.ask(epoch, **strange)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
        assert (await app.ask(epoch)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
        assert (await app.ask(app.epoch + 1, **none)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
        await world.node.stop()

    play(test())


INVALID, TOPOLOGY = ErrorCode.INVALID_REQUEST, ErrorCode.STREAMS_INVALID_TOPOLOGY
NO_TASKS: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
JOIN: dict[str, Any] = {"rebalance_timeout_ms": 1, "topology": word_count(), "process_id": "p", **NO_TASKS}
OFFSET = [TaskOffset(subtopology_id="0", partition=0, offset=0)]
REFUSED: list[tuple[int, dict[str, Any], ErrorCode]] = [
    (0, {**JOIN, "instance_id": "i"}, INVALID),
    (0, {**JOIN, "task_offsets": OFFSET}, INVALID),
    (0, {**JOIN, "task_end_offsets": OFFSET}, INVALID),
    (0, {**JOIN, "rack_id": ""}, INVALID),
    (0, {**JOIN, "rebalance_timeout_ms": -1}, INVALID),
    (0, {**JOIN, "topology": None}, INVALID),
    (0, {**JOIN, "standby_tasks": None}, INVALID),
    (0, {**JOIN, **dict.fromkeys(NO_TASKS)}, INVALID),
    (0, {**JOIN, "active_tasks": ids_of({"0": [0]})}, INVALID),
    (0, {**JOIN, "warmup_tasks": ids_of({"0": [0]})}, INVALID),
    (1, {"active_tasks": []}, INVALID),
    (0, {**JOIN, "topology": Topology(epoch=0, subtopologies=[part("0", source_topic_regex=["a.*"])])}, INVALID),
    (
        0,
        {**JOIN, "topology": Topology(epoch=0, subtopologies=[part("0", source_topics=["__consumer_offsets"])])},
        TOPOLOGY,
    ),
    (0, {**JOIN, "topology": Topology(epoch=0, subtopologies=[part("0", source_topics=["a/b"])])}, TOPOLOGY),
    (
        0,
        {
            **JOIN,
            "topology": Topology(
                epoch=0, subtopologies=[part("0", source_topics=[TOPIC], state_changelog_topics=[info("c", 3)])]
            ),
        },
        TOPOLOGY,
    ),
    (
        0,
        {
            **JOIN,
            "topology": Topology(
                epoch=0,
                subtopologies=[
                    part(
                        "0",
                        source_topics=[TOPIC],
                        copartition_groups=[
                            CopartitionGroup(source_topics=[7], source_topic_regex=[], repartition_source_topics=[])
                        ],
                    )
                ],
            ),
        },
        TOPOLOGY,
    ),
    (1, {"topology": word_count()}, INVALID),
    (-2, {}, INVALID),
    (-3, {}, INVALID),
    (1, {}, ErrorCode.GROUP_ID_NOT_FOUND),
    (-1, {}, ErrorCode.GROUP_ID_NOT_FOUND),
]


def test_requests_that_no_group_takes() -> None:
    async def test() -> None:
        world = await make_world()
        for epoch, fields, error in REFUSED:
            answer = await App(world, "a", group="none").ask(epoch, **fields)
            assert answer.error_code == error, (epoch, fields, answer)
        assert (await App(world, "").ask(0, **JOIN)).error_code == INVALID
        assert (await described(world, "none")).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        app = App(world, "a")
        await app.join()
        await app.beat()
        for wrong in ({"0": [PARTITIONS]}, {"0": [-1]}, {"9": [0]}):
            assert (await app.beat(active_tasks=ids_of(wrong))).error_code == INVALID
        assert (await App(world, "b").ask(1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        await world.node.stop()

    play(test())


def test_groups_of_other_kinds_keep_their_names() -> None:
    async def test() -> None:
        world = await make_world()
        app = App(world, "a")
        await app.join()
        consumer = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="c", member_epoch=0, rebalance_timeout_ms=1, subscribed_topic_names=[TOPIC],
            topic_partitions=[],
        )  # fmt: skip
        answer = await world.client.ask(consumer, ConsumerGroupHeartbeatResponse, 1)
        assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        joining = JoinGroupRequest(
            group_id="g", session_timeout_ms=10_000, rebalance_timeout_ms=10_000, member_id="",
            protocol_type="consumer", protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )  # fmt: skip
        joined = await world.client.ask(joining, JoinGroupResponse, 5)
        assert joined.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        consumer.group_id = "c"
        await world.client.ask(consumer, ConsumerGroupHeartbeatResponse, 1)
        assert (await App(world, "a", group="c").join()).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        listed = await world.client.ask(ListGroupsRequest(types_filter=["streams"]), ListGroupsResponse, 5)
        assert [(each.group_id, each.protocol_type, each.group_type) for each in listed.groups] == [
            ("g", "streams", "streams")
        ]
        await world.node.stop()

    play(test())


def test_an_empty_group_can_be_deleted() -> None:
    async def test() -> None:
        world = await make_world()
        app = App(world, "a")
        await app.join()

        async def deleted() -> int:
            answer = await world.client.ask(DeleteGroupsRequest(groups_names=["g"]), DeleteGroupsResponse, 2)
            return answer.results[0].error_code

        assert await deleted() == ErrorCode.NON_EMPTY_GROUP
        await app.ask(-1)
        assert await deleted() == ErrorCode.NONE
        assert (await described(world)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        await app.join(word_count(epoch=7))
        assert (await described(world)).error_code == ErrorCode.NONE
        await world.node.stop()

    play(test())


def test_a_group_is_the_same_after_a_restart() -> None:
    async def test() -> None:
        world = await make_world()
        first, second = App(world, "a"), App(world, "b", "p")
        for app in (first, second):
            await app.join(user_endpoint=Endpoint(host="h", port=1), client_tags=[KeyValue(key="k", value="v")])
        await first.settle()
        before = await described(world)
        await world.node.stop()
        again = await World.make(world.disk, **NO_DELAY)
        await has_coordinator(again)
        after = await described(again)
        assert after.topology is not None
        after.topology, topology = before.topology, after.topology  # its numbers come back with the next heartbeat
        assert after == before
        first.world = again
        await first.beat()
        assert (await described(again)).topology == before.topology != topology
        await again.node.stop()

    play(test())


def test_commits_of_a_member_count_for_tasks_that_it_has_had_since() -> None:
    """A commit that crosses a change of the epoch is not lost, and one for a task that moved is refused."""

    async def test() -> None:
        world = await make_world()
        app = App(world, "a")
        await app.join()
        await app.beat()
        old = app.epoch
        other = App(world, "b")
        await other.join()
        await app.settle(4)
        assert app.epoch > old

        async def commit(epoch: int, topic: str, partition: int, version: int = 9) -> int:
            asked = OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=1, committed_leader_epoch=-1, committed_metadata=""
            )
            request = OffsetCommitRequest(
                group_id="g", generation_id_or_member_epoch=epoch, member_id="a", group_instance_id=None,
                topics=[OffsetCommitRequestTopic(name=topic, partitions=[asked])],
            )  # fmt: skip
            answer = await world.client.ask(request, OffsetCommitResponse, version)
            return answer.topics[0].partitions[0].error_code

        kept, moved = app.active["0"][0], next(p for p in range(PARTITIONS) if p not in app.active["0"])
        assert await commit(app.epoch, TOPIC, kept) == ErrorCode.NONE
        assert await commit(old, TOPIC, kept) == ErrorCode.NONE
        assert await commit(old, TOPIC, moved) == ErrorCode.STALE_MEMBER_EPOCH
        assert await commit(app.epoch + 1, TOPIC, kept) == ErrorCode.STALE_MEMBER_EPOCH
        assert await commit(app.epoch, TOPIC, kept, version=8) == ErrorCode.UNSUPPORTED_VERSION
        before = app.epoch
        await other.ask(-1)
        await app.settle()
        assert moved in app.active["0"], "it came back"
        assert await commit(before, TOPIC, kept) == ErrorCode.NONE
        assert await commit(before, TOPIC, moved) == ErrorCode.STALE_MEMBER_EPOCH
        await world.node.stop()

    play(test())


def test_members_learn_which_instance_answers_queries_about_which_partitions() -> None:
    async def test() -> None:
        world = await make_world()
        app, other = App(world, "a"), App(world, "b")
        await app.join(user_endpoint=Endpoint(host="h", port=4711))
        answer = await app.beat()
        assert answer.endpoint_information_epoch > 0
        answer = await other.join()
        assert answer.partitions_by_user_endpoint is not None
        (found,) = answer.partitions_by_user_endpoint
        assert (found.user_endpoint.host, found.user_endpoint.port) == ("h", 4711)
        assert {each.topic: each.partitions for each in found.active_partitions} == {
            TOPIC: [0, 1, 2, 3],
            "words": [0, 1, 2, 3],
        }
        answer = await other.beat(endpoint_information_epoch=answer.endpoint_information_epoch)
        assert answer.partitions_by_user_endpoint is None
        await world.node.stop()

    play(test())


def test_a_group_has_a_largest_size() -> None:
    async def test() -> None:
        world = await make_world(group_streams_max_size=1)
        await App(world, "a").join()
        assert (await App(world, "b").join()).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        await world.node.stop()

    play(test())
