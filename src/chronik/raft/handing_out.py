"""Invariants of a Ready, checked before the caller acts on it: the last moment before bytes and messages leave.

Changes nothing. The core calls it while it builds the Ready.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from chronik.raft.messages import NOBODY, Entry, HardState, MessageKind, Role
from chronik.runtime.invariants import broken

if TYPE_CHECKING:
    from chronik.raft.core import Core


def check_ready(
    core: Core, before: HardState, now: HardState, entries: Sequence[Entry], committed: Sequence[Entry]
) -> None:
    log = core.log
    if now.term < before.term:
        broken("2 a term never goes back", before=before.term, now=now.term)
    if now.commit < before.commit:
        broken("2 a commit index never goes back", before=before.commit, now=now.commit)
    if now.term == before.term and before.vote not in (NOBODY, now.vote):
        broken("1 one vote in a term", term=now.term, before=before.vote, now=now.vote)
    if now.commit > log.last_index:
        broken("3 what is committed is in the log", commit=now.commit, end=log.last_index)
    if core.role is Role.LEADER and core.leader != core.id:
        broken("1 a leader follows nobody else", leader=core.leader, term=now.term)
    if entries and (entries[-1].index != log.last_index or entries[0].index != log.last_index - len(entries) + 1):
        broken("28 entries to write are the end of the log", first=entries[0].index, end=log.last_index)
    if committed:
        if committed[0].index != log.applying + 1:
            broken("4 entries are applied in the order of the log", applying=log.applying, first=committed[0].index)
        if committed[-1].index - committed[0].index != len(committed) - 1:
            broken("4 no entry is left out of what is applied", first=committed[0].index, count=len(committed))
    for message in core.outbox_after_persist:
        if message.kind is not MessageKind.VOTE_REPLY or message.reject or message.term < core.term:
            continue
        if message.to != core.vote:
            broken("1 a vote leaves for the node that it was given to", to=message.to, vote=core.vote, term=core.term)
