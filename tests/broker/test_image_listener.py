"""A coordinator gets every image while it has partitions here, and the newest one when it gets its first partition."""

from __future__ import annotations

from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from chronik.broker.image_listener import ImageListener
from chronik.metadata.delta import Changes
from chronik.metadata.image import Topic

STATE = "__state"
REPLICA = SimpleNamespace(log=SimpleNamespace(partition=0), leader_epoch=2)


class Coordinator:
    partition_count = 0

    def __init__(self) -> None:
        self.heard: list[object] = []

    def image_changed(self, image: Any, changes: Changes) -> None:
        self.heard.append(image.number)

    async def load(self, partition: object) -> None:
        self.heard.append("load")

    def unload(self, index: int) -> None:
        self.heard.append("unload")


def image(number: int, leader: int | None = None) -> Any:
    """With the coordinator's topic if it has a leader."""
    partition = SimpleNamespace(leader=leader, leader_epoch=number)
    topic = None if leader is None else Topic(b"s" * 16, STATE, (partition,))  # type: ignore[arg-type]
    return SimpleNamespace(number=number, topic_named=lambda name: topic if name == STATE else None)


class Tasks:
    """Work that was started begins in `run`, as in a later turn of the loop."""

    def __init__(self) -> None:
        self._started: list[Coroutine[Any, Any, None]] = []

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self._started.append(work)

    def run(self) -> None:
        started, self._started = self._started, []
        for work in started:
            with pytest.raises(StopIteration):
                work.send(None)


def listener_of(coordinator: Coordinator) -> ImageListener:
    node: Any = SimpleNamespace(
        node_id=1,
        coordinators=SimpleNamespace(by_topic={STATE: coordinator}),
        metrics=SimpleNamespace(follow=lambda *_: None),
        replicas=SimpleNamespace(follow=lambda *_: (), get=lambda topic, index: REPLICA),
        tasks=Tasks(),
        runtime=SimpleNamespace(clock=SimpleNamespace(wall_ms=lambda: 0)),
    )
    return ImageListener(node)


def moved(after: Any) -> Changes:
    return Changes(topics_changed=((after.topic_named(STATE), after.topic_named(STATE)),))


def test_a_coordinator_hears_of_images_from_its_first_partition_here_until_its_last() -> None:
    """A shard that was loaded with an old image would keep groups of topics that are long gone. A node without any
    partition of the topic has no one to tell, and every new image would cost it calls."""
    coordinator = Coordinator()
    listener = listener_of(coordinator)
    listener._changed(image(0), image(1), Changes())
    assert coordinator.heard == []
    listener._changed(image(1), image(2, leader=1), moved(image(2, leader=1)))
    listener._node.tasks.run()  # type: ignore[attr-defined]
    assert coordinator.heard == [2, "load"]
    listener._changed(image(2), image(3, leader=1), Changes())
    assert coordinator.heard == [2, "load", 3]
    coordinator.heard.clear()
    listener._changed(image(3), image(4, leader=2), moved(image(4, leader=2)))
    assert coordinator.heard == [4, "unload"]
    listener._changed(image(4), image(5, leader=2), Changes())
    assert coordinator.heard == [4, "unload"]


def test_a_leadership_that_ends_before_its_load_has_begun_is_not_loaded() -> None:
    """A node that catches up applies many images at once. When the leadership ends, there is nothing to unload yet, and
    a later load would serve a partition that another node leads."""
    coordinator = Coordinator()
    listener = listener_of(coordinator)
    listener._changed(image(1), image(2, leader=1), moved(image(2, leader=1)))
    listener._changed(image(2), image(3, leader=2), moved(image(3, leader=2)))
    listener._node.tasks.run()  # type: ignore[attr-defined]
    assert coordinator.heard == [2, 3, "unload"]
