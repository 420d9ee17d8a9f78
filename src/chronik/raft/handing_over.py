"""When a leader that cannot write hands the leadership over, and to whom.

As long as it leads, nothing is applied here, so nobody is answered. First all leases run out that followers hold, and
none is granted meanwhile (`metadata.leased_reads` looks at `is_due`): the next leader is elected before they are over,
and would commit what their holders do not know.
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
        self.is_due = False  # somebody else is to lead as soon as no follower holds a lease

    def tick(self, *, is_full: bool, hangs: bool) -> None:
        """As leader; the arguments say what is wrong with its disk."""
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
