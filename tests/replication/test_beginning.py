"""A node that begins among many topics takes them up in steps: first those it holds something of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from chronik.metadata.commands.create_topics import PartitionReplicas
from chronik.metadata.commands.delete_topics import DeleteTopics, TopicName
from chronik.replication.assignment import Replicas
from chronik.replication.progress import Key
from chronik.storage.leader_epochs import LeaderEpochs
from tests.metadata.clusters import Cluster, cluster, create, new_topic, topic_id
from tests.replication.small import NobodyFull

NAMES = ["a", "b", "c", "d", "e"]


class Followed:
    """Replaces the fetchers: records what they must follow, in order."""

    def __init__(self) -> None:
        self.topics: list[bytes] = []
        self.leader_of: dict[Key, tuple[int, int]] = {}

    def attach(self, make_follower: object) -> None: ...

    def forget(self, key: Key) -> None: ...

    def follow(self, key: Key, leader_id: int, leader_epoch: int, *, when_invited: bool) -> None:
        self.topics.append(key[0])


def beginning(followed: Followed, *, here: str) -> Replicas:
    """Of node 3, which leads nothing, and has a log of the topic `here`."""
    log = SimpleNamespace(topic_id=topic_id(here), partition=0, lost=None, epochs=LeaderEpochs())
    logs = SimpleNamespace(all=lambda: [log], get=lambda asked, index: log if asked == log.topic_id else None)
    made = cast(Any, Replicas)(
        3, logs, None, clock=None, randomness=None, keeper=None, fetchers=followed, losses=None, full=NobodyFull()
    )
    return cast(Replicas, made)


def with_topics() -> Cluster:
    on = cluster(3)
    for name in NAMES:
        create(on, new_topic(name, -1, -1, assignments=[PartitionReplicas(index=0, broker_ids=[1, 3])]))
    return on


def test_topics_are_taken_up_in_steps_and_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand at once would keep clients waiting, and one that is left out would never be in sync again."""
    monkeypatch.setattr("chronik.replication.assignment.TOPICS_AT_ONCE", 2)
    on, followed = with_topics(), Followed()
    replicas = beginning(followed, here="d")
    replicas.begin(on.image)
    assert followed.topics[0] == topic_id("d")
    assert len(followed.topics) == 3
    assert not replicas.begin_more()
    assert sorted(followed.topics) == [topic_id(name) for name in NAMES]
    assert not replicas.begin_more()
    assert len(followed.topics) == len(NAMES)


def test_a_topic_that_was_deleted_meanwhile_is_not_taken_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chronik.replication.assignment.TOPICS_AT_ONCE", 1)
    on, followed = with_topics(), Followed()
    replicas = beginning(followed, here="d")
    replicas.begin(on.image)
    waiting = [name for name in NAMES if topic_id(name) not in followed.topics]
    on.ask(DeleteTopics(topics=[TopicName(name=waiting[0])]))
    replicas.follow(on.image, (), ())
    while replicas.begin_more():
        pass
    assert topic_id(waiting[0]) not in followed.topics
    assert len(followed.topics) == len(NAMES) - 1
