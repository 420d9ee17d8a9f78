"""Log replication: a leader's proposals, appends and heartbeats, a follower's answers, and the commit index.

An entry is committed when it has the leader's own term and a majority of voters has it on disk. The leader counts
itself by an answer to itself that arrives after its own fsync, like any other voter's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from chronik.raft import heartbeats, reads, roles
from chronik.raft.changes import may_propose
from chronik.raft.errors import Refusal
from chronik.raft.messages import ABSTAINS, NOBODY, Entry, EntryKind, Message, MessageKind, Role
from chronik.raft.progress import Progress, ProgressState
from chronik.raft.quorum import committed_index, confirmed, remembered_index
from chronik.runtime.buggify import ONE_ENTRY_APPENDED
from chronik.runtime.invariants import broken, check

if TYPE_CHECKING:
    from chronik.raft.core import Core


# Proposals


def propose(core: Core, message: Message) -> Refusal | None:
    if core.id not in core.progress or core.transferee != NOBODY or not message.entries:
        return Refusal.PROPOSAL_DROPPED
    entries = list(message.entries)
    for position, entry in enumerate(entries):
        if entry.kind is EntryKind.NORMAL:
            continue
        if may_propose(core, entry):
            core.pending_change_index = core.log.last_index + position + 1
        else:
            entries[position] = Entry(0, 0)  # an empty entry keeps the positions of the others
    if not append_own(core, entries):
        return Refusal.PROPOSAL_DROPPED
    broadcast(core)
    return None


def forward(core: Core, message: Message) -> Refusal | None:
    if core.leader == NOBODY or not core.config.forwards_proposals:
        return Refusal.PROPOSAL_DROPPED
    core.post(replace(message, to=core.leader, sender=core.id if message.sender == NOBODY else message.sender))
    return None


def drop(core: Core, message: Message) -> Refusal:
    return Refusal.PROPOSAL_DROPPED


def append_own(core: Core, entries: Sequence[Entry]) -> bool:
    """Adds a leader's entries to its log. False: too much is uncommitted."""
    if core.role is not Role.LEADER:
        broken("1 only a leader adds entries of its own", term=core.term, role=core.role)
    size_bytes = sum([len(entry.data) for entry in entries])
    total_bytes = core.uncommitted_bytes + size_bytes
    if core.uncommitted_bytes and size_bytes and total_bytes > core.config.uncommitted_bytes_max:
        return False
    core.uncommitted_bytes = total_bytes
    index, term = core.log.last_index, core.term
    core.log.append([Entry(term, at, entry.kind, entry.data) for at, entry in enumerate(entries, index + 1)])
    if core.log.last_index != index + len(entries) or core.log.last_term != core.term:
        broken(
            "3 a leader's entries are of its own term",
            end=core.log.last_index,
            end_term=core.log.last_term,
            term=core.term,
        )
    core.send(MessageKind.APPEND_REPLY, core.id, index=core.log.last_index)
    return True


# Leader


def broadcast(core: Core) -> None:
    for peer in core.progress:
        if peer != core.id:
            send_append(core, peer)


def send_append(core: Core, to: int, *, even_if_empty: bool = True) -> bool:
    """Sends the entries that the peer lacks, within its limits, or a snapshot. False: nothing was sent."""
    peer, log = core.progress[to], core.log
    if peer.paused:
        return False
    before = peer.next - 1
    before_term = log.term(before)
    entries: Sequence[Entry] | None = ()
    if before_term is not None and not (peer.pace is ProgressState.REPLICATE and peer.inflights.full):
        is_small = ONE_ENTRY_APPENDED.is_on and ONE_ENTRY_APPENDED.fires()
        entries = log.entries(peer.next, 1 if is_small else core.config.message_bytes_max)
    if before_term is None or entries is None:
        return _send_snapshot(core, to)
    if not entries and not even_if_empty:
        return False
    if entries and (entries[0].index != before + 1 or entries[-1].index > log.last_index):
        broken("9 an append carries what follows the index it names", before=before, first=entries[0].index)
    if not peer.match <= before <= log.last_index:
        broken("3 an append begins behind what the peer holds", peer=to, match=peer.match, before=before)
    core.send(MessageKind.APPEND, to, index=before, log_term=before_term, entries=entries, commit=log.committed)
    peer.sent_entries(len(entries), sum(len(entry.data) for entry in entries))
    peer.sent_commit = log.committed
    return True


def _send_snapshot(core: Core, to: int) -> bool:
    """False: nothing was sent, because the peer is silent or no snapshot is available now. It is retried later."""
    peer = core.progress[to]
    if not peer.recently_active:
        return False
    snapshot = core.log.snapshot or core.log.stable.snapshot()
    if snapshot is None:
        return False
    check(
        snapshot.index <= core.log.committed,
        "3 a snapshot holds nothing that is not committed",
        snapshot=snapshot.index,
        committed=core.log.committed,
    )
    peer.become_snapshot(snapshot.index)
    core.post(Message(MessageKind.SNAPSHOT, to, core.id, core.term, snapshot=snapshot))
    return True


def on_append_reply(core: Core, message: Message) -> None:
    peer = core.progress.get(message.sender)
    if peer is None:
        return  # this node's own answer, after it was removed
    peer.recently_active = True
    _takes_part(core, peer, votes=message.context != ABSTAINS)
    if message.reject:
        agrees_at = message.hint
        if message.log_term:
            # Both sides skip whole terms, so a long divergence takes one round trip per term, not per entry.
            agrees_at, _ = core.log.agreement(message.hint, message.log_term)
        if peer.reject(message.index, agrees_at):
            if peer.pace is ProgressState.REPLICATE:
                peer.become_probe()
            send_append(core, message.sender)
        return
    if message.index > core.log.last_index:
        return  # a correct peer holds only what this leader sent
    if not peer.acknowledge(message.index) and not (peer.match == message.index and peer.pace is ProgressState.PROBE):
        return
    if peer.match > core.log.last_index:
        broken("3 no peer holds what its leader lacks", peer=message.sender, match=peer.match, end=core.log.last_index)
    if peer.pace is ProgressState.PROBE:
        peer.become_replicate()
    elif peer.pace is ProgressState.SNAPSHOT and peer.match + 1 >= core.log.first_index:
        # The log now covers the peer's end again, whichever snapshot brought it there.
        peer.become_replicate()
    elif peer.pace is ProgressState.SNAPSHOT and peer.match >= peer.pending_snapshot:
        # The peer installed the snapshot, but the log was compacted past it meanwhile: it needs the next one.
        peer.become_probe()
    elif peer.pace is ProgressState.REPLICATE:
        peer.inflights.free_to(message.index)
    if not commit_and_tell(core) and message.sender != core.id and peer.commit_helps(core.log.committed):
        send_append(core, message.sender)
    if message.sender == core.id:
        return
    while send_append(core, message.sender, even_if_empty=False):
        pass  # send until the window is full or the peer has everything
    if message.sender == core.transferee and peer.match == core.log.last_index:
        core.send(MessageKind.TIMEOUT_NOW, message.sender)


def commit_and_tell(core: Core) -> bool:
    if not advance_commit(core):
        return False
    if core.reads.waiting:
        reads.release_waiting(core)
    broadcast(core)
    return True


def advance_commit(core: Core) -> bool:
    voters, progress = core.members.voters, core.progress
    index = committed_index(voters, lambda voter: progress[voter].match)
    if any(progress[voter].may_vote is False for voter in voters):
        # A voter that forgot its votes may have elected another leader, which may have committed something else.
        index = min(
            index, remembered_index(voters, lambda voter: progress[voter].match if progress[voter].may_vote else 0)
        )
    for holder in core.lease_holders:
        # A removed holder still reads until its lease expires. It receives nothing more, so nothing is committed.
        index = min(index, core.progress[holder].match if holder in core.progress else 0)
    if not (core.log.matches(index, core.term) and core.log.commit_to(index)):
        return False
    holders = len([voter for voter in voters if progress[voter].match >= core.log.committed])
    if holders * 2 <= len(voters):
        broken("3 what is committed is on a majority's disks", committed=core.log.committed, holders=holders)
    return True


def tick_leader(core: Core) -> None:
    core.heartbeat_elapsed += 1
    if core.election_elapsed >= core.config.election_ticks:
        core.election_elapsed = 0
        if core.config.check_quorum:
            _check_quorum(core)
        core.transferee = NOBODY  # it took too long: accept proposals again
    if core.role is Role.LEADER and core.heartbeat_elapsed >= core.config.heartbeat_ticks:
        core.heartbeat_elapsed = 0
        heartbeats.broadcast(core, core.reads.newest_context)


def _check_quorum(core: Core) -> None:
    heard = {node_id: peer.may_vote is not False for node_id, peer in core.progress.items() if peer.recently_active}
    if not confirmed(core.members.voters, heard):
        roles.become_follower(core, core.term, NOBODY)
    for node_id, peer in core.progress.items():
        peer.recently_active = node_id == core.id


def on_heartbeat_reply(core: Core, message: Message) -> None:
    peer = core.progress.get(message.sender)
    if peer is None:
        return
    peer.recently_active = True
    peer.paused_flow = False
    _takes_part(core, peer, votes=not message.reject)
    if peer.match < core.log.last_index or peer.pace is ProgressState.PROBE:
        send_append(core, message.sender)
    reads.on_heartbeat_acknowledged(core, message)


def _takes_part(core: Core, peer: Progress, *, votes: bool) -> None:
    """Tracks whether the peer takes part, from each answer. Once it votes, its earlier acknowledgements count too."""
    begins = votes and peer.may_vote is False
    peer.may_vote = votes
    if begins:
        commit_and_tell(core)


def probe_again(core: Core, peer_id: int) -> None:
    peer = core.progress.get(peer_id)
    if core.role is Role.LEADER and peer is not None and peer.pace is ProgressState.REPLICATE:
        peer.become_probe()


# Follower


def on_append(core: Core, message: Message) -> None:
    roles.heed(core, message.sender)
    log = core.log
    if message.index < log.committed:
        answer(core, message.sender, index=log.committed)
        return
    if not log.matches(message.index, message.log_term):
        hint, hint_term = log.agreement(min(message.index, log.last_index), message.log_term)
        answer(core, message.sender, index=message.index, reject=True, hint=hint, log_term=hint_term)
        return
    last_index = message.index + len(message.entries)
    conflict = log.first_conflict(message.entries)
    if conflict < len(message.entries):
        log.append(message.entries[conflict:])
    if log.last_index < last_index:
        broken("3 a follower holds what it acknowledges", end=log.last_index, acknowledged=last_index)
    log.commit_to(min(message.commit, last_index))
    if last_index >= message.commit and log.matches(message.commit, message.term):
        core.probation = None  # a leader with a commit in its own term has all earlier commits
    answer(core, message.sender, index=last_index)


def answer(core: Core, to: int, *, index: int, reject: bool = False, hint: int = 0, log_term: int = 0) -> None:
    if not reject and index > core.log.last_index:
        broken("3 a follower holds what it acknowledges", end=core.log.last_index, acknowledged=index)
    context = ABSTAINS if core.abstains else b""
    core.send(MessageKind.APPEND_REPLY, to, index=index, reject=reject, hint=hint, log_term=log_term, context=context)
