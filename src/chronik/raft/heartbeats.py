"""Heartbeats: they keep a leader in office and carry the commit index and the context of the newest waiting read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.raft import roles
from chronik.raft.messages import Message, MessageKind
from chronik.runtime.invariants import broken

if TYPE_CHECKING:
    from chronik.raft.core import Core


def broadcast(core: Core, context: bytes) -> None:
    for node_id, peer in core.progress.items():
        if node_id != core.id:
            # Not above what the peer is known to have: after that its log may differ.
            commit = min(peer.match, core.log.committed)
            if commit > core.log.last_index:
                broken("3 no peer is told to commit what its leader lacks", peer=node_id, commit=commit)
            core.send(MessageKind.HEARTBEAT, node_id, commit=commit, context=context)
            peer.sent_commit = commit


def on_heartbeat(core: Core, message: Message) -> None:
    roles.heed(core, message.sender)
    core.log.commit_to(message.commit)
    core.send(MessageKind.HEARTBEAT_REPLY, message.sender, reject=core.abstains, context=message.context)
