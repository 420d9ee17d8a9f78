"""What `chronik produce` says while records are not acknowledged: which partition, which node, and why.

A command that retries for two minutes must not be silent meanwhile. Nothing is said within the first seconds, and
nothing is repeated sooner than after half a minute unless the cause changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from chronik.cli.session import complain
from chronik.runtime.wording import counted

if TYPE_CHECKING:
    from chronik.client.producer import Producer, Stall

LOOK_EVERY_S: Final = 0.5
STALLED_MS: Final = 3_000
REPEAT_S: Final = 30


@asynccontextmanager
async def stalls_reported(producer: Producer, timeout_s: int) -> AsyncIterator[None]:
    reporting = asyncio.ensure_future(_report(producer, timeout_s))
    try:
        yield
    finally:
        reporting.cancel()
        await asyncio.wait([reporting])


async def _report(producer: Producer, timeout_s: int) -> None:
    loop = asyncio.get_running_loop()
    said: str | None = None
    said_at = 0.0
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        stalls = producer.stalls(STALLED_MS)
        if not stalls:
            said = None
            continue
        cause = cause_of(stalls[0])
        if cause != said or loop.time() - said_at >= REPEAT_S:
            said, said_at = cause, loop.time()
            more = f" (and {counted(len(stalls) - 1, 'more partition')})" if len(stalls) > 1 else ""
            left_s = max(0, round(timeout_s - stalls[0].waited_ms / 1000))
            complain(f"waiting to write to {stalls[0].at}{more}: {cause}; retrying for {left_s} more s (--timeout)")


def cause_of(stall: Stall) -> str:
    from chronik.client.errors import Refused

    if stall.fault is None:
        return "no broker has answered yet" if stall.node_id is None else f"node {stall.node_id} has not answered yet"
    if not isinstance(stall.fault, Refused):
        return str(stall.fault)
    code = stall.fault.kafka_error
    reason = f"{code.name} ({stall.fault.detail or code.message})"
    return reason if stall.node_id is None else f"node {stall.node_id} answers {reason}"
