"""Membership changes as values: their bytes in the log, their effect on the members, and whether one may be proposed.

Old and new majorities overlap when at most one voter differs, so either may decide. A change that differs by more is
refused when proposed and ignored when committed. Learners may be added and removed in any number.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from chronik.raft.addresses import Address
from chronik.raft.errors import MalformedMessage
from chronik.raft.messages import NOBODY, Entry, EntryKind, Membership
from chronik.runtime.invariants import check

if TYPE_CHECKING:
    from chronik.raft.core import Core


class Action(IntEnum):
    ADD_VOTER = 1  # adds a node, or promotes a learner
    ADD_LEARNER = 2  # adds a node, or demotes a voter
    REMOVE = 3
    UPDATE = 4  # same members; for a caller that updates a member's data


class Change(NamedTuple):
    action: Action
    node_id: int


_HEADER = struct.Struct(">BH")
_CHANGE = struct.Struct(">Bq")
_FORMAT = 1


class ChangeSet(NamedTuple):
    changes: tuple[Change, ...]
    context: bytes = b""  # opaque to the core, applied with the change
    is_single: bool = False  # proposed as a single change; only the entry's kind differs

    @property
    def entry_kind(self) -> EntryKind:
        return EntryKind.CHANGE if self.is_single else EntryKind.CHANGES

    def encode(self) -> bytes:
        changes = b"".join(_CHANGE.pack(change.action, change.node_id) for change in self.changes)
        return _HEADER.pack(_FORMAT, len(self.changes)) + changes + self.context

    @classmethod
    def of(cls, entry: Entry) -> ChangeSet:
        try:
            version, count = _HEADER.unpack_from(entry.data)
            if version != _FORMAT:
                raise ValueError(f"format {version} is newer than this node, upgrade it")
            end = _HEADER.size + count * _CHANGE.size
            packed = entry.data[_HEADER.size : end]
            if len(entry.data) < end:
                raise ValueError(f"{count} changes announced, {len(packed)} bytes there")
            changes = tuple(Change(Action(action), node_id) for action, node_id in _CHANGE.iter_unpack(packed))
        except (struct.error, ValueError) as error:
            raise MalformedMessage(f"membership change at index {entry.index}: {error}") from error
        return cls(changes, entry.data[end:], is_single=entry.kind is EntryKind.CHANGE)

    @property
    def address(self) -> Address | None:
        """Address of the change's first node, if the context holds one. Raises MalformedMessage."""
        if not self.context or not self.changes:
            return None
        try:
            return Address.decode(self.context)
        except (struct.error, ValueError) as error:
            raise MalformedMessage(f"address of node {self.changes[0].node_id}: {error}") from error


def changed(members: Membership, changes: tuple[Change, ...]) -> Membership | None:
    """The members after the changes; None when that is more than one step away or leaves no voter."""
    voters, learners = set(members.voters), set(members.learners)
    for action, node_id in changes:
        if node_id == NOBODY or action is Action.UPDATE:
            continue
        voters.discard(node_id)
        learners.discard(node_id)
        if action is Action.ADD_VOTER:
            voters.add(node_id)
        elif action is Action.ADD_LEARNER:
            learners.add(node_id)
    if not voters or len(voters.symmetric_difference(members.voters)) > 1:
        return None
    check(
        voters.isdisjoint(learners),
        "1 no node both votes and learns",
        voters=sorted(voters),
        learners=sorted(learners),
    )
    return Membership(tuple(sorted(voters)), tuple(sorted(learners)))


def may_propose(core: Core, entry: Entry) -> bool:
    """Whether a leader accepts the change into its log: one at a time, one step away."""
    try:
        changes = ChangeSet.of(entry).changes
    except MalformedMessage:
        return False
    if not core.config.validates_changes:
        return True
    if core.pending_change_index > core.log.applied or not changes:
        return False
    return changed(core.members, changes) is not None
