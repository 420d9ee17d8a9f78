"""What a topic's configuration says to its replicas: typed, with the node's value where the topic sets none."""

from __future__ import annotations

from typing import NamedTuple

from chronik.storage.config import LogConfig


class TopicSettings(NamedTuple):
    log: LogConfig
    min_insync_replicas: int
    compression_type: str  # "producer": as it was sent
    compression_level: int | None  # of that codec; None where it has none
