"""Rebuilds indexes of aborted transactions in short steps of the event loop, while read_committed consumers wait.

A fetch that needs an index that is not ready gets no records from that partition. It waits, and is woken when the index
is ready.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from chronik.storage.aborted_mending import mending
from chronik.storage.errors import StorageError

if TYPE_CHECKING:
    from chronik.broker.turns import Turns
    from chronik.replication.replica import Replica
    from chronik.storage.log import Log

log = logging.getLogger("chronik.broker")


class IndexMending:
    def __init__(self, turns: Turns, start: Callable[[str, Coroutine[Any, Any, None]], object]) -> None:
        """`start` runs a coroutine as a task of the node."""
        self._turns = turns
        self._start = start
        self._under_way: dict[Log, None] = {}

    def begin(self, replica: Replica) -> None:
        """No effect if a rebuild is in progress."""
        if replica.log not in self._under_way:
            self._under_way[replica.log] = None
            self._start(f"rebuild the index of {replica.name}", self._mend(replica))

    async def _mend(self, replica: Replica) -> None:
        try:
            await self._turns.run(mending(replica.log))
        except (StorageError, OSError) as fault:  # waiting fetches are not woken; the next fetch retries
            log.warning("aborted transactions of %s cannot be read: %s", replica.name, fault)
            return
        finally:
            del self._under_way[replica.log]
        replica.wake()
