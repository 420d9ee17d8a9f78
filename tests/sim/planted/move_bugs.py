"""Bugs of replicas that move from node to node."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from chronik.metadata.decisions.elections import Shape
from chronik.replication.assignment import Key, Replicas
from chronik.storage.log import Log


def moves_end_before_the_newcomers_have_caught_up(patch: pytest.MonkeyPatch) -> None:
    """An added replica counts as in sync from the start."""

    def completed(self: Shape, isr: Sequence[int]) -> tuple[Shape, Sequence[int]]:
        if not self.adding and not self.removing:
            return self, isr
        staying = [each for each in self.replicas if each not in self.removing]
        return Shape(staying), staying

    patch.setattr(Shape, "completed", completed)


def replicas_that_were_moved_away_stay(patch: pytest.MonkeyPatch) -> None:
    """Their files are never deleted and use disk space forever."""
    leave = Replicas._leave

    def kept(self: Replicas, key: Key) -> list[Log]:
        leave(self, key)
        return []

    patch.setattr(Replicas, "_leave", kept)
