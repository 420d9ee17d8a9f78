"""Runs requests of a connection one after the other, in order, each after the previous one has its response.

Most requests of a connection may overlap, because only their responses are ordered. Requests about one transaction may
not: the coordinator refuses a second one while the first is being written (CONCURRENT_TRANSACTIONS). A client that
sends both at once, as librdkafka does, would have to wait and retry.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from chronik.broker.connection import ServerConnection
    from chronik.broker.context import Context

T = TypeVar("T")


def one_at_a_time(context: Context, work: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
    """Wraps the work of a handler: later requests of its connection start when it is done."""
    context.connection.hold_back()  # now, not when the coroutine starts
    return _released(context.connection, work)


async def _released(connection: ServerConnection, work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    finally:
        connection.go_on()
