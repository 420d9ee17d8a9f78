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
DEAD: Final = "Dead"  # the state of an unknown group, whatever its kind


class Expiry(NamedTuple):
    """The parts of a group that may expire."""

    offsets_may_go: bool  # False: it is unknown which offsets its members still need
    since_ms: int  # retention starts at this time; NO_TIMESTAMP: at each commit
    group_may_go: bool  # whether the group is removed with the last of its offsets


class Group(Protocol):
    @property
    def group_id(self) -> str: ...

    @property
    def type(self) -> str:
        """In ListGroups' terms: `classic`, `consumer`, `share`, `streams`."""

    @property
    def state(self) -> str:
        """The name that clients get."""

    @property
    def protocol_type(self) -> str | None: ...

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member reads the topic, or might."""

    def may_commit(self, request: OffsetCommitRequest, version: int) -> ErrorCode:
        """Whether the sender may commit offsets now, according to its membership."""

    def may_commit_in_transaction(self, request: OffsetCommitRequest) -> ErrorCode:
        """Whether a transaction may commit offsets for the member that it names, if any."""

    def may_fetch_offsets(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Whether the sender may read offsets now. None and -1 are sent by operators and by clients without
        membership."""

    def may_delete_offsets(self) -> ErrorCode:
        """Whether offsets of topics that no member reads may be deleted."""

    def may_be_deleted(self) -> ErrorCode: ...

    def describe(self) -> DescribedGroup | None:
        """The DescribeGroups response; None if that API does not know the group."""

    def expire(self) -> Expiry: ...

    @property
    def is_stored(self) -> bool:
        """Whether the log holds records of the group itself, besides its offsets."""

    def removal(self) -> list[CoordinatorRecord]:
        """The records that remove the group from the log, without its offsets."""
