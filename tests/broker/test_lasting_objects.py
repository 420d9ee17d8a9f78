"""New objects of the metadata are excluded from garbage collection; small changes have no effect."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from copy import copy

import pytest

from chronik.broker.lasting_objects import CHANGES_MAX, LastingObjects
from chronik.metadata.access import ALLOW, LITERAL, AccessRule
from chronik.metadata.delta import Changes
from chronik.metadata.image import EMPTY, Image


@pytest.fixture(autouse=True)
def melted() -> Iterator[None]:
    yield
    gc.unfreeze()


def rules(count: int) -> Image:
    access = EMPTY.access
    for number in range(count):
        access = access.with_rule(AccessRule(2, f"topic-{number}", LITERAL, "User:alice", "*", 3, ALLOW))
    image = copy(EMPTY)
    image.access = access
    return image


def test_an_image_that_has_grown_is_looked_through_no_more() -> None:
    """With 100,000 rules a collection takes half a second, in which the node serves no client."""
    image, listener = rules(CHANGES_MAX), LastingObjects()
    before = gc.get_freeze_count()
    listener.changed(EMPTY, image, Changes(access=True))
    assert gc.get_freeze_count() >= before + CHANGES_MAX


def test_small_changes_are_counted_until_there_are_many() -> None:
    """Each time that objects are frozen, some memory may be lost."""
    one, listener = rules(1), LastingObjects()
    before = gc.get_freeze_count()
    for _ in range(CHANGES_MAX - 1):
        listener.changed(EMPTY, one, Changes(access=True))
    assert gc.get_freeze_count() == before
    listener.changed(EMPTY, one, Changes(access=True))
    assert gc.get_freeze_count() > before


def test_what_the_image_drops_is_freed_although_it_is_frozen() -> None:
    """It has no cycles, so counting references is enough."""
    image, listener = rules(CHANGES_MAX), LastingObjects()
    listener.changed(EMPTY, image, Changes(access=True))
    frozen = gc.get_freeze_count()
    del image
    assert gc.get_freeze_count() <= frozen - CHANGES_MAX
