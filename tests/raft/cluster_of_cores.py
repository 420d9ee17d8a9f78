"""Cores in memory under a hostile schedule from one seed: messages lost, doubled, reordered; nodes crash and restart.

Each node's disk is the list of durable journal records; a crash loses records that were handed out and not written.
After every step Raft's guarantees are checked (`Watch`). No clock, no asyncio: thousands of steps a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from chronik.raft.changes import Action, Change, ChangeSet
from chronik.raft.core import Core, CoreConfig
from chronik.raft.errors import Dropped
from chronik.raft.journal_format import Base, JournalItem, replay
from chronik.raft.messages import (
    NOBODY,
    Entry,
    EntryKind,
    HardState,
    Membership,
    Message,
    MessageKind,
    Ready,
    Role,
    Snapshot,
)
from chronik.raft.quorum import majority
from chronik.raft.stable_log import StableLog

FOUNDING = Base(1, 1)


class Violation(AssertionError):
    pass


@dataclass
class Server:
    """One node: what survives a crash, and the running core on top of it."""

    node_id: int
    records: list[JournalItem]
    snapshot: Snapshot | None
    core: Core | None = None
    stable: StableLog | None = None
    unwritten: list[Ready] = field(default_factory=list)
    unapplied: list[tuple[Entry, ...]] = field(default_factory=list)
    state: list[tuple[int, int, bytes]] = field(default_factory=list)  # applied: index, term, data
    told: dict[int, int] = field(default_factory=dict)  # by index: the term of the last reported write

    def holds(self, index: int, term: int | None) -> bool:
        return self.told.get(index) == term or (self.snapshot is not None and self.snapshot.index >= index)


class Watch:
    """What must hold, over all nodes and all time."""

    def __init__(self) -> None:
        self.leaders: dict[int, int] = {}  # by term
        self.votes: dict[tuple[int, int], int] = {}  # by voter and term: candidate
        self.committed: dict[int, tuple[int, bytes]] = {}  # by index: term and data
        self.committed_in: dict[int, int] = {}  # by index: the term of the node that applied it first
        self.commit_index = 0
        self.durable: dict[int, HardState] = {}
        self.reads: dict[bytes, int] = {}  # by context: the commit index at the time of the request
        self.answered_reads = 0
        self.transfers = 0

    def leads(self, core: Core) -> None:
        other = self.leaders.setdefault(core.term, core.id)
        if other != core.id:
            raise Violation(f"nodes {other} and {core.id} both lead term {core.term}")
        for index, (term, _) in self.committed.items():
            later = core.term > self.committed_in[index]
            if later and index >= core.log.first_index and core.log.term(index) != term:
                raise Violation(f"leader {core.id} of term {core.term} lacks committed entry {term}/{index}")

    def sends(self, message: Message) -> None:
        if message.kind is MessageKind.VOTE_REPLY and not message.reject:
            other = self.votes.setdefault((message.sender, message.term), message.to)
            if other != message.to:
                raise Violation(f"node {message.sender} votes for {other} and {message.to} in term {message.term}")

    def applies(self, server: Server, entry: Entry) -> None:
        before = server.state[-1][0] if server.state else None
        if before is not None and entry.index != before + 1:
            raise Violation(f"node {server.node_id} applies {entry.index} after {before}")
        known = self.committed.setdefault(entry.index, (entry.term, entry.data))
        if known != (entry.term, entry.data):
            raise Violation(f"node {server.node_id} applies {entry.term}/{entry.index}, another applied {known}")
        self.committed_in.setdefault(entry.index, server.core.term)
        self.commit_index = max(self.commit_index, entry.index)

    def writes(self, server: Server, hard_state: HardState) -> None:
        before = self.durable.get(server.node_id, HardState())
        if hard_state.term < before.term or hard_state.commit < before.commit:
            raise Violation(f"node {server.node_id}: durable state goes back from {before} to {hard_state}")
        self.durable[server.node_id] = hard_state

    def recovers(self, server: Server, entries: Sequence[Entry]) -> None:
        found = {entry.index: entry.term for entry in entries}
        if found != server.told:
            raise Violation(f"node {server.node_id} wrote {server.told} and recovers {found}")

    def commits(self, leader: Core, servers: dict[int, Server]) -> None:
        """A majority of the voters has every entry that a leader commits on disk."""
        index, term = leader.log.committed, leader.log.term(leader.log.committed)
        holders = 0
        for voter in leader.members.voters:
            holders += servers[voter].holds(index, term)
        if holders < majority(len(leader.members.voters)):
            raise Violation(f"leader {leader.id} commits {term}/{index} on {holders} of {leader.members.voters}")

    def reads_at(self, context: bytes, index: int) -> None:
        if index < self.reads[context]:
            raise Violation(f"a read sees {index}, {self.reads[context]} was committed before it began")
        self.answered_reads += 1


class Cluster:
    def __init__(
        self,
        seed: int,
        *,
        nodes: int = 3,
        changes_members: bool = False,
        quiet: bool = False,
        guards_promises: bool = False,
    ) -> None:
        self.random = Random(seed)
        self.watch = Watch()
        self.wire: list[Message] = []
        self.changes_members, self.guards_promises = changes_members, guards_promises
        self.proposals = self.contexts = 0
        # Schedules differ in kind, not only in order: some calm enough to get far, some mostly faults.
        self.loss = 0.0 if quiet else self.random.choice([0.0, 0.02, 0.1, 0.2])
        self.fault = 0.0 if quiet else self.random.choice([0.005, 0.02, 0.06])
        self.cut: set[int] = set()  # on this side of a partition; what crosses it is lost
        self.pre_vote, self.check_quorum = self.random.random() < 0.5, self.random.random() < 0.5 or guards_promises
        if changes_members:
            # Without it, a node that does not know of its removal would disturb the others forever.
            self.pre_vote = True
        founders = Membership(tuple(range(1, nodes + 1)))
        self.servers = {
            node_id: Server(node_id, [FOUNDING, HardState(1, NOBODY, 1)], Snapshot(*FOUNDING, founders))
            for node_id in founders.voters
        }
        if changes_members:
            for node_id in range(nodes + 1, nodes + 3):
                self.servers[node_id] = Server(node_id, [], None)
        for server in self.servers.values():
            self.start(server)

    def config(self, node_id: int, *, is_restart: bool) -> CoreConfig:
        return CoreConfig(
            node_id=node_id,
            jitter=self.random.randrange,
            election_ticks=6,
            heartbeat_ticks=1,
            pre_vote=self.pre_vote,
            check_quorum=self.check_quorum,
            async_writes=True,
            message_bytes_max=60,
            committed_bytes_max=80,
            inflight_messages_max=3,
            step_down_on_removal=True,
            guards_promises=self.guards_promises,
            may_have_promised=self.guards_promises and is_restart,
            compares_logs=self.guards_promises,
        )

    def start(self, server: Server) -> None:
        replayed = replay(server.records)
        self.watch.recovers(server, replayed.entries)
        history = server.snapshot

        def latest() -> Snapshot | None:
            return self.fresh_snapshot(server)

        server.stable = StableLog(latest)
        server.stable.restart_behind(*replayed.base)
        server.stable.append(replayed.entries)
        start = history.index if history else 0
        hard_state = replayed.hard_state._replace(commit=max(replayed.hard_state.commit, start))
        server.core = Core(
            self.config(server.node_id, is_restart=server.core is not None),
            server.stable,
            hard_state=hard_state,
            members=history.membership if history else Membership(),
            applied=start,
        )
        server.state = [(start, history.term, b"")] if history else []
        server.unwritten.clear()
        server.unapplied.clear()

    def fresh_snapshot(self, server: Server) -> Snapshot | None:
        if not server.state or server.core is None:
            return None
        index, term, _ = server.state[-1]
        return Snapshot(index, term, server.core.members)

    # One step

    def step(self) -> None:
        server = self.random.choice(list(self.servers.values()))
        if self.random.random() < self.fault:
            self.random.choice(self.faults())(server)
        else:
            dice = self.random.random()
            if self.wire and dice < 0.6:
                self.deliver()
            elif dice < 0.65:
                server.core.tick()
            elif dice < 0.70:
                self.propose()
            elif dice < 0.86:
                self.write(server)
            elif dice < 0.98:
                self.apply(server)
            else:
                self.read(server)
        self.pump(server)

    def faults(self) -> list[Callable[[Server], None]]:
        return [
            self.crash,
            self.compact,
            self.partition,
            lambda server: server.core.transfer_leadership(self.random.choice(list(self.servers))),
            lambda server: server.core.report_unreachable(self.random.choice(list(self.servers))),
            self.give_up_snapshots,
            *([self.change_members] * 3 if self.changes_members else []),
        ]

    def partition(self, server: Server) -> None:
        """Cuts off a random side, or heals."""
        others = self.random.sample(list(self.servers), self.random.randint(0, len(self.servers) // 2))
        self.cut = set(others) if self.random.random() < 0.6 else set()

    def give_up_snapshots(self, server: Server) -> None:
        for peer in server.core.awaiting_snapshot:
            server.core.report_snapshot(peer, delivered=False)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    def settle(self, rounds: int = 60) -> None:
        """Ends all faults: everything is delivered, written and applied, and time passes for all nodes."""
        self.cut = set()
        for _ in range(rounds):
            for server in self.servers.values():
                server.core.tick()
                self.give_up_snapshots(server)
            for _ in range(8):
                for server in list(self.servers.values()):
                    self.pump(server)
                    while server.unwritten:
                        self.write(server)
                        self.pump(server)
                    while server.unapplied:
                        self.apply(server)
                        self.pump(server)
                wire, self.wire = self.wire, []
                for message in wire:
                    self.servers[message.to].core.step(message)

    def check_agreement(self) -> None:
        """One leader, and every member holds and applied its log, by the same members."""
        leaders = [server.core for server in self.servers.values() if server.core.role is Role.LEADER]
        if not leaders:
            raise Violation("nobody leads")
        leader = max(leaders, key=lambda core: core.term)
        for member in (*leader.members.voters, *leader.members.learners):
            core = self.servers[member].core
            if core.log.applied != leader.log.last_index:
                raise Violation(f"node {member} stays at {core.log.applied} of {leader.log.last_index}")
            if core.members != leader.members:
                raise Violation(f"node {member} knows {core.members}, the leader {leader.members}")

    def deliver(self) -> None:
        position = 0 if self.random.random() < 0.6 else self.random.randrange(len(self.wire))
        doubled = self.random.random() < self.loss / 2
        message = self.wire[position] if doubled else self.wire.pop(position)
        if self.random.random() < self.loss or (message.to in self.cut) != (message.sender in self.cut):
            return
        target = self.servers[message.to]
        target.core.step(message)
        self.pump(target)

    def propose(self) -> None:
        """Proposes on a node that believes it leads."""
        leaders = [server for server in self.servers.values() if server.core.role is Role.LEADER]
        if leaders:
            self.proposals += 1
            leader = self.random.choice(leaders)
            with suppress(Dropped):
                leader.core.propose([b"value-%d" % self.proposals])
            self.pump(leader)

    def read(self, server: Server) -> None:
        self.contexts += 1
        context = b"read-%d" % self.contexts
        self.watch.reads[context] = self.watch.commit_index
        server.core.read_index(context)

    def change_members(self, server: Server) -> None:
        core = server.core
        if core.role is not Role.LEADER:
            return
        node_id = self.random.choice(list(self.servers))
        action = self.random.choice([Action.ADD_VOTER, Action.ADD_VOTER, Action.ADD_LEARNER, Action.REMOVE])
        if action is not Action.ADD_VOTER and len(core.members.voters) <= 2:
            return
        with suppress(Dropped):
            core.propose_change(ChangeSet((Change(action, node_id),)))

    def crash(self, server: Server) -> None:
        self.start(server)

    def compact(self, server: Server) -> None:
        """Only written and applied entries: the snapshot is durable before the log drops them."""
        snapshot = self.fresh_snapshot(server)
        if snapshot is None or server.unwritten:
            return
        if server.snapshot and snapshot.index <= server.snapshot.index:
            return
        if snapshot.index > server.stable.last_index:
            return
        server.snapshot = snapshot
        server.stable.compact(snapshot.index)
        replayed = replay(server.records)
        kept = [entry for entry in replayed.entries if entry.index > snapshot.index]
        server.told = {index: term for index, term in server.told.items() if index > snapshot.index}
        server.records = [Base(snapshot.index, snapshot.term), replayed.hard_state, *kept]

    # The driver's part

    def pump(self, server: Server) -> None:
        core = server.core
        while core.has_ready():
            commit = core.log.committed
            ready = core.ready()
            if core.role is Role.LEADER:
                self.watch.leads(core)
                if ready.hard_state and commit:
                    self.watch.commits(core, self.servers)
            self.send(ready.messages)
            for state in ready.read_states:
                self.watch.reads_at(state.context, state.index)
            if ready.touches_disk:
                server.unwritten.append(ready)
            if ready.committed:
                server.unapplied.append(ready.committed)

    def send(self, messages: tuple[Message, ...]) -> None:
        for message in messages:
            self.watch.sends(message)
            if message.to in self.servers:
                self.wire.append(message)

    def write(self, server: Server) -> None:
        if not server.unwritten:
            return
        ready = server.unwritten.pop(0)
        self.persist(server, ready)
        for message in ready.after_persist:
            if message.to == server.node_id:
                server.core.step(message)
            else:
                self.send((message,))
        if ready.persisted:
            server.core.persisted(ready.persisted)

    def persist(self, server: Server, ready: Ready) -> None:
        if ready.snapshot:
            while server.unapplied:
                self.apply(server)  # a state machine is not restored while it applies
            server.snapshot = ready.snapshot
            server.records = [Base(ready.snapshot.index, ready.snapshot.term), replay(server.records).hard_state]
            server.stable.restart_behind(ready.snapshot.index, ready.snapshot.term)
            server.state = [(ready.snapshot.index, ready.snapshot.term, b"")]
            server.told.clear()
        if ready.hard_state:
            server.records.append(ready.hard_state)
            self.watch.writes(server, ready.hard_state)
        server.records.extend(ready.entries)
        if ready.entries:
            first = ready.entries[0].index
            server.told = {index: term for index, term in server.told.items() if index < first}
            server.told |= {entry.index: entry.term for entry in ready.entries}
        server.stable.append(ready.entries)

    def apply(self, server: Server) -> None:
        if not server.unapplied:
            return
        committed = server.unapplied.pop(0)
        for entry in committed:
            self.watch.applies(server, entry)
            if entry.kind is not EntryKind.NORMAL:
                server.core.apply_change(ChangeSet.of(entry))
            server.state.append((entry.index, entry.term, entry.data))
        server.core.applied(committed)
