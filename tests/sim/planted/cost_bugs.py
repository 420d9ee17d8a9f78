"""Bugs with correct results that take too long."""

from __future__ import annotations

import pytest

from chronik.broker.apis.fetch import _Fetch
from chronik.replication.replica import Replica
from chronik.runtime.pieces import at_once


def waiting_fetches_count_everything_at_once(patch: pytest.MonkeyPatch) -> None:
    """Counts everything whenever one partition changes, without slices."""
    has_moved = _Fetch._has_moved

    def count_all(self: _Fetch, replica: Replica) -> None:
        if self.is_long:
            at_once(self.count(range(len(self.wanted))))
        has_moved(self, replica)

    patch.setattr(_Fetch, "_has_moved", count_all)
