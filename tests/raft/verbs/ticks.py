"""tick-election, tick-heartbeat and set-randomized-election-timeout: time passes for one node."""

from __future__ import annotations

from tests.raft.interaction import Command, Environment


def tick_election(environment: Environment, command: Command) -> None:
    core = environment.nodes[command.nodes()[0]].core
    for _ in range(core.config.election_ticks):
        core.tick()


def tick_heartbeat(environment: Environment, command: Command) -> None:
    core = environment.nodes[command.nodes()[0]].core
    for _ in range(core.config.heartbeat_ticks):
        core.tick()


def set_election_timeout(environment: Environment, command: Command) -> None:
    environment.nodes[command.nodes()[0]].core.election_timeout_ticks = int(command.option("timeout"))
