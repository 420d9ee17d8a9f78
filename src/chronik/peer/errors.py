"""Errors of requests between nodes, in addition to those of a connection (`wire.peer_errors`):

Unreachable          as there: the request may have been sent, and applied
  NotSent            the request was never sent, so it is safe to repeat
    QueueFull        too many requests already wait for the same node
"""

from __future__ import annotations

from chronik.wire.peer_errors import Unreachable


class NotSent(Unreachable):
    """The node was not reached in time, or its address is unknown."""


class QueueFull(NotSent):
    """Slow down: requests arrive faster than the node answers."""
