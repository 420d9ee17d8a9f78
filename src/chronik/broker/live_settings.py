"""The node's current settings, including broker configs that are set at run time.

Values that are derived from the settings alone are cached until the settings change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from chronik.broker.settings import Settings
from chronik.broker.topic_settings import topic_settings
from chronik.metadata.image import Image, ResourceType
from chronik.replication.topic_settings import TopicSettings

T = TypeVar("T")
CLUSTER_DEFAULT = ""  # the resource name for all brokers
NOTHING_SET: dict[str, str] = {}


class LiveSettings:
    def __init__(self, settings: Settings) -> None:
        self.now = settings
        self._derived: dict[Callable[[Settings], Any], Any] = {}

    def follow(self, image: Image, node_id: int) -> None:
        """Takes over the image's configs for all brokers, and for this one."""
        cluster = image.config(ResourceType.BROKER, CLUSTER_DEFAULT)
        own = image.config(ResourceType.BROKER, str(node_id))
        self.now = self.now.with_dynamic(cluster, own)
        self._derived.clear()

    def derived(self, make: Callable[[Settings], T]) -> T:
        """The result of `make` for the current settings; cached until they change."""
        if make not in self._derived:
            self._derived[make] = make(self.now)
        return cast(T, self._derived[make])

    def of_topic(self, image: Image, topic: str) -> TopicSettings:
        own = image.config(ResourceType.TOPIC, topic)
        return topic_settings(self.now, own) if own else self.derived(_inherited)


def _inherited(settings: Settings) -> TopicSettings:
    """The settings of topics without own configs: one object for all."""
    return topic_settings(settings, NOTHING_SET)
