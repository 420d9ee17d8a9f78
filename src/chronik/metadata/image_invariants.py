"""Invariants of every image, checked for everything that a batch of records changed, before the image is used.

`replay` checks each record against the state before it. This module checks the state after it, whichever records led
there. The cost depends on the size of the change, not of the image.
"""

from __future__ import annotations

from collections.abc import Collection

from chronik.metadata.image import NO_LEADER, ConfigResource, Image, Partition, ResourceType, Topic
from chronik.runtime.invariants import broken, check


def check_image(image: Image, base: Image, touched: Collection[bytes], *, has_touched_brokers: bool) -> None:
    """`touched` are the ids of the topics added, changed or removed since `base`."""
    for topic_id in touched:
        topic = image.topics.get(topic_id)
        if topic is not None:
            _check_topic(image, topic, base.topics.get(topic_id))
    if has_touched_brokers:
        ids = list(image.brokers)
        check(ids == sorted(ids), "29 brokers are kept by their ids", brokers=ids)
        check(
            all(broker_id == broker.broker_id for broker_id, broker in image.brokers.items()),
            "29 a broker is found under its own id",
            brokers=ids,
        )
    if image.access is not base.access:
        check(
            image.access.count >= len(image.access.resources),
            "29 every resource with access rules has one",
            rules=image.access.count,
            resources=len(image.access.resources),
        )
    for topic_id in touched:
        gone = base.topics.get(topic_id) if topic_id not in image.topics else None
        if gone is not None and gone.name not in image.topics_by_name:
            check(
                ConfigResource(ResourceType.TOPIC, gone.name) not in image.configs,
                "29 configs of a topic go with it",
                topic=gone.name,
            )
    if image.brokers is base.brokers and image.live_brokers is base.live_brokers:
        return  # unchanged brokers were checked before
    check(
        len(image.live_brokers) == sum(broker.live for broker in image.brokers.values()),
        "11 live brokers are those that may lead",
        live=[broker.broker_id for broker in image.live_brokers],
        brokers=list(image.brokers),
    )


def _check_topic(image: Image, topic: Topic, before: Topic | None) -> None:
    if image.topics_by_name.get(topic.name) is not topic:
        broken("29 every topic is known by id and by name", topic=topic.topic_id, name=topic.name)
    checked: Partition | None = None
    for index, partition in enumerate(topic.partitions):
        known = before.partitions[index] if before is not None and index < len(before.partitions) else None
        if partition is known or partition is checked:  # most share one object
            continue
        _check_partition(topic, index, partition)
        checked = partition
        if known is not None and partition.partition_epoch <= known.partition_epoch:
            broken("11 a partition epoch never goes back", topic=topic.name, index=index, before=known, now=partition)


def _check_partition(topic: Topic, index: int, partition: Partition) -> None:
    replicas, isr = partition.replicas, partition.isr
    if not replicas or len(set(replicas)) != len(replicas):
        broken("29 a partition's replicas are different brokers", topic=topic.name, index=index, replicas=replicas)
    if partition.leader != NO_LEADER and partition.leader not in isr:
        broken("11 a leader is in its ISR", topic=topic.name, index=index, partition=partition)
    if isr != replicas:  # otherwise they are the replicas just checked
        if not set(isr) <= set(replicas):
            broken("29 the ISR is made of replicas", topic=topic.name, index=index, partition=partition)
        if len(set(isr)) != len(isr):
            broken("11 a replica stands in the ISR once", topic=topic.name, index=index, partition=partition)
    if not 0 <= partition.leader_epoch <= partition.partition_epoch:
        broken("11 a leader epoch is a change of the partition", topic=topic.name, index=index, partition=partition)
    if (partition.adding or partition.removing) and not set(partition.adding + partition.removing) <= set(replicas):
        broken("29 only a replica comes or goes", topic=topic.name, index=index, partition=partition)
