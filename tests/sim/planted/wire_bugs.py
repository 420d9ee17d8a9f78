"""Bugs of a quorum that trusts what it should not: unknown peers, and duplicate frames."""

from __future__ import annotations

import pytest

from chronik.raft import driver
from chronik.raft.admission import Admission
from chronik.raft.core import Core
from chronik.raft.errors import Refusal
from chronik.raft.messages import Message, MessageKind
from chronik.raft.transport import TcpTransport


def strangers_are_heard(patch: pytest.MonkeyPatch) -> None:
    """Every peer that says hello is a member, whatever its cluster, and all its claims are accepted."""
    patch.setattr(TcpTransport, "check_cluster", lambda self, hello: None)
    patch.setattr(Admission, "check", lambda self, hello, own: None)
    patch.setattr(Admission, "is_member", lambda self, node_id: True)
    patch.setattr(driver, "implausible", lambda message, **_: None)


def votes_that_come_twice_count_twice(patch: pytest.MonkeyPatch) -> None:
    step = Core.step

    def count(self: Core, message: Message) -> Refusal | None:
        is_granted = message.kind in (MessageKind.VOTE_REPLY, MessageKind.PRE_VOTE_REPLY) and not message.reject
        if is_granted and message.sender in self.votes:
            silent = [voter for voter in self.members.voters if voter not in self.votes]
            self.votes.update(dict.fromkeys(silent[:1], True))
        return step(self, message)

    patch.setattr(Core, "step", count)
