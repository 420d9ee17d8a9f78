"""Snapshots between peers: installing one, and the outcome of sending one (appending.py sends it).

Creates no snapshot itself: the caller's state machine does, and `Stable.snapshot` offers the newest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.raft import appending, membership, roles
from chronik.raft.messages import Message, Role, Snapshot
from chronik.raft.progress import ProgressState
from chronik.runtime.invariants import check

if TYPE_CHECKING:
    from chronik.raft.core import Core


def report(core: Core, peer_id: int, *, delivered: bool) -> None:
    """The transport reports the outcome. Either way the next append waits until the peer responds."""
    peer = core.progress.get(peer_id)
    if core.role is not Role.LEADER or peer is None or peer.pace is not ProgressState.SNAPSHOT:
        return
    if not delivered:
        peer.pending_snapshot = 0
    peer.become_probe()
    peer.paused_flow = True
    check(peer.next > peer.match, "3 next is behind match", peer=peer_id, match=peer.match, next=peer.next)


def give_up_lost(core: Core, ticks: dict[int, int], ticks_max: int) -> None:
    """At each tick of a leader: probes a peer again that took a snapshot and fell silent; otherwise it would stall.

    `ticks` holds the ticks since each peer's snapshot was sent; this function updates it.
    """
    under_way = core.awaiting_snapshot
    for peer in ticks.keys() - set(under_way):
        del ticks[peer]
    for peer in under_way:
        ticks[peer] = ticks.get(peer, 0) + 1
        if ticks[peer] >= ticks_max:
            report(core, peer, delivered=False)


def on_snapshot(core: Core, message: Message) -> None:
    roles.heed(core, message.sender)
    taken = message.snapshot is not None and _restore(core, message.snapshot)
    appending.answer(core, message.sender, index=core.log.last_index if taken else core.log.committed)


def _restore(core: Core, snapshot: Snapshot) -> bool:
    log = core.log
    if snapshot.index <= log.committed:
        return False
    if core.id not in snapshot.membership.voters and core.id not in snapshot.membership.learners:
        return False  # a node that is not among the members could not continue from there
    if log.matches(snapshot.index, snapshot.term):
        log.commit_to(snapshot.index)  # the log already has everything: keep the entries
        return False
    check(
        log.applied <= log.committed < snapshot.index,
        "2 a snapshot takes a node forward",
        applied=log.applied,
        committed=log.committed,
        snapshot=snapshot.index,
    )
    log.restore(snapshot)
    core.progress.clear()
    membership.switch(core, snapshot.membership)
    return True
