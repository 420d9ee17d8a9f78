"""The coordinator's state of one member of a classic group.

Its protocols, its time-outs, its assignment, and its waiting request, if any. Pure data; the group and `rebalance`
decide about it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chronik.coordinator.groups.member_memory import MEMBER_BYTES, PROTOCOL_BYTES
from chronik.runtime.invariants import check
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.describe_groups import DescribedGroupMember
from chronik.wire.messages.group_records import MemberMetadata
from chronik.wire.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse, JoinGroupResponseMember
from chronik.wire.messages.sync_group import SyncGroupResponse

JoinReply = Callable[[JoinGroupResponse], None]
SyncReply = Callable[[SyncGroupResponse], None]
Protocols = tuple[tuple[str, bytes], ...]  # name and metadata, in order of preference

UNKNOWN_MEMBER_ID = ""  # sent by a member without an id


def protocols_of(offered: Sequence[JoinGroupRequestProtocol]) -> Protocols:
    return tuple((protocol.name, protocol.metadata) for protocol in offered)


def protocols_bytes(protocols: Protocols) -> int:
    return MEMBER_BYTES + sum([PROTOCOL_BYTES + len(name) + len(metadata) for name, metadata in protocols])


class Member:
    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "held_bytes",
        "is_new",
        "join_reply",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_reply",
    )

    def __init__(
        self,
        member_id: str,
        *,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.held_bytes = 0  # as counted by its group
        self.is_new = False  # until its first join is answered
        self.join_reply: JoinReply | None = (
            None  # while its JoinGroup waits; changed by ClassicGroup, which counts them
        )
        self.sync_reply: SyncReply | None = None  # while its SyncGroup waits

    @classmethod
    def from_record(cls, stored: MemberMetadata, protocol: str) -> Member:
        """The log only keeps the metadata of the selected protocol."""
        rebalance_timeout_ms = stored.rebalance_timeout
        return cls(
            stored.member_id,
            group_instance_id=stored.group_instance_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            rebalance_timeout_ms=stored.session_timeout if rebalance_timeout_ms == -1 else rebalance_timeout_ms,
            session_timeout_ms=stored.session_timeout,
            protocols=((protocol, stored.subscription),),
            assignment=stored.assignment,
        )

    @property
    def size_bytes(self) -> int:
        """The memory that this member's data takes."""
        return protocols_bytes(self.protocols) + len(self.assignment) + len(self.member_id) + len(self.client_id)

    @property
    def is_waiting(self) -> bool:
        """A member with a waiting request need not send heartbeats."""
        return self.join_reply is not None or self.sync_reply is not None

    def metadata(self, protocol: str | None) -> bytes:
        """The member's metadata for a protocol that it supports."""
        check(
            any(name == protocol for name, _ in self.protocols),
            "18 all members support the protocol of their group",
            member=self.member_id,
            protocol=protocol,
        )
        return next(metadata for name, metadata in self.protocols if name == protocol)

    def vote(self, candidates: frozenset[str]) -> str:
        check(
            any(name in candidates for name, _ in self.protocols),
            "18 all members support a protocol of their group",
            member=self.member_id,
            candidates=sorted(candidates),
        )
        return next(name for name, _ in self.protocols if name in candidates)

    def to_record(self, protocol: str | None, assignment: bytes) -> MemberMetadata:
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.metadata(protocol),
            assignment=assignment,
        )

    def to_joined(self, protocol: str | None) -> JoinGroupResponseMember:
        return JoinGroupResponseMember(
            member_id=self.member_id, group_instance_id=self.group_instance_id, metadata=self.metadata(protocol)
        )

    def to_described(self, protocol: str | None) -> DescribedGroupMember:
        """Without a selected protocol, as between generations, the metadata is omitted."""
        return DescribedGroupMember(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            member_metadata=b"" if protocol is None else self.metadata(protocol),
            member_assignment=self.assignment,
        )


def join_error(error: ErrorCode, member_id: str = UNKNOWN_MEMBER_ID) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error, protocol_name=None, leader="", member_id=member_id, members=[])


def sync_error(error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error, assignment=b"")
