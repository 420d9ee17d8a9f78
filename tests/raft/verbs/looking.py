"""raft-log, raft-state, status and log-level: looking changes nothing."""

from __future__ import annotations

from chronik.raft.messages import Role
from tests.raft import describing
from tests.raft.interaction import LEVELS, Command, Environment
from tests.raft.verbs.nodes import show_log


def log_level(environment: Environment, command: Command) -> None:
    set_level(environment, command.arguments[0][0])


def set_level(environment: Environment, name: str) -> None:
    if name.upper() not in LEVELS:
        environment.refuse(f"log levels must be either of [{' '.join(LEVELS)}]")
        return
    environment.level = name.upper()


def raft_log(environment: Environment, command: Command) -> None:
    show_log(environment, command.nodes()[0])


def raft_state(environment: Environment, command: Command) -> None:
    for node_id, node in environment.nodes.items():
        core = node.core
        votes = "Voter" if node_id in core.members.voters else "Non-Voter"
        role = describing.ROLE_NAMES[core.role]
        environment.write(f"{node_id}: {role} ({votes}) Term:{core.term} Lead:{describing.leader(core.leader)}\n")


def status(environment: Environment, command: Command) -> None:
    core = environment.nodes[command.nodes()[0]].core
    if core.role is Role.LEADER:
        for node_id, progress in core.progress.items():
            environment.write(f"{node_id}: {describing.progress(progress)}\n")
