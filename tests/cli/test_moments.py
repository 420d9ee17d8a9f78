"""Places in a log as users write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.cli.errors import Misused
from chronik.cli.moments import parse_place, with_durations
from chronik.client.consumer import AtTime, Start
from chronik.wire.offset_specs import EARLIEST, LATEST

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("earliest", EARLIEST),
        (" Latest ", LATEST),
        ("0", 0),
        ("1234567890123", 1_234_567_890_123),
        ("2026-03-01T12:00:00+01:00", AtTime(1_772_362_800_000)),
        ("2026-03-01T11:00:00Z", AtTime(1_772_362_800_000)),
        ("2026-03-01T11:00:00.250Z", AtTime(1_772_362_800_250)),
        ("90s ago", AtTime(NOW_MS - 90_000)),
        ("2h ago", AtTime(NOW_MS - 7_200_000)),
        ("1 d ago", AtTime(NOW_MS - 86_400_000)),
    ],
)
def test_places_are_read(text: str, place: Start) -> None:
    """A number is an offset, never a time: 1234567890123 could be either."""
    assert parse_place(text, "--from", NOW_MS) == place


@pytest.mark.parametrize("text", ["", "soon", "-5", "1.5", "2026-03-01T25:00:00Z", "2h", "ago", "2026-03-01T12:00:00"])
def test_what_is_no_place_is_refused_with_the_option_and_the_text(text: str) -> None:
    """The message must show what was typed, and what to type instead."""
    with pytest.raises(Misused, match="--from"):
        parse_place(text, "--from", NOW_MS)


@given(st.datetimes(min_value=datetime(1971, 1, 1), max_value=datetime(2200, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001
def test_every_iso_time_is_read_to_the_millisecond(moment: datetime) -> None:
    """One millisecond later is one record later."""
    moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    place = parse_place(moment.isoformat(), "--from", NOW_MS)
    assert isinstance(place, AtTime)
    assert datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=place.timestamp_ms) == moment


def test_settings_in_milliseconds_may_have_a_unit() -> None:
    """Nobody counts the zeros of 604800000. What is not such a setting, or no duration, is the broker's to judge."""
    with pytest.raises(Misused, match=r"retention\.ms=7x: write milliseconds, or a duration such as 90s"):
        with_durations({"retention.ms": "7x"})
    typed = {"retention.ms": "7d", "segment.ms": "90 s", "file.delete.delay.ms": "5", "max.message.bytes": "1m"}
    assert with_durations(typed | {"flush.ms": "soon"}) == {
        "retention.ms": "604800000",
        "segment.ms": "90000",
        "file.delete.delay.ms": "5",
        "max.message.bytes": "1m",
        "flush.ms": "soon",
    }
