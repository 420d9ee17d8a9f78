"""Handlers that answer from metadata: they see an image that shows all that was acknowledged anywhere before.

    @api(DescribeClusterRequest, DescribeClusterResponse)
    @reads_metadata
    def describe_cluster(request, context): ...

With a lease that costs a comparison. Without one the leader is asked first; when no leader answers, the connection is
closed, so that the client tries another node, unless the API has an answer of its own for that (`otherwise`).
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
    """`otherwise` answers when the metadata cannot be read now, or returns None where it has no answer either."""

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
    answer = handle(request, context)
    return await answer if hasattr(answer, "__await__") else answer  # a computation is run by whoever asked
