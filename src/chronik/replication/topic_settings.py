"""A topic's typed configuration for its replicas, with the node's value where the topic sets none."""

from __future__ import annotations

from dataclasses import dataclass, field

from chronik.storage.config import FOREVER, LogConfig

AS_SENT = "producer"


@dataclass(frozen=True, slots=True)
class TopicSettings:
    log: LogConfig
    min_insync_replicas: int
    compression_type: str  # AS_SENT, or a codec's name
    compression_level: int | None  # level of that codec; None if it has none
    # Whether records must satisfy rules that a batch header cannot prove: on keys, or on early timestamps.
    has_record_rules: bool = field(init=False)

    def __post_init__(self) -> None:
        has_rules = self.log.cleanup_policy != "delete" or self.log.message_timestamp_before_max_ms != FOREVER
        object.__setattr__(self, "has_record_rules", has_rules)
