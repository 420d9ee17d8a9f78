"""A cluster is backed up and restored into another: the same records at the same offsets, the same groups."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from chronik.backup import taking
from chronik.backup.manifest import NAME
from chronik.backup.restoring import UNFINISHED, UNFINISHED_KEY
from chronik.backup.taking import EMPTY_MAX
from chronik.backup.writing import PartitionRestore, Uncertain
from chronik.client.admin import offsets, quotas
from chronik.client.admin.configs import ConfigResource, ResourceKind, describe
from chronik.client.fetch_answers import ToldData, fetch_data
from chronik.client.producer import Producer
from chronik.client.routing import ClusterClient
from chronik.client.topology import TopicPartition
from chronik.client.transactions import TransactionalProducer
from chronik.runtime.real import real_runtime
from chronik.testing import Cluster
from chronik.wire.compression import Codec
from chronik.wire.isolation import READ_COMMITTED, READ_UNCOMMITTED
from tests.backup.conftest import contents
from tests.cli.conftest import Done, Run, run_command
from tests.cluster.load import Reached
from tests.oracle.kafka_server import KafkaServer, kafka

__all__ = ["kafka", "run_command"]

T = TypeVar("T")


def ask(cluster: Reached, work: Callable[[ClusterClient], Awaitable[T]]) -> T:
    async def connected() -> T:
        async with ClusterClient(real_runtime(), cluster.bootstrap) as client:
            return await work(client)

    return asyncio.run(connected())


@pytest.fixture
def source() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def target() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def ours(run_command: Run) -> Callable[..., Done]:
    def run(cluster: Reached, *words: str) -> Done:
        return run_command(*words, "--bootstrap", cluster.bootstrap)

    return run


def ok(done: Done) -> Done:
    assert done.exit_code == 0, done.err
    return done


async def write_everything(client: ClusterClient, topic: str) -> None:
    """Plain, compressed, committed and aborted records, over a log that does not begin at 0 and ends in a marker."""
    headers = (("h", b"1"), ("n", None))
    async with Producer(client, codec=Codec.ZSTD, linger_ms=0) as producer:
        for number in range(300):
            key, value = b"k%d" % number, b"plain %d" % number
            await producer.send(topic, value, key=key, partition=number % 2, headers=headers)
    async with TransactionalProducer(client, f"{topic}-writer") as writer:
        for number in range(6):
            await writer.begin()
            for _ in range(3):
                await writer.send(topic, b"transactional %d" % number, key=b"t", partition=0)
            await (writer.abort() if number % 2 else writer.commit())
    before = {TopicPartition(topic, 0): 37}
    await offsets.delete_records(client, before)
    await offsets.commit(
        client,
        f"{topic}-readers",
        {
            TopicPartition(topic, 0): offsets.Committed(120, -1, "a note"),
            TopicPartition(topic, 1): offsets.Committed(150, -1, ""),
        },
    )


async def bounds(client: ClusterClient, topic: str) -> dict[TopicPartition, tuple[int, int]]:
    return await offsets.bounds(
        client, [TopicPartition(topic, index) for index in (await client.topic(topic)).partitions]
    )


def own_configs(cluster: Cluster, topic: str) -> dict[str, str | None]:
    resource = ConfigResource(ResourceKind.TOPIC, topic)
    found = ask(cluster, lambda client: describe(client, resource))
    return {each.name: each.value for each in found if each.source is resource.own_source}


def test_a_restored_cluster_has_equal_contents_and_offsets(
    source: Cluster, target: Cluster, ours: Callable[..., Done], tmp_path: Path
) -> None:
    """The promise of a backup: consumers cannot tell."""
    settings = ("--config", "retention.ms=-1", "--config", "message.timestamp.type=LogAppendTime")
    ok(ours(source, "topic", "create", "orders", "--partitions", "2", "--config", "cleanup.policy=compact,delete"))
    ok(ours(source, "topic", "create", "stamped", "--partitions", "2", *settings))
    ok(ours(source, "topic", "create", "empty", "--partitions", "3"))
    for topic in ("orders", "stamped"):
        ask(source, lambda client, topic=topic: write_everything(client, topic))
    ok(ours(source, "quota", "set", "--user", "alice", "producer_byte_rate=10MB"))
    where = str(tmp_path / "backup")
    taken = ok(ours(source, "backup", where, "--format", "json")).json
    assert [row["topic"] for row in taken["topics"]] == ["empty", "orders", "stamped"]
    planned = ok(ours(target, "restore", where, "--dry-run", "--format", "json")).json
    assert [row["topic"] for row in planned["topics"]] == ["empty", "orders", "stamped"]
    assert ask(target, lambda client: client.refresh(None)).topics == {}, "--dry-run changes nothing"
    ok(ours(target, "restore", where))
    for topic in ("orders", "stamped"):
        was = ask(source, lambda client, topic=topic: contents(client, topic, READ_COMMITTED))
        for isolation in (READ_COMMITTED, READ_UNCOMMITTED):
            assert ask(target, lambda client, topic=topic, level=isolation: contents(client, topic, level)) == was
        assert sum(map(len, was.values())) == 300 - 37 + 3 * 3
        assert ask(target, lambda client, topic=topic: bounds(client, topic)) == ask(
            source, lambda client, topic=topic: bounds(client, topic)
        )
        assert own_configs(target, topic) == own_configs(source, topic)
        group = f"{topic}-readers"
        assert ask(target, lambda client, group=group: offsets.committed(client, group)) == ask(
            source, lambda client, group=group: offsets.committed(client, group)
        )
    assert ask(target, quotas.list_all) == ask(source, quotas.list_all)
    again = ours(target, "restore", where)
    assert (again.exit_code, "exists" in again.err) == (1, True)
    ok(ours(target, "restore", where, "--resume"))


def test_a_second_backup_adds_what_is_new(
    source: Cluster, target: Cluster, ours: Callable[..., Done], tmp_path: Path
) -> None:
    """A backup of a terabyte every night has to be one of the day's records."""

    async def write(client: ClusterClient) -> None:
        async with Producer(client) as producer:
            for number in range(100):
                await producer.send("growing", b"%d" % number, partition=0)

    ok(ours(source, "topic", "create", "growing", "--partitions", "1"))
    where = str(tmp_path / "backup")
    for round_number in range(3):
        ask(source, write)
        taken = ok(ours(source, "backup", where, "--topics", "growing", "--format", "json")).json
        assert [row["records"] for row in taken["topics"]] == [100 * (round_number + 1)]
    assert len(list(tmp_path.rglob("*.batches"))) == 3
    ok(ours(target, "restore", where))
    assert ask(target, lambda client: contents(client, "growing", READ_COMMITTED)) == ask(
        source, lambda client: contents(client, "growing", READ_COMMITTED)
    )
    foreign = ours(target, "backup", where)
    assert (foreign.exit_code, "use a new directory" in foreign.err) == (1, True)


def test_a_damaged_backup_is_refused_before_anything_is_created(
    source: Cluster, target: Cluster, ours: Callable[..., Done], run_command: Run, tmp_path: Path
) -> None:
    """A restore that stops half way leaves work."""

    async def write(client: ClusterClient) -> None:
        async with Producer(client) as producer:
            await producer.send("fragile", b"value", partition=0)

    ok(ours(source, "topic", "create", "fragile", "--partitions", "1"))
    ask(source, write)
    where = tmp_path / "backup"
    ok(ours(source, "backup", str(where), "--topics", "fragile"))
    assert run_command("backup", "verify", str(where)).exit_code == 0
    [file] = where.rglob("*.batches")
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    for done in (run_command("backup", "verify", str(where)), ours(target, "restore", str(where))):
        assert (done.exit_code, str(file) in done.err, "damaged" in done.err) == (1, True, True)
    (where / NAME).unlink()
    incomplete = ours(target, "restore", str(where))
    assert (incomplete.exit_code, "was not completed" in incomplete.err) == (1, True)
    assert ask(target, lambda client: client.refresh(None)).topics == {}


@pytest.mark.java
@pytest.mark.parametrize("direction", ["from Kafka", "to Kafka"])
def test_kafka_is_backed_up_and_restored_as_chronik_is(
    source: Cluster, target: Cluster, kafka: KafkaServer, ours: Callable[..., Done], tmp_path: Path, direction: str
) -> None:
    """The guide says so, and Kafka decides by itself which offsets markers get."""
    topic = f"moved-{direction.partition(' ')[0]}"
    first, second = (kafka, target) if direction == "from Kafka" else (source, kafka)
    ok(ours(first, "topic", "create", topic, "--partitions", "2", "--config", "retention.ms=-1"))
    ask(first, lambda client: write_everything(client, topic))
    where = str(tmp_path / "backup")
    ok(ours(first, "backup", where, "--topics", topic))
    ok(ours(second, "restore", where))
    was = ask(first, lambda client: contents(client, topic, READ_COMMITTED))
    assert sum(map(len, was.values())) == 300 - 37 + 3 * 3
    for isolation in (READ_COMMITTED, READ_UNCOMMITTED):
        assert ask(second, lambda client, level=isolation: contents(client, topic, level)) == was
    assert ask(second, lambda client: bounds(client, topic)) == ask(first, lambda client: bounds(client, topic))
    group = f"{topic}-readers"
    assert ask(second, lambda client: offsets.committed(client, group)) == ask(
        first, lambda client: offsets.committed(client, group)
    )


def test_a_topic_begins_again_when_a_marker_may_have_been_written_or_not(
    source: Cluster, target: Cluster, ours: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Markers have no sequence numbers. A duplicate marker would shift every record after it."""
    ok(ours(source, "topic", "create", "uncertain", "--partitions", "2", "--config", "retention.ms=-1"))
    ask(source, lambda client: write_everything(client, "uncertain"))
    where = str(tmp_path / "backup")
    ok(ours(source, "backup", where, "--topics", "uncertain"))
    written = PartitionRestore._write_markers
    calls: list[int] = []

    async def write_and_lose_the_answer(self: PartitionRestore, count: int) -> None:
        await written(self, count)
        calls.append(count)
        if len(calls) == 2:
            raise Uncertain("the connection ended")

    monkeypatch.setattr(PartitionRestore, "_write_markers", write_and_lose_the_answer)
    ok(ours(target, "restore", where))
    assert len(calls) > 2
    assert ask(target, lambda client: contents(client, "uncertain", READ_UNCOMMITTED)) == ask(
        source, lambda client: contents(client, "uncertain", READ_COMMITTED)
    )
    assert ask(target, lambda client: bounds(client, "uncertain")) == ask(
        source, lambda client: bounds(client, "uncertain")
    )


def test_a_restore_that_was_killed_is_resumed(
    source: Cluster, target: Cluster, ours: Callable[..., Done], tmp_path: Path
) -> None:
    """An unfinished topic is recognised by its configuration, and never counts as a restored one."""
    ok(ours(source, "topic", "create", "killed", "--partitions", "2", "--config", "retention.ms=-1"))
    ask(source, lambda client: write_everything(client, "killed"))
    where = str(tmp_path / "backup")
    ok(ours(source, "backup", where, "--topics", "killed"))
    left = ("--partitions", "2", "--config", f"{UNFINISHED_KEY}={UNFINISHED}")
    ok(ours(target, "topic", "create", "killed", *left))
    refused = ours(target, "restore", where)
    assert (refused.exit_code, "--resume" in refused.err) == (1, True)
    ok(ours(target, "restore", where, "--resume"))
    assert ask(target, lambda client: contents(client, "killed", READ_UNCOMMITTED)) == ask(
        source, lambda client: contents(client, "killed", READ_COMMITTED)
    )
    assert own_configs(target, "killed") == own_configs(source, "killed")
    ok(ours(target, "topic", "delete", "killed"))
    ok(ours(target, "topic", "create", "killed", "--partitions", "2"))
    foreign = ours(target, "restore", where, "--resume")
    assert (foreign.exit_code, "does not hold what the backup holds" in foreign.err) == (1, True)


def test_records_that_a_new_leader_does_not_show_yet_are_waited_for(
    source: Cluster, ours: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failover, a leader returns nothing until it knows the high watermark. This is not a gap."""

    async def write(client: ClusterClient) -> None:
        async with Producer(client) as producer:
            await producer.send("later", b"value", partition=0)

    ok(ours(source, "topic", "create", "later", "--partitions", "1"))
    ask(source, write)
    calls: list[int] = []

    async def fetch_late(*words: Any, **named: Any) -> ToldData:
        told = await fetch_data(*words, **named)
        calls.append(1)
        if len(calls) > 2 * EMPTY_MAX:
            return told
        is_throttled = len(calls) > EMPTY_MAX
        for data in told.partitions.values():
            data.records = b""
            data.last_stable_offset = 1 if is_throttled else 0
        return told._replace(throttle_ms=int(is_throttled))

    monkeypatch.setattr(taking, "fetch_data", fetch_late)
    taken = ok(ours(source, "backup", str(tmp_path / "backup"), "--topics", "later", "--format", "json")).json
    assert [row["records"] for row in taken["topics"]] == [1]


def test_a_backup_that_is_interrupted_is_incomplete_until_it_is_run_again(
    source: Cluster, ours: Callable[..., Done], run_command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C cancels the command at any await."""

    async def write(client: ClusterClient) -> None:
        async with Producer(client) as producer:
            for partition in range(2):
                await producer.send("stopped", b"value", partition=partition)

    async def fetch_one_partition(
        client: ClusterClient, node_id: int, wanted: Any, *words: Any, **named: Any
    ) -> ToldData:
        if any(at.partition for at in wanted):
            await asyncio.Event().wait()
        return await fetch_data(client, node_id, wanted, *words, **named)

    async def interrupted(client: ClusterClient) -> None:
        progress = taking.Progress()
        copying = asyncio.ensure_future(taking.take(client, where, lambda name: name == "stopped", "now", progress))
        while not list(where.rglob("*.batches")):
            await asyncio.sleep(0.01)
        copying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await copying

    where = tmp_path / "backup"
    ok(ours(source, "topic", "create", "stopped", "--partitions", "2"))
    ask(source, write)
    with monkeypatch.context() as patched:
        patched.setattr(taking, "fetch_data", fetch_one_partition)
        ask(source, interrupted)
    incomplete = run_command("backup", "verify", str(where))
    assert (incomplete.exit_code, "was not completed" in incomplete.err) == (1, True)
    ok(ours(source, "backup", str(where), "--topics", "stopped"))
    ok(run_command("backup", "verify", str(where)))
