"""The values the consensus core takes and gives: entries, messages, snapshots, and `Ready` with the caller's duties.

Values only: no behaviour, no I/O. Node ids start at 0; -1 means nobody. Index 0 is before the first entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

NOBODY = -1  # 0 is a node like any other: Kafka's configurations often begin with it


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
        """What the entry counts against every size limit: its kind, term and index as tagged varints, and its data."""
        data_bytes = len(self.data)
        size_bytes = 4 + ((self.term.bit_length() + 6) // 7 or 1) + ((self.index.bit_length() + 6) // 7 or 1)
        return size_bytes + 1 + (data_bytes.bit_length() + 6) // 7 + data_bytes if data_bytes else size_bytes


class Membership(NamedTuple):
    """Who votes and who only listens; both sorted, no id in both."""

    voters: tuple[int, ...] = ()
    learners: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state machine after `index`, with the members of that moment: without them a restored node cannot vote."""

    index: int
    term: int
    membership: Membership
    data: bytes = b""


class HardState(NamedTuple):
    """What must survive a crash besides the entries. `commit` may lag: it is only a hint at restart."""

    term: int = 0
    vote: int = NOBODY
    commit: int = 0


class Role(IntEnum):
    FOLLOWER = 0
    CANDIDATE = 1
    LEADER = 2
    PRE_CANDIDATE = 3


class SoftState(NamedTuple):
    """What a caller may show or use for routing; it is lost at a crash."""

    leader: int
    role: Role


class MessageKind(IntEnum):
    """Kinds of message. The numbers are those on the wire between nodes: never reuse one."""

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
    COMPARE = 15  # a restarted voter tells where its log ends, and asks where the receiver's does
    COMPARE_REPLY = 16


FROM_LEADER = frozenset({MessageKind.APPEND, MessageKind.HEARTBEAT, MessageKind.SNAPSHOT})
PROMISES = frozenset(
    {MessageKind.APPEND_REPLY, MessageKind.VOTE_REPLY, MessageKind.PRE_VOTE_REPLY}
)  # true once this node's disk says so
REPLIES = PROMISES | {MessageKind.HEARTBEAT_REPLY, MessageKind.READ_INDEX_REPLY, MessageKind.COMPARE_REPLY}
FORCED = b"transfer"  # context of a vote asked for by the old leader: the promise to it does not hold votes back
ABSTAINS = b"abstains"  # context of an answer to an append: it is on disk, but its sender does not remember its votes


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `index` and `log_term` name a log position: before the entries, a candidate's end, or answered."""

    kind: MessageKind
    to: int
    sender: int = NOBODY
    term: int = 0  # 0: of no term (forwarded proposals and reads, transfers, comparisons)
    log_term: int = 0
    index: int = 0
    entries: tuple[Entry, ...] = ()
    commit: int = 0
    snapshot: Snapshot | None = None
    reject: bool = False  # of a heartbeat: not the leader, but to vote for anybody just now
    hint: int = 0  # with reject: where the sender's log may still agree
    context: bytes = b""


@dataclass(frozen=True, slots=True)
class ReadState:
    """A read with this context is linearizable once `index` is applied."""

    index: int
    context: bytes


@dataclass(frozen=True, slots=True)
class Persisted:
    """What to tell the core once a Ready's bytes are durable. The term tells a late report from a valid one."""

    term: int
    index: int = 0  # last entry of the log at that time; 0: no entry was waiting for the disk
    log_term: int = 0
    snapshot_index: int = 0


class Ready(NamedTuple):
    """What the caller owes.

    At once: send `messages`. In order: make `snapshot`, `entries` and `hard_state` durable together, then send
    `after_persist` (what is addressed to this node goes back into `step`) and report `persisted`. Sending a promise
    before the disk holds it could vote twice after a crash, or lose an acknowledged entry.
    Apply `committed` in order, then report it. Entries to persist void every entry at or behind their first index.
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
        """Then the commit itself must be durable before anybody acts on it: a restart must not ask those who left."""
        return any(entry.kind is not EntryKind.NORMAL for entry in self.committed)

    @property
    def touches_disk(self) -> bool:
        return bool(self.entries or self.hard_state or self.snapshot or self.after_persist)
