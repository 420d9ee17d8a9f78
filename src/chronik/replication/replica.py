"""One partition on this node: its leader, its high watermark and its log.

Invariants: the high watermark never decreases and never exceeds what the in-sync replicas hold durably; only a leader
appends; a request with another leader epoch is refused. `append` runs without an await, so offsets are assigned in the
order in which requests arrived.

In-sync means in the ISR of the image or in the requested ISR (`isr_pending`), because the controller may have applied
the request already. So a member that is being added counts at once, and one that is being removed counts until the
image shows the change.

`is_leader`, `leader_epoch` and `takes_all` are read by every request, so they are computed once, whenever `state` or
`is_gone` is set. Nothing else sets them, so they always agree with these two.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from chronik.metadata.image import Partition
from chronik.replication.errors import (
    FencedEpoch,
    NotCompared,
    NotEnoughReplicas,
    NotLeader,
    NotYetAvailable,
    TimedOut,
    TooFewReplicasAfterAppend,
    UnknownEpoch,
)
from chronik.replication.progress import FollowerProgress
from chronik.replication.replica_invariants import check_replica
from chronik.replication.topic_settings import TopicSettings
from chronik.replication.waits import Waits
from chronik.runtime.buggify import EARLY_TIMEOUT, SPURIOUS_WAKE
from chronik.runtime.interfaces import Clock
from chronik.runtime.invariants import broken, check
from chronik.storage.answers import Appended, Verify
from chronik.storage.errors import LogFull
from chronik.storage.log import Log
from chronik.storage.origins import Origin
from chronik.storage.transaction_guards import Guard
from chronik.wire.batches import BatchView

logger = logging.getLogger("chronik.replication")

# A leader that has just started admits other replicas to the ISR after it was compared with every in-sync and eligible
# replica. It waits this long for them. A longer wait would keep a partition below min.insync.replicas if an eligible
# replica never returns.
PROVING_NS = 5_000_000_000
EPOCH_UNKNOWN = -1  # sent by clients that do not track leader epochs
NOBODY: tuple[int, ...] = ()


class IsrKeeper(Protocol):
    def caught_up(self, replica: Replica, progress: FollowerProgress) -> None:
        """A follower outside the ISR has reached the high watermark."""

    def found_no_space(self, replica: Replica) -> None:
        """A record could not be appended to this replica, leader or follower, because the disk is full."""


class Replica:
    def __init__(
        self,
        log: Log,
        node_id: int,
        state: Partition,
        settings: TopicSettings,
        *,
        clock: Clock,
        keeper: IsrKeeper,
        followers: dict[int, FollowerProgress],
        is_elr_kept: bool = False,
        is_from_before: bool = False,
    ) -> None:
        """`is_from_before` is True if the topic is older than this process."""
        self.log = log
        self.node_id = node_id
        self._is_gone = False
        self.state = state
        self.settings = settings  # from the topic's configuration; replaced when it changes
        self.is_elr_kept = is_elr_kept  # whether replicas that leave a too small ISR stay eligible (KIP-966)
        self.followers = followers  # by broker id: the brokers that fetch this partition from this node
        self.high_watermark = log.high_watermark = log.start_offset
        self.epoch_start_offset = log.end_offset  # on the leader: the log end offset when its epoch began
        self.epoch_since_ns = 0  # the time when it began
        # By broker id: the end of the last session in this epoch that included this partition.
        self.left_ns: dict[int, int] = {}
        self.out_ns: dict[int, int] = {}  # by broker id: when the broker was last removed from the ISR in this epoch
        self.isr_pending: tuple[int, ...] | None = None  # the ISR requested from the controller
        self.isr_retry_ns = 0  # earliest time of the next request
        self._clock = clock
        self._keeper = keeper
        self._others: tuple[int, ...] = NOBODY  # in-sync replicas other than this node
        self._is_committed_firm = True  # False after an election that may have lost records below the high watermark
        # Whether this process has verified that its log agrees with a leader's, or with those of all in-sync followers.
        # A log that was only read from disk may lack acknowledged records, and nothing on the disk would show it.
        self.is_proven = not is_from_before
        self.mended_count = 0  # how often damaged records were dropped here to be fetched again
        self._waits = Waits(clock, lambda: TimedOut(self.name, self.state.isr))
        # Wait until the in-sync replicas start later, too.
        self._deletions = Waits(clock, lambda: TimedOut(self.name, self.state.isr))
        self._watchers: dict[Callable[[Replica], None], None] = {}  # a dict, because it keeps the order
        self._begin_epoch()

    # --- state

    @property
    def name(self) -> str:
        return f"{self.log.topic}-{self.log.partition}"

    @property
    def state(self) -> Partition:
        """Leader, epochs, replicas and ISR as of the newest image."""
        return self._state

    @state.setter
    def state(self, state: Partition) -> None:
        self._state = state
        self.is_leader = state.leader == self.node_id
        self.leader_epoch = state.leader_epoch
        self._decide()

    @property
    def is_gone(self) -> bool:
        """The topic was deleted, or the partition moved away."""
        return self._is_gone

    @is_gone.setter
    def is_gone(self, is_gone: bool) -> None:
        self._is_gone = is_gone
        self._decide()

    def _decide(self) -> None:
        """`takes_all`: this node leads and all replicas are in sync. Then no producer is refused, whatever its acks."""
        self.takes_all = self.is_leader and not self._is_gone and len(self._state.isr) == len(self._state.replicas)

    def change(self, state: Partition) -> None:
        """Takes over the partition's state from a new image."""
        before, self.state = self.state, state
        check(
            state.leader_epoch >= before.leader_epoch and state.partition_epoch >= before.partition_epoch,
            "11 epochs never go back",
            partition=self.name,
            before=before,
            now=state,
        )
        check(
            state.leader == before.leader or state.leader_epoch > before.leader_epoch,
            "11 a leader epoch has one leader",
            partition=self.name,
            before=before,
            now=state,
        )
        if state.partition_epoch > before.partition_epoch:
            self.isr_pending = None  # the request succeeded, or was outdated
            self.isr_retry_ns = 0
        for broker_id in set(before.isr) - set(state.isr):
            self.out_ns[broker_id] = self._clock.monotonic_ns()
        if state.leader_epoch > before.leader_epoch:
            is_next = state.leader_epoch == before.leader_epoch + 1
            if not is_next or (state.leader >= 0 and state.leader not in before.isr + before.elr):
                self._is_committed_firm = False
            self._begin_epoch()
        else:
            self._reckon_isr()
        self.look_for_caught_up()
        check_replica(self)
        self.wake()

    def _begin_epoch(self) -> None:
        """A leader's epoch begins at its log end offset, even if nothing is ever written in it."""
        self.isr_pending = None
        self.log.is_read = self.is_leader
        if self.is_leader:
            self._is_committed_firm = True  # this leader's log now defines what is committed
            self.epoch_start_offset = self.log.end_offset
            self.epoch_since_ns = self._clock.monotonic_ns()
            self.left_ns.clear()
            self.out_ns.clear()
            self.log.epochs.assign(self.leader_epoch, self.log.end_offset)
            self.log.on_durable = self._commit
            self.log.when_durable(self.log.end_offset)  # commits what recovery found after the durable mark
        else:
            self.log.on_durable = None
            self.log.epochs.truncate_end(self.log.end_offset)  # epochs in which this node led without writing
            self._stop_waiting()
        self._reckon_isr()

    def end(self) -> None:
        """The partition is no longer here: wakes all waiters so that they check again."""
        check(not self.is_gone, "30 a replica ends once", partition=self.name)
        self.is_gone = True
        self.log.on_durable = None
        self._stop_waiting()
        self.wake()

    def _stop_waiting(self) -> None:
        for waits in (self._waits, self._deletions):
            waits.fail(NotLeader(self.name, self.state.leader))

    def require_leader(self, epoch: int = EPOCH_UNKNOWN) -> None:
        """Refuses a request that only the leader of this epoch may serve."""
        self._require_epoch(epoch)
        if self.state.leader != self.node_id or self.is_gone:
            raise NotLeader(self.name, self.state.leader)

    def require_readable(self, offset: int, epoch: int = EPOCH_UNKNOWN) -> None:
        """Refuses a consumer's read that neither a leader nor a follower of this epoch can serve."""
        self._require_epoch(epoch)
        if self.is_gone:
            raise NotLeader(self.name, self.state.leader)
        if offset > (self.log.end_offset if self.is_leader else self.high_watermark) and (
            not self.is_leader or self.awaits_proof
        ):
            raise NotYetAvailable(self.name, self.high_watermark)

    def _require_epoch(self, epoch: int) -> None:
        if epoch not in (EPOCH_UNKNOWN, self.leader_epoch):
            current = self.leader_epoch
            raise (FencedEpoch if epoch < current else UnknownEpoch)(self.name, epoch, current)

    @property
    def isr_size_min(self) -> int:
        # A partition with fewer replicas than min.insync.replicas needs all of them.
        return min(self.settings.min_insync_replicas, len(self.state.replicas))

    def configure(self, settings: TopicSettings) -> None:
        """Applies changed settings, such as another min.insync.replicas."""
        self.settings = settings
        if self.is_leader:
            self._reckon_isr()

    @property
    def is_below_minimum(self) -> bool:
        """Whether no record can be committed, because too few replicas are in sync: fewer than this node's
        configuration requires, or than the controller's, which then keeps the replicas that left as eligible."""
        return bool(self.state.elr) or len(self.state.isr) < self.isr_size_min

    def require_in_sync(self) -> None:
        if self.is_below_minimum:
            raise NotEnoughReplicas(self.name, self.state.isr, self.isr_size_min)

    # --- writing

    def append(
        self,
        batch: BatchView,
        now_ms: int,
        verify: Verify | None = None,
        origin: Origin = Origin.CLIENT,
        guard: Guard | None = None,
        transaction_version: int = 0,
    ) -> Appended:
        """Assigns offsets and writes to the page cache, like `Log.append`. Await `when_committed` before
        acknowledging."""
        if not self.is_leader:
            broken("11 only a leader appends", partition=self.name, leader=self.state.leader, epoch=self.leader_epoch)
        # What a leader with an old disk appends has a later epoch than the records that it lacks. After another crash
        # its log would win over the logs with these records, and other replicas would truncate acknowledged records.
        if not self.is_proven and self.awaits_proof and (others := self._other_holders):
            raise NotCompared(self.name, sorted(others))
        log = self.log
        try:
            appended = log.append(batch, self.leader_epoch, now_ms, verify, origin, guard, transaction_version)
        except LogFull:
            self._keeper.found_no_space(self)
            raise
        for progress in self.followers.values():
            progress.session.has_more(progress)
        if log.config.durability == "os":
            self._commit()
        return appended

    def start_commit(self) -> None:
        """Makes appends durable that no request waits for, because consumers only read committed records."""
        self.log.when_durable(self.log.end_offset)

    def when_committed(self, offset: int, timeout_ms: int | None = None) -> asyncio.Future[None] | None:
        """Resolves when everything before `offset` is committed; None if it already is. Calling it starts the
        commit."""
        round_ = self.log.when_durable(offset)
        if offset <= self.high_watermark:
            return None
        if EARLY_TIMEOUT.is_on and timeout_ms is not None and EARLY_TIMEOUT.fires():
            timeout_ms = 1
        return self._waits.add(offset, round_, timeout_ms=timeout_ms, shared=not self._others)

    def delete_before(self, offset: int, timeout_ms: int) -> asyncio.Future[None] | None:
        """Hides records before `offset` from consumers at once. Resolves when they are deleted on every in-sync
        replica, so that no election restores them; None if they already are."""
        check(
            offset <= self.high_watermark,
            "7 only what is committed is deleted",
            partition=self.name,
            offset=offset,
            high_watermark=self.high_watermark,
        )
        self.log.advance_start(offset)
        for progress in self.followers.values():
            progress.session.has_committed_more(progress)
        if self.low_watermark >= offset:
            return None
        return self._deletions.add(offset, None, timeout_ms=timeout_ms, shared=False)

    @property
    def low_watermark(self) -> int:
        """The lowest log start offset of the in-sync replicas, as far as they have reported it."""
        followers = [self.followers.get(broker_id) for broker_id in self._others]
        starts = [-1 if each is None else each.start_offset for each in followers]
        return min([self.log.start_offset, *starts])

    # --- reading

    @property
    def last_stable_offset(self) -> int:
        return self.log.last_stable_offset(self.high_watermark)

    @property
    def is_end_known(self) -> bool:
        """Whether the high watermark is at least as high as any that clients saw from earlier leaders."""
        return not self.is_leader or (self.high_watermark >= self.epoch_start_offset and not self.awaits_proof)

    @property
    def awaits_proof(self) -> bool:
        """Whether this leader has just started and may lack committed records that other replicas have."""
        return self.is_leader and not self.is_proven and self._is_proving

    @property
    def _is_proving(self) -> bool:
        return self._clock.monotonic_ns() - self.epoch_since_ns < PROVING_NS and not self._is_compared

    @property
    def _is_compared(self) -> bool:
        """Whether every in-sync and eligible replica reported, in this epoch, a prefix of this log.

        Then no other replica matters: a replica leaves both sets only while the others stay, and nothing is committed
        without the whole ISR. So each of these replicas has everything that was acknowledged, unless its disk lost it.
        A single one proves nothing, because it may be the one that lost records. If this node is the only one, there is
        nothing to compare, and the wait ends by time.
        """
        others = self._other_holders
        return bool(others) and all(
            (progress := self.followers.get(each)) is not None and progress.counted_epoch == self.state.leader_epoch
            for each in others
        )

    @property
    def _other_holders(self) -> set[int]:
        """Other replicas that may hold committed records that this one lacks."""
        return {*self.state.isr, *self.state.elr} - {self.node_id}

    # --- waiting

    def watch(self, wake: Callable[[Replica], None]) -> None:
        """Calls `wake` with this replica whenever more may be readable, until `unwatch`."""
        self._watchers[wake] = None

    def unwatch(self, wake: Callable[[Replica], None]) -> None:
        self._watchers.pop(wake, None)

    def wake(self) -> None:
        """More may be readable."""
        for wake in list(self._watchers):
            wake(self)

    # --- leading

    def count(self, progress: FollowerProgress) -> None:
        """Counts a follower's reported offset, which was verified to be a prefix of this log."""
        if progress.end_offset > self.log.end_offset:
            broken(
                "9 a follower that counts holds no more than its leader",
                partition=self.name,
                broker=progress.broker_id,
                offset=progress.end_offset,
                end=self.log.end_offset,
            )
        progress.counted_epoch = self.leader_epoch
        if self._deletions:
            self._deletions.committed(self.low_watermark)
        if progress.broker_id in self._others:
            self._commit()
        else:
            self._consider(progress)
        if not self.is_proven and self.state.elr and self._is_compared:
            self.look_for_caught_up()  # this was the last comparison that the other followers waited for

    def is_surpassed_by(self, progress: FollowerProgress) -> bool:
        """Whether a follower proves that this leader lacked committed records when its epoch began.

        Such a leader has an old disk. Only a leader that has just started needs to ask: once it is proven, it lacks no
        acknowledged record. If the follower knows its high watermark, that decides, even for a follower that is not in
        sync, because committed records stay committed. Records above the follower's high watermark prove nothing: they
        may have been lost here in a power cut before they were committed. If the follower has just started as well and
        is eligible, the log with the later end wins.
        """
        state = self.state
        if self.is_proven or progress.last_epoch >= state.leader_epoch:
            return False
        if progress.told_high_watermark > max(progress.start_offset, 0):
            return progress.told_high_watermark > self.epoch_start_offset
        if progress.broker_id not in (*state.isr, *state.elr):
            return False
        ours = (self.log.epochs.epoch_of(self.epoch_start_offset - 1), self.epoch_start_offset)
        return (progress.last_epoch, progress.end_offset) > ours and self.high_watermark <= self.epoch_start_offset

    def look_for_caught_up(self) -> None:
        """Considers followers again that have nothing new to report and could not join the ISR when they last did."""
        if not self.is_leader or len(self._others) + 1 >= len(self.state.replicas):
            return
        for progress in list(self.followers.values()):
            if progress.counted_epoch == self.leader_epoch and progress.broker_id not in self._others:
                self._consider(progress)

    def _consider(self, progress: FollowerProgress) -> None:
        """While comparisons are pending, no follower joins: with others in the ISR, the eligible replicas would no
        longer be needed, and this log would never be compared with theirs."""
        if not self.is_proven and self.state.elr and self._is_proving:
            return
        if progress.session.heard_ns < self.out_ns.get(progress.broker_id, 0):
            return  # it may have left for lack of space and stopped fetching, so its last report is outdated
        if progress.end_offset >= self.high_watermark and progress.end_offset >= self.epoch_start_offset:
            self._keeper.caught_up(self, progress)

    def ask_for_isr(self, isr: tuple[int, ...] | None) -> None:
        """Sets the ISR that is being requested from the controller; None: the controller has refused."""
        check(
            isr is None or (self.node_id in isr and set(isr) <= set(self.state.replicas)),
            "11 an ISR has its leader, and nobody but replicas",
            partition=self.name,
            isr=isr,
            replicas=self.state.replicas,
        )
        self.isr_pending = isr
        self._reckon_isr()

    def _reckon_isr(self) -> None:
        check(
            not self.is_leader or self.node_id in self.state.isr,
            "11 a leader is in its ISR",
            partition=self.name,
            state=self.state,
        )
        members = dict.fromkeys((*self.state.isr, *(self.isr_pending or ())))
        members.pop(self.node_id, None)
        self._others = tuple(members)
        if self.is_leader and self._waits and self.is_below_minimum:
            self._waits.fail(self._too_few())
        self._commit()
        if self._deletions:
            self._deletions.committed(self.low_watermark)

    def _commit(self) -> None:
        """Advances the high watermark to the lowest durable end offset of the in-sync replicas."""
        if not self.is_leader:
            return
        state, log = self._state, self.log
        committed = log.durable_offset
        for broker_id in self._others:
            progress = self.followers.get(broker_id)
            if progress is None or progress.counted_epoch != state.leader_epoch:
                return
            if progress.end_offset < committed:
                committed = progress.end_offset
        has_enough = self.takes_all or len(state.isr) == len(state.replicas) or len(state.isr) >= self.isr_size_min
        if state.elr or (self.is_elr_kept and not has_enough):
            # Replicas that left stay eligible. Until the controller drops them, nothing may be committed without them,
            # even if the configuration has changed.
            return
        if not log.start_offset <= committed <= log.end_offset:
            broken(
                "10 the high watermark lies in the log",
                partition=self.name,
                high_watermark=committed,
                start=log.start_offset,
                end=log.end_offset,
            )
        self.is_proven = True
        if committed <= self.high_watermark:
            if SPURIOUS_WAKE.is_on and SPURIOUS_WAKE.fires():
                self.wake()
            return
        self.high_watermark = log.high_watermark = committed
        self._waits.committed(committed, None if has_enough else self._too_few())
        for progress in self.followers.values():
            progress.session.has_committed_more(progress)
        if self._watchers:
            self.wake()

    def _too_few(self) -> TooFewReplicasAfterAppend:
        return TooFewReplicasAfterAppend(self.name, self.state.isr, self.isr_size_min)

    # --- following

    def append_fetched(self, data: memoryview) -> None:
        """Appends the leader's batches unchanged."""
        if self.is_leader:
            broken("11 a leader takes over nothing", partition=self.name, epoch=self.leader_epoch)
        try:
            self.log.append_fetched(data, self.leader_epoch)
        except LogFull:
            self._keeper.found_no_space(self)
            raise
        if self.log.epochs.latest > self.leader_epoch:
            broken(
                "11 no batch is of a later epoch than its leader",
                partition=self.name,
                batch=self.log.epochs.latest,
                epoch=self.leader_epoch,
            )

    def learn(self, leader_high_watermark: int, leader_start_offset: int) -> None:
        """Takes over the leader's high watermark, up to the end of this log, and its log start offset."""
        log = self.log
        start_offset = min(leader_start_offset, log.end_offset)
        if start_offset > log.start_offset:
            log.advance_start(start_offset)
        known = max(min(leader_high_watermark, log.end_offset), log.start_offset)
        self._is_committed_firm = self.is_proven = True
        if known > self.high_watermark:
            self.high_watermark = log.high_watermark = known
            if known > log.end_offset:
                broken("10 the high watermark lies in the log", partition=self.name, high_watermark=known)
            if self._watchers:
                self.wake()

    def truncate_to(self, offset: int) -> None:
        """Truncates records that the leader does not have."""
        self._give_up_from(offset)
        self.log.truncate_to(offset)
        kept = min(self.high_watermark, self.log.end_offset)
        check(
            kept == self.high_watermark or self._may_have_lost,
            "7 a batch is committed whole",
            partition=self.name,
            high_watermark=self.high_watermark,
            end=self.log.end_offset,
        )
        check(
            self.log.end_offset <= max(offset, kept),
            "9 what the leader lacks is given up",
            partition=self.name,
            to=offset,
        )
        self.high_watermark = self.log.high_watermark = kept
        check_replica(self)

    def was_cut(self) -> None:
        """Called after damaged records were dropped. The cluster does not rely on this replica, so its high watermark
        may decrease."""
        check(not self.is_leader, "7 a leader gives up nothing", partition=self.name, epoch=self.leader_epoch)
        self.mended_count += 1
        check(
            self.log.damage is None,
            "22 damage that was cut is gone",
            partition=self.name,
            damage=self.log.damage,
        )
        self.high_watermark = min(max(self.high_watermark, self.log.start_offset), self.log.end_offset)
        self.log.high_watermark = self.high_watermark
        check_replica(self)

    def restart_at(self, offset: int) -> None:
        """Drops everything: the leader's log starts after the end of this one, or the two have nothing in common."""
        if offset < self.log.end_offset:
            self._give_up_from(offset)
        self.log.restart_at(offset)
        check(
            self.log.start_offset == self.log.end_offset == offset,
            "9 a log that restarts is empty",
            partition=self.name,
            start=self.log.start_offset,
            end=self.log.end_offset,
        )
        self.high_watermark = self.log.high_watermark = offset
        check_replica(self)

    def _give_up_from(self, offset: int) -> None:
        check(not self.is_leader, "7 a leader gives up nothing", partition=self.name, epoch=self.leader_epoch)
        if offset >= self.high_watermark:
            return
        check(
            self._may_have_lost,
            "7 nothing committed is given up",
            partition=self.name,
            offset=offset,
            high_watermark=self.high_watermark,
        )
        why = "chronik.durability=os and a power cut" if self._is_committed_firm else "an unclean election"
        logger.warning("%s: %s lost records: %d to %d are cut", self.name, why, offset, self.log.end_offset - 1)

    @property
    def _may_have_lost(self) -> bool:
        """Whether the leader may lack committed records: after an unclean election, or because they were never
        synced."""
        return not self._is_committed_firm or self.log.config.durability == "os"
