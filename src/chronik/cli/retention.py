"""Warns when a record's timestamp is already older than its topic keeps records. It never refuses a record.

Such a record is written and acknowledged, and the broker deletes it with its segment at the next retention check. The
user has made no mistake that the broker could name, so the command has to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from chronik.cli.output import human_duration, time_text

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient

KEYS: Final = ("cleanup.policy", "message.timestamp.type", "retention.ms")


class RetentionCheck:
    """Looks at the timestamps of one topic's records; asks for the topic's settings when it sees the first one."""

    def __init__(self, cluster: ClusterClient, topic: str) -> None:
        self._cluster, self._topic = cluster, topic
        self._settings: dict[str, str] | None = None
        self._has_warned = False

    async def warning(self, timestamp_ms: int | None) -> str | None:
        """What to tell the user about this timestamp; at most one warning per topic."""
        if timestamp_ms is None or self._has_warned:
            return None
        if self._settings is None:
            self._settings = await self._read()
        message = why_too_old(self._topic, timestamp_ms, self._cluster.clock.wall_ms(), self._settings)
        self._has_warned = message is not None
        return message

    async def _read(self) -> dict[str, str]:
        """Empty where the settings cannot be read: then there is nothing to warn about."""
        from chronik.client.admin import configs
        from chronik.client.errors import Refused, Unsupported

        resource = configs.ConfigResource(configs.ResourceKind.TOPIC, self._topic)
        try:
            found = await configs.describe(self._cluster, resource, keys=KEYS)
        except (Refused, Unsupported):
            return {}
        return {config.name: config.value for config in found if config.value is not None}


def why_too_old(topic: str, timestamp_ms: int, now_ms: int, settings: dict[str, str]) -> str | None:
    """The warning, or None: the topic keeps such records, or gives them its own time."""
    retention_ms = int(settings.get("retention.ms", "-1"))
    deletes = "delete" in settings.get("cleanup.policy", "")
    keeps_time = settings.get("message.timestamp.type") != "LogAppendTime"
    age_ms = now_ms - timestamp_ms
    if not deletes or not keeps_time or retention_ms < 0 or timestamp_ms < 0 or age_ms <= retention_ms:
        return None
    return (
        f"warning: a record of {time_text(timestamp_ms)} is older than topic {topic!r} keeps records "
        f"(retention.ms={retention_ms}, which is {human_duration(retention_ms)}): the broker will delete it soon. "
        f"To keep it: chronik config set topic {topic} retention.ms=-1"
    )
