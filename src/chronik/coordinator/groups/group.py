"""The interface of groups to offsets, descriptions and lists. Each kind implements it in a separate package.

A group answers questions about itself and returns records. It never writes, waits or sets a timer.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from chronik.coordinator.shard import CoordinatorRecord
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.describe_groups import DescribedGroup
from chronik.wire.messages.offset_commit import OffsetCommitRequest

NO_TIMESTAMP: Final = -1
DEAD: Final = "Dead"  # the state of a group that does not exist, whatever its kind


class Expiry(NamedTuple):
    """What may be removed of a group by age."""

    offsets_may_go: bool  # False: nothing is known about what its members still need
    since_ms: int  # retention counts from then; NO_TIMESTAMP: from each commit
    group_may_go: bool  # with the last of its offsets


class Group(Protocol):
    @property
    def group_id(self) -> str: ...

    @property
    def type(self) -> str:
        """As ListGroups names it: `classic`, `consumer`, `share`, `streams`."""

    @property
    def state(self) -> str:
        """As clients are told it."""

    @property
    def protocol_type(self) -> str | None: ...

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member reads the topic, or may do so."""

    def may_commit(self, request: OffsetCommitRequest, version: int) -> ErrorCode:
        """Whether the sender may commit offsets now, by its membership."""

    def may_commit_in_transaction(self, request: OffsetCommitRequest) -> ErrorCode:
        """Whether a transaction may commit offsets on behalf of the member that it names, if it names one."""

    def may_fetch_offsets(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Whether the sender may read offsets now; None and -1 are an operator, or a client that does not say."""

    def may_delete_offsets(self) -> ErrorCode:
        """Whether offsets of topics that nobody reads may be deleted."""

    def may_be_deleted(self) -> ErrorCode: ...

    def describe(self) -> DescribedGroup | None:
        """As DescribeGroups tells it; None: not known to that API."""

    def expire(self) -> Expiry: ...

    @property
    def is_stored(self) -> bool:
        """Whether the log holds records of the group itself, besides its offsets."""

    def removal(self) -> list[CoordinatorRecord]:
        """The records that remove the group from the log. Its offsets are not its own business."""
