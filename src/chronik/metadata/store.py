"""The cluster's metadata on this node: the newest image, and commands that return when they hold cluster-wide.

To read, use `image`, an immutable attribute: no lock, no await. Call `read` or `barrier` first for a linearizable read.
To write, `submit` a command: it returns when a majority has committed the command, it is applied here, and the
listeners have run. So a client that got "created" finds the topic in `image`. Nothing else changes metadata.

Its parts: `submitter` sends commands to the controller, `control` is the controller while this node leads, `joining`
prevents a node that has lost its metadata from voting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from chronik.metadata.active_controller import ActiveController
from chronik.metadata.commands.command import Command, Reply
from chronik.metadata.delta import Changes
from chronik.metadata.errors import (
    MetadataMissing,
    NotController,
    StoreClosed,
    WrongCluster,
)
from chronik.metadata.forwarding import Forwarding
from chronik.metadata.image import EMPTY, Image
from chronik.metadata.joining import JoiningNode
from chronik.metadata.leased_reads import LEASE_ASK, LEASE_GRANT, LeasedReads
from chronik.metadata.own_files import OwnFiles
from chronik.metadata.received import Received, snapshot_refusal
from chronik.metadata.replay import replay_onto
from chronik.metadata.snapshot import decode_snapshot, difference, encode_snapshot
from chronik.metadata.store_config import StoreConfig
from chronik.metadata.submitter import Submitter
from chronik.raft.addresses import Address
from chronik.raft.alone import Alone
from chronik.raft.driver import RaftNode
from chronik.raft.errors import RaftError, Stopped
from chronik.raft.interfaces import Notes, Transport
from chronik.runtime.interfaces import Runtime
from chronik.runtime.invariants import InvariantBroken, broken

Listener: TypeAlias = Callable[[Image, Image, Changes], None]


class MetadataStore:
    """Created by `open`. Use all methods on the event loop that opened it."""

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
        """Recovers the directory, or founds a cluster in an empty one; without a cluster id it generates one.

        A quorum of one is ready when this returns. In a larger one, `ready` waits for the first leader. `is_used` says
        that this node was in a cluster before, `index_min` the index up to which it had applied the log. If the log is
        missing or ends before that, the node does not vote until it has caught up; a quorum of one raises instead.
        """
        files = OwnFiles(runtime, directory, node_id)
        files.require_own()
        store = cls(runtime, files, node_id=node_id, cluster_id=cluster_id, config=config)
        is_alone = config.voters is not None and set(config.voters) == {node_id}
        if files.has_lost_its_log(is_used=is_used):
            if is_alone:
                raise MetadataMissing(directory)
            files.begin_joining()  # before a new log exists, which would hide the loss from the next process
        if notes is not None:
            submitter = store.submitter
            submitter.forwarding = Forwarding(
                notes,
                submitter.decide,
                submitter.newest,
                lambda: store.image.version,
                incarnation=submitter.incarnation,
            )
            store.notes = notes
            notes.attach_notes(store._receive_note, store.joining.met)
        store._raft = await RaftNode.open(
            runtime,
            files.log_directory,
            node_id=node_id,
            # A node that lost its log does not found: founders ask for votes, and another new node would grant one.
            voters=None if files.is_joining else config.voters,
            transport=transport or Alone(),
            machine=_Machine(store),
            config=config.raft,
            recovered_to=partial(files.require_applied, index_min=index_min, is_alone=is_alone),
        )
        try:
            files.keep_incarnation(store.submitter.incarnation)
        except Exception:
            await store._raft.stop()
            raise
        store._raft.on_failure = store.fail
        store.joining.abstain_if_new()
        if notes is not None and config.leases:
            incarnation = store.submitter.incarnation
            store._leased = LeasedReads(store._raft, notes, runtime.clock, config.raft, incarnation=incarnation)
            store._leased.leadership_changed(is_self=store.leads)
        store.control.begin_if_due()
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
        self.runtime, self.config = runtime, config
        self.on_failure: Callable[[BaseException], None] | None = None  # called when the quorum's node stops by itself
        # Called for each command of this node with its duration and the time of its reply, both in ns. The reply is
        # None if the command failed.
        self.on_answer: Callable[[Command[Any], Reply | None, int, int], None] | None = None
        self.notes: Notes | None = None  # None in a quorum of one
        self.leads = False
        self.closed = False
        self.submitter = Submitter(self, files.next_incarnation())
        self.submit = self.submitter.submit
        self.control = ActiveController(self, cluster_id)
        self.joining = JoiningNode(self, files)
        self._raft: RaftNode | None = None  # None until it is open; it may lead before that
        self._leased: LeasedReads | None = None
        self._received = Received()
        self._listeners: list[Listener] = []
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_controller(self) -> bool:
        return self.control.writer is not None

    @property
    def leader_id(self) -> int | None:
        return self._raft.leader_id if self._raft is not None else None  # a peer may ask before the raft node is open

    @property
    def lease_expirations(self) -> int:
        """Read leases of this node that expired before their renewal."""
        return self._leased.lease.expirations if self._leased is not None else 0

    @property
    def is_open(self) -> bool:
        """False while `open` recovers: the Raft node may call back before it returns."""
        return self._raft is not None

    @property
    def raft(self) -> RaftNode:
        """For modules that show the quorum's state or change its members."""
        assert self._raft is not None, "open() sets it before it returns the store"
        return self._raft

    def found_at(self, address: Address) -> None:
        """Sets the address at which nodes that join later reach this one. A quorum of one does not know it
        otherwise."""
        self.submitter.quorum.own_address = address

    def subscribe(self, listener: Listener) -> None:
        """Calls `listener` with (before, after, changes) after each applied batch, before any reply is released.

        It runs inside the apply, so it must be short and must not raise: an error stops the node.
        """
        self._listeners.append(listener)

    async def ready(self) -> None:
        """Returns when this node knows the cluster's id."""
        await asyncio.shield(self._ready)

    def current(self) -> Image | None:
        """The image, if it is known to contain everything acknowledged anywhere before this call.

        None if only the leader can tell; then await `read`.
        """
        if self._leased is not None:
            return self.image if self._leased.may_read() else None
        is_alone = self.leads and self.raft.members.voters == (self.node_id,)
        return self.image if is_alone else None

    async def read(self) -> Image:
        """Like `current`, but asks the leader if there is no lease. Raises NotController after a timeout."""
        image = self.current()
        if image is not None:
            return image
        try:
            async with asyncio.timeout(self.config.read_timeout_ms / 1000):
                return await self.barrier()
        except TimeoutError:
            raise NotController(self.leader_id) from None

    async def joined(self) -> None:
        """Returns when this node may vote. After losing its disk, a node votes only once it has caught up."""
        await self.joining.done()

    async def barrier(self) -> Image:
        """An image with everything acknowledged anywhere before this call. Always asks the leader."""
        try:
            await self.raft.read_index()
        except Stopped as error:
            raise StoreClosed from error
        except RaftError as error:
            raise NotController(self.leader_id) from error
        return self.image

    def _receive_note(self, peer: int, note: bytes) -> None:
        if note[:1] in (LEASE_ASK, LEASE_GRANT):
            if self._leased is not None and self.notes is not None and self.notes.is_member(peer):
                self._leased.receive(peer, note)
        elif self.submitter.forwarding is not None:
            try:
                self.submitter.forwarding.receive(peer, note)
            except InvariantBroken as error:  # otherwise only the peer's stream would end, and this node would continue
                self.fail(error)

    def majority_is_dead(self) -> bool:
        """Whether too many voter processes are dead to commit anything."""
        voters, notes = self.raft.members.voters, self.notes
        if notes is None:
            return False
        return sum(notes.has_died(voter) for voter in voters if voter != self.node_id) > (len(voters) - 1) // 2

    async def hand_over(self) -> None:
        """Before a clean stop: transfers the leadership to another voter, if there is one."""
        others = [voter for voter in self.raft.members.voters if voter != self.node_id]
        if not self.is_controller or not others:
            return
        if self._leased is not None:
            await self._leased.drain()
        matches = self.raft.match_indexes()
        self.raft.transfer_leadership(max(others, key=lambda voter: matches.get(voter, 0)))
        while self.leads or self.leader_id is None:
            await self.submitter.pause()

    async def close(self) -> None:
        """Waiting commands fail with StoreClosed; they may or may not be applied."""
        self.closed = True
        self.control.step_down(StoreClosed())
        self.submitter.close()
        self.joining.close()
        if self._leased is not None:
            self._leased.close()
        if not self._ready.done():
            self._ready.cancel()
        await self.raft.stop()

    # Called by the quorum's log, through `_Machine`

    def _apply(self, index: int, data: bytes) -> None:
        writer = self.control.writer
        records = writer.records_in(data) if writer else None
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
            if self.notes is not None:
                self.notes.belongs_to(self.image.cluster_id)  # before the next hello, which names the cluster
            self._ready.set_result(None)
        if self.submitter.behind:
            self.submitter.applied()

    def _leadership_changed(self, leader_id: int | None, *, is_self: bool) -> None:
        self.control.step_down(NotController(leader_id))
        self.leads = is_self
        self.submitter.leader_changed(leader_id)
        if self._leased is not None:
            self._leased.leadership_changed(is_self=is_self)
        if self._raft is not None:
            self.control.begin_if_due()

    def fail(self, error: BaseException) -> None:
        """The Raft node has stopped: fails all waiting callers."""
        self.closed = True
        self.control.step_down(StoreClosed())
        self.submitter.failed()
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
