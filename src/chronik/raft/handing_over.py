"""When a leader that cannot write transfers the leadership, and to which node.

While such a node leads, nothing is applied here, so no client gets an answer. The node first lets all leases of
followers expire and grants no new ones (`metadata.leased_reads` checks `is_due`). Otherwise the next leader could be
elected before the leases expire, and would commit entries that the lease holders lack.
"""

from __future__ import annotations

import logging

from chronik.raft.core import Core
from chronik.raft.messages import NOBODY
from chronik.runtime.buggify import LEADERSHIP_TRANSFER

logger = logging.getLogger("chronik.raft")


class HandingOver:
    def __init__(self, core: Core) -> None:
        self._core = core
        self.is_due = False  # another node should lead as soon as no follower holds a lease

    def tick(self, *, is_full: bool, hangs: bool) -> None:
        """Called at every tick of a leader; the arguments are the faults of its disk."""
        core, heir = self._core, self._core.heir
        cannot_write = "does not answer" if hangs else "is full" if is_full else ""
        if cannot_write or (LEADERSHIP_TRANSFER.is_on and LEADERSHIP_TRANSFER.fires()):
            self.is_due = True
        if heir == NOBODY:
            self.is_due = False
        if self.is_due and not core.lease_holders and core.transferee == NOBODY:
            if cannot_write:
                logger.warning(
                    "node %d transfers quorum leadership to node %d: its disk %s", core.id, heir, cannot_write
                )
            self.is_due = False
            core.transfer_leadership(heir)
