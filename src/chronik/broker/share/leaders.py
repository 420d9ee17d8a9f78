"""What both share APIs say in the same words: refused members, current leaders, and the nodes where they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from chronik.broker.permissions import GROUP, READ
from chronik.broker.share.sessions import Place
from chronik.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from chronik.broker.context import Context
    from chronik.metadata.image import Broker

SHARE_FEATURE: Final = "share.version"
MEMBER_ID_CHARS_MAX: Final = 36
N = TypeVar("N")


def refused(group_id: str | None, member_id: str | None, context: Context) -> ErrorCode | None:
    """In Kafka's order. A member id is the text of a UUID at most."""
    if context.services.store.image.features.get(SHARE_FEATURE, 0) < 1:
        return ErrorCode.UNSUPPORTED_VERSION
    if group_id is None:
        return ErrorCode.INVALID_REQUEST
    if not context.allows(READ, GROUP, group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    if not member_id or len(member_id) > MEMBER_ID_CHARS_MAX:
        return ErrorCode.INVALID_REQUEST
    return None


def lock_ms(group_id: str, context: Context) -> int:
    return context.services.share_partitions.settings(group_id).record_lock_duration_ms


class Leaders:
    """Of the partitions in one response that another node leads."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._named: dict[int, Broker] = {}

    def of(self, place: Place) -> tuple[int, int] | None:
        """Leader id and epoch, if the partition exists."""
        image = self._context.services.store.image
        topic = image.topics.get(place.topic_id)
        state = None if topic is None else topic.partition(place.partition)
        if state is None:
            return None
        broker = image.brokers.get(state.leader)
        if broker is not None:
            self._named[broker.broker_id] = broker
        return state.leader, state.leader_epoch

    def endpoints(self, made: Callable[..., N]) -> list[N]:
        found = []
        for broker in self._named.values():
            endpoint = broker.endpoint(self._context.session.listener)
            if endpoint is not None:
                found.append(made(node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack))
        return found
