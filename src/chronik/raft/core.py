"""The consensus core: messages and ticks in; messages, entries to persist and entries to apply out.

Never touches a clock, disk, socket, thread or random numbers: time is `tick`, jitter comes with the configuration. The
caller does what `Ready` asks (see messages.py) and reports back by `persisted` and `applied`, or by `advance` if it
does everything before it asks for the next Ready.

This file holds the state, the term rule that precedes everything else, and the dispatch table. The handlers are in
election.py, appending.py, snapshots.py, membership.py and reads.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from chronik.raft import appending, election, handing_out, heartbeats, membership, reads, roles, snapshots
from chronik.raft.changes import ChangeSet
from chronik.raft.core_invariants import check_core
from chronik.raft.errors import Dropped, Refusal
from chronik.raft.log import RaftLog, Stable
from chronik.raft.messages import (
    FORCED,
    FROM_LEADER,
    NOBODY,
    PROMISES,
    REPLIES,
    Entry,
    EntryKind,
    HardState,
    Membership,
    Message,
    MessageKind,
    Persisted,
    ReadState,
    Ready,
    Role,
    SoftState,
)
from chronik.raft.probation import LogEnd, Probation
from chronik.raft.progress import Progress, ProgressState
from chronik.raft.quorum import majority
from chronik.raft.reads import PendingReads, ReadMode
from chronik.runtime.invariants import broken, check

UNLIMITED = 1 << 62
NO_HARD_STATE, NO_MEMBERS = HardState(), Membership()


class CoreConfig(NamedTuple):
    node_id: int
    jitter: Callable[[int], int]  # jitter(bound) -> 0 <= ticks < bound, added to each election timeout
    election_ticks: int = 10
    heartbeat_ticks: int = 1
    pre_vote: bool = True
    check_quorum: bool = True
    async_writes: bool = False  # True: the caller may take the next Ready before the last one is durable
    read_mode: ReadMode = ReadMode.QUORUM
    message_bytes_max: int = UNLIMITED  # entries in one append
    committed_bytes_max: int = UNLIMITED  # entries handed out for applying and not applied yet
    uncommitted_bytes_max: int = UNLIMITED  # further proposals are dropped, so an isolated leader does not grow
    inflight_messages_max: int = 256
    inflight_bytes_max: int = 0  # 0: not limited
    step_down_on_removal: bool = False
    validates_changes: bool = True
    forwards_proposals: bool = True
    # With check_quorum, a promise to a leader outlives its term: lease reads depend on it.
    guards_promises: bool = False
    may_have_promised: bool = False  # before the restart, after which promises are forgotten
    compares_logs: bool = False  # after a restart, before it votes: see probation.py


class Core:
    def __init__(
        self,
        config: CoreConfig,
        stable: Stable,
        *,
        hard_state: HardState = NO_HARD_STATE,
        members: Membership = NO_MEMBERS,
        applied: int = 0,
    ) -> None:
        check(config.node_id != NOBODY, "1 a node has an id of its own", id=config.node_id)
        check(
            config.election_ticks > config.heartbeat_ticks > 0,
            "25 a follower hears from its leader in time",
            config=config,
        )
        self.config = config
        self.id = config.node_id
        self.log = RaftLog(stable, applying_bytes_max=config.committed_bytes_max)
        self.term, self.vote = hard_state.term, hard_state.vote
        self.role, self.leader = Role.FOLLOWER, NOBODY
        self.members = NO_MEMBERS
        # Ordered by id, so that the order of sending does not depend on history.
        self.progress: dict[int, Progress] = {}
        self.votes: dict[int, bool] = {}
        self.reads = PendingReads()
        self.transferee = NOBODY  # target of a leadership transfer
        self.pending_change_index = 0  # no second change is accepted before this index is applied
        self.uncommitted_bytes = 0
        self.lease_holders: frozenset[int] = frozenset()  # as leader: commits wait for these nodes too
        self.election_elapsed = self.heartbeat_elapsed = 0
        self.election_timeout_ticks = 0  # election_ticks plus jitter, redrawn for each election
        # Since this node last allowed a leader, itself included, to rely on it; independent of role and term.
        self.promised_ticks_ago = 0 if config.may_have_promised else config.election_ticks
        may_have_lost = config.compares_logs and config.may_have_promised
        self.probation = Probation(config.election_ticks) if may_have_lost else None
        self.abstains = False  # it lost its disk, and with it the record of its votes and acknowledgements
        self.cannot_write = False  # the disk refuses writes: as leader it could neither commit nor apply
        self.outbox: list[Message] = []
        self.outbox_after_persist: list[Message] = []
        self.read_states: list[ReadState] = []

        if hard_state.commit:
            check(
                self.log.committed <= hard_state.commit <= self.log.last_index,
                "2 the commit index lies in the log",
                base=self.log.committed,
                commit=hard_state.commit,
                end=self.log.last_index,
            )
            self.log.committed = hard_state.commit
        if applied:
            self.log.applied_to(applied, 0)
        membership.switch(self, members)
        roles.become_follower(self, self.term, NOBODY)
        self._soft_state = SoftState(self.leader, self.role)  # as last handed out
        self._hard_state = HardState(self.term, self.vote, self.log.committed)

    @property
    def promotable(self) -> bool:
        """Whether this node may lead: a voter that does not wait for a snapshot or for disk space."""
        own = self.progress.get(self.id)
        is_voter = own is not None and not own.is_learner
        return is_voter and self.log.snapshot is None and not self.abstains and not self.cannot_write

    @property
    def awaiting_snapshot(self) -> list[int]:
        """As leader: the peers that have not answered the snapshot they were sent."""
        return [peer for peer, progress in self.progress.items() if progress.pace is ProgressState.SNAPSHOT]

    # In

    def step(self, message: Message) -> Refusal | None:
        """Handles a message from a peer, or from `Ready.after_persist` to this node. No peer message makes it raise."""
        if message.kind in REPLIES and message.sender not in self.progress:
            return Refusal.UNKNOWN_PEER
        return self._take(message)

    def _take(self, message: Message) -> Refusal | None:
        if 0 < message.term < self.term:
            self._answer_stale(message)
            return None
        if message.term > self.term and not self._take_newer_term(message):
            return None
        if self.probation is not None and message.kind in TELLS_LOG_END:
            self.probation.heard(message.sender, LogEnd(message.log_term, message.index))
        return STEPS[message.kind][self.role](self, message)

    def _take_newer_term(self, message: Message) -> bool:
        """False: do not handle the message."""
        if message.kind in (MessageKind.VOTE, MessageKind.PRE_VOTE):
            if message.context != FORCED and (self.keeps_promise() or self._hears_leader()):
                return False
            if message.kind is MessageKind.PRE_VOTE:
                return True  # it asks about a term that no node has entered yet
        if message.kind is MessageKind.PRE_VOTE_REPLY and not message.reject:
            return True  # granted for the requested term, which this node enters only with a majority
        roles.become_follower(self, message.term, message.sender if message.kind in FROM_LEADER else NOBODY)
        return True

    def keeps_promise(self) -> bool:
        """Whether a leader of any term may still rely on this node to elect no other."""
        config = self.config
        return config.check_quorum and config.guards_promises and self.promised_ticks_ago < config.election_ticks

    def _hears_leader(self) -> bool:
        """Whether the leader of this term sent a message within the shortest election timeout."""
        in_time = self.election_elapsed < self.config.election_ticks
        return self.config.check_quorum and in_time and self.leader != NOBODY

    def _answer_stale(self, message: Message) -> None:
        if message.kind in (MessageKind.HEARTBEAT, MessageKind.APPEND) and (
            self.config.check_quorum or self.config.pre_vote
        ):
            # After a partition an old leader would continue, and this node could not follow it: show it the term.
            self.send(MessageKind.APPEND_REPLY, message.sender)
        elif message.kind is MessageKind.PRE_VOTE:
            # Without an answer two nodes of different terms could block each other.
            self.send(MessageKind.PRE_VOTE_REPLY, message.sender, term=self.term, reject=True)

    def tick(self) -> None:
        """Advances time by one step. The caller chooses its length."""
        self.election_elapsed += 1
        self.promised_ticks_ago += 1
        check_core(self)
        if self.role is Role.LEADER:
            self.promised_ticks_ago = 0  # its lease, and those it grants, rely on its own vote too
            appending.tick_leader(self)
            return
        if self.probation is not None:
            election.tick_probation(self, self.probation)
        if self.promotable and self.election_elapsed >= self.election_timeout_ticks:
            self.election_elapsed = 0
            self.campaign()

    def campaign(self) -> None:
        """Starts an election, unless this node leads, may not lead, or still keeps a promise to a leader."""
        election.stand(self)

    def propose(self, data: Sequence[bytes]) -> None:
        """Proposes entries with these bytes, all or none. Raises Dropped. A forwarded proposal may be lost."""
        self.propose_entries(tuple(Entry(0, 0, EntryKind.NORMAL, each) for each in data))

    def propose_entries(self, entries: tuple[Entry, ...]) -> None:
        if self._take(Message(MessageKind.PROPOSE, self.id, self.id, entries=entries)) is not None:
            raise Dropped("the proposal was dropped: there is no leader, it is handing over, or its log is full")

    def propose_change(self, changes: ChangeSet) -> None:
        self.propose_entries((Entry(0, 0, changes.entry_kind, changes.encode()),))

    def apply_change(self, changes: ChangeSet) -> Membership:
        """Call this for every committed change, in log order, before reporting it as applied."""
        return membership.apply(self, changes)

    def read_index(self, context: bytes) -> None:
        """Requests a linearizable read point. The answer is a ReadState, and may never come."""
        self._take(Message(MessageKind.READ_INDEX, self.id, self.id, context=context))

    @property
    def heir(self) -> int:
        """As leader: the node with the longest log, if the others can elect it without this node; else NOBODY."""
        peers = {voter: self.progress[voter] for voter in self.members.voters if voter != self.id}
        able = {voter: peer.match for voter, peer in peers.items() if peer.recently_active and peer.may_vote}
        return max(able, key=able.__getitem__) if len(able) >= majority(len(self.members.voters)) else NOBODY

    def transfer_leadership(self, to: int) -> None:
        self._take(Message(MessageKind.TRANSFER_LEADER, self.id, to))

    def forget_leader(self) -> None:
        """Lets a follower that guards no promises vote at once, for a caller that knows its leader to be dead."""
        if self.role is Role.FOLLOWER and self.config.read_mode is ReadMode.QUORUM:
            self.leader = NOBODY

    def hurry(self) -> None:
        """The leader's process is known to be dead: campaigns, in order of rank, as soon as all promises to it have
        expired.

        Two ticks after the promise, because other nodes may have received the leader's last heartbeat a little later.
        """
        if self.role is Role.FOLLOWER and self.promotable:
            rank = self.members.voters.index(self.id)
            self.election_timeout_ticks = min(self.election_timeout_ticks, self.config.election_ticks + 2 + rank)

    def require(self, lease_holders: frozenset[int]) -> None:
        """Nodes that read by lease; a commit needs them beyond the majority. Shrinking the set may commit entries."""
        if lease_holders != self.lease_holders:
            self.lease_holders = lease_holders
            if self.role is Role.LEADER:
                appending.commit_and_tell(self)

    def report_unreachable(self, peer: int) -> None:
        """Messages to the peer may be lost: probe its log end before sending more."""
        appending.probe_again(self, peer)

    def report_snapshot(self, peer: int, *, delivered: bool) -> None:
        snapshots.report(self, peer, delivered=delivered)

    # Out

    def has_ready(self) -> bool:
        log = self.log
        return bool(
            self.outbox
            or self.outbox_after_persist
            or log.has_unwritten
            or log.unwritten_snapshot
            or self.read_states
            or self._soft_state != (self.leader, self.role)
            or self._hard_state != (self.term, self.vote, log.committed)
            or log.has_next_committed(include_unstable=not self.config.async_writes)
        )

    def ready(self) -> Ready:
        """Everything to do now. Each item is handed out once."""
        log, include_unstable = self.log, not self.config.async_writes
        soft_state, hard_state = SoftState(self.leader, self.role), HardState(self.term, self.vote, log.committed)
        entries, snapshot = tuple(log.unwritten), log.unwritten_snapshot
        committed = tuple(log.next_committed(include_unstable=include_unstable))
        handing_out.check_ready(self, self._hard_state, hard_state, entries, committed)
        ready = Ready(
            soft_state=soft_state if soft_state != self._soft_state else None,
            hard_state=hard_state if hard_state != self._hard_state else None,
            read_states=tuple(self.read_states),
            entries=entries,
            snapshot=snapshot,
            committed=committed,
            messages=tuple(self.outbox),
            after_persist=tuple(self.outbox_after_persist),
            persisted=self._to_report(snapshot.index if snapshot else 0),
            must_sync=bool(entries) or hard_state[:2] != self._hard_state[:2],
        )
        self._soft_state, self._hard_state = soft_state, hard_state
        self.read_states.clear()
        self.outbox.clear()
        self.outbox_after_persist.clear()
        log.accept_writing()
        if committed:
            size_bytes = sum(entry.size_bytes for entry in committed)
            log.accept_applying(committed[-1].index, size_bytes, include_unstable=include_unstable)
        return ready

    def _to_report(self, snapshot_index: int) -> Persisted | None:
        log = self.log
        if log.unstable:
            # Covers entries handed out before too: a change of term voids their own report, and this one replaces it.
            return Persisted(self.term, log.last_index, log.last_term, snapshot_index)
        return Persisted(self.term, snapshot_index=snapshot_index) if snapshot_index else None

    def persisted(self, report: Persisted) -> None:
        """Everything up to the Ready with this report is durable."""
        if report.term > self.term:
            broken("2 nothing was written in a later term than this node's", report=report.term, term=self.term)
        if report.index and report.term == self.term:
            # In an older term another leader's entry may have replaced this index since: wait for that report.
            self.log.stable_to(report.index, report.log_term)
        if report.snapshot_index:
            self.log.stable_snapshot_to(report.snapshot_index)
            self._applied_to(report.snapshot_index, 0)
            check(
                self.log.applied >= report.snapshot_index,
                "4 a snapshot that is in counts as applied",
                applied=self.log.applied,
                snapshot=report.snapshot_index,
            )

    def applied(self, entries: Sequence[Entry]) -> None:
        """The state machine has applied these entries of a Ready."""
        if entries:
            self._applied_to(entries[-1].index, sum([entry.size_bytes for entry in entries]))
            self.uncommitted_bytes = max(0, self.uncommitted_bytes - sum([len(entry.data) for entry in entries]))

    def _applied_to(self, index: int, size_bytes: int) -> None:
        self.log.applied_to(max(index, self.log.applied), size_bytes)

    def advance(self, ready: Ready) -> None:
        """Reports that everything in the Ready is durable, sent and applied."""
        for message in ready.after_persist:
            if message.to == self.id:
                self._take(message)
        if ready.persisted:
            self.persisted(ready.persisted)
        self.applied(ready.committed)

    # For the other modules of the core

    @property
    def log_end(self) -> LogEnd:
        return LogEnd(self.log.last_term, self.log.last_index)

    def allows(self, end: LogEnd) -> bool:
        """Whether this node may support a candidate whose log ends there, given the answers since its restart."""
        others = [voter for voter in self.members.voters if voter != self.id]
        return self.probation is None or self.probation.allows(end, others)

    def send(
        self,
        kind: MessageKind,
        to: int,
        *,
        term: int | None = None,
        log_term: int = 0,
        index: int = 0,
        entries: Sequence[Entry] = (),
        commit: int = 0,
        reject: bool = False,
        hint: int = 0,
        context: bytes = b"",
    ) -> None:
        term = self.term if term is None else term
        self.post(
            Message(kind, to, self.id, term, log_term, index, tuple(entries), commit, None, reject, hint, context)
        )

    def post(self, message: Message) -> None:
        (self.outbox_after_persist if message.kind in PROMISES else self.outbox).append(message)


def ignore(core: Core, message: Message) -> None:
    """Meant for another role, or late: ignore it."""


Handler = Callable[[Core, Message], "Refusal | None"]
TELLS_LOG_END = frozenset({MessageKind.VOTE, MessageKind.PRE_VOTE, MessageKind.COMPARE, MessageKind.COMPARE_REPLY})
ROLES = (Role.FOLLOWER, Role.PRE_CANDIDATE, Role.CANDIDATE, Role.LEADER)

# fmt: off
STEPS: dict[MessageKind, dict[Role, Handler]] = {
    kind: dict(zip(ROLES, handlers, strict=True))
    for kind, *handlers in (
        # kind, then: follower       pre-candidate           candidate               leader
        (MessageKind.PROPOSE,
         appending.forward,          appending.drop,         appending.drop,         appending.propose),
        (MessageKind.APPEND,
         appending.on_append,        election.yield_to,      election.yield_to,      ignore),
        (MessageKind.APPEND_REPLY,
         ignore,                     ignore,                 ignore,                 appending.on_append_reply),
        (MessageKind.HEARTBEAT,
         heartbeats.on_heartbeat,    election.yield_to,      election.yield_to,      ignore),
        (MessageKind.HEARTBEAT_REPLY,
         ignore,                     ignore,                 ignore,                 appending.on_heartbeat_reply),
        (MessageKind.SNAPSHOT,
         snapshots.on_snapshot,      election.yield_to,      election.yield_to,      ignore),
        (MessageKind.VOTE,
         election.on_vote,           election.on_vote,       election.on_vote,       election.on_vote),
        (MessageKind.PRE_VOTE,
         election.on_vote,           election.on_vote,       election.on_vote,       election.on_vote),
        (MessageKind.VOTE_REPLY,
         ignore,                     ignore,                 election.on_vote_reply, ignore),
        (MessageKind.PRE_VOTE_REPLY,
         ignore,                     election.on_vote_reply, ignore,                 ignore),
        (MessageKind.TRANSFER_LEADER,
         election.forward_transfer,  ignore,                 ignore,                 election.on_transfer),
        (MessageKind.TIMEOUT_NOW,
         election.on_timeout_now,    ignore,                 ignore,                 ignore),
        (MessageKind.READ_INDEX,
         reads.forward,              ignore,                 ignore,                 reads.on_read_index),
        (MessageKind.READ_INDEX_REPLY,
         reads.on_reply,             ignore,                 ignore,                 ignore),
        (MessageKind.COMPARE,
         election.on_compare,        election.on_compare,    election.on_compare,    election.on_compare),
        (MessageKind.COMPARE_REPLY,
         ignore,                     election.on_compared,   ignore,                 ignore),
    )
}
# fmt: on
