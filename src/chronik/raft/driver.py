"""One node of the quorum: connects the core to its journal, its peers and the clock.

Only this module enforces the order: a promise is sent after the write that contains it is durable; entries are applied
in order on the loop; a proposal is answered when it is committed and applied here. Proposals of one loop iteration
share one append, one replication round and, with everything that arrives while the disk is busy, one fsync.

After a failed write other than a full disk the node stops and acknowledges nothing more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from chronik.raft import snapshots
from chronik.raft.addresses import Address, Book, decode_image, encode_image
from chronik.raft.bounds import implausible
from chronik.raft.changes import Action, Change, ChangeSet
from chronik.raft.config import RaftConfig
from chronik.raft.core import Core
from chronik.raft.errors import MembershipRefused, OutcomeUnknown, Stopped
from chronik.raft.founding import FOUNDING, found
from chronik.raft.handing_over import HandingOver
from chronik.raft.health import Health
from chronik.raft.interfaces import StateMachine, Transport
from chronik.raft.journal import RaftJournal, Recovered
from chronik.raft.leases import Lease
from chronik.raft.messages import NOBODY, Entry, EntryKind, Membership, Message, MessageKind, Ready, Role, Snapshot
from chronik.raft.proposals import Proposals
from chronik.raft.read_points import ReadPoints
from chronik.raft.refusals import Refusals
from chronik.raft.rounds import Rounds
from chronik.raft.stable_log import StableLog
from chronik.runtime.buggify import (
    FORCED_SNAPSHOT,
    HURRIED_ELECTION,
    LATE_PUMP,
    LEASE_UNUSED,
    NOTHING_TRAILS,
    SKIPPED_TICK,
)
from chronik.runtime.interfaces import Lane, Runtime
from chronik.runtime.invariants import broken, check

logger = logging.getLogger("chronik.raft")
REFUSALS_MAX = 5  # consecutive writes that fail on a full disk before a leader hands over: about a second
FOUNDING_TICKS = 40  # during these the first founder campaigns at every tick


class RaftNode:
    """Created by `open`. All methods belong to the loop that opened it."""

    @classmethod
    async def open(
        cls,
        runtime: Runtime,
        directory: str,
        *,
        node_id: int,
        voters: Mapping[int, Address] | None,
        transport: Transport,
        machine: StateMachine,
        config: RaftConfig,
        recovered_to: Callable[[int], None] = lambda last_index: None,
    ) -> RaftNode:
        """Recovers the directory, or founds a quorum of `voters` in an empty one; None waits for a leader to add it.

        All founders must get the same voters. If the directory holds a log, the log's members count instead. Returns
        when everything known to be committed is applied, and a single voter also leads. `recovered_to` receives the
        last log index before the node does anything with it; an exception from it aborts the start.
        """
        lane = runtime.disk.lane("raft", is_prompt=True)
        journal = RaftJournal(runtime.disk, directory)
        try:
            recovered = await lane.run(journal.recover)
            recovered_to(recovered.last_index)
            is_founder = bool(voters) and recovered.is_empty
            if voters and is_founder:
                recovered = await lane.run(lambda: found(journal, voters))
        except BaseException:
            lane.close()
            raise
        node = cls(
            runtime, lane, journal, recovered, node_id=node_id, transport=transport, machine=machine, config=config,
            is_founder=is_founder, configured=voters or {},
        )  # fmt: skip
        try:
            await node._begin()
        except BaseException:
            await node.stop()
            raise
        return node

    def __init__(
        self,
        runtime: Runtime,
        lane: Lane,
        journal: RaftJournal,
        recovered: Recovered,
        *,
        node_id: int,
        transport: Transport,
        machine: StateMachine,
        config: RaftConfig,
        is_founder: bool,
        configured: Mapping[int, Address],
    ) -> None:
        self._runtime, self._transport, self._machine, self._config = runtime, transport, machine, config
        self._loop = asyncio.get_running_loop()
        self.refusals = Refusals(logger)
        self.health = Health()  # for operators and for liveness estimates; safety does not depend on it
        self._book: Book = {}
        self._configured = configured
        self._applied_index = recovered.snapshot.index if recovered.snapshot else 0
        self._stable = StableLog(self._fresh_snapshot)
        self._stable.restart_behind(*recovered.base)
        self._stable.append(recovered.entries)
        if recovered.snapshot:
            self._restore(recovered.snapshot)
        self._core = Core(
            config.core_config(
                node_id, runtime.randomness, may_have_promised=not recovered.is_empty and not is_founder
            ),
            self._stable,
            hard_state=recovered.hard_state,
            members=recovered.snapshot.membership if recovered.snapshot else Membership(),
            applied=self._applied_index,
        )
        if recovered.was_cut and self._core.probation is not None:
            self._core.probation.doubt_more()
        self._rounds = Rounds(
            journal,
            lane,
            self._stable,
            recovered.hard_state,
            persisted=self._persisted,
            settled=self._pump,
            failed=self._fail,
            refused=self._write_refused,
        )
        self._lease = Lease(config.lease_ms * 1_000_000)
        self._reads = ReadPoints(self._core, runtime.randomness.bytes(8), retry_ticks=config.election_ticks)
        self._proposals = Proposals(self._core)
        self._announced: tuple[int, int] | None = None  # leader and term last reported to the machine
        self._snapshot_ticks: dict[int, int] = {}  # peer: ticks since its snapshot was sent
        # Founders know that there is no leader yet: the first one campaigns immediately instead of waiting.
        self._founding_ticks = FOUNDING_TICKS if is_founder and node_id == self._core.members.voters[0] else 0
        self._pump_is_due = False
        self.handing_over = HandingOver(self._core)
        self._timer: asyncio.TimerHandle | None = None
        self.disk_hangs = False  # set by the disk monitor: this node should not lead meanwhile
        self._led = self._loop.create_future()  # resolves when this node first leads
        self._failure: BaseException | None = None
        self.on_failure: Callable[[BaseException], None] | None = None  # called with the error that stopped the node

    async def _begin(self) -> None:
        self._transport.attach(self._receive, self._unreachable)
        self._transport.update_peers(self._peers())
        self._timer = self._loop.call_later(self._config.tick_ms / 1000, self._tick)
        self._pump()
        is_alone = self._core.members.voters == (self._core.id,)
        if is_alone or self._founding_ticks:
            self._core.campaign()
            self._pump()
        if is_alone:
            await self._led
        if self._failure:
            raise self._failure

    # State for callers

    @property
    def durable_index(self) -> int:
        """Entries up to here are applied and on this node's own disk. Committed entries may be on other disks only."""
        return min(self._applied_index, self._stable.last_index)

    @property
    def is_log_in_place(self) -> bool:
        """False if the log's file was removed or replaced under this process."""
        return self._rounds.is_log_in_place

    @property
    def node_id(self) -> int:
        return self._core.id

    @property
    def stopped(self) -> bool:
        return self._failure is not None

    @property
    def leader_id(self) -> int | None:
        return None if self._core.leader == NOBODY else self._core.leader

    @property
    def refuses_all(self) -> bool:
        """As leader: it accepts no proposals, because it hands over."""
        return self._core.transferee != NOBODY

    @property
    def term(self) -> int:
        return self._core.term

    @property
    def role(self) -> Role:
        return self._core.role

    @property
    def members(self) -> Membership:
        return self._core.members

    @property
    def addresses(self) -> Mapping[int, Address]:
        return self._book

    @property
    def applied_index(self) -> int:
        return self._applied_index

    @property
    def last_index(self) -> int:
        """Index of this node's last entry, whether or not it is durable."""
        return self._core.log.last_index

    @property
    def commit_index(self) -> int:
        return self._core.log.committed

    @property
    def lease_until_ns(self) -> int:
        return self._lease.until_ns if self._core.role is Role.LEADER else 0

    def holds_lease(self, now_ns: int) -> bool:
        """Whether this node may answer reads from its applied state at this time of its own monotonic clock."""
        if LEASE_UNUSED.is_on and LEASE_UNUSED.fires():
            return False
        return self._core.role is Role.LEADER and self._lease.holds(self._core.term, now_ns)

    def match_indexes(self) -> dict[int, int]:
        """As leader: the index up to which each member is known to hold the log durably. Otherwise empty."""
        if self._core.role is not Role.LEADER:
            return {}
        return {node_id: progress.match for node_id, progress in self._core.progress.items()}

    def may_vote(self, node_id: int) -> bool:
        """As leader: whether the member reported that it takes part in elections. Otherwise False."""
        peer = self._core.progress.get(node_id) if self._core.role is Role.LEADER else None
        return peer is not None and peer.may_vote is True

    @property
    def has_taken_part(self) -> bool:
        """Whether this node remembers a vote, or entries of a leader. If so, it knows its promises."""
        return self._core.vote != NOBODY or self._core.log.last_index > FOUNDING.base_index

    def lag_ms(self) -> dict[int, int]:
        """As leader: for each member, since when it lacks an entry that this log holds. Otherwise empty."""
        now_ns = self._runtime.clock.monotonic_ns()
        return {peer: self.health.lag_ns(match, now_ns) // 1_000_000 for peer, match in self.match_indexes().items()}

    # Requests from callers

    def propose(self, data: bytes) -> asyncio.Future[int]:
        """Resolves with the entry's index once it is committed and applied here.

        Fails with NotLeader, Dropped or Stopped: it never entered the log; with OutcomeUnknown: it may have.
        """
        if len(data) <= 0:
            broken("3 an empty entry is a leader's own", term=self._core.term)
        return self._propose(Entry(0, 0, EntryKind.NORMAL, data))

    async def read_index(self) -> int:
        """Returns the index from which reads are linearizable, once it is applied here."""
        if self._failure is not None:
            raise Stopped(f"the node has stopped: {self._failure}")
        done = self._reads.ask()
        self._schedule_pump()
        return await done

    @property
    def abstains(self) -> bool:
        """Whether this node gives no votes, because it lost its disk or is new."""
        return self._core.abstains

    def abstain(self) -> None:
        """This node lost its disk: it gives no votes, not even to itself, until `take_part`."""
        self._core.abstains = True

    def take_part(self) -> None:
        """Call this when a read point was confirmed here: this node then has everything that was committed before its
        loss.

        Votes from before the loss no longer matter: the leader that confirmed the read point has a later term.
        """
        self._core.abstains = False

    def require(self, lease_holders: frozenset[int]) -> None:
        """As leader: from now on, commits only entries that these nodes have as well; see metadata.leases."""
        self._guarded(lambda: self._core.require(lease_holders))
        self._schedule_pump()

    def transfer_leadership(self, to: int) -> None:
        """Requests a transfer; `leader_id` shows whether it succeeded."""
        self._core.transfer_leadership(to)
        self._schedule_pump()

    async def change_membership(self, change: Change, address: Address | None = None) -> Membership:
        """Returns the members once the change is committed and applied here. A node to add needs its address."""
        if change.action in (Action.ADD_VOTER, Action.ADD_LEARNER) and address is None:
            address = self._book.get(change.node_id)
            if address is None:
                raise MembershipRefused(f"node {change.node_id} is not known yet: give the address it listens on")
        changes = ChangeSet((change,), address.encode() if address else b"", is_single=True)
        await self._propose(Entry(0, 0, changes.entry_kind, changes.encode()))
        return self._core.members

    async def stop(self) -> None:
        """Stops ticks and answers, then waits for the disk. Unacknowledged proposals may or may not commit."""
        self._end(Stopped("the node was stopped"))
        await self._rounds.close()

    def _propose(self, entry: Entry) -> asyncio.Future[int]:
        done = self._proposals.add(entry)
        if self._failure is not None:
            self._proposals.refuse(Stopped(f"the node has stopped: {self._failure}"))
        self._schedule_pump()
        return done

    # Events

    def _receive(self, message: Message) -> None:
        if message.to == self._core.id:
            why = implausible(message, term=self._core.term, last_index=self._core.log.last_index)
            if why is None and (message.entries or message.snapshot is not None):
                why = self._unreadable(message)
            if why is not None:
                self.refusals.note(f"{message.kind.name} from", f"node {message.sender}", why)
                return
            self.health.received(message, self._core, self._runtime.clock.monotonic_ns())
            self._guarded(lambda: self._core.step(message))
            if self._core.leader != NOBODY:
                self._founding_ticks = 0  # the quorum exists: use the normal election timeout
            self._schedule_pump()

    def _unreadable(self, message: Message) -> str | None:
        """Why the machine cannot read the message. A stored unreadable entry would stop this node at every start."""
        for entry in message.entries:
            if entry.data and entry.kind is EntryKind.NORMAL and (why := self._machine.refusal(entry.data)):
                return why
        if message.snapshot is not None:
            _, state = decode_image(message.snapshot.data)
            return None if state is None else self._machine.snapshot_refusal(state)
        return None

    def _unreachable(self, peer: int) -> None:
        self.health.undelivered += 1
        self._core.report_unreachable(peer)
        self._core.report_snapshot(peer, delivered=False)

    def _tick(self) -> None:
        self._timer = self._loop.call_later(self._config.tick_ms / 1000, self._tick)
        self._guarded(self._take_tick)
        self._pump()

    def _take_tick(self) -> None:
        if SKIPPED_TICK.is_on and SKIPPED_TICK.fires():
            return
        self._core.cannot_write = self._rounds.refusals > 0 or self.disk_hangs
        self._core.tick()
        self._reads.tick()
        if self._core.role is Role.LEADER:
            self._founding_ticks = 0
            self._observe_peers()
            self._renew_lease()
            snapshots.give_up_lost(self._core, self._snapshot_ticks, self._config.snapshot_ticks_max)
            self.handing_over.tick(is_full=self._rounds.refusals >= REFUSALS_MAX, hangs=self.disk_hangs)
            return
        self.handing_over.is_due = False
        if self._core.leader != NOBODY and self._transport.has_died(self._core.leader):
            self._core.hurry()
        if HURRIED_ELECTION.is_on and HURRIED_ELECTION.fires():
            self._core.hurry()
        if self._founding_ticks > 0:
            self._founding_ticks -= 1
            if self._core.role is not Role.CANDIDATE:
                self._core.campaign()

    def _guarded(self, work: Callable[[], object]) -> None:
        """Runs `work`; any exception stops the node."""
        if self._failure is not None:
            return
        try:
            work()
        except Exception as error:  # noqa: BLE001 - see above
            self._fail(error)

    def _renew_lease(self) -> None:
        if self._core.heartbeat_elapsed == 0:
            context = self._reads.new_context()
            self._lease.asked(context, self._core.term, self._runtime.clock.monotonic_ns())
            self._core.read_index(context)

    def _observe_peers(self) -> None:
        now_ns = self._runtime.clock.monotonic_ns()
        self.health.lease_is(held=self._lease.holds(self._core.term, now_ns))
        if self._core.heartbeat_elapsed == 0:
            self.health.beat((peer for peer in self._core.progress if peer != self._core.id), now_ns)
            self.health.matched(min(self.match_indexes().values(), default=0))

    def _schedule_pump(self) -> None:
        if not self._pump_is_due:
            self._pump_is_due = True
            if LATE_PUMP.is_on and LATE_PUMP.fires():
                self._loop.call_later(0.001, self._pump)
            else:
                self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._pump_is_due = False
        self._guarded(self._handle_all)

    def _handle_all(self) -> None:
        if self._reads.new:
            self._reads.take()
        if self._proposals.new:
            self._proposals.take()
        while self._failure is None and self._core.has_ready():
            self._handle(self._core.ready())

    def _handle(self, ready: Ready) -> None:
        for message in ready.messages:
            if message.to == self._core.id:
                broken("3 a node counts itself only after its own sync", kind=message.kind.name, term=message.term)
            if message.kind is MessageKind.TIMEOUT_NOW:
                # Before it is sent: it breaks the promises on which the lease depends.
                self._lease.revoke(self._core.term)
            self._transport.send(message.to, message)
        for read_state in ready.read_states:
            if not self._lease.confirmed(read_state.context):
                self._reads.confirmed(read_state)
        if ready.touches_disk or ready.commits_change:
            if ready.entries and self._core.role is Role.LEADER:
                self.health.appended(ready.entries[-1].index, self._runtime.clock.monotonic_ns())
            self._rounds.submit(ready)
        self._apply(ready.committed)
        if ready.soft_state:
            self._leadership_changed(ready.soft_state.leader)
            if ready.soft_state.leader != NOBODY:
                self._reads.leader_changed()
                self._schedule_pump()

    def _persisted(self, ready: Ready) -> None:
        self._guarded(lambda: self._keep_promises(ready))

    def _keep_promises(self, ready: Ready) -> None:
        if ready.hard_state is not None and ready.hard_state.term > self._core.term:
            broken("2 a term never goes back", written=ready.hard_state, term=self._core.term)
        if ready.snapshot:
            check(
                ready.snapshot.index > self._applied_index,
                "4 a snapshot takes the state forward",
                snapshot=ready.snapshot.index,
                applied=self._applied_index,
            )
            self._restore(ready.snapshot)
            self._applied_index = ready.snapshot.index
            self._transport.update_peers(self._peers())
            self._reads.leader_changed()  # a node that did not have its leader among its members ignored the answers
        if ready.entries and self._stable.last_index < ready.entries[-1].index:
            broken("3 a promise leaves once what it promises is durable", end=self._stable.last_index)
        for message in ready.after_persist:
            if message.to == self._core.id:
                self._core.step(message)
            else:
                self._transport.send(message.to, message)
        if ready.persisted:
            self._core.persisted(ready.persisted)
            if self._reads.unapplied:
                self._reads.applied(self._applied_index)
        self._proposals.durable(ready.committed)

    def _apply(self, committed: tuple[Entry, ...]) -> None:
        if not committed:
            return
        for entry in committed:
            if entry.index != self._applied_index + 1:
                broken("4 entries are applied in the order of the log", applied=self._applied_index, index=entry.index)
            self._applied_index = entry.index  # set first: applying a change may send a snapshot that includes it
            if entry.kind is not EntryKind.NORMAL:
                self._apply_change(entry)
                self._proposals.hold(entry)
                continue
            if entry.data:
                self._machine.apply(entry.index, entry.term, entry.data)
            self._proposals.applied(entry)
        self._core.applied(committed)
        if self._core.log.applied != self._applied_index:
            broken("4 core and machine have applied the same", core=self._core.log.applied, machine=self._applied_index)
        if self._reads.unapplied:
            self._reads.applied(self._applied_index)
        if self._core.role is Role.LEADER and committed[-1].term == self._core.term:
            self._announce(self._core.id)
        self._compact_when_due()

    def _apply_change(self, entry: Entry) -> None:
        changes = ChangeSet.of(entry)
        members = self._core.apply_change(changes)
        address = changes.address
        if address is not None:
            self._book[changes.changes[0].node_id] = address
        known = (*members.voters, *members.learners)
        self._book = {node_id: address for node_id, address in self._book.items() if node_id in known}
        self._transport.update_peers(self._peers())

    def _peers(self) -> Book:
        """The peers' addresses. The operator's configuration for this start overrides what the log recorded."""
        return {node_id: self._configured.get(node_id, address) for node_id, address in self._book.items()}

    def _leadership_changed(self, leader: int) -> None:
        self.health.resigned(self._core)
        if self._core.role is not Role.LEADER:
            self._proposals.lose(OutcomeUnknown("the leadership was lost meanwhile: look before repeating the command"))
            self._announce(leader)

    def _announce(self, leader: int) -> None:
        if self._announced == (leader, self._core.term):
            return
        check(
            self._announced is None or self._core.term >= self._announced[1],
            "1 leaders are announced in the order of their terms",
            before=self._announced,
            term=self._core.term,
        )
        self._announced = (leader, self._core.term)
        is_self = leader == self._core.id
        self._machine.leadership_changed(
            leader_id=None if leader == NOBODY else leader, term=self._core.term, is_self=is_self
        )
        if is_self and not self._led.done():
            self._led.set_result(None)

    # Snapshots

    def _fresh_snapshot(self) -> Snapshot | None:
        """Of the applied state, for a peer that needs compacted entries."""
        index = self._applied_index
        term = self._core.log.term(index)
        if term is None or index == 0:
            return None
        check(
            index <= self._core.log.committed,
            "3 a snapshot holds nothing that is not committed",
            snapshot=index,
            committed=self._core.log.committed,
        )
        return Snapshot(index, term, self._core.members, encode_image(self._book, self._machine.snapshot()))

    def _compact_when_due(self) -> None:
        is_due = self._rounds.grown_bytes >= self._config.snapshot_every_bytes
        if FORCED_SNAPSHOT.is_on and FORCED_SNAPSHOT.fires():
            is_due = True
        if not is_due or self._rounds.compacting:
            return
        held = self._applied_index - self._stable.base_index
        check(held >= 0, "28 the log begins at or before what is applied", applied=self._applied_index, held=held)
        # If entries are few and large, keep only half of them, so that the log becomes shorter.
        kept = min(self._config.trailing_entries, held // 2)
        if NOTHING_TRAILS.is_on and NOTHING_TRAILS.fires():
            kept = 0
        snapshot = self._fresh_snapshot() if held > kept else None
        if snapshot:
            self._rounds.compact(snapshot, self._applied_index - kept)

    def _restore(self, snapshot: Snapshot) -> None:
        self._book, state = decode_image(snapshot.data)
        if state is not None:
            self._machine.restore(snapshot.index, state)

    # Ending

    def _write_refused(self) -> None:
        self.health.write_errors += 1

    def _fail(self, error: BaseException) -> None:
        logger.error("quorum node %d stops: %s", self._core.id, error)
        self._end(error)
        if self.on_failure:
            self.on_failure(error)

    def _end(self, error: BaseException) -> None:
        if self._failure is not None:
            return
        self._failure = error
        if self._timer:
            self._timer.cancel()
        stopped = Stopped(f"the node has stopped: {error}")
        self._proposals.refuse(stopped)
        self._proposals.end(OutcomeUnknown(f"the node stopped before the command was committed: {error}"))
        self._reads.fail(stopped)
        if not self._led.done():
            self._led.set_result(None)
