"""The documented differences are exactly those that the comparison finds."""

from __future__ import annotations

from pathlib import Path

from chronik.broker.compatibility import DIFFERENCES

SCENARIOS = sorted(Path(__file__).parent.glob("test_compat_*.py"))


def test_every_difference_is_held_against_kafka() -> None:
    """One that no scenario shows may be gone, or may never have been: it does not belong in the table."""
    scenarios = "".join(path.read_text() for path in SCENARIOS)
    assert [name for name in DIFFERENCES if f'"{name}"' not in scenarios] == []
