"""The replicas of this node: made when first touched, changed and removed as the image says.

A partition that the image places here has a replica as soon as somebody asks for it; nothing is opened before, so ten
thousand idle topics cost nothing. The image is the only source of what exists: nothing here creates a topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from chronik.metadata.image import EMPTY, Image, Topic
from chronik.replication.replica import Replica
from chronik.replication.topic_settings import TopicSettings
from chronik.storage.log import Log
from chronik.storage.logs import Logs

Key = tuple[bytes, int]  # topic id, partition


class Replicas:
    def __init__(self, node_id: int, logs: Logs, settings_of: Callable[[Image, str], TopicSettings]) -> None:
        self.node_id = node_id
        self.logs = logs
        self.image = EMPTY
        self._settings_of = settings_of
        self._replicas: dict[Key, Replica] = {}

    def get(self, topic: Topic, index: int) -> Replica | None:
        """The replica of a partition that lives here, else None."""
        replica = self._replicas.get((topic.topic_id, index))
        if replica is not None:
            return replica
        if not 0 <= index < len(topic.partitions) or self.node_id not in topic.partitions[index].replicas:
            return None
        settings = self._settings_of(self.image, topic.name)
        log = self.logs.create(topic.name, topic.topic_id, index, settings.log)
        made = Replica(log, self.node_id, topic.partitions[index], settings)
        self._replicas[topic.topic_id, index] = made
        return made

    def all(self) -> Iterable[Replica]:
        """Those that were touched; the rest have no state but their logs."""
        return self._replicas.values()

    def follow(self, image: Image, changed: Iterable[Topic], removed: Iterable[Topic]) -> list[Log]:
        """Takes a new image. Returns the logs that no longer belong here, for the caller to delete."""
        self.image = image
        gone: list[Log] = []
        for topic in removed:
            gone += self._leave(topic)
        for topic in changed:
            for index, partition in enumerate(topic.partitions):
                replica = self._replicas.get((topic.topic_id, index))
                if replica is None:
                    continue
                if self.node_id in partition.replicas:
                    replica.change(partition)
                else:
                    gone.append(self._replicas.pop((topic.topic_id, index)).log)
        return gone

    def configure(self, image: Image, topic: Topic) -> None:
        """A topic's configuration changed: it takes effect at once."""
        self.image = image
        settings = self._settings_of(image, topic.name)
        for index in range(len(topic.partitions)):
            replica = self._replicas.get((topic.topic_id, index))
            if replica is not None:
                replica.settings = settings
            log = self.logs.get(topic.topic_id, index)
            if log is not None:
                log.config = settings.log

    def _leave(self, topic: Topic) -> list[Log]:
        gone = []
        for index in range(len(topic.partitions)):
            replica = self._replicas.pop((topic.topic_id, index), None)
            log = replica.log if replica else self.logs.get(topic.topic_id, index)
            if log is not None:
                gone.append(log)
            if replica is not None:
                replica.end()
        return gone
