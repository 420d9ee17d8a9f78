"""Bugs that only another shape of cluster, another way through the product or a short read brings out."""

from __future__ import annotations

import pytest

from chronik.raft.driver import RaftNode
from chronik.raft.leases import Lease
from chronik.raft.messages import NOBODY
from chronik.runtime import whole_reads


def node_0_is_taken_for_nobody(patch: pytest.MonkeyPatch) -> None:
    """A test of an id that is false for 0."""

    def leader_id(self: RaftNode) -> int | None:
        leader = self._core.leader
        return leader or None if leader != NOBODY else None

    patch.setattr(RaftNode, "leader_id", property(leader_id))


def a_short_read_is_taken_for_the_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(whole_reads, "read_rest", lambda read, data, position, size_bytes: memoryview(data))


def a_lease_outlives_a_leadership_that_is_handed_over(patch: pytest.MonkeyPatch) -> None:
    """Leadership is not transferred in the middle of a run, unless a point causes it."""
    patch.setattr(Lease, "revoke", lambda self, term: None)
