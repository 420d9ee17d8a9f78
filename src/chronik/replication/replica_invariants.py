"""Invariants of a replica, checked after a change of its leader, its ISR, or its log as a whole.

Not used by appends, fetches and commits, which check what they touch. Changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.runtime.invariants import broken

if TYPE_CHECKING:
    from chronik.replication.replica import Replica


def check_replica(replica: Replica) -> None:
    log, state = replica.log, replica.state
    if replica.high_watermark > log.end_offset:
        broken("10 the high watermark lies in the log", partition=replica.name, high_watermark=replica.high_watermark)
    if replica.high_watermark != log.high_watermark:
        broken(
            "10 replica and log know one high watermark",
            partition=replica.name,
            replica=replica.high_watermark,
            log=log.high_watermark,
        )
    if state.leader >= 0 and state.leader not in state.isr:
        broken("11 a leader is in its ISR", partition=replica.name, state=state)
    if replica.is_gone:
        return
    if (log.on_durable is not None) != replica.is_leader:
        broken("11 a leader commits what is durable, a follower does not", partition=replica.name, state=state)
    if not replica.is_leader:
        if replica.isr_pending is not None:
            broken("11 only a leader asks for another ISR", partition=replica.name, pending=replica.isr_pending)
        return
    if not set(state.isr) <= set(state.replicas):
        broken("29 the ISR is made of replicas", partition=replica.name, state=state)
    if replica.isr_pending is not None and replica.node_id not in replica.isr_pending:
        broken("11 a leader stays in its ISR", partition=replica.name, pending=replica.isr_pending)
    if replica.epoch_start_offset > log.end_offset:
        broken("11 a leader's epoch begins in its log", partition=replica.name, start=replica.epoch_start_offset)
    if log.epochs.latest > state.leader_epoch:
        broken("11 no batch is of a later epoch than its leader", partition=replica.name, batch=log.epochs.latest)
    for progress in replica.followers.values():
        if progress.counted_epoch > state.leader_epoch:
            broken("11 a follower counts in its leader's epoch", partition=replica.name, broker=progress.broker_id)
        if progress.counted_epoch == state.leader_epoch and progress.end_offset > log.end_offset:
            broken(
                "9 a follower that counts holds no more than its leader",
                partition=replica.name,
                broker=progress.broker_id,
                offset=progress.end_offset,
                end=log.end_offset,
            )
