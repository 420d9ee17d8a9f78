"""Linearizable reads of metadata: a handler sees an image with every change that any node acknowledged before.

    @api(DescribeClusterRequest, DescribeClusterResponse)
    @reads_metadata
    def describe_cluster(request, context): ...

With a lease this costs a comparison. Without one, the node asks the leader first. If no leader responds, the connection
is closed, so that the client tries another node, unless the API has a response for this case (`otherwise`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from chronik.broker.errors import Unanswerable
from chronik.metadata.errors import MetadataError

if TYPE_CHECKING:
    from chronik.broker.context import Context

Handle = TypeVar("Handle", bound=Callable[..., Any])


def reads_metadata(handle: Handle, *, otherwise: Callable[..., Any] | None = None) -> Handle:
    """`otherwise` responds when the metadata cannot be read now; it returns None if it has no response either."""

    @wraps(handle)
    def checked(request: Any, context: Context) -> Any:
        if context.services.store.current() is not None:
            return handle(request, context)
        return _confirmed(handle, otherwise, request, context)

    return checked  # type: ignore[return-value]


async def _confirmed(
    handle: Callable[..., Any], otherwise: Callable[..., Any] | None, request: Any, context: Context
) -> Any:
    try:
        await context.services.store.read()
    except MetadataError as fault:
        unconfirmed = otherwise(request, context) if otherwise is not None else None
        if unconfirmed is None:
            raise Unanswerable(f"cannot confirm metadata: {fault}") from fault
        return unconfirmed
    response = handle(request, context)
    return await response if hasattr(response, "__await__") else response  # the dispatcher runs generators in slices
