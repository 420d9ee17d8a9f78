"""The store on a quorum of one: real consensus, a simulated disk, no network."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from random import Random
from typing import Any, TypeVar

import pytest

from chronik.metadata import writer
from chronik.metadata.commands.allocate_producer_ids import AllocateProducerIds
from chronik.metadata.commands.broker_heartbeat import BrokerHeartbeat
from chronik.metadata.commands.command import RequestId
from chronik.metadata.commands.create_topics import CreateTopics, NewTopic
from chronik.metadata.commands.delete_topics import DeleteTopics, TopicName
from chronik.metadata.commands.update_features import FeatureUpdate, UpdateFeatures
from chronik.metadata.delta import Changes
from chronik.metadata.errors import MetadataRefused, NotANumber, NotController, StoreClosed, WrongCluster
from chronik.metadata.image import Image
from chronik.metadata.snapshot import state_hash
from chronik.metadata.store import MetadataStore
from chronik.metadata.store_config import StoreConfig
from chronik.raft.addresses import Address
from chronik.raft.config import RaftConfig
from chronik.raft.errors import Dropped
from chronik.runtime.interfaces import Runtime
from chronik.sim.disk import SimDisk
from chronik.wire.error_codes import ErrorCode
from tests.metadata.clusters import new_topic, registration

T = TypeVar("T")
ALONE = {1: Address("nowhere", 1)}


class StillClock:
    def __init__(self) -> None:
        self.now_ns = 0

    def wall_ms(self) -> int:
        return 1_700_000_000_000

    def monotonic_ns(self) -> int:
        return self.now_ns


class SeededRandomness:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)

    def bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)


STARTS = count()  # another seed with each start: topic ids must not repeat


def runtime(disk: SimDisk) -> Runtime:
    return Runtime(StillClock(), disk, None, SeededRandomness(next(STARTS)))  # type: ignore[arg-type]


async def opened(disk: SimDisk, *, cluster_id: str | None = "the-cluster", **config: Any) -> MetadataStore:
    settings = StoreConfig(voters=ALONE, **config)
    return await MetadataStore.open(runtime(disk), "/meta", node_id=1, cluster_id=cluster_id, config=settings)


async def with_broker(disk: SimDisk, **config: Any) -> MetadataStore:
    store = await opened(disk, **config)
    asked = registration(1)
    asked.cluster_id = store.image.cluster_id
    reply = await store.submit(asked)
    await store.submit(BrokerHeartbeat(broker_id=1, broker_epoch=reply.broker_epoch))
    return store


def creation(*names: str) -> CreateTopics:
    return CreateTopics(topics=[NewTopic(name=name, partition_count=2) for name in names])


def run(test: Callable[[], Awaitable[T]]) -> T:
    async def main() -> T:
        return await test()

    return asyncio.run(main())


def test_a_new_directory_becomes_a_cluster_and_stays_it() -> None:
    """A node formats its directory itself; with another cluster's directory it must not start."""

    async def test() -> None:
        disk = SimDisk(1)
        store = await opened(disk, cluster_id=None, features={"metadata.version": 30})
        drawn = store.image.cluster_id
        assert len(drawn) == 22
        assert (store.is_controller, store.leader_id) == (True, 1)
        assert dict(store.image.features) == {"metadata.version": 30}
        await store.close()
        store = await opened(disk, cluster_id=drawn)
        assert store.image.cluster_id == drawn
        await store.close()
        with pytest.raises(WrongCluster):
            await opened(disk, cluster_id="another")

    run(test)


def test_what_was_answered_is_in_the_image_and_on_the_disk() -> None:
    """A client that got "created" may produce at once, even after a power cut."""

    async def test() -> None:
        disk = SimDisk(1)
        store = await with_broker(disk)
        (reply,) = (await store.submit(creation("t"))).topics
        topic = store.image.topic_named("t")
        assert topic is not None
        assert topic.topic_id == reply.topic_id != bytes(16)
        before = state_hash(store.image)
        store = await opened(disk.power_cut())
        assert state_hash(store.image) == before
        await store.close()

    run(test)


def test_all_that_is_asked_in_one_turn_shares_an_entry() -> None:
    """One fsync for a hundred clients: group commit is what makes small commands cheap."""

    async def test() -> None:
        for batching, entries in ((True, 1), (False, 100)):
            store = await with_broker(SimDisk(1), batching=batching)
            before = store.raft.applied_index
            await asyncio.gather(*(store.submit(creation(f"t{number}")) for number in range(100)))
            assert store.raft.applied_index - before == entries
            assert len(store.image.topics) == 100
            await store.close()

    run(test)


def test_a_large_move_of_leaderships_is_several_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand leaders in one entry would stall every node's loop while it is applied."""

    async def test() -> None:
        store = await with_broker(SimDisk(1))
        await store.submit(CreateTopics(topics=[NewTopic(name=f"t{n}", partition_count=5) for n in range(20)]))
        monkeypatch.setattr("chronik.metadata.writer.BATCH_SIZE", 30)
        monkeypatch.setattr("chronik.metadata.decisions.elections.ALIKE_MAX", 10)
        before = store.raft.applied_index
        heartbeat = BrokerHeartbeat(broker_id=1, broker_epoch=1, want_fence=True)
        fenced, later = await asyncio.gather(store.submit(heartbeat), store.submit(creation("u")))
        assert fenced.is_fenced
        assert later.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR, "decided after the fencing"
        assert store.raft.applied_index - before == 4  # 100 partitions, the broker, the request
        assert all(p.leader == -1 for topic in store.image.all_topics() for p in topic.partitions)
        assert store.image.brokers[1].fenced
        await store.submit(BrokerHeartbeat(broker_id=1, broker_epoch=1))
        assert all(p.leader == 1 for topic in store.image.all_topics() for p in topic.partitions)
        await store.close()

    run(test)


def test_what_comes_while_an_entry_is_under_way_becomes_the_next_one() -> None:
    """However many arrive, they become two entries, not one each, and each command sees the earlier decisions."""

    async def test() -> None:
        store = await with_broker(SimDisk(1))
        before = store.raft.applied_index
        first = asyncio.ensure_future(store.submit(creation("t")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        rest = await asyncio.gather(
            store.submit(creation("t")),
            store.submit(DeleteTopics(topics=[TopicName(name="t")])),
            store.submit(creation("t")),
            store.submit(creation("u")),
        )
        assert (await first).topics[0].error_code == 0
        assert [reply.topics[0].error_code for reply in rest] == [ErrorCode.TOPIC_ALREADY_EXISTS, 0, 0, 0]
        assert store.raft.applied_index - before == 2
        assert sorted(topic.name for topic in store.image.all_topics()) == ["t", "u"]
        await store.close()

    run(test)


def test_refusals_reach_their_asker_alone_and_cost_no_entry() -> None:
    """Other commands of the batch succeed, and nothing is written for the refusals."""

    async def test() -> None:
        store = await with_broker(SimDisk(1))
        before = store.raft.applied_index
        with pytest.raises(MetadataRefused) as refused:
            await store.submit(UpdateFeatures(updates=[FeatureUpdate(name="none", level=1)]))
        assert refused.value.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert store.raft.applied_index == before
        bad, good = await asyncio.gather(
            store.submit(AllocateProducerIds(broker_id=1, broker_epoch=99)),
            store.submit(AllocateProducerIds(broker_id=1, broker_epoch=1)),
            return_exceptions=True,
        )
        assert isinstance(bad, MetadataRefused)
        assert not isinstance(good, BaseException)
        assert good.count == 1000
        await store.close()

    run(test)


def test_listeners_hear_of_a_change_before_its_asker_does() -> None:
    """A replica manager must have the partition when the client that created it comes to produce."""

    async def test() -> None:
        store = await with_broker(SimDisk(1))
        heard: list[tuple[int, int, list[str]]] = []

        def listen(before: Image, after: Image, changes: Changes) -> None:
            assert store.image is after
            heard.append((before.version, after.version, [topic.name for topic in changes.topics_added]))

        store.subscribe(listen)
        await store.submit(creation("t", "u"))
        assert [names for _, _, names in heard] == [["t", "u"]]
        assert heard[0][1] == store.image.version > heard[0][0]
        await store.close()

    run(test)


def test_a_cancelled_asker_does_not_take_its_command_back() -> None:
    """It was decided, and others were decided on top of it. A disconnect cancels nothing."""

    async def test() -> None:
        store = await with_broker(SimDisk(1))
        task = asyncio.ensure_future(store.submit(creation("t")))
        await asyncio.sleep(0)
        task.cancel()
        await store.submit(creation("u"))
        assert sorted(topic.name for topic in store.image.all_topics()) == ["t", "u"]
        await store.close()

    run(test)


def test_a_closed_store_answers_nobody() -> None:
    """Neither waiting nor new commands get an answer: the node is stopping."""

    async def test() -> None:
        store = await with_broker(SimDisk(1))
        waiting = asyncio.ensure_future(store.submit(creation("t")))
        await asyncio.sleep(0)
        await store.close()
        with pytest.raises(StoreClosed):
            await waiting
        with pytest.raises(StoreClosed):
            await store.submit(creation("u"))
        with pytest.raises(StoreClosed):
            await store.barrier()

    run(test)


def test_after_a_failed_sync_nothing_is_acknowledged_any_more() -> None:
    """The bytes may be lost though a later sync succeeds: the node stops and says so."""

    async def test() -> None:
        disk = SimDisk(1)
        store = await with_broker(disk)
        failures: list[BaseException] = []
        store.on_failure = failures.append
        disk.fail("sync")
        with pytest.raises((StoreClosed, NotController)):
            await store.submit(creation("t"))
        with pytest.raises((StoreClosed, NotController)):
            await store.submit(creation("u"))
        assert len(failures) == 1
        await store.close()

    run(test)


def test_a_snapshot_takes_the_place_of_the_log() -> None:
    """The log must not grow forever, and a restart from the snapshot gives the same cluster."""

    async def test() -> None:
        disk = SimDisk(1)
        raft = RaftConfig(snapshot_every_bytes=20_000, trailing_entries=5)
        store = await with_broker(disk, raft=raft)
        for number in range(120):
            await store.submit(creation(f"t{number % 20}"))
            await store.submit(DeleteTopics(topics=[TopicName(name=f"t{(number + 7) % 20}")]))
        before = state_hash(store.image)
        await store.close()
        used = sum(disk.open(f"/meta/raft/{name}").size_bytes() for name in disk.list("/meta/raft"))
        assert used < 60_000, "the log is cut behind the snapshot"
        store = await opened(disk, raft=raft)
        assert state_hash(store.image) == before
        await store.close()

    run(test)


@pytest.mark.parametrize("data", [b"", b"garbage\n", b"-5\n", b"\x00" * 8, b"9" * 14, b"9" * 5000])
def test_a_directory_whose_count_of_processes_cannot_be_read_is_refused_with_its_path(data: bytes) -> None:
    """Guessed, it might repeat request ids that the cluster has answered already."""

    async def test() -> None:
        disk = SimDisk(1)
        await (await opened(disk)).close()
        disk.replace_file("/meta/incarnation", data)
        with pytest.raises(NotANumber, match=r"^/meta/incarnation holds b.*restore it"):
            await opened(disk)

    run(test)


def test_requests_of_a_restarted_node_count_from_a_higher_incarnation() -> None:
    """Its clock may stop or go back: the number in its directory counts."""

    async def test() -> None:
        disk = SimDisk(1)
        store = await with_broker(disk)
        first = store.image.applied[1].incarnation
        await store.close()
        store = await opened(disk)
        await store.submit(creation("t"))
        assert store.image.applied[1].incarnation > first
        assert len(store.image.applied[1].replies) == 1
        await store.close()

    run(test)


def test_replies_kept_are_as_many_as_are_waited_for() -> None:
    """One at a time leaves one; a hundred at once leave a hundred until the next."""

    async def test() -> None:
        store = await with_broker(SimDisk(1))
        await asyncio.gather(*(store.submit(creation(f"t{number}")) for number in range(100)))
        assert len(store.image.applied[1].replies) == 100
        await store.submit(creation("u"))
        assert len(store.image.applied[1].replies) == 1
        await store.close()

    run(test)


def test_a_silent_broker_is_fenced_and_this_nodes_own_is_not() -> None:
    """Its partitions need a leader that answers. The controller's own broker is alive as long as it can tell."""

    async def test() -> None:
        store = await with_broker(SimDisk(1), broker_session_timeout_ms=40)
        asked = registration(2)
        asked.cluster_id = store.image.cluster_id
        epoch = (await store.submit(asked)).broker_epoch
        await store.submit(BrokerHeartbeat(broker_id=2, broker_epoch=epoch))
        fenced = asyncio.get_running_loop().create_future()

        def listen(before: Image, after: Image, changes: Changes) -> None:
            if after.brokers[2].fenced and not fenced.done():
                fenced.set_result(after)

        store.subscribe(listen)
        clock = store.runtime.clock
        assert isinstance(clock, StillClock)
        clock.now_ns += 40_000_000
        image = await asyncio.wait_for(fenced, 10)
        assert [broker.broker_id for broker in image.live_brokers] == [1]
        await store.close()

    run(test)


def test_a_look_for_silent_brokers_that_is_refused_leaves_no_request_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest open request determines which replies may be dropped. An open request without a waiter would keep
    every later reply in the image and in all snapshots. The next check fences the broker."""

    async def test() -> None:
        store = await with_broker(SimDisk(1), broker_session_timeout_ms=40)
        asked = registration(2)
        asked.cluster_id = store.image.cluster_id
        epoch = (await store.submit(asked)).broker_epoch
        await store.submit(BrokerHeartbeat(broker_id=2, broker_epoch=epoch))
        clock = store.runtime.clock
        assert isinstance(clock, StillClock)
        clock.now_ns += 40_000_000
        monkeypatch.setattr(writer, "WAITING_MAX", 0)
        store.control.watch_sessions()
        assert not store.submitter.unanswered
        monkeypatch.undo()
        store.control.watch_sessions()
        await store.submit(creation("t"))
        assert store.image.brokers[2].fenced
        await store.submit(creation("u"))
        assert len(store.image.applied[1].replies) == 1
        await store.close()

    run(test)


def test_who_gave_up_waiting_for_an_image_is_forgotten() -> None:
    """A node with a full disk gets answers and applies nothing: repeated requests there must not use memory."""

    async def test() -> None:
        store = await with_broker(SimDisk(1))
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(store.submitter.caught_up(store.image.version + 1), 0.001)
        assert not store.submitter.behind
        waits = asyncio.ensure_future(store.submitter.caught_up(store.image.version + 1))
        await asyncio.sleep(0)
        await store.submit(creation("t"))
        await asyncio.wait_for(waits, 10)
        assert not store.submitter.behind
        await store.close()

    run(test)


def test_a_copy_of_a_command_that_waits_is_never_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its caller would believe that nothing happened: a partition's leader would no longer count a member that the
    first copy is about to add. New commands must be retried."""

    async def test() -> None:
        store = await with_broker(SimDisk(1))
        monkeypatch.setattr(writer, "WAITING_MAX", 1)
        assert store.control.writer is not None
        first = store.control.writer.submit(CreateTopics(topics=[new_topic("t")]), RequestId(2, 1, 1, 1))
        copy = store.control.writer.submit(CreateTopics(topics=[new_topic("t")]), RequestId(2, 1, 1, 1))
        with pytest.raises(MetadataRefused, match="metadata commands are waiting already"):
            store.control.writer.submit(CreateTopics(topics=[new_topic("u")]), RequestId(2, 1, 2, 1))
        assert await first == await copy
        assert [topic.name for topic in store.image.all_topics()] == ["t"]
        await store.close()

    run(test)


def test_a_controller_that_begins_again_knows_who_was_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proposal failed and the node leads on: a second process under a live broker's id, on another disk, is refused
    as before."""

    async def test() -> None:
        store = await with_broker(SimDisk(1))
        asked = registration(2, process=1, directory=b"a" * 16)
        asked.cluster_id = store.image.cluster_id
        epoch = (await store.submit(asked)).broker_epoch
        await store.submit(BrokerHeartbeat(broker_id=2, broker_epoch=epoch))
        before = store.control.writer
        failed: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        failed.set_exception(Dropped("too much is uncommitted"))
        monkeypatch.setattr(store.raft, "propose", lambda _: failed)
        with pytest.raises(NotController):
            await store.submit(creation("t"))
        monkeypatch.undo()
        assert store.control.writer not in (None, before)
        second = registration(2, process=2, directory=b"b" * 16)
        second.cluster_id = store.image.cluster_id
        with pytest.raises(MetadataRefused) as refused:
            await store.submit(second)
        assert refused.value.error_code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
        await store.close()

    run(test)


@pytest.mark.parametrize("seed", range(30))
def test_no_answer_is_lost_in_a_power_cut(seed: int) -> None:
    """After a power cut at any point, with a torn last write: acknowledged commands are applied once, and the node
    starts."""

    totals: list[int] = []

    async def test() -> None:
        random = Random(seed)
        disk = SimDisk(seed)
        acknowledged: dict[str, bytes] = {}
        deleting: set[str] = set()
        deleted: set[str] = set()
        for _ in range(4):
            store = await opened(disk)
            asked = registration(1, process=random.randint(1, 255))
            asked.cluster_id = store.image.cluster_id
            reply = await store.submit(asked)
            await store.submit(BrokerHeartbeat(broker_id=1, broker_epoch=reply.broker_epoch))
            disk.cut_after(random.randint(1, 60))

            async def worker(store: MetadataStore = store) -> None:
                for _ in range(20):
                    name = f"t{random.randint(0, 10**9)}"
                    (made,) = (await store.submit(creation(name))).topics
                    acknowledged[name] = made.topic_id
                    if random.random() < 0.3:
                        deleting.add(name)
                        await store.submit(DeleteTopics(topics=[TopicName(name=name)]))
                        deleted.add(name)

            workers = [asyncio.ensure_future(worker()) for _ in range(3)]
            for _ in range(2000):  # turns of the loop: the simulated disk needs no time
                await asyncio.sleep(0)
            for each in workers:
                each.cancel()  # the machine is off, so no caller gets a result
            await asyncio.gather(*workers, return_exceptions=True)
            disk = disk.power_cut()
        store = await opened(disk)
        found = {topic.name: topic.topic_id for topic in store.image.all_topics()}
        assert {name: at for name, at in acknowledged.items() if name not in deleting}.items() <= found.items()
        assert not deleted & set(found)
        totals.append(len(acknowledged))
        await store.close()

    run(test)
    assert totals[0] > 0
