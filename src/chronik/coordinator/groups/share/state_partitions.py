"""Which partitions of a share group have state at the share coordinator; one record of the group holds all of it.

A partition is initializing from the moment that somebody subscribes to its topic until the share coordinator keeps
state for it. Only initialized partitions are assigned. A topic is deleting while its state is being removed. Values and
functions of values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from chronik.wire.messages.share_group_records import (
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)


class OfTopic(NamedTuple):
    name: str
    partitions: frozenset[int]


Topics = Mapping[bytes, OfTopic]  # by topic id
NO_TOPICS: Final[Topics] = {}
NO_NAMES: Final[Mapping[bytes, str]] = {}


class StatePartitions(NamedTuple):
    initializing: Topics = NO_TOPICS
    initialized: Topics = NO_TOPICS
    deleting: Mapping[bytes, str] = NO_NAMES  # topic id to name

    def begin(self, topics: Topics) -> StatePartitions:
        """These are being initialized. State that was being deleted is not any more."""
        initializing = _united(self.initializing, topics)
        deleting = {key: name for key, name in self.deleting.items() if key not in initializing}
        return self._replace(initializing=initializing, deleting=deleting)

    def end(self, topics: Topics) -> StatePartitions:
        """These are initialized."""
        return self._replace(
            initializing=_without(self.initializing, topics), initialized=_united(self.initialized, topics)
        )

    def delete(self, topic_ids: Collection[bytes]) -> StatePartitions:
        """The state of these topics is being removed."""
        deleting = dict(self.deleting)
        for topic_id in topic_ids:
            known = self.initialized.get(topic_id) or self.initializing.get(topic_id)
            if known is not None:
                deleting[topic_id] = known.name
        return StatePartitions(_except(self.initializing, topic_ids), _except(self.initialized, topic_ids), deleting)

    def forget(self, topic_ids: Collection[bytes]) -> StatePartitions:
        """Nothing is kept about these topics any more."""
        deleting = {key: name for key, name in self.deleting.items() if key not in topic_ids}
        return StatePartitions(_except(self.initializing, topic_ids), _except(self.initialized, topic_ids), deleting)

    def topic_ids(self) -> set[bytes]:
        return {*self.initializing, *self.initialized, *self.deleting}

    def partitions_of(self, topic_id: bytes) -> frozenset[int]:
        """Those that have state, or may have it."""
        known = (self.initialized.get(topic_id), self.initializing.get(topic_id))
        return frozenset().union(*(each.partitions for each in known if each is not None))


def from_record(value: ShareGroupStatePartitionMetadataValue) -> StatePartitions:
    return StatePartitions(
        _read(value.initializing_topics),
        _read(value.initialized_topics),
        {each.topic_id: each.topic_name for each in value.deleting_topics},
    )


def to_record(kept: StatePartitions) -> ShareGroupStatePartitionMetadataValue:
    return ShareGroupStatePartitionMetadataValue(
        initializing_topics=_written(kept.initializing),
        initialized_topics=_written(kept.initialized),
        deleting_topics=[TopicInfo(topic_id=key, topic_name=name) for key, name in sorted(kept.deleting.items())],
    )


def _read(topics: Iterable[TopicPartitionsInfo]) -> Topics:
    return {each.topic_id: OfTopic(each.topic_name, frozenset(each.partitions)) for each in topics}


def _written(topics: Topics) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id=key, topic_name=each.name, partitions=sorted(each.partitions))
        for key, each in sorted(topics.items())
    ]


def _united(before: Topics, more: Topics) -> Topics:
    found = dict(before)
    for topic_id, each in more.items():
        known = found.get(topic_id)
        found[topic_id] = each if known is None else OfTopic(each.name, known.partitions | each.partitions)
    return found


def _without(before: Topics, less: Topics) -> Topics:
    found = {}
    for topic_id, each in before.items():
        left = each.partitions - (less[topic_id].partitions if topic_id in less else frozenset())
        if left:
            found[topic_id] = OfTopic(each.name, left)
    return found


def _except(before: Topics, topic_ids: Collection[bytes]) -> Topics:
    return {key: each for key, each in before.items() if key not in topic_ids}
