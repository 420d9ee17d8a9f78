"""propose and propose-conf-change."""

from __future__ import annotations

from chronik.raft.changes import Change, ChangeSet
from chronik.raft.core import Core
from chronik.raft.errors import Dropped, Refusal
from chronik.raft.messages import NOBODY
from tests.raft.describing import ACTION_LETTERS
from tests.raft.interaction import REFUSALS, Command, Environment

ACTIONS = {letter: action for action, letter in ACTION_LETTERS.items()}


def propose(environment: Environment, command: Command) -> None:
    data = command.arguments[1][0].encode()
    try:
        environment.nodes[command.nodes()[0]].core.propose([data])
    except Dropped:
        environment.refuse(REFUSALS[Refusal.PROPOSAL_DROPPED])


def propose_change(environment: Environment, command: Command) -> None:
    """v, l, r, u before a node's number: make it a voter, make it a learner, remove it, only say it changed."""
    changes = tuple(Change(ACTIONS[word[0]], int(word[1:]) or NOBODY) for word in command.body.split())
    is_single = command.flag("v1")
    if is_single and (len(changes) > 1 or command.option("transition", "auto") != "auto"):
        environment.refuse("v1 conf change can only have one operation and no transition")
        return
    _propose(environment, environment.nodes[command.nodes()[0]].core, ChangeSet(changes, is_single=is_single))


def _propose(environment: Environment, core: Core, changes: ChangeSet) -> None:
    try:
        core.propose_change(changes)
    except Dropped:
        environment.refuse(REFUSALS[Refusal.PROPOSAL_DROPPED])
