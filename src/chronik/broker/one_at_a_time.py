"""Requests that are carried out in the order in which a connection sent them, each after the one before has its answer.

Most requests of a connection may overlap, because only their answers have an order. Requests about one transaction may
not: the coordinator refuses a second one while the first is on its way to the log (CONCURRENT_TRANSACTIONS). A client
that sent both at once, as librdkafka does, would have to wait and send it again.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from chronik.broker.connection import ServerConnection
    from chronik.broker.context import Context

T = TypeVar("T")


def one_at_a_time(context: Context, work: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
    """The work of a handler. Later requests of its connection start when it is done."""
    context.connection.hold_back()  # now, not when the coroutine starts
    return _released(context.connection, work)


async def _released(connection: ServerConnection, work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    finally:
        connection.go_on()
