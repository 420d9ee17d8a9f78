"""Waits for an answer, but stops within seconds if the quorum is lost, and names the cause.

Retries would continue for half a minute, and the last error would name something else. Programs that must survive a
lost quorum, such as producers and running pipelines, do not use this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final, TypeVar

from chronik.client.admin.survey import survey
from chronik.client.errors import QuorumLost

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient

LOOK_EVERY_S: Final = 1
LOST_LOOKS: Final = 2  # consecutive: a single one may find nodes that are starting
T = TypeVar("T")


async def unless_quorum_lost(cluster: ClusterClient, work: Awaitable[T]) -> T:
    """The result of `work`. Raises QuorumLost instead as soon as too few voters answer."""
    working = asyncio.ensure_future(work)
    lost = 0
    try:
        while True:
            await asyncio.wait([working], timeout=LOOK_EVERY_S)
            if working.done():
                return await working
            seen = await survey(cluster)
            lost = lost + 1 if seen is not None and seen.is_lost else 0
            if lost >= LOST_LOOKS and not working.done():
                raise QuorumLost(str(seen))
    finally:
        if not working.done():
            working.cancel()
            await asyncio.wait([working])
