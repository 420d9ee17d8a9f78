"""campaign, transfer-leadership and forget-leader."""

from __future__ import annotations

from tests.raft.interaction import Command, Environment


def campaign(environment: Environment, command: Command) -> None:
    environment.nodes[command.nodes()[0]].core.campaign()


def transfer_leadership(environment: Environment, command: Command) -> None:
    environment.nodes[int(command.option("from"))].core.transfer_leadership(int(command.option("to")))


def forget_leader(environment: Environment, command: Command) -> None:
    environment.nodes[command.nodes()[0]].core.forget_leader()
