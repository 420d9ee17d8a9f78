"""Settings of the quorum, and the relations between them that safety depends on."""

from __future__ import annotations

from dataclasses import dataclass

from chronik.raft.core import CoreConfig
from chronik.runtime.interfaces import Randomness
from chronik.runtime.invariants import check
from chronik.runtime.units import MIB


@dataclass(frozen=True, slots=True)
class RaftConfig:
    tick_ms: int = 50
    heartbeat_ticks: int = 2
    election_ticks: int = 15  # the shortest election timeout; jitter adds up to as much again
    drift_permille: int = 10  # the largest difference between the rates of two clocks
    lease_ms: int = 350  # half of a follower's promise; must be less than the promise minus drift
    message_bytes_max: int = MIB  # entries in one append
    inflight_messages_max: int = 64
    inflight_bytes_max: int = 16 * MIB
    committed_bytes_max: int = 8 * MIB  # applied in one step
    uncommitted_bytes_max: int = 64 * MIB
    snapshot_every_bytes: int = 16 * MIB  # of journal
    snapshot_ticks_max: int = 600  # a peer silent for this long after a snapshot is probed again
    trailing_entries: int = 5_000  # kept after a snapshot, so that a slightly lagging peer does not need one

    def __post_init__(self) -> None:
        # The first tick may follow the heartbeat immediately, so one tick of the timeout does not count.
        promise_ms = (self.election_ticks - 1) * self.tick_ms
        safe_ms = promise_ms * (1000 - self.drift_permille) // 1000
        check(
            self.lease_ms < safe_ms,
            "6 a lease ends before another leader can be elected, clock drift included",
            lease_ms=self.lease_ms,
            below=safe_ms,
        )

    def core_config(self, node_id: int, randomness: Randomness, *, may_have_promised: bool) -> CoreConfig:
        return CoreConfig(
            node_id=node_id,
            jitter=randomness.below,
            election_ticks=self.election_ticks,
            heartbeat_ticks=self.heartbeat_ticks,
            async_writes=True,
            message_bytes_max=self.message_bytes_max,
            committed_bytes_max=self.committed_bytes_max,
            uncommitted_bytes_max=self.uncommitted_bytes_max,
            inflight_messages_max=self.inflight_messages_max,
            inflight_bytes_max=self.inflight_bytes_max,
            step_down_on_removal=True,
            forwards_proposals=False,
            guards_promises=True,
            may_have_promised=may_have_promised,
            compares_logs=True,
        )
