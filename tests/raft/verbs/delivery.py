"""deliver-msgs, send-snapshot and report-unreachable: the network's commands."""

from __future__ import annotations

from chronik.raft.messages import Message, MessageKind
from tests.raft.interaction import REFUSALS, Command, Environment


def deliver_messages(environment: Environment, command: Command) -> None:
    kind = command.option("type")
    handled = 0
    for key, values in command.arguments:
        if not values:
            handled += deliver(environment, int(key), kind=kind)
        elif key == "drop":
            handled += sum(deliver(environment, int(value), kind=kind, drop=True) for value in values)
    if not handled:
        environment.write("no messages\n")


def deliver(environment: Environment, node_id: int, *, kind: str = "", drop: bool = False) -> int:
    """Reports from a node's own threads cannot be lost."""
    chosen = [
        parcel
        for parcel in environment.parcels
        if parcel.to == node_id and kind in ("", parcel.kind) and not (drop and parcel.is_local)
    ]
    environment.parcels = [parcel for parcel in environment.parcels if all(parcel is not each for each in chosen)]
    for parcel in chosen:
        environment.write(("dropped: " if drop else "") + parcel.text + "\n")
        refusal = None if drop else parcel.deliver()
        if refusal:
            environment.write(REFUSALS[refusal] + "\n")
    return len(chosen)


def send_snapshot(environment: Environment, command: Command) -> None:
    """By hand, past the leader's own book-keeping."""
    sender, to = command.nodes()
    node = environment.nodes[sender]
    message = Message(MessageKind.SNAPSHOT, to, sender, node.core.term, snapshot=node.history[-1])
    parcel = environment.parcel(message)
    environment.parcels.append(parcel)
    environment.write(parcel.text + "\n")


def report_unreachable(environment: Environment, command: Command) -> None:
    node_id, peer = command.nodes()
    environment.nodes[node_id].core.report_unreachable(peer)
