"""What everybody reads and writes: the newest image here, and commands that resolve when they hold cluster-wide.

Reading is taking `image`, an attribute: no lock, no await, immutable. `barrier` before it makes the read linearizable.
Writing is `submit`: it returns when the command is committed by a majority, applied here, and seen by the listeners, so
whoever was told "created" finds it in `image`. Nothing else in the program changes metadata.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias, overload

from chronik.metadata import commands as c
from chronik.metadata.controller import Controller
from chronik.metadata.delta import Changes
from chronik.metadata.errors import (
    MetadataError,
    MetadataMissing,
    MetadataRefused,
    NotController,
    StoreClosed,
    WrongCluster,
    refuse,
)
from chronik.metadata.forwarding import OWN_DUTIES, Forwarding
from chronik.metadata.image import EMPTY, Image
from chronik.metadata.leased_reads import LEASE_ASK, LEASE_GRANT, LeasedReads
from chronik.metadata.own_files import OwnFiles
from chronik.metadata.quorum import QUORUM_COMMANDS, QuorumDuties
from chronik.metadata.received import Received, snapshot_refusal
from chronik.metadata.records import ClusterRecord, FeatureLevelRecord
from chronik.metadata.replay import replay_onto
from chronik.metadata.sessions import BrokerSessions
from chronik.metadata.snapshot import decode_snapshot, difference, encode_snapshot
from chronik.metadata.store_config import StoreConfig
from chronik.metadata.writer import Writer
from chronik.raft.addresses import Address
from chronik.raft.alone import Alone
from chronik.raft.driver import RaftNode
from chronik.raft.errors import RaftError, Stopped
from chronik.raft.interfaces import Notes, Transport
from chronik.runtime.errors import DiskFull
from chronik.runtime.interfaces import Runtime
from chronik.runtime.invariants import InvariantBroken, broken
from chronik.runtime.units import NS_PER_MS
from chronik.wire.error_codes import ErrorCode

Listener: TypeAlias = Callable[[Image, Image, Changes], None]

logger = logging.getLogger("chronik.metadata")

WATCH_S = 0.1  # how often the controller looks for brokers that have gone
DEAF_SHARE = 2 / 3  # of a session, after which a broker that takes no metadata is fenced, whatever it says
PAUSE_S = 0.05  # before a command looks for a controller again, unless one is elected meanwhile


class MetadataStore:
    """Made by `open`. All methods belong to the loop that opened it."""

    @classmethod
    async def open(
        cls,
        runtime: Runtime,
        directory: str,
        *,
        node_id: int,
        cluster_id: str | None,
        config: StoreConfig,
        transport: Transport | None = None,
        notes: Notes | None = None,
        is_used: bool = False,
        index_min: int = 0,
    ) -> MetadataStore:
        """Recovers what the directory holds, or founds a cluster in an empty one; None draws a cluster id then.

        A quorum of one is ready when this returns. In a larger one `ready` waits for the first leader's word.
        `is_used` says that this node was in a cluster before, `index_min` how far it had applied the log. If the log is
        gone or ends before that, the node does not vote until it has caught up; a quorum of one raises instead.
        """
        files = OwnFiles(runtime, directory, node_id)
        files.require_own()
        store = cls(runtime, files, node_id=node_id, cluster_id=cluster_id, config=config)
        is_alone = config.voters is not None and set(config.voters) == {node_id}
        if files.has_lost_its_log(is_used=is_used):
            if is_alone:
                raise MetadataMissing(directory)
            files.begin_joining()  # before there is a log again, which would hide the loss from the next process
        if notes is not None:
            store._forwarding = Forwarding(
                notes, store._decide, lambda: store.image.version, incarnation=store._incarnation
            )
            store._notes = notes
            notes.attach_notes(store._receive_note, store._met)
        store._raft = await RaftNode.open(
            runtime,
            files.log_directory,
            node_id=node_id,
            # Who forgot founds nothing: founders ask for votes, and one that has heard nothing yet would give its own.
            voters=None if files.is_joining else config.voters,
            transport=transport or Alone(),
            machine=_Machine(store),
            config=config.raft,
            recovered_to=partial(files.require_applied, index_min=index_min, is_alone=is_alone),
        )
        try:
            files.keep_incarnation(store._incarnation)
        except Exception:
            await store._raft.stop()
            raise
        store._raft.on_failure = store._raft_failed
        store._abstain_if_new()
        if notes is not None and config.leases:
            store._leased = LeasedReads(store._raft, notes, runtime.clock, config.raft, incarnation=store._incarnation)
            store._leased.leadership_changed(is_self=store._leads)
        store._take_lead_when_due()
        if store._raft.members.voters == (node_id,):
            await store.ready()
        if cluster_id is not None and store.image.cluster_id not in ("", cluster_id):
            await store.close()
            raise WrongCluster(directory, store.image.cluster_id, cluster_id)
        return store

    def __init__(
        self, runtime: Runtime, files: OwnFiles, *, node_id: int, cluster_id: str | None, config: StoreConfig
    ) -> None:
        self.image: Image = EMPTY
        self.node_id = node_id
        self.on_failure: Callable[[BaseException], None] | None = None  # hears why the quorum's node stopped by itself
        # Hears of each command of this node how long it took, and at which time it was answered; both ns. The reply is
        # None where it failed.
        self.on_answer: Callable[[c.Command, c.Reply | None, int, int], None] | None = None
        self._runtime, self._config, self._cluster_id = runtime, config, cluster_id
        self._loop = asyncio.get_running_loop()
        self._raft: RaftNode | None = None  # until it is open; it may lead before
        self._writer: Writer | None = None  # while this node is the controller
        self._notes: Notes | None = None  # a quorum of one has nobody to write to
        self._forwarding: Forwarding | None = None
        self._leased: LeasedReads | None = None
        self._quorum = QuorumDuties(runtime.clock)
        self._leads, self._received = False, Received()
        self._listeners: list[Listener] = []
        self._files = files
        self._incarnation, self._sequence = files.next_incarnation(), 0
        self._unanswered: dict[int, None] = {}  # sequences, ascending
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._cluster_met = ""  # that a peer belongs to, while this node knew of none
        self._catching_up: asyncio.Task[None] | None = None  # of a node that joins empty
        self._elected = asyncio.Event()  # set when the leader changes, and cleared by who waits for that
        self._behind: dict[asyncio.Future[None], int] = {}  # who waits for which version of the image
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def is_controller(self) -> bool:
        return self._writer is not None

    @property
    def leader_id(self) -> int | None:
        return self._raft.leader_id if self._raft is not None else None  # a peer may ask before the raft node is open

    @property
    def lease_expirations(self) -> int:
        """How often a read lease of this node ran out before the next came."""
        return self._leased.lease.expirations if self._leased is not None else 0

    @property
    def raft(self) -> RaftNode:
        """For those who show the quorum's state or change its members."""
        return self._node

    def found_at(self, address: Address) -> None:
        """Where nodes that join later can reach this one; a quorum of one has no need to know."""
        self._quorum.own_address = address

    def subscribe(self, listener: Listener) -> None:
        """Called with (before, after, what changed) after each applied batch, before anyone is answered.

        It runs inside the apply, so it must be short and must not raise: an error stops the node.
        """
        self._listeners.append(listener)

    async def ready(self) -> None:
        """Returns when the cluster is known here, that is, when its id is."""
        await asyncio.shield(self._ready)

    def current(self) -> Image | None:
        """The image, if it is known to show everything that was acknowledged anywhere before this call.

        None: only the leader can tell; await `read`.
        """
        if self._leased is not None:
            return self.image if self._leased.may_read() else None
        is_alone = self._leads and self._node.members.voters == (self.node_id,)
        return self.image if is_alone else None

    async def read(self) -> Image:
        """As `current`, confirmed by the leader where no lease allows less. Raises NotController in the end."""
        image = self.current()
        if image is not None:
            return image
        try:
            async with asyncio.timeout(self._config.read_timeout_ms / 1000):
                return await self.barrier()
        except TimeoutError:
            raise NotController(self.leader_id) from None

    async def joined(self) -> None:
        """Returns when this node has a vote again, if it came without its disk: nobody should count on it before."""
        if self._catching_up is not None:
            await asyncio.shield(self._catching_up)

    async def barrier(self) -> Image:
        """An image that shows everything that was acknowledged anywhere before this call; always asks."""
        try:
            await self._node.read_index()
        except Stopped as error:
            raise StoreClosed from error
        except RaftError as error:
            raise NotController(self.leader_id) from error
        return self.image

    @overload
    async def submit(self, command: c.CreateTopics) -> c.CreateTopicsReply: ...
    @overload
    async def submit(self, command: c.DeleteTopics) -> c.DeleteTopicsReply: ...
    @overload
    async def submit(self, command: c.CreatePartitions) -> c.CreatePartitionsReply: ...
    @overload
    async def submit(self, command: c.AlterConfigs) -> c.AlterConfigsReply: ...
    @overload
    async def submit(self, command: c.RegisterBroker) -> c.RegisterBrokerReply: ...
    @overload
    async def submit(self, command: c.BrokerHeartbeat) -> c.BrokerHeartbeatReply: ...
    @overload
    async def submit(self, command: c.FenceBroker) -> c.FenceBrokerReply: ...
    @overload
    async def submit(self, command: c.UnregisterBroker) -> c.UnregisterBrokerReply: ...
    @overload
    async def submit(self, command: c.AlterPartition) -> c.AlterPartitionReply: ...
    @overload
    async def submit(self, command: c.ReportLostReplicas) -> c.ReportLostReplicasReply: ...
    @overload
    async def submit(self, command: c.ElectLeaders) -> c.ElectLeadersReply: ...
    @overload
    async def submit(self, command: c.AlterReassignments) -> c.AlterReassignmentsReply: ...
    @overload
    async def submit(self, command: c.AllocateProducerIds) -> c.AllocateProducerIdsReply: ...
    @overload
    async def submit(self, command: c.UpdateFeatures) -> c.UpdateFeaturesReply: ...
    @overload
    async def submit(self, command: c.DescribeQuorum) -> c.DescribeQuorumReply: ...
    @overload
    async def submit(self, command: c.AddVoter) -> c.AddVoterReply: ...
    @overload
    async def submit(self, command: c.RemoveVoter) -> c.RemoveVoterReply: ...
    async def submit(self, command: c.Command) -> Any:
        """Raises NotController, or MetadataRefused where all of it is refused; items carry codes of their own."""
        if self._closed:
            raise StoreClosed
        c.draw_ids(command, self._runtime.randomness)
        request = self._next_request()
        since_ns = self._runtime.clock.monotonic_ns()
        reply: c.Reply | None = None
        try:
            reply = await self._carry_out(command, request)
        finally:
            del self._unanswered[request.sequence]
            if self.on_answer is not None:
                now_ns = self._runtime.clock.monotonic_ns()
                self.on_answer(command, reply, now_ns - since_ns, now_ns)
        return reply

    async def _carry_out(self, command: c.Command, request: c.RequestId) -> c.Reply:
        """Until the controller has answered, whoever that is; the request id makes repeating it harmless."""
        give_up_s = self._loop.time() + self._config.submit_timeout_ms / 1000
        asked = self.leader_id
        while True:
            try:
                if self._writer is not None:
                    return await self._decide(command, request)
                return await self._forward(asked, command, request)
            except NotController as error:
                if not self._may_forward(command) or self._loop.time() > give_up_s:
                    raise NotController(self.leader_id) from error  # not whom it names: the last asked need not lead
                await self._pause()
                asked = self._next_to_ask(asked, error.leader_id)

    def _next_to_ask(self, asked: int | None, named: int | None) -> int | None:
        """Who leads as far as this node knows; if that one was asked in vain, whom it named, or else the next in turn.

        A node that no leader talks to any more, because the cluster has forgotten it, can find out only so.
        """
        if self.leader_id not in (None, asked):
            return self.leader_id
        if named not in (None, asked):
            return named
        others = sorted(node_id for node_id in self._node.addresses if node_id != self.node_id)
        later = [node_id for node_id in others if asked is None or node_id > asked]
        return next(iter(later or others), None)

    def _may_forward(self, command: c.Command) -> bool:
        return self._forwarding is not None and (self._config.forwarding or isinstance(command, OWN_DUTIES))

    async def _forward(self, leader_id: int | None, command: c.Command, request: c.RequestId) -> c.Reply:
        if leader_id is None or leader_id == self.node_id or not self._may_forward(command):
            raise NotController(leader_id)
        assert self._forwarding is not None
        timeout_s = self._config.answer_timeout_ms / 1000
        answer, version = await self._forwarding.ask(leader_id, command, request, timeout_s)
        if isinstance(answer, MetadataError) and isinstance(command, (c.RegisterBroker, c.BrokerHeartbeat)):
            raise answer  # no client sees it, and a node that the cluster has forgotten will never catch up
        try:
            async with asyncio.timeout(timeout_s):
                await self._caught_up(version)
        except TimeoutError:
            raise NotController(leader_id) from None
        if isinstance(answer, MetadataError):
            raise answer
        return answer

    async def _pause(self) -> None:
        """A moment, or until a leader is elected."""
        if self._closed:
            raise StoreClosed
        self._elected.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PAUSE_S):
                await self._elected.wait()

    async def _caught_up(self, version: int) -> None:
        """Until this node's image shows what another's does."""
        if self.image.version < version:
            waits: asyncio.Future[None] = self._loop.create_future()
            self._behind[waits] = version
            try:
                await waits
            finally:  # also who gave up: on a node that hears answers and applies nothing, they would only grow
                self._behind.pop(waits, None)

    def _decide(self, command: c.Command, request: c.RequestId) -> asyncio.Future[c.Reply]:
        """What a node asks of the controller."""
        if self._writer is None:
            raise NotController(self.leader_id)
        if isinstance(command, QUORUM_COMMANDS):
            return self._quorum.carry_out(self._node, command, request)
        if isinstance(command, c.BrokerHeartbeat) and command.broker_id in self._deaf():
            refuse(ErrorCode.REQUEST_TIMED_OUT, f"broker {command.broker_id} has not taken the metadata for too long")
        return self._writer.submit(command, request)

    def _receive_note(self, peer: int, note: bytes) -> None:
        if note[:1] in (LEASE_ASK, LEASE_GRANT):
            if self._leased is not None and self._notes is not None and self._notes.is_member(peer):
                self._leased.receive(peer, note)
        elif self._forwarding is not None:
            try:
                self._forwarding.receive(peer, note)
            except InvariantBroken as error:  # or it would cost the peer's stream, and this node would go on
                self._raft_failed(error)

    def _met(self, cluster_id: str) -> None:
        """A peer belongs to a cluster of which this node knows nothing: it is new in it, or has lost its disk."""
        self._cluster_met = cluster_id
        try:
            self._abstain_if_new()
        except (OSError, DiskFull) as error:  # it must not vote, and cannot keep that in mind
            self._node.abstain()
            self._raft_failed(error)

    def _abstain_if_new(self) -> None:
        """Also after a restart half way: what it has by then is not yet what it forgot."""
        if self._raft is None or self._catching_up is not None:
            return
        had_to_join = self._files.is_joining
        if not had_to_join:
            if not self._cluster_met or self.image.cluster_id or self._raft.has_taken_part:
                return  # a founder may hear of the cluster before it hears that what it voted for is committed
            self._files.begin_joining()
        level = logging.WARNING if had_to_join else logging.INFO
        logger.log(level, "this node is new, or has lost its metadata: it does not vote until it has caught up")
        self._raft.abstain()
        self._catching_up = self._loop.create_task(self._catch_up(self._raft))

    async def _catch_up(self, raft: RaftNode) -> None:
        while True:
            try:
                await raft.read_index()
            except Stopped:
                return
            except RaftError:
                await self._pause()
            else:
                break
        # Before the leader hears that this node votes: back from a power cut it must not wait for a leader once more.
        self._files.end_joining()
        raft.take_part()

    def majority_is_dead(self) -> bool:
        """Whether so many voters' processes are gone that nothing can be committed until some are back."""
        voters, notes = self._node.members.voters, self._notes
        if notes is None:
            return False
        return sum(notes.has_died(voter) for voter in voters if voter != self.node_id) > (len(voters) - 1) // 2

    async def hand_over(self) -> None:
        """Before a clean stop: another voter leads, if one is there to."""
        others = [voter for voter in self._node.members.voters if voter != self.node_id]
        if not self.is_controller or not others:
            return
        if self._leased is not None:
            await self._leased.drain()
        matches = self._node.match_indexes()
        self._node.transfer_leadership(max(others, key=lambda voter: matches.get(voter, 0)))
        while self._leads or self.leader_id is None:
            await self._pause()

    async def close(self) -> None:
        """Whoever waits is told that the store is closed; what they asked for may or may not come to be."""
        self._closed = True
        self._step_down(StoreClosed())
        for waits in self._behind:
            waits.cancel()
        if self._catching_up is not None:
            self._catching_up.cancel()
        if self._leased is not None:
            self._leased.close()
        if not self._ready.done():
            self._ready.cancel()
        await self._node.stop()

    def _next_request(self) -> c.RequestId:
        applied = self.image.applied.get(self.node_id)
        if self._sequence == 0 and applied is not None:
            # A node that lost its disk counts by the clock, which may have gone back since its last process.
            self._incarnation = max(self._incarnation, applied.incarnation + 1)
        self._sequence += 1
        self._unanswered[self._sequence] = None
        return c.RequestId(self.node_id, self._incarnation, self._sequence, next(iter(self._unanswered)))

    @property
    def _node(self) -> RaftNode:
        assert self._raft is not None, "open() gives the store away only when it has it"
        return self._raft

    # What the quorum's log does to it, called by `_Machine`

    def _apply(self, index: int, data: bytes) -> None:
        records = self._writer.records_in(data) if self._writer else None
        before = self.image
        if index <= before.version:
            broken("4 entries are applied in the order of the log", index=index, version=before.version)
        self.image, changes = replay_onto(before, index, self._received.records(data) if records is None else records)
        self._tell(before, changes)

    def _restore(self, data: bytes) -> None:
        before, self.image = self.image, decode_snapshot(data)
        self._tell(before, difference(before, self.image) if self._listeners else Changes())

    def _tell(self, before: Image, changes: Changes) -> None:
        for listener in self._listeners:
            listener(before, self.image, changes)
        if self.image.cluster_id and not self._ready.done():
            if self._notes is not None:
                self._notes.belongs_to(self.image.cluster_id)  # before the next hello: who joins must say where
            self._ready.set_result(None)
        for waits, version in self._behind.items():
            if self.image.version >= version and not waits.done():
                waits.set_result(None)

    def _leadership_changed(self, leader_id: int | None, *, is_self: bool) -> None:
        self._step_down(NotController(leader_id))
        self._leads = is_self
        self._elected.set()
        if self._forwarding is not None:
            self._forwarding.leader_changed(leader_id)
        if self._leased is not None:
            self._leased.leadership_changed(is_self=is_self)
        if self._raft is not None:
            self._take_lead_when_due()

    # Being the controller

    def _take_lead_when_due(self, heard: BrokerSessions | None = None) -> None:
        """The state is complete: everything that earlier leaders committed is applied."""
        if not self._leads or self._writer is not None or self._closed:
            return
        session_ns = self._config.broker_session_timeout_ms * NS_PER_MS
        now_ns = self._runtime.clock.monotonic_ns()
        controller = Controller(self.image, self._config.rules, session_timeout_ns=session_ns, now_ns=now_ns)
        if heard is not None:
            controller.sessions.go_on_from(heard)
        self._writer = Writer(
            controller,
            self._node,
            self._runtime.clock,
            batching=self._config.batching,
            on_failure=self._write_failed,
        )
        if not self.image.cluster_id:
            cluster_id = self._cluster_id or c.draw_cluster_id(self._runtime.randomness)
            levels = [FeatureLevelRecord(name=name, level=at) for name, at in sorted(self._config.features.items())]
            self._writer.write([ClusterRecord(cluster_id=cluster_id), *levels])
        self._watch_sessions()

    def _step_down(self, error: NotController | StoreClosed) -> None:
        if self._timer:
            self._timer.cancel()
        if self._writer:
            self._writer.stop(error)
        self._writer = None

    def _write_failed(self) -> None:
        """Nothing of what was decided since holds. If this node still leads, it begins again from what is applied."""
        if self._timer:
            self._timer.cancel()  # who watches is the writer that is gone; the next one sets its own
        heard = self._writer.controller.sessions if self._writer else None
        self._writer = None
        if self._node.refuses_all:  # it would turn on the spot until somebody else leads
            self._loop.call_later(PAUSE_S / 5, self._take_lead_when_due, heard)
        else:
            self._take_lead_when_due(heard)

    def _watch_sessions(self) -> None:
        """Fences brokers that fell silent or have died; not the one in this process: it runs this line."""
        self._timer = self._loop.call_later(WATCH_S, self._watch_sessions)
        assert self._writer is not None
        controller = self._writer.controller
        gone = set(controller.sessions.expired(self._runtime.clock.monotonic_ns()))
        gone.update(self._deaf() & set(controller.sessions.watched()))
        if self._notes is not None:
            gone.update(broker_id for broker_id in controller.sessions.watched() if self._notes.has_died(broker_id))
        for broker_id in sorted(gone):
            broker = controller.newest.brokers.get(broker_id)
            if broker is not None and broker_id != self.node_id:
                request = self._next_request()
                try:
                    done = self._writer.submit(c.FenceBroker(broker_id=broker_id, broker_epoch=broker.epoch), request)
                except MetadataRefused:  # too much waits already: the next look finds the broker as silent as this one
                    del self._unanswered[request.sequence]
                    return
                done.add_done_callback(partial(self._fenced, request.sequence))

    def _deaf(self) -> set[int]:
        """Brokers that are heard and hear nothing, or whose disks hang: they would lead by an image of the past."""
        deaf_ms = self._config.broker_session_timeout_ms * DEAF_SHARE
        return {peer for peer, lag_ms in self._node.lag_ms().items() if lag_ms > deaf_ms} - {self.node_id}

    def _fenced(self, sequence: int, done: asyncio.Future[c.Reply]) -> None:
        """If it failed, this node no longer leads, and the next controller watches sessions of its own."""
        del self._unanswered[sequence]
        if not done.cancelled():
            done.exception()

    def _raft_failed(self, error: BaseException) -> None:
        """Nobody waits for what can no longer come: not for a controller, nor for an image that will not change."""
        self._closed = True
        self._elected.set()
        self._step_down(StoreClosed())
        for waits in self._behind:
            if not waits.done():
                waits.set_exception(StoreClosed())
        if not self._ready.done():
            self._ready.set_exception(StoreClosed())
        if self.on_failure:
            self.on_failure(error)


class _Machine:
    """The store as the quorum's log sees it."""

    snapshot_refusal = staticmethod(snapshot_refusal)

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    def apply(self, index: int, term: int, data: bytes) -> None:
        self._store._apply(index, data)

    def snapshot(self) -> bytes:
        return encode_snapshot(self._store.image)

    def restore(self, index: int, data: bytes) -> None:
        self._store._restore(data)

    def refusal(self, data: bytes) -> str | None:
        return self._store._received.refusal(data)

    def leadership_changed(self, *, leader_id: int | None, term: int, is_self: bool) -> None:
        self._store._leadership_changed(leader_id, is_self=is_self)
