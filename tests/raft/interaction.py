"""A cluster of cores in memory, driven by the verbs of recorded Raft interactions (see verbs/).

Each node has a stable log, a history of snapshots, and two threads in name: one that appends and one that applies, used
when the node writes asynchronously. Messages lie in one list until a verb delivers or drops them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from chronik.raft.changes import ChangeSet
from chronik.raft.core import Core
from chronik.raft.errors import Refusal
from chronik.raft.messages import Entry, EntryKind, Membership, Message, Ready, Snapshot
from chronik.raft.stable_log import StableLog
from tests.raft import describing

LEVELS = ("DEBUG", "INFO", "WARN", "ERROR", "FATAL", "NONE")
REFUSALS = {
    Refusal.PROPOSAL_DROPPED: "raft proposal dropped",
    Refusal.UNKNOWN_PEER: "raft: cannot step as peer not found",
}


@dataclass
class Command:
    """One command line: its name, its arguments in order, and the lines below it."""

    name: str
    arguments: list[tuple[str, list[str]]]
    body: str = ""

    def nodes(self) -> list[int]:
        return [int(key) for key, values in self.arguments if not values and key.isdigit()]

    def option(self, name: str, default: str = "") -> str:
        return next((values[0] for key, values in self.arguments if key == name and values), default)

    def options(self, name: str) -> list[int]:
        return [int(value) for key, values in self.arguments if key == name for value in values]

    def flag(self, name: str) -> bool:
        return self.option(name, "false") == "true"


@dataclass
class Parcel:
    """Something on its way to a node: a message, or the report of one of the node's own threads."""

    to: int
    kind: str
    text: str
    is_local: bool
    deliver: Callable[[], Refusal | None]


@dataclass
class Work:
    """The work of one of a node's threads, and the message that it sends when done."""

    text: str
    do: Callable[[], None]
    responses: list[Parcel]


@dataclass
class Node:
    core: Core
    stable: StableLog
    history: list[Snapshot]
    append_work: list[Work] = field(default_factory=list)
    apply_work: list[Work] = field(default_factory=list)

    def append(self, ready: Ready) -> None:
        if ready.snapshot:
            self.stable.restart_behind(ready.snapshot.index, ready.snapshot.term)
        self.stable.append(ready.entries)

    def apply(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            members, update = self.history[-1].membership, entry.data
            if entry.kind is not EntryKind.NORMAL:
                changes = ChangeSet.of(entry)
                members, update = self.core.apply_change(changes), changes.context
            data = self.history[-1].data + update
            self.history.append(Snapshot(entry.index, entry.term, members, data))


class Environment:
    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self.parcels: list[Parcel] = []
        self.level = "DEBUG"
        self._written: list[str] = []
        self._indent = ""

    def write(self, text: str) -> None:
        if self.level != "NONE":
            self._written.append(describing.indented(text, self._indent))

    def refuse(self, text: str) -> None:
        """Says why a command was not carried out, at every level: silence would look like success."""
        self._written.append(text)

    def written(self) -> str:
        text = "".join(self._written)
        self._written.clear()
        return text

    def indented(self, title: str, work: Callable[[], None]) -> None:
        self.write(f"> {title}\n")
        before, self._indent = self._indent, self._indent + "  "
        work()
        self._indent = before

    def parcel(self, message: Message) -> Parcel:
        return Parcel(
            to=message.to,
            kind=describing.KIND_NAMES[message.kind],
            text=describing.message(message),
            is_local=message.sender == message.to,
            deliver=lambda: self.nodes[message.to].core.step(message),
        )

    def add_node(self, core: Core, stable: StableLog, history: list[Snapshot]) -> None:
        self.nodes[core.id] = Node(core, stable, history)

    def next_id(self) -> int:
        return len(self.nodes) + 1


def empty_history() -> list[Snapshot]:
    return [Snapshot(0, 0, Membership())]
