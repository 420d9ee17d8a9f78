"""One partition on this node: its leader, what is committed, and its log.

Invariants: the high watermark never decreases and never exceeds what the in-sync replicas hold durably; only a leader
appends; a request with another leader epoch is refused. `append` runs without an await, so offsets are assigned in the
order in which requests arrived.

In-sync means here: in the ISR of the image, or on its way into it (`isr_pending`). A change that was asked for may
already hold at the controller. So added members count at once, and removed members count until the image shows it.

What every request asks of a replica is decided once: when `state` or `is_gone` is set, `is_leader`, `leader_epoch` and
`takes_all` are set with it. Nothing else sets these three, so they are never older than what they follow from.
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

# A leader that has just started lets others into the ISR once it was compared with every in-sync and eligible replica.
# It waits this long for them. Longer would keep a partition below its minimum whose eligible replica is gone for good.
PROVING_NS = 5_000_000_000
EPOCH_UNKNOWN = -1  # what a client says that does not track leader epochs
NOBODY: tuple[int, ...] = ()


class IsrKeeper(Protocol):
    def caught_up(self, replica: Replica, progress: FollowerProgress) -> None:
        """A follower that is not in the ISR holds all that is committed."""

    def found_no_space(self, replica: Replica) -> None:
        """A record could not be appended to this replica, which leads or follows."""


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
        """`is_from_before` says that the topic is older than this process."""
        self.log = log
        self.node_id = node_id
        self._is_gone = False
        self.state = state
        self.settings = settings  # what the topic's configuration says; replaced when it changes
        self.is_elr_kept = is_elr_kept  # the cluster relies on replicas that left a too small ISR (KIP-966)
        self.followers = followers  # by broker id: those that fetch from here
        self.high_watermark = log.high_watermark = log.start_offset
        self.epoch_start_offset = log.end_offset  # of a leader: where its epoch begins
        self.epoch_since_ns = 0  # when that was
        self.left_ns: dict[int, int] = {}  # by broker id: when a follower's session ended that named it in this epoch
        self.out_ns: dict[int, int] = {}  # by broker id: when it was last seen to leave the ISR in this epoch
        self.isr_pending: tuple[int, ...] | None = None  # what the controller was asked to make the ISR
        self.isr_retry_ns = 0  # no sooner is it asked again
        self._clock = clock
        self._keeper = keeper
        self._others: tuple[int, ...] = NOBODY  # in sync besides this node
        self._is_committed_firm = True  # nothing below the high watermark can be lost by the elections seen so far
        # Whether this process has found its log to agree with a leader's, or with all in-sync followers'. A log that it
        # only read from its disk may be older than what it acknowledged, and nothing on the disk would show it.
        self.is_proven = not is_from_before
        self.mended_count = 0  # how often damaged records were dropped here to be fetched again
        self._waits = Waits(clock, lambda: TimedOut(self.name, self.state.isr))
        self._deletions = Waits(clock, lambda: TimedOut(self.name, self.state.isr))  # for others to start later too
        self._watchers: dict[Callable[[Replica], None], None] = {}  # a dict keeps their order; a set would not
        self._begin_epoch()

    # --- who we are

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
        """Whether this node leads with all replicas in sync: then no producer is refused, whatever acks it asks for."""
        self.takes_all = self.is_leader and not self._is_gone and len(self._state.isr) == len(self._state.replicas)

    def change(self, state: Partition) -> None:
        """Follows a new image."""
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
            self.isr_pending = None  # it has come true, or never will
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
        """A leader's epoch begins where it found the end of the log, also while nothing is written in it."""
        self.isr_pending = None
        self.log.is_read = self.is_leader
        if self.is_leader:
            self._is_committed_firm = True  # what we hold is what counts now
            self.epoch_start_offset = self.log.end_offset
            self.epoch_since_ns = self._clock.monotonic_ns()
            self.left_ns.clear()
            self.out_ns.clear()
            self.log.epochs.assign(self.leader_epoch, self.log.end_offset)
            self.log.on_durable = self._commit
            self.log.when_durable(self.log.end_offset)  # what recovery found behind the durable mark counts soon
        else:
            self.log.on_durable = None
            self.log.epochs.truncate_end(self.log.end_offset)  # epochs that we led and wrote nothing in
            self._stop_waiting()
        self._reckon_isr()

    def end(self) -> None:
        """The partition is gone: wakes all waiters, so that they check again."""
        check(not self.is_gone, "30 a replica ends once", partition=self.name)
        self.is_gone = True
        self.log.on_durable = None
        self._stop_waiting()
        self.wake()

    def _stop_waiting(self) -> None:
        for waits in (self._waits, self._deletions):
            waits.fail(NotLeader(self.name, self.state.leader))

    def require_leader(self, epoch: int = EPOCH_UNKNOWN) -> None:
        """Refuses what only the leader of the asked epoch may answer."""
        self._require_epoch(epoch)
        if self.state.leader != self.node_id or self.is_gone:
            raise NotLeader(self.name, self.state.leader)

    def require_readable(self, offset: int, epoch: int = EPOCH_UNKNOWN) -> None:
        """Refuses a consumer's read that neither a leader nor a follower of the asked epoch can answer."""
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
        # A partition of fewer replicas than min.insync.replicas needs all of them, not the impossible.
        return min(self.settings.min_insync_replicas, len(self.state.replicas))

    def configure(self, settings: TopicSettings) -> None:
        """The required number of in-sync replicas may change."""
        self.settings = settings
        if self.is_leader:
            self._reckon_isr()

    @property
    def is_below_minimum(self) -> bool:
        """Whether nothing can be acknowledged for all: too few are in sync, by what this node is configured to, or by
        what the controller is: it then keeps replicas that left eligible."""
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
        """Assigns offsets and writes to the page cache, as `Log.append` does. `when_committed` tells what survives."""
        if not self.is_leader:
            broken("11 only a leader appends", partition=self.name, leader=self.state.leader, epoch=self.leader_epoch)
        # What a leader with an old disk appends has a later epoch than what it lacks. After another crash its log would
        # count as the newer one, and the others would truncate acknowledged records.
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
        """Makes durable what nobody waits for: readers see only what is committed."""
        self.log.when_durable(self.log.end_offset)

    def when_committed(self, offset: int, timeout_ms: int | None = None) -> asyncio.Future[None] | None:
        """Resolves when everything before `offset` survives; None when it already does. Asking starts the commit."""
        round_ = self.log.when_durable(offset)
        if offset <= self.high_watermark:
            return None
        if EARLY_TIMEOUT.is_on and timeout_ms is not None and EARLY_TIMEOUT.fires():
            timeout_ms = 1
        return self._waits.add(offset, round_, timeout_ms=timeout_ms, shared=not self._others)

    def delete_before(self, offset: int, timeout_ms: int) -> asyncio.Future[None] | None:
        """Records before `offset` are gone for readers here at once. Resolves when they are on every in-sync replica,
        so that no election brings them back; None when they already are."""
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
        """Where the log starts on the in-sync replica on which it starts first, as far as they have said."""
        followers = [self.followers.get(broker_id) for broker_id in self._others]
        starts = [-1 if each is None else each.start_offset for each in followers]
        return min([self.log.start_offset, *starts])

    # --- reading

    @property
    def last_stable_offset(self) -> int:
        return self.log.last_stable_offset(self.high_watermark)

    @property
    def is_end_known(self) -> bool:
        """Whether the high watermark is as high as clients of earlier leaders may have seen it."""
        return not self.is_leader or (self.high_watermark >= self.epoch_start_offset and not self.awaits_proof)

    @property
    def awaits_proof(self) -> bool:
        """Whether this leader has just started and others may hold more: what it lacks may still be committed."""
        return self.is_leader and not self.is_proven and self._is_proving

    @property
    def _is_proving(self) -> bool:
        return self._clock.monotonic_ns() - self.epoch_since_ns < PROVING_NS and not self._is_compared

    @property
    def _is_compared(self) -> bool:
        """Whether every in-sync and eligible replica was found, in this epoch, to hold a prefix of this log.

        Then no other replica matters. Whatever was acknowledged is in the log of each of these that is intact: a
        replica leaves both sets only while the others stay, and nothing is committed without all of the ISR. One of
        them alone shows nothing, for it may be the one that lost records. With none besides this node there is nobody
        to ask, and the time decides.
        """
        others = self._other_holders
        return bool(others) and all(
            (progress := self.followers.get(each)) is not None and progress.counted_epoch == self.state.leader_epoch
            for each in others
        )

    @property
    def _other_holders(self) -> set[int]:
        """Replicas that may hold committed records which this one lacks."""
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
        """What a follower said of itself has been found to be a prefix of this log."""
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
            self.look_for_caught_up()  # this was the last that those waited for who were counted before

    def is_surpassed_by(self, progress: FollowerProgress) -> bool:
        """Whether a follower shows that this leader lacked committed records when its epoch began.

        Such a leader has an old disk. Only one that has just started asks: one that was proven lacks no more than what
        nobody acknowledged. If the follower knows its high watermark, that decides, also if the follower is not in
        sync: what is committed stays committed. What it holds beyond may have been lost in a power cut here before it
        was committed. If the follower has just started as well, the length of its log decides, if it is eligible.
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
        """For followers that have nothing new to say, and could not come in when they last did."""
        if not self.is_leader or len(self._others) + 1 >= len(self.state.replicas):
            return
        for progress in list(self.followers.values()):
            if progress.counted_epoch == self.leader_epoch and progress.broker_id not in self._others:
                self._consider(progress)

    def _consider(self, progress: FollowerProgress) -> None:
        """With others in the ISR the eligible are no longer needed, and nobody would compare this log with theirs."""
        if not self.is_proven and self.state.elr and self._is_proving:
            return
        if progress.session.heard_ns < self.out_ns.get(progress.broker_id, 0):
            return  # it may have left by itself, for lack of space, and follow nobody: what it held says nothing
        if progress.end_offset >= self.high_watermark and progress.end_offset >= self.epoch_start_offset:
            self._keeper.caught_up(self, progress)

    def ask_for_isr(self, isr: tuple[int, ...] | None) -> None:
        """The controller is being asked for this ISR; None: it has refused."""
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
        """Advances the high watermark to what every in-sync replica holds durably."""
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
            # Replicas that left stay eligible: nothing may be committed without them, whatever the configuration says
            # by now, until the controller no longer counts on them.
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
        """Takes over batches of the leader as they are."""
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
        """What the leader says is committed, as far as it is here, and where its log starts."""
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
        """Gives up what the leader does not have."""
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
        """What was damaged is gone from the log. Nobody counts on this replica, so its watermark may go back."""
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
        """Gives up everything: the leader's log starts behind our end, or it shares nothing with ours."""
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
        """Whether the leader may lack what is committed: by its election, or because nobody had it on disk."""
        return not self._is_committed_firm or self.log.config.durability == "os"
