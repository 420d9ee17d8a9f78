"""A warning for records that their topic deletes as soon as they are written."""

from __future__ import annotations

import pytest

from chronik.cli.retention import why_too_old

NOW_MS, HOUR_MS = 1_800_000_000_000, 3_600_000
HOUR = {"cleanup.policy": "delete", "retention.ms": str(HOUR_MS), "message.timestamp.type": "CreateTime"}


@pytest.mark.parametrize(
    ("settings", "age_ms", "warns"),
    [
        (HOUR, HOUR_MS + 1, True),
        (HOUR, HOUR_MS, False),
        (HOUR | {"cleanup.policy": "compact,delete"}, HOUR_MS + 1, True),
        (HOUR | {"cleanup.policy": "compact"}, HOUR_MS + 1, False),
        (HOUR | {"retention.ms": "-1"}, NOW_MS, False),
        (HOUR | {"message.timestamp.type": "LogAppendTime"}, HOUR_MS + 1, False),
        (HOUR, NOW_MS + 1, False),
        ({}, NOW_MS, False),
    ],
)
def test_only_records_that_retention_deletes_are_warned_of(
    settings: dict[str, str], age_ms: int, *, warns: bool
) -> None:
    """A compacted topic keeps them, one that stamps records itself gives them today's time, -1 is no time at all."""
    warning = why_too_old("orders", NOW_MS - age_ms, NOW_MS, settings)
    assert (warning is not None) is warns
    if warning:
        assert "retention.ms=3600000, which is 1h" in warning
        assert "chronik config set topic orders retention.ms=-1" in warning
