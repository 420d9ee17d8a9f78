"""Points at which the product may do the unlikely: off in production, whatever happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import chronik
from chronik.runtime import buggify
from chronik.runtime.buggify import POINTS, Point

PRODUCT = Path(chronik.__file__).parent
PACKAGES = ("storage", "raft", "metadata", "replication", "coordinator", "broker")


def constants() -> dict[str, Point]:
    return {name: value for name, value in vars(buggify).items() if isinstance(value, Point)}


def test_every_point_is_off() -> None:
    assert len(POINTS) >= 50
    assert not any(point.is_on for point in POINTS.values())


def test_a_point_that_is_off_does_not_fire() -> None:
    assert not any(point.fires() for point in POINTS.values())


def test_points_that_were_on_are_off_again() -> None:
    point = POINTS["storage: a segment is rolled before it is full"]
    try:
        buggify.turn_on([point], lambda _: True)
        assert point.is_on
        assert point.fires()
        assert [each for each in POINTS.values() if each.is_on] == [point]
    finally:
        buggify.turn_off()
    assert not point.is_on
    assert not point.fires()


def test_two_points_cannot_have_one_name() -> None:
    with pytest.raises(ValueError, match="two points named"):
        Point("storage: a segment is rolled before it is full")


def test_nothing_but_the_simulator_turns_points_on() -> None:
    """No setting, no environment variable, no command."""
    callers = [
        path.relative_to(PRODUCT).parts[0]
        for path in PRODUCT.rglob("*.py")
        if re.search(r"buggify\.turn_on|import .*\bturn_on\b", path.read_text())
    ]
    assert callers == ["sim"]


def test_every_point_is_asked_for_once_and_only_if_it_is_on() -> None:
    """The attribute comes first: it is all that a point costs where it is off."""
    source = "\n".join(path.read_text() for package in PACKAGES for path in (PRODUCT / package).rglob("*.py"))
    for name in constants():
        asked = re.findall(rf"\b{name}\.fires\(\)", source)
        guarded = re.findall(rf"\b{name}\.is_on and (?:[^\n]+ and )?{name}\.fires\(\)", source)
        assert len(asked) == len(guarded) == 1, name
