"""Errors of requests from node to node, beside those of a connection (`wire.peer_errors`):

Unreachable          as there: the request may have been sent, and applied
  NotSent            the request was never sent, so it can be repeated without thought
    QueueFull        ... because too many wait for the same node already
"""

from __future__ import annotations

from chronik.wire.peer_errors import Unreachable


class NotSent(Unreachable):
    """The node was not reached in time, or its address is not known."""


class QueueFull(NotSent):
    """Slow down: the node answers more slowly than it is asked."""
