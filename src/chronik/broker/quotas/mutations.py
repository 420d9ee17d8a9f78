"""Changes of topics and partitions, charged to the caller's `controller_mutation_rate`.

In versions with THROTTLING_QUOTA_EXCEEDED, changes above the quota are refused with that error. For older clients,
changes are made and the client waits afterwards. A request that only validates is not charged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from chronik.broker.context import Context

T = TypeVar("T")

MESSAGE = "The throttling quota has been exceeded."


def within_quota(
    context: Context, items: Sequence[T], partitions_of: Callable[[T], int], *, refuses_since: int
) -> tuple[list[T], list[T]]:
    """The items within the caller's quota, and the refused ones. `partitions_of` returns the cost of an item."""
    quotas = context.services.quotas
    permitted: list[T] = []
    refused: list[T] = []
    for item in items:
        count = partitions_of(item)
        if context.version < refuses_since:
            wait_ms = quotas.changed_anyway(context.session, context.client_id, count)
            permitted.append(item)
        else:
            wait_ms = quotas.changes(context.session, context.client_id, count)
            (refused if wait_ms else permitted).append(item)
        context.throttle_ms = max(context.throttle_ms, wait_ms)
    return permitted, refused
