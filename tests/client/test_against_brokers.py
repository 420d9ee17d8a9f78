"""The client against running brokers, ours and Kafka's: administration, all codecs, groups, commits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from chronik.client import membership
from chronik.client.admin import configs, groups, lag, nodes, offsets, topics
from chronik.client.assignors import ASSIGNORS
from chronik.client.consumer import AtTime, Consumer
from chronik.client.errors import Refused
from chronik.client.fetch_answers import Fetched
from chronik.client.producer import Producer
from chronik.client.routing import ClusterClient
from chronik.client.topology import TopicPartition
from chronik.runtime.real import real_runtime
from chronik.wire.compression import Codec
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    Topology,
)
from chronik.wire.offset_specs import EARLIEST, LATEST

Unique = Callable[[str], str]
PATIENCE_S = 60


def run(work: Coroutine[Any, Any, None]) -> None:
    """Ends by itself long before pytest would end it, so that the error says where it hung."""

    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await work

    uvloop.run(main())


def client(bootstrap: str) -> ClusterClient:
    return ClusterClient(real_runtime(), bootstrap, client_id="test")


async def create(cluster: ClusterClient, name: str, partition_count: int) -> str:
    created = await topics.create(cluster, [topics.NewTopic(name, partition_count, 1)])
    assert not isinstance(created[name], Refused), created
    await cluster.retrying(lambda: cluster.topic(name))
    return name


async def produce(cluster: ClusterClient, topic: str, values: range, *, keys: int = 50) -> None:
    async with Producer(cluster) as producer:
        for i in values:
            await producer.send(topic, b"%d" % i, key=b"k%d" % (i % keys))


def test_topics_live_through_their_whole_life(bootstrap: str, unique: Unique) -> None:
    """Create, grow, configure, describe and delete; every refusal has Kafka's error code."""

    async def work() -> None:
        async with client(bootstrap) as cluster:
            name = await create(cluster, unique("life"), 3)
            again = await topics.create(cluster, [topics.NewTopic(name, 1, 1), topics.NewTopic("no!", 1, 1)])
            codes = {each: fault.kafka_error for each, fault in again.items() if isinstance(fault, Refused)}
            assert codes == {
                name: ErrorCode.TOPIC_ALREADY_EXISTS,
                "no!": ErrorCode.INVALID_TOPIC_EXCEPTION,
            }
            await topics.grow(cluster, name, 5)
            # A broker learns the controller's decisions with a short delay.
            while len((await cluster.refresh([name])).topic(name).partitions) != 5:
                await asyncio.sleep(0.01)
            with pytest.raises(Refused, match="INVALID_PARTITIONS"):
                await topics.grow(cluster, name, 2)
            description = await nodes.describe(cluster)
            assert [node.node_id for node in description.nodes] == [1]
            assert await topics.delete(cluster, [name]) == {name: None}
            gone = (await topics.delete(cluster, [name]))[name]
            assert gone is not None
            assert gone.kafka_error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(work())


def test_settings_are_read_changed_and_taken_back(
    bootstrap: str, unique: Unique, request: pytest.FixtureRequest
) -> None:
    """And a key that does not exist is refused as a whole. Kafka acknowledges a change before its brokers show it."""
    shows_at_once = "kafka" not in request.node.callspec.id

    async def work() -> None:
        async with client(bootstrap) as cluster:
            name = await create(cluster, unique("settings"), 1)
            resource = configs.ConfigResource(configs.ResourceKind.TOPIC, name)

            async def value() -> tuple[str | None, configs.Source]:
                [config] = await configs.describe(cluster, resource, ["retention.ms"])
                return config.value, config.source

            async def settled(is_own: bool) -> tuple[str | None, configs.Source]:
                found = await value()
                while not shows_at_once and (found[1] is configs.Source.TOPIC) is not is_own:
                    await asyncio.sleep(0.01)
                    found = await value()
                return found

            assert (await value())[1] is not configs.Source.TOPIC
            await configs.alter(cluster, resource, set_to={"retention.ms": "1234567"})
            assert await settled(is_own=True) == ("1234567", configs.Source.TOPIC)
            with pytest.raises(Refused, match="INVALID_CONFIG"):
                await configs.alter(cluster, resource, set_to={"retention.ms": "7", "no.such.key": "1"})
            assert await value() == ("1234567", configs.Source.TOPIC)
            await configs.alter(cluster, resource, unset=["retention.ms"])
            assert (await settled(is_own=False))[1] is not configs.Source.TOPIC

    run(work())


@pytest.mark.parametrize("codec", Codec)
def test_every_codec_comes_back_as_it_was_sent(bootstrap: str, unique: Unique, codec: Codec) -> None:
    """Keys, values, nulls, headers and times, in order, through a broker's disk."""

    async def work() -> None:
        async with client(bootstrap) as cluster:
            name = await create(cluster, unique("codec"), 1)
            sent = [
                (
                    b"k%d" % i if i % 3 else None,
                    b"v%d" % i * (i % 50) if i % 7 else None,
                    (("h", b"%d" % i), ("n", None)),
                )
                for i in range(500)
            ]
            async with Producer(cluster, codec=codec) as producer:
                for i, (key, value, headers) in enumerate(sent):
                    await producer.send(name, value, key=key, headers=headers, timestamp=10_000 + i, partition=0)
            at = TopicPartition(name, 0)
            async with Consumer(cluster) as consumer:
                await consumer.assign({at: EARLIEST})
                found: list[Any] = []
                while len(found) < len(sent):
                    for fetched in await consumer.poll():
                        found += fetched.records
                assert [(each.key, each.value, each.headers) for each in found] == sent
                assert [each.timestamp for each in found] == [10_000 + i for i in range(500)]
                await consumer.seek({at: AtTime(10_250)})
                assert (await consumer.poll())[0].records[0].offset == 250

    run(work())


class Group:
    """Members in one process, with separate connections, and the records that each has read."""

    def __init__(self, bootstrap: str, group_id: str, topic: str, assignor: str) -> None:
        self.bootstrap, self.group_id, self.topic, self.assignor = bootstrap, group_id, topic, assignor
        self.read: list[bytes] = []
        self.assigned: dict[str, tuple[TopicPartition, ...]] = {}
        self.revoked_count: dict[str, int] = {}
        self._stops: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, name: str, **options: Any) -> None:
        self._stops[name] = asyncio.Event()
        self.revoked_count[name] = 0
        self._tasks[name] = asyncio.create_task(self._member(name, options))

    async def stop(self, name: str) -> None:
        self._stops[name].set()
        await self._tasks.pop(name)
        self.assigned.pop(name, None)

    async def _member(self, name: str, options: dict[str, Any]) -> None:
        async def revoked(partitions: Any) -> None:
            self.revoked_count[name] += len(partitions)

        async with (
            client(self.bootstrap) as cluster,
            Consumer(
                cluster, group_id=self.group_id, assignors=(self.assignor,), heartbeat_ms=100, **options
            ) as consumer,
        ):
            consumer.subscribe([self.topic], on_revoked=revoked)
            while not self._stops[name].is_set():
                for fetched in await consumer.poll(100):
                    self.take(fetched)
                self.assigned[name] = consumer.assignment

    def take(self, fetched: Fetched) -> None:
        self.read += [record.value or b"" for record in fetched.records]

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            for task in self._tasks.values():
                if task.done():
                    task.result()
            await asyncio.sleep(0.02)

    def sizes(self) -> list[int]:
        return sorted(map(len, self.assigned.values()))


@pytest.mark.parametrize("assignor", sorted(ASSIGNORS))
def test_members_share_a_topic_and_take_over_from_who_leaves(bootstrap: str, unique: Unique, assignor: str) -> None:
    """Every record is read once, although members join and leave between batches."""

    async def work() -> None:
        async with client(bootstrap) as cluster:
            topic = await create(cluster, unique("shared"), 6)
            group = Group(bootstrap, unique("group"), topic, assignor)
            group.start("one")
            await produce(cluster, topic, range(1_000))
            await group.until(lambda: len(group.read) == 1_000)
            group.start("two")
            await group.until(lambda: group.sizes() == [3, 3])
            moved = 3 if assignor == "cooperative-sticky" else 6
            assert group.revoked_count["one"] == moved
            described = await groups.describe(cluster, group.group_id)
            assert (described.state, described.assignor, len(described.members)) == ("Stable", assignor, 2)
            assert sorted(at for member in described.members for at in member.partitions) == sorted(
                at for partitions in group.assigned.values() for at in partitions
            )
            await produce(cluster, topic, range(1_000, 2_000))
            await group.until(lambda: len(group.read) == 2_000)
            await group.stop("one")
            await group.until(lambda: group.sizes() == [6])
            await produce(cluster, topic, range(2_000, 3_000))
            await group.until(lambda: len(group.read) == 3_000)
            await group.stop("two")
            assert sorted(map(int, group.read)) == list(range(3_000))
            committed = await offsets.committed(cluster, group.group_id)
            assert sum(each.offset for each in committed.values()) == 3_000

    run(work())


def test_a_group_goes_on_where_it_committed(bootstrap: str, unique: Unique) -> None:
    """The purpose of a group: a restart neither loses nor repeats committed records."""

    async def work() -> None:
        async with client(bootstrap) as cluster:
            topic = await create(cluster, unique("resume"), 1)
            group_id = unique("group")
            at = TopicPartition(topic, 0)
            await produce(cluster, topic, range(100))
            async with Consumer(cluster, group_id=group_id, auto_commit_ms=None) as consumer:
                consumer.subscribe([topic])
                while not (fetched := await consumer.poll()):
                    pass
                assert fetched[0].records[0].offset == 0
                await consumer.commit({at: 40})
            async with Consumer(cluster, group_id=group_id, auto_commit_ms=None) as consumer:
                consumer.subscribe([topic])
                while not (fetched := await consumer.poll()):
                    pass
                assert fetched[0].records[0].offset == 40
            lags = await lag.of(cluster, {at: 40})
            assert (lags[at].lag, lags[at].end_offset) == (60, 100)
            assert 0 <= (lags[at].lag_ms or 0) < PATIENCE_S * 1000

    run(work())


def test_a_group_without_offsets_starts_as_told(bootstrap: str, unique: Unique) -> None:
    """A new dashboard wants new records only, a new table wants all of them."""

    async def work() -> None:
        async with client(bootstrap) as cluster:
            topic = await create(cluster, unique("fresh"), 1)
            await produce(cluster, topic, range(10))
            at = TopicPartition(topic, 0)
            for reset, expected in ((EARLIEST, 0), (LATEST, 10)):
                async with Consumer(cluster, group_id=unique("group"), reset=reset, auto_commit_ms=None) as consumer:
                    places: list[int] = []

                    async def assigned(partitions: Any, consumer: Any = consumer, places: Any = places) -> None:
                        places.append(consumer.positions()[at])

                    consumer.subscribe([topic], on_assigned=assigned)
                    await consumer.poll(0)
                    assert places == [expected]

    run(work())


def test_a_static_member_comes_back_to_what_it_had(bootstrap: str, unique: Unique) -> None:
    """A restart within the session time-out must not make the others stop and reassign."""

    async def work() -> None:
        async with client(bootstrap) as cluster:
            topic = await create(cluster, unique("static"), 4)
            group = Group(bootstrap, unique("group"), topic, "range")
            group.start("one", instance_id="first")
            group.start("two", instance_id="second")
            await group.until(lambda: group.sizes() == [2, 2])
            had, revoked = group.assigned["one"], group.revoked_count["two"]
            await group.stop("one")
            group.start("one", instance_id="first")
            await group.until(lambda: group.sizes() == [2, 2])
            assert sorted(group.assigned["one"]) == sorted(had)
            assert group.revoked_count["two"] == revoked
            await group.stop("one")
            await group.stop("two")

    run(work())


def test_a_commit_of_an_old_generation_is_refused(bootstrap: str, unique: Unique) -> None:
    """A member that was away must not overwrite what its successor committed."""

    async def work() -> None:
        async with client(bootstrap) as cluster:
            topic = await create(cluster, unique("stale"), 1)
            group_id = unique("group")
            at = TopicPartition(topic, 0)
            async with Consumer(cluster, group_id=group_id, auto_commit_ms=None) as consumer:
                consumer.subscribe([topic])
                await consumer.poll(0)
                stale = {"member_id": consumer.member_id, "generation": 0}
                with pytest.raises(Refused, match="ILLEGAL_GENERATION"):
                    await offsets.commit(cluster, group_id, {at: offsets.Committed(1, -1, "")}, **stale)  # type: ignore[arg-type]
                with pytest.raises(Refused, match="UNKNOWN_MEMBER_ID"):
                    await offsets.commit(cluster, group_id, {at: offsets.Committed(1, -1, "")})
                assert (await groups.delete(cluster, [group_id]))[group_id] is not None
            assert (await groups.delete(cluster, [group_id])) == {group_id: None}

    run(work())


def test_new_partitions_are_noticed_by_the_group(
    bootstrap: str, unique: Unique, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a topic that grows while it is read would have partitions without a reader."""
    monkeypatch.setattr(membership, "TOPICS_CHECK_MS", 100)

    async def work() -> None:
        async with client(bootstrap) as cluster:
            topic = await create(cluster, unique("growing"), 1)
            group = Group(bootstrap, unique("group"), topic, "range")
            group.start("one")
            await group.until(lambda: group.sizes() == [1])
            await topics.grow(cluster, topic, 4)
            await group.until(lambda: group.sizes() == [4])
            await group.stop("one")

    run(work())


def test_records_can_be_deleted_up_to_an_offset(bootstrap: str, unique: Unique) -> None:
    """The log then starts there, and reading from before says so."""

    async def work() -> None:
        async with client(bootstrap) as cluster:
            topic = await create(cluster, unique("trimmed"), 1)
            at = TopicPartition(topic, 0)
            await produce(cluster, topic, range(50))
            assert await offsets.delete_records(cluster, {at: 20}) == {at: 20}
            [start] = (await offsets.look_up(cluster, {at: EARLIEST})).values()
            assert isinstance(start, offsets.OffsetAt)
            assert start.offset == 20
            async with Consumer(cluster, reset=EARLIEST) as consumer:
                await consumer.assign({at: 5})
                fetched: list[Fetched] = []
                while not fetched:
                    fetched = await consumer.poll()
                assert fetched[0].records[0].offset == 20

    run(work())


def test_a_streams_group_is_listed_and_described(bootstrap: str, unique: Unique) -> None:
    """A member of the simplest topology, which reads one topic; its tasks are shown as the partitions that it reads."""

    async def work() -> None:
        async with client(bootstrap) as cluster:
            topic, group_id = await create(cluster, unique("t"), 2), unique("app")
            nothing = {"source_topic_regex": [], "repartition_sink_topics": [], "copartition_groups": []}
            part = Subtopology(
                subtopology_id="0",
                source_topics=[topic, unique("missing")],
                state_changelog_topics=[],
                repartition_source_topics=[],
                **nothing,
            )
            join = StreamsGroupHeartbeatRequest(
                group_id=group_id,
                member_id="m",
                member_epoch=0,
                endpoint_information_epoch=0,
                rebalance_timeout_ms=60_000,
                topology=Topology(epoch=0, subtopologies=[part]),
                active_tasks=[],
                standby_tasks=[],
                warmup_tasks=[],
                process_id="p",
            )

            async def joined() -> None:
                answer = await cluster.ask_coordinator(group_id, join, StreamsGroupHeartbeatResponse)
                cluster.refuse_from_coordinator(group_id, answer.error_code, "heartbeat", answer.error_message)

            await cluster.retrying(joined)
            group = await groups.describe(cluster, group_id)
            assert (group.group_type, group.state, group.members[0].member_id) == ("streams", "NotReady", "m")
            assert group.missing_topics == (part.source_topics[1],)
            await create(cluster, part.source_topics[1], 2)
            while not group.members[0].partitions:
                await asyncio.sleep(0.1)
                await cluster.retrying(joined)
                group = await groups.describe(cluster, group_id)
            read = [TopicPartition(name, index) for name in part.source_topics for index in range(2)]
            assert (group.state, group.missing_topics, sorted(group.members[0].partitions)) == (
                "Stable",
                (),
                sorted(read),
            )
            listed = {each.group_id: each.group_type for each in await groups.list_all(cluster)}
            assert listed[group_id] == "streams"

    run(work())
