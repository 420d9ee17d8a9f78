"""The inputs and outputs of the consensus core: entries, messages, snapshots, and `Ready` with the caller's duties.

Values only: no behaviour, no I/O. Node ids start at 0; -1 means no node. Index 0 is before the first entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

NOBODY = -1  # 0 is a valid id: Kafka's configurations often begin with it


class EntryKind(IntEnum):
    NORMAL = 0  # bytes of the state machine; empty when a new leader opens its term
    CHANGE = 1  # one membership change
    CHANGES = 2  # a list of membership changes, possibly empty


@dataclass(frozen=True, slots=True)
class Entry:
    term: int
    index: int
    kind: EntryKind = EntryKind.NORMAL
    data: bytes = b""

    @property
    def size_bytes(self) -> int:
        """What the entry adds to every size limit: kind, term and index as tagged varints, and its data."""
        data_bytes = len(self.data)
        size_bytes = 4 + ((self.term.bit_length() + 6) // 7 or 1) + ((self.index.bit_length() + 6) // 7 or 1)
        return size_bytes + 1 + (data_bytes.bit_length() + 6) // 7 + data_bytes if data_bytes else size_bytes


class Membership(NamedTuple):
    """Voters and learners; each sorted, and no id in both."""

    voters: tuple[int, ...] = ()
    learners: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state machine after `index`, with the members at that index: a restored node needs them to vote."""

    index: int
    term: int
    membership: Membership
    data: bytes = b""


class HardState(NamedTuple):
    """What must survive a crash besides the entries. `commit` may lag: at restart it is only a lower bound."""

    term: int = 0
    vote: int = NOBODY
    commit: int = 0


class Role(IntEnum):
    FOLLOWER = 0
    CANDIDATE = 1
    LEADER = 2
    PRE_CANDIDATE = 3


class SoftState(NamedTuple):
    """What a caller may display or use for routing. Lost at a crash."""

    leader: int
    role: Role


class MessageKind(IntEnum):
    """Kinds of message. The numbers are wire format: never reuse one."""

    PROPOSE = 1
    APPEND = 2
    APPEND_REPLY = 3
    VOTE = 4
    VOTE_REPLY = 5
    PRE_VOTE = 6
    PRE_VOTE_REPLY = 7
    SNAPSHOT = 8
    HEARTBEAT = 9
    HEARTBEAT_REPLY = 10
    TRANSFER_LEADER = 11
    TIMEOUT_NOW = 12
    READ_INDEX = 13
    READ_INDEX_REPLY = 14
    COMPARE = 15  # a restarted voter states where its log ends, and asks for the receiver's end
    COMPARE_REPLY = 16


FROM_LEADER = frozenset({MessageKind.APPEND, MessageKind.HEARTBEAT, MessageKind.SNAPSHOT})
PROMISES = frozenset(
    {MessageKind.APPEND_REPLY, MessageKind.VOTE_REPLY, MessageKind.PRE_VOTE_REPLY}
)  # true once this node's disk says so
REPLIES = PROMISES | {MessageKind.HEARTBEAT_REPLY, MessageKind.READ_INDEX_REPLY, MessageKind.COMPARE_REPLY}
FORCED = b"transfer"  # context of a vote that the old leader requested: the promise to it does not apply
ABSTAINS = b"abstains"  # context of an append's answer: the sender has it on disk but does not remember its votes


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `index` and `log_term` are a log position: before the entries, a candidate's end, or
    acknowledged."""

    kind: MessageKind
    to: int
    sender: int = NOBODY
    term: int = 0  # 0: no term (forwarded proposals and reads, transfers, comparisons)
    log_term: int = 0
    index: int = 0
    entries: tuple[Entry, ...] = ()
    commit: int = 0
    snapshot: Snapshot | None = None
    reject: bool = False  # in a heartbeat's answer: refuses to vote now, does not refuse the leader
    hint: int = 0  # with reject: where the sender's log may still agree
    context: bytes = b""


@dataclass(frozen=True, slots=True)
class ReadState:
    """A read with this context is linearizable once `index` is applied."""

    index: int
    context: bytes


@dataclass(frozen=True, slots=True)
class Persisted:
    """Pass this to the core once a Ready's bytes are durable. The term distinguishes a late report from a valid one."""

    term: int
    index: int = 0  # last entry of the log at that time; 0: no entry to write
    log_term: int = 0
    snapshot_index: int = 0


class Ready(NamedTuple):
    """What the caller must do.

    Immediately: send `messages`. In order: make `snapshot`, `entries` and `hard_state` durable together, then send
    `after_persist` (messages to this node go back into `step`) and report `persisted`. Sending a promise before it is
    durable could lead to a second vote after a crash, or lose an acknowledged entry.
    Apply `committed` in order, then report it. `entries` replace every entry at or after their first index.
    """

    soft_state: SoftState | None
    hard_state: HardState | None
    read_states: tuple[ReadState, ...]
    entries: tuple[Entry, ...]
    snapshot: Snapshot | None
    committed: tuple[Entry, ...]
    messages: tuple[Message, ...]
    after_persist: tuple[Message, ...]
    persisted: Persisted | None
    must_sync: bool

    @property
    def commits_change(self) -> bool:
        """If so, make the commit durable before acting on it: a restarted node must not ask removed members."""
        return any(entry.kind is not EntryKind.NORMAL for entry in self.committed)

    @property
    def touches_disk(self) -> bool:
        return bool(self.entries or self.hard_state or self.snapshot or self.after_persist)
