"""A node without metadata in a cluster that has some: it is new, or has lost its disk. It does not vote until it has
caught up, because it may have forgotten a vote.

A file records this state, so that it survives restarts.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from chronik.metadata.own_files import OwnFiles
from chronik.raft.driver import RaftNode
from chronik.raft.errors import RaftError, Stopped
from chronik.runtime.errors import DiskFull

if TYPE_CHECKING:
    from chronik.metadata.store import MetadataStore

logger = logging.getLogger("chronik.metadata")


class JoiningNode:
    """A part of the store."""

    def __init__(self, store: MetadataStore, files: OwnFiles) -> None:
        self._store, self._files = store, files
        self._loop = asyncio.get_running_loop()
        self._cluster_met = ""  # the cluster of a peer, met while this node knew of none
        self._catching_up: asyncio.Task[None] | None = None

    async def done(self) -> None:
        """Returns when this node may vote again."""
        if self._catching_up is not None:
            await asyncio.shield(self._catching_up)

    def met(self, cluster_id: str) -> None:
        """A peer belongs to a cluster that this node does not know."""
        self._cluster_met = cluster_id
        try:
            self.abstain_if_new()
        except (OSError, DiskFull) as error:  # the node must not vote, and cannot record that
            self._store.raft.abstain()
            self._store.fail(error)

    def abstain_if_new(self) -> None:
        """Also applies after a restart halfway: the node may still lack entries that it acknowledged."""
        store = self._store
        if not store.is_open or self._catching_up is not None:
            return
        had_to_join = self._files.is_joining
        if not had_to_join:
            if not self._cluster_met or store.image.cluster_id or store.raft.has_taken_part:
                return  # a founder may learn of the cluster before it learns that its founding is committed
            self._files.begin_joining()
        level = logging.WARNING if had_to_join else logging.INFO
        logger.log(level, "this node is new, or has lost its metadata: it does not vote until it has caught up")
        store.raft.abstain()
        self._catching_up = self._loop.create_task(self._catch_up(store.raft))

    async def _catch_up(self, raft: RaftNode) -> None:
        while True:
            try:
                await raft.read_index()
            except Stopped:
                return
            except RaftError:
                await self._store.submitter.pause()
            else:
                break
        # Before the leader learns that this node votes: after a power cut it must not wait for a leader again.
        self._files.end_joining()
        raft.take_part()

    def close(self) -> None:
        if self._catching_up is not None:
            self._catching_up.cancel()
