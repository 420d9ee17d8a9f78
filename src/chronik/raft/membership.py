"""The current members: applies committed changes, and lets the leader act on them immediately.

A change takes effect when it is applied, on every node at the same log position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.raft import appending, roles
from chronik.raft.changes import ChangeSet, changed
from chronik.raft.messages import NOBODY, Membership, Role
from chronik.raft.progress import Inflights, Progress
from chronik.runtime.invariants import check

if TYPE_CHECKING:
    from chronik.raft.core import Core


def apply(core: Core, changes: ChangeSet) -> Membership:
    """Every node decides the same from the same members: a change that cannot be applied is ignored everywhere."""
    members = changed(core.members, changes.changes)
    if members is not None:
        switch(core, members)
    return core.members


def switch(core: Core, members: Membership) -> None:
    core.members = members
    check(
        core.log.applied <= core.log.committed,
        "3 members change by what is committed",
        applied=core.log.applied,
        committed=core.log.committed,
    )
    core.progress = {
        node_id: _followed(core, node_id, is_learner=node_id in members.learners)
        for node_id in sorted((*members.voters, *members.learners))
    }
    check(
        len(core.progress) == len(members.voters) + len(members.learners),
        "1 every member is followed once",
        followed=sorted(core.progress),
        members=members,
    )
    if core.role is not Role.LEADER:
        return
    if core.id not in members.voters:
        # Without the option a removed leader continues until its followers elect another: they may need its commit.
        if core.config.step_down_on_removal:
            roles.become_follower(core, core.term, NOBODY)
        return
    if appending.advance_commit(core):
        appending.broadcast(core)  # with fewer voters, fewer answers may suffice
    else:
        for node_id in core.progress:
            if node_id != core.id:
                appending.send_append(core, node_id, even_if_empty=False)
    if core.transferee not in members.voters:
        core.transferee = NOBODY


def _followed(core: Core, node_id: int, *, is_learner: bool) -> Progress:
    known = core.progress.get(node_id)
    if known is not None:
        known.is_learner = is_learner
        return known
    return Progress(
        match=0,
        next_index=max(core.log.last_index, 1),
        is_learner=is_learner,
        inflights=Inflights(core.config.inflight_messages_max, core.config.inflight_bytes_max),
        recently_active=True,  # it had no chance to respond; a quorum check now must not count it as lost
    )
