"""Caches the descriptions of topics in Metadata responses until the topic or a broker changes.

Clients ask for the same topics repeatedly. Responses share a description, so it must not be modified.
"""

from __future__ import annotations

from chronik.metadata.image import Image, Topic
from chronik.runtime.buggify import DESCRIPTION_DROPPED
from chronik.wire.messages.metadata import MetadataResponseTopic


class DescribedTopics:
    def __init__(self) -> None:
        self._brokers: object = None  # of the image from which all descriptions were made
        self._kept: dict[bytes, tuple[Topic, MetadataResponseTopic]] = {}  # by topic id

    def get(self, topic: Topic, image: Image) -> MetadataResponseTopic | None:
        kept = self._kept.get(topic.topic_id)
        if kept is None or kept[0] is not topic or self._brokers is not image.brokers:
            return None
        if DESCRIPTION_DROPPED.is_on and DESCRIPTION_DROPPED.fires():
            return None
        return kept[1]

    def keep(self, topic: Topic, image: Image, described: MetadataResponseTopic) -> None:
        if self._brokers is not image.brokers:  # a description contains the offline replicas
            self._brokers = image.brokers
            self._kept.clear()
        self._kept[topic.topic_id] = (topic, described)

    def forget(self, topic_id: bytes) -> None:
        """The topic was deleted."""
        self._kept.pop(topic_id, None)
