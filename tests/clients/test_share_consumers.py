"""Share consumers of Kafka 4.3.1 and our own in one group, on three nodes: also while the leaders of partitions die.

What a leader remembers of deliveries dies with it, as in Kafka: its sessions end, and the next leader delivers again
what was not acknowledged. So a record is delivered once by each leader, unless it is released.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from chronik.client.admin import configs, topics
from chronik.client.errors import ClientError, Refused
from chronik.client.routing import ClusterClient
from chronik.client.share_consumer import ShareConsumer
from chronik.client.share_session import Acknowledge
from chronik.client.topology import TopicPartition
from chronik.testing import Cluster
from tests.client.test_against_brokers import client
from tests.clients.built import DRIVERS, built
from tests.clients.built import run as run_step
from tests.clients.drivers.programs import Program
from tests.oracle.jars import kafka_jars
from tests.oracle.message_oracle import JVM_OPTIONS

pytestmark = [pytest.mark.java, pytest.mark.slow]

SOURCE = DRIVERS / "java" / "Share.java"
PARTITIONS = 3
PATIENCE_S = 200
PLAIN, SPECIAL = 240, 12


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    with Cluster(nodes=3, in_process=False) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def java_command() -> list[str]:
    jars = f"{kafka_jars('4.3.1')}/*"

    def build(folder: Path) -> None:
        run_step(["javac", "-Xlint:all,-classfile", "-Werror", "-d", folder, "-cp", jars, SOURCE], cwd=folder)

    return ["java", *JVM_OPTIONS, "-cp", f"{built('java-share', [SOURCE], '4.3.1', build)}:{jars}", "Share"]


class OurMember:
    """Does what Share.java does."""

    def __init__(self, cluster: ClusterClient, topic: str, group: str) -> None:
        self.lines: list[str] = []
        self._task = asyncio.create_task(self._read(cluster, topic, group))

    def printed(self) -> str:
        return "\n".join(self.lines)

    async def close(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _read(self, cluster: ClusterClient, topic: str, group: str) -> None:
        async with ShareConsumer(cluster, group_id=group) as consumer:
            consumer.subscribe([topic])
            while True:
                decided = []
                for each in await consumer.poll(200):
                    value = (each.record.value or b"").decode()
                    self.lines.append(f"got {value} {each.delivery_count}")
                    kind = Acknowledge.ACCEPT
                    if value.startswith("reject"):
                        kind = Acknowledge.REJECT
                    elif value.startswith("release") and each.delivery_count == 1:
                        kind = Acknowledge.RELEASE
                    consumer.acknowledge(each, kind)
                    decided.append(f"done {value} {kind.name}")
                with suppress(ClientError):
                    await consumer.commit()
                    self.lines += decided


class Told:
    """What the members have said so far."""

    def __init__(self, printed: str) -> None:
        words = [line.split() for line in printed.splitlines() if line.startswith(("got", "done"))]
        self.deliveries = Counter((word[1], int(word[2])) for word in words if word[0] == "got")
        self.got = Counter(word[1] for word in words if word[0] == "got")
        self.done = Counter(word[1] for word in words if word[0] == "done" and word[2] != "RELEASE")


async def until(look: Callable[[], bool], what: str) -> None:
    for _ in range(PATIENCE_S * 5):
        if look():
            return
        await asyncio.sleep(0.2)
    raise AssertionError(f"in {PATIENCE_S} s there is not: {what}")


async def produced(cluster: ClusterClient, topic: str, values: list[str]) -> None:
    from chronik.client.producer import Producer

    async with Producer(cluster, delivery_timeout_ms=120_000) as producer:
        for number, value in enumerate(values):
            await producer.send(topic, value.encode(), partition=number % PARTITIONS)


async def begun(cluster: ClusterClient, name: str) -> tuple[str, str]:
    """A topic, and a group that begins at its start."""
    created = await cluster.retrying(lambda: topics.create(cluster, [topics.NewTopic(name, PARTITIONS, 3)]))
    assert not isinstance(created[name], Refused)
    await cluster.retrying(lambda: cluster.topic(name))
    group = f"{name}-group"
    resource = configs.ConfigResource(configs.ResourceKind.GROUP, group)
    await configs.alter(cluster, resource, set_to={"share.auto.offset.reset": "earliest"})
    return name, group


def test_members_of_two_libraries_share_partitions_and_survive_their_leaders(
    three: Cluster, java_command: list[str]
) -> None:
    plain = [f"plain-{number}" for number in range(PLAIN)]
    late = [f"late-{number}" for number in range(PLAIN)]
    released = [f"release-{number}" for number in range(SPECIAL)]
    rejected = [f"reject-{number}" for number in range(SPECIAL)]

    async def work() -> None:
        async with client(three.bootstrap) as cluster:
            topic, group = await begun(cluster, "queue")
            command = [*java_command, three.bootstrap, topic, group]
            with Program(command) as one, Program(command) as other:
                ours = OurMember(cluster, topic, group)

                def told() -> Told:
                    printed = (each.printed().rpartition("\n")[0] for each in (one, other))  # whole lines
                    return Told("\n".join([*printed, *ours.lines]))

                await produced(cluster, topic, [*plain, *released, *rejected])
                everything = {*plain, *released, *rejected}
                await until(lambda: told().done.keys() >= everything, "an end of every record")
                found = told()
                assert found.done == Counter(everything), "each is acknowledged once"
                assert {value: found.got[value] for value in (*plain, *rejected)} == dict.fromkeys(
                    (*plain, *rejected), 1
                )
                assert all(found.deliveries[value, 1] == found.deliveries[value, 2] == 1 for value in released)
                assert all("got" in each.printed() for each in (one, other, ours)), "every member has worked"

                epochs = await leader_epochs(cluster, topic)
                victim = (await cluster.refresh([topic])).leader(TopicPartition(topic, 0))
                sending = asyncio.create_task(produced(cluster, topic, late))
                await until(lambda: any(value.startswith("late") for value in told().got), "the first late record")
                three.kill(victim)
                await sending
                await until(lambda: told().got.keys() >= set(late), "every late record")
                three.start_again(victim)
                one.check_running()
                other.check_running()
                moves = await leader_epochs(cluster, topic)
                await ours.close()
                found = told()
                for value in late:
                    index = late.index(value) % PARTITIONS
                    assert found.done[value] <= 1, "what was confirmed is not delivered again"
                    leaders = 1 + moves[index] - epochs[index]
                    assert found.deliveries[value, 1] <= leaders, f"{value} was delivered twice by one leader"

    asyncio.run(work())


async def leader_epochs(cluster: ClusterClient, topic: str) -> list[int]:
    topology = await cluster.retrying(lambda: cluster.refresh([topic]))
    return [each.leader_epoch for _, each in sorted(topology.topic(topic).partitions.items())]
