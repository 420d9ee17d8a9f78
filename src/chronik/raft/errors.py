"""Errors for callers of the quorum. A peer's message raises none of these: `Core.step` returns a Refusal instead."""

from __future__ import annotations

from enum import Enum


class RaftError(Exception):
    """Base of all errors of this package."""


class Refusal(Enum):
    """Why `Core.step` ignored a message. The caller may log it; no state changed."""

    PROPOSAL_DROPPED = "proposal dropped"
    UNKNOWN_PEER = "an answer from a node that is not a member"


class Dropped(RaftError):
    """The proposal never entered the log: it is safe to propose again."""


class NotLeader(Dropped):
    def __init__(self, leader_id: int | None) -> None:
        self.leader_id = leader_id
        where = f"node {leader_id} leads" if leader_id is not None else "no leader is known yet"
        super().__init__(f"this node does not lead the quorum, {where}: send the command there")


class OutcomeUnknown(RaftError):
    """The proposal entered the log, but this node cannot say whether it will commit. Check before you repeat it."""


class Stopped(RaftError):
    """The node is stopping, by request or because its disk failed."""


class MembershipRefused(RaftError):
    """The change is not one step from the present members."""


class LogDamaged(RaftError):
    """Durable bytes are missing or altered. Nothing was truncated: restore the directory, or rejoin with an empty
    one."""

    def __init__(self, path: str, position: int, what: str) -> None:
        self.path, self.position = path, position
        super().__init__(
            f"{path} at byte {position}: {what}. It was durable before, so it is not cut: restore the file from a "
            f"copy; if other nodes of the quorum are sound, remove {path.rpartition('/')[0]} instead, and this node "
            "catches up from them before it votes"
        )


class MalformedMessage(RaftError):
    """A peer sent bytes that are not a valid message."""
