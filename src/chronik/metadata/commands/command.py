"""Metadata commands: data that travels between nodes, the type of the reply, and how the command is executed.

    class FenceBroker(ControllerCommand[FenceBrokerReply]):
        broker_id: int32

        def decide(self, state: ControllerState) -> Decision[FenceBrokerReply]: ...

A command is in one file of this package and has one row in `registry`. Its random parts (ids, seeds) are drawn where it
is submitted, so deciding it twice, on two controllers, gives the same cluster. Commands for many items reply with an
error code for each item; commands for one item are refused as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar, get_args

from chronik.raft.addresses import Address
from chronik.runtime.interfaces import Clock, Randomness
from chronik.wire.notation import Data

if TYPE_CHECKING:
    from chronik.metadata.decisions.decision import ControllerState, Decision
    from chronik.metadata.sessions import BrokerSessions
    from chronik.raft.driver import RaftNode


class RequestId(NamedTuple):
    """Identifies one command of one node permanently, so that repetitions are applied once."""

    node_id: int
    incarnation: int  # of the node's process: a later one has a higher number
    sequence: int  # counts the node's commands
    answered_below: int  # the node has all replies below this sequence


class Reply(Data, versions="0", flexible="0+"):
    """Base of all replies."""


R = TypeVar("R", bound=Reply)


class Command(Data, Generic[R], versions="0", flexible="0+"):
    """Base of all commands. `reply_type` is the class in brackets."""

    reply_type: ClassVar[type[Reply]]
    is_own_duty: ClassVar[bool] = False  # sent by the broker `broker_id` about itself: always forwarded
    needs_no_image: ClassVar[bool] = False  # a refusal is final even if this node's image never catches up

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        reply = get_args(cls.__orig_bases__[0])  # type: ignore[attr-defined]
        if reply and not isinstance(reply[0], TypeVar):
            cls.reply_type = reply[0]

    def draw_ids(self, randomness: Randomness) -> None:
        """Fills in missing random ids, once, where the command is submitted."""


class ControllerCommand(Command[R]):
    """Decided by the controller: a decision is records and a reply."""

    def decide(self, state: ControllerState) -> Decision[R]:
        """Returns a Decision or raises MetadataRefused. Changes nothing, waits for nothing, reads no clock."""
        raise NotImplementedError


class SessionCommand(ControllerCommand[R]):
    """A ControllerCommand that reports whether a broker is alive."""

    def update_sessions(self, sessions: BrokerSessions, decision: Decision[R], now_ns: int) -> None:
        """Called after the decision. Sessions are the controller's own state, not in the log."""
        raise NotImplementedError


NOWHERE = Address("", 0)  # of a founding node without a quorum listener


class LedQuorum(NamedTuple):
    """The quorum as seen by its leader."""

    raft: RaftNode
    clock: Clock
    own_address: Address | None


class QuorumCommand(Command[R]):
    """Executed by the quorum's leader, about the quorum itself. It writes no records."""

    changes_members: ClassVar[bool] = False  # one such command at a time

    async def carry_out(self, quorum: LedQuorum) -> R:
        raise NotImplementedError
