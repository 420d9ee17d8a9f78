"""Adds a node to the quorum, shows its progress, and after Ctrl-C says what remains to be done.

The cluster adds the node within a time limit; then the node votes, or the cluster forgets it. Ctrl-C ends only the
display, because the cluster changes one member at a time and finishes what it has begun.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Final

from chronik.runtime.wording import counted

if TYPE_CHECKING:
    from chronik.cli.session import Options, StatusLine
    from chronik.client.addresses import Address
    from chronik.client.admin.quorum import Quorum
    from chronik.client.routing import ClusterClient

LOOK_EVERY_S: Final = 1
SAY_EVERY_S: Final = 5  # where each word is a line of its own


async def add_voter(
    cluster: ClusterClient, options: Options, node_id: int, address: Address, timeout_s: int, shown: StatusLine
) -> None:
    """Returns when the node votes."""
    from chronik.client.admin import quorum
    from chronik.client.properties import secured_client
    from chronik.runtime.real import real_runtime

    loop = asyncio.get_running_loop()
    began_s = loop.time()
    adding = asyncio.ensure_future(quorum.add(cluster, node_id, address, timeout_ms=timeout_s * 1000))
    # Responses of one connection come in order, so questions meanwhile need another one.
    looking = secured_client(real_runtime(), options.bootstrap, options.security(), client_id="chronik-cli")
    try:
        async with looking as observer:
            looks = 0
            while not adding.done():
                await asyncio.wait([adding], timeout=LOOK_EVERY_S)
                looks += 1
                if not adding.done() and (said := await _progress(observer, node_id)) is not None:
                    left_s = max(0, round(timeout_s - (loop.time() - began_s)))
                    shown.say(said := f"{said}, {left_s} s left")
                    if not sys.stderr.isatty() and looks % SAY_EVERY_S == 0:
                        print(said, file=sys.stderr)
        await adding
    except asyncio.CancelledError:
        left_s = max(0, round(timeout_s - (loop.time() - began_s)))
        print(
            f"Stopped waiting. If node {node_id} catches up within {left_s} s it will vote, otherwise the cluster "
            f"forgets it; `chronik cluster status` shows which, `chronik cluster remove {node_id}` removes it",
            file=sys.stderr,
        )
        raise
    finally:
        adding.cancel()
        await asyncio.wait([adding])


async def _progress(observer: ClusterClient, node_id: int) -> str | None:
    """None while the quorum does not answer."""
    from chronik.client.admin import quorum
    from chronik.client.errors import ClientError

    try:
        return standing(await asyncio.wait_for(quorum.describe(observer), LOOK_EVERY_S), node_id)
    except (ClientError, TimeoutError):
        return None


def standing(told: Quorum, node_id: int) -> str:
    member = next((each for each in told.members if each.node_id == node_id), None)
    if member is None or member.heard_ms < 0:
        return f"node {node_id} has not answered yet"
    behind = max(0, told.high_watermark - member.end_offset)
    return f"node {node_id} is {counted(behind, 'entry', 'entries')} behind"
