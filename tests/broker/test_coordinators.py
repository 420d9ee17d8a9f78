"""The table of coordinators: what the internal topics look like, and that a new coordinator is a row and a module."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from chronik.broker.coordinators import BY_KEY_TYPE, COORDINATOR_TOPICS
from chronik.broker.creation import new_topic
from chronik.broker.opening import store_config
from chronik.broker.settings import Settings
from chronik.broker.topics import INTERNAL_TOPICS
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.broker.hostile import World, run

REPOSITORY = Path(__file__).parents[2]
FILES_MAX = 3  # that a new internal topic with its coordinator may touch

SHAPES = {
    "__consumer_offsets": (
        (50, 3),
        {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"},
    ),
    "__transaction_state": (
        (50, 3),
        {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": "2",
            "segment.bytes": "104857600",
        },
    ),
    "__share_group_state": (
        (50, 3),
        {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "min.insync.replicas": "2",
            "retention.ms": "-1",
            "segment.bytes": "104857600",
        },
    ),
}


def kafka_defaults() -> Settings:
    return Settings.default(
        node_id=1,
        offsets_topic_replication_factor=3,
        transaction_state_log_replication_factor=3,
        transaction_state_log_min_isr=2,
        share_coordinator_state_topic_replication_factor=3,
        share_coordinator_state_topic_min_isr=2,
    )


def test_internal_topics_have_the_shape_that_kafka_gives_them() -> None:
    """Partition counts decide where a key lives, and the cleanup policy decides whether its state survives."""
    settings = kafka_defaults()
    assert {row.topic: (tuple(row.shape(settings)), row.configs(settings)) for row in COORDINATOR_TOPICS} == SHAPES


def test_whoever_creates_an_internal_topic_creates_the_same() -> None:
    """On first use by a coordinator, and by a CreateTopics that leaves the numbers to the controller."""
    settings = kafka_defaults()
    shapes = store_config(settings).rules.coordinator_topics
    assert set(shapes) == INTERNAL_TOPICS == set(SHAPES)
    for name in INTERNAL_TOPICS:
        made = new_topic(name, settings)
        assert (made.partition_count, made.replication_factor) == shapes[name] == SHAPES[name][0]
        assert {each.key: each.value for each in made.configs} == SHAPES[name][1]


@pytest.mark.parametrize(
    ("key_type", "error"),
    [
        (2, ErrorCode.INVALID_REQUEST),  # not the name of a share partition
        (3, ErrorCode.INVALID_REQUEST),
        (-1, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_key_without_a_coordinator_is_refused_and_creates_no_topic(key_type: int, error: ErrorCode) -> None:
    """A topic that nobody serves would only take up files."""

    async def story() -> None:
        world = await World.make()
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["a"])
        answer = await world.client.ask(request, FindCoordinatorResponse, 6)
        assert answer.coordinators[0].error_code == error
        assert not list(world.node.store.image.all_topics())
        await world.node.stop()

    run(story())


def test_each_key_type_has_one_topic() -> None:
    """Two rows with one key type would hide one of them."""
    assert len(BY_KEY_TYPE) == len({row.topic for row in COORDINATOR_TOPICS}) == len(COORDINATOR_TOPICS)


# --- the worked example of CONTRIBUTING.md

NEW_MODULE = '''"""Counts the groups' offset records, of all things: the smallest coordinator there is."""

from __future__ import annotations

from chronik.coordinator.partitions import partition_for
from chronik.coordinator.groups.records import RECORD_TYPES
from chronik.coordinator.open_transactions import OpenTransactions
from chronik.coordinator.runtime import CoordinatorRuntime
from chronik.coordinator.shard import CoordinatorRecord, StatePartition, Writer
from chronik.coordinator.timers import Timers
from chronik.metadata.delta import Changes
from chronik.metadata.image import Image


class CountingShard:
    record_types = RECORD_TYPES

    def __init__(self, writer: Writer, timers: Timers, partition: StatePartition) -> None:
        self.open_transactions = OpenTransactions()
        self.count = 0
        self.image_version = -1

    def replay(self, record: CoordinatorRecord, offset: int) -> None:
        self.count += 1

    def loaded(self) -> None: ...

    def image_changed(self, image: Image, changes: Changes) -> None:
        self.image_version = image.version

    def unloaded(self) -> None: ...


class CountingCoordinator:
    def __init__(self, parts) -> None:
        self.partition_count = 3
        self.runtime = CoordinatorRuntime("__counts", CountingShard, parts.runtime.clock, 5000)
        self.load, self.unload = self.runtime.load, self.runtime.unload
        self.image_changed = self.runtime.image_changed

    def partition_for(self, key: str) -> int:
        return partition_for(key, self.partition_count)
'''

NEW_ROW = """    CoordinatorTopic(
        topic="__counts",
        key_type=7,
        shape=lambda settings: TopicShape(3, 1),
        configs=lambda settings: {"cleanup.policy": "compact"},
        make=CountingCoordinator,
    ),
"""

TRIAL = """
import asyncio
import chronik
from chronik.broker.topics import INTERNAL_TOPICS
from chronik.coordinator.groups.records import offset_record
from chronik.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from chronik.wire.messages.group_records import OffsetCommitValue
from tests.broker.hostile import World, run

async def story():
    world = await World.make()
    request = FindCoordinatorRequest(key_type=7, coordinator_keys=["a"])
    answer = await world.client.ask(request, FindCoordinatorResponse, 6)
    assert (answer.coordinators[0].error_code, answer.coordinators[0].node_id) == (0, 1), answer
    topic = world.node.store.image.topic_named("__counts")
    assert len(topic.partitions) == 3 and "__counts" in INTERNAL_TOPICS
    counting = world.node.coordinators.by_topic["__counts"]
    index = counting.partition_for("a")
    while index not in dict(counting.runtime.active()):
        await asyncio.sleep(0.01)
    written = asyncio.get_running_loop().create_future()
    value = OffsetCommitValue(offset=1, metadata="", commit_timestamp=0)
    counting.runtime.write(index, [offset_record("g", "t", 0, value)], written.set_result)
    assert await written == 0
    shard = counting.runtime.shard(index)
    assert (shard.count, shard.image_version) == (1, world.node.store.image.version)
    await world.node.stop()

run(story())
print("served from", chronik.__path__[0])
"""


@pytest.mark.slow
def test_a_new_internal_topic_with_a_coordinator_touches_at_most_three_files(tmp_path: Path) -> None:
    """Done in a scratch copy: clients find it, its topic is created and protected, it is loaded and hears of images."""
    package = tmp_path / "src" / "chronik"
    shutil.copytree(REPOSITORY / "src" / "chronik", package, ignore=shutil.ignore_patterns("__pycache__"))
    table = package / "broker" / "coordinators.py"
    text = table.read_text()
    importing = "from chronik.coordinator.counting import CountingCoordinator\n"
    text = text.replace(
        "from chronik.coordinator.groups.config", importing + "from chronik.coordinator.groups.config", 1
    )
    text = text.replace("COORDINATOR_TOPICS: Final = (\n", "COORDINATOR_TOPICS: Final = (\n" + NEW_ROW, 1)
    table.write_text(text)
    (package / "coordinator" / "counting.py").write_text(NEW_MODULE)

    environment = os.environ | {
        "PYTHONPATH": f"{tmp_path / 'src'}{os.pathsep}{REPOSITORY}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    told = subprocess.run(
        [sys.executable, "-c", TRIAL], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr
    assert str(package) in told.stdout, "the scratch copy was not what ran"
    assert len(_touched(package)) <= FILES_MAX


def _touched(package: Path) -> list[Path]:
    original = REPOSITORY / "src" / "chronik"
    return [
        path
        for path in package.rglob("*.py")
        if not (before := original / path.relative_to(package)).exists() or before.read_bytes() != path.read_bytes()
    ]
