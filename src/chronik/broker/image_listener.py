"""Listens to changes of the metadata image: updates replicas, deletes logs of deleted topics, loads coordinators.

It runs while the metadata log is applied, so it only updates state and starts tasks; it never waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.coordinators import Coordinator
from chronik.metadata.delta import Changes
from chronik.metadata.image import Image, ResourceType, Topic
from chronik.replication.coordinator_partition import CoordinatorPartition
from chronik.storage.log import Log

if TYPE_CHECKING:
    from chronik.broker.node import Node


class ImageListener:
    def __init__(self, node: Node) -> None:
        self._node = node
        # For each topic of a coordinator: the partitions led here, with their leader epochs.
        self._loaded: dict[str, dict[int, int]] = {topic: {} for topic in node.coordinators.by_topic}

    def begin(self) -> None:
        """Applies the recovered image, then every change to it."""
        node, image = self._node, self._node.store.image
        self._configure(image)
        node.quotas.follow(image)
        node.telemetry.clients.subscriptions.follow(image)
        node.replicas.follow(image, (), ())
        node.store.subscribe(self._changed)

    def join(self) -> None:
        """The image shows this node's registration, so it is not outdated: the node leads and follows as it says."""
        image = self._node.store.image
        self._node.replicas.begin(image)
        for name, coordinator in self._node.coordinators.by_topic.items():
            self._follow_coordinator(name, coordinator, image)

    async def clean_up(self) -> None:
        """Sets aside logs of partitions that were removed while this node was down. The image must be up to date.

        The image cannot distinguish a deleted topic from one that it never contained, so nothing is removed at once.
        """
        node, image = self._node, self._node.store.image
        known = {
            (topic.topic_id, index)
            for topic in image.topics.values()
            for index, partition in enumerate(topic.partitions)
            if node.node_id in partition.replicas
        }
        unknown = [log for log in node.logs.all() if (log.topic_id, log.partition) not in known]
        if unknown:
            why = "is no replica of this node in the cluster's metadata"
            await node.logs.set_aside(unknown, why, node.runtime.clock.wall_ms())

    def _changed(self, before: Image, after: Image, changes: Changes) -> None:
        node = self._node
        node.metrics.follow(node.node_id, changes)
        changed = [*changes.topics_added, *(topic for _, topic in changes.topics_changed)]
        for log in node.replicas.follow(after, changed, changes.topics_removed, changes.brokers):
            self._delete(log)
        for name, coordinator in node.coordinators.by_topic.items():
            if self._loaded[name]:  # otherwise it gets the newest image when it loads its first partition
                coordinator.image_changed(after, changes)
        for topic in changes.topics_removed:
            node.described_topics.forget(topic.topic_id)
        if any(resource.type == ResourceType.BROKER for resource in changes.configs):
            self._configure(after)
        if any(resource.type == ResourceType.CLIENT_METRICS for resource in changes.configs):
            node.telemetry.clients.subscriptions.follow(after)
        if changes.quotas:
            node.quotas.follow(after)
        for resource in changes.configs:
            configured = after.topic_named(resource.name) if resource.type == ResourceType.TOPIC else None
            if configured is not None:
                node.replicas.configure(after, configured)
        moved = {topic.name for topic in (*changed, *changes.topics_removed)}
        for name, coordinator in node.coordinators.by_topic.items():
            if name in moved:
                self._follow_coordinator(name, coordinator, after)

    def _configure(self, image: Image) -> None:
        """Applies changed dynamic broker configs, also to topics that do not override them."""
        node = self._node
        node.live_settings.follow(image, node.node_id)
        node.certificates.reload()
        node.replicas.configure_all(image)

    def _delete(self, log: Log) -> None:
        name = f"delete {log.topic}-{log.partition}"
        self._node.tasks.start(name, self._node.logs.delete(log))

    def _follow_coordinator(self, name: str, coordinator: Coordinator, image: Image) -> None:
        """Loads the partitions of the coordinator's topic that this node leads now, and unloads the others."""
        node, loaded = self._node, self._loaded[name]
        topic = image.topic_named(name)
        led = _led_partitions(topic, node.node_id)
        for index, epoch in list(loaded.items()):
            if led.get(index) != epoch:
                del loaded[index]
                coordinator.unload(index)
        if topic is None:
            return
        coordinator.partition_count = len(topic.partitions)
        if led and not loaded:
            coordinator.image_changed(image, Changes())
        for index, epoch in led.items():
            replica = node.replicas.get(topic, index)
            if index in loaded or replica is None:
                continue
            loaded[index] = epoch
            partition = CoordinatorPartition(replica, node.runtime.clock.wall_ms)
            node.tasks.start(f"load {name}-{index}", self._load(name, coordinator, partition))

    async def _load(self, name: str, coordinator: Coordinator, partition: CoordinatorPartition) -> None:
        """The task starts later than it was created. An image may have ended the leadership in between, when there was
        nothing to unload yet. Loading the partition then would serve one that another node leads."""
        if self._loaded[name].get(partition.index) == partition.leader_epoch:
            await coordinator.load(partition)


def _led_partitions(topic: Topic | None, node_id: int) -> dict[int, int]:
    if topic is None:
        return {}
    return {index: state.leader_epoch for index, state in enumerate(topic.partitions) if state.leader == node_id}
