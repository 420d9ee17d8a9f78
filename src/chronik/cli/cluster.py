"""`chronik cluster`: node health; adding, removing, draining and rebalancing nodes."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from chronik.cli.errors import CommandFailed, Misused
from chronik.cli.moving import Standing, carry_out
from chronik.cli.output import Column, Row, id_list, print_json, print_rows
from chronik.cli.session import DEFAULTS, DONE, REFUSED, Options, complain, progress, run
from chronik.cli.watching import WATCH_DEFAULTS, WatchOptions, show
from chronik.runtime.wording import counted

if TYPE_CHECKING:
    from chronik.client.admin.balance import Racks, Replicas
    from chronik.client.routing import ClusterClient
    from chronik.client.topology import TopicPartition, Topology

app = App(
    name="cluster",
    help="""\
Show node health; add, remove, drain and rebalance nodes.

For example:
  chronik cluster status
  chronik cluster add 4@host-4:9093
  chronik cluster rebalance --dry-run
  chronik cluster decommission 2
  chronik cluster remove 2""",
)

MOVE_COLUMNS = (
    Column("partition", "PARTITION"),
    Column("from", "FROM", id_list),
    Column("to", "TO", id_list),
)
_joining = re.compile(r"(?P<id>[0-9]+)@(?P<address>.+)")


@app.command
def status(*, options: WatchOptions = WATCH_DEFAULTS) -> int:
    """Show the quorum leader, and each node's role, state and replication lag.

    Without a leader, the command asks each node and shows which nodes answer. Some columns come from the nodes' admin
    listeners; they are empty if this machine cannot reach those. Exits with 1 if the quorum has no leader, or if
    two nodes at the same version report different state.

    For example:
      chronik cluster status
      chronik cluster status --format json | jq '.nodes[] | {node, lag_ms}'
    """

    async def work(cluster: ClusterClient) -> int:
        from chronik.cli.cluster_status import look, print_status, why_bad

        with progress("asking the nodes"):
            document = await look(cluster)
        if options.wants_json:
            print_json(document)
        else:
            print_status(document)
        faults = why_bad(document)
        for fault in faults:
            complain(fault)
        return REFUSED if faults else DONE

    return show(options, work, is_patient=True)


@app.command
def add(node: str, *, timeout_s: Annotated[int, Parameter(name="--timeout")] = 60, options: Options = DEFAULTS) -> int:
    """Add a node to the metadata quorum: it catches up, then it votes.

    The node must be running. Start it with an empty directory, a node.id of its own, a listener for the quorum
    (controller.listener.names), and controller.quorum.bootstrap.servers instead of a list of voters. Ctrl-C stops
    waiting; the cluster finishes within the time limit.

    For example:
      chronik cluster add 4@host-4:9093

    Parameters
    ----------
    node
        Its id and quorum listener, as id@host:port.
    timeout_s
        Seconds that the node may take to catch up; default: 60.
    """
    from chronik.client.addresses import parse_address
    from chronik.client.errors import BadAddress

    matched = _joining.fullmatch(node)
    if matched is None:
        raise Misused(f"{node!r} is not a node address: write id@host:port, for example 4@host-4:9093")
    try:
        address = parse_address(matched["address"])
    except BadAddress as error:
        raise Misused(str(error)) from error

    async def work(cluster: ClusterClient) -> None:
        from chronik.cli.adding import add_voter
        from chronik.client.admin import quorum

        print(f"waiting up to {timeout_s} s for node {matched['id']} to catch up", file=sys.stderr)
        with progress(f"waiting for node {matched['id']} to catch up") as shown:
            await add_voter(cluster, options, int(matched["id"]), address, timeout_s, shown)
            voters = (await quorum.describe(cluster)).voters
        if options.wants_json:
            print_json({"added": int(matched["id"]), "voters": list(voters)})
        else:
            print(f"node {matched['id']} is now a voter; voters: {id_list(voters)}")

    return run(options, work)


@app.command
def remove(node: int, *, force: bool = False, options: Options = DEFAULTS) -> int:
    """Remove a node from the quorum, and forget its broker if it is gone.

    A node that still holds replicas is not removed; drain it first with `chronik cluster decommission`.

    For example:
      chronik cluster remove 2

    Parameters
    ----------
    node
        Id of the node.
    force
        Remove it even if it holds replicas; records that only it has are lost.
    """

    async def work(cluster: ClusterClient) -> None:
        from chronik.client.admin import nodes, quorum

        described, told = await nodes.describe(cluster), await quorum.describe(cluster)
        broker = next((each for each in described.nodes if each.node_id == node), None)
        if broker is None and node not in [member.node_id for member in told.members]:
            known = sorted({*(each.node_id for each in described.nodes), *(each.node_id for each in told.members)})
            raise CommandFailed(f"node {node} does not exist; known nodes: {id_list(known)}")
        held = _held_by(node, await cluster.refresh(None))
        if held and not force:
            raise CommandFailed(
                f"node {node} still holds {counted(held, 'replica')}: "
                f"drain it with `chronik cluster decommission {node}`, or lose them with --force"
            )
        votes, is_gone = node in told.voters, broker is not None and broker.is_fenced
        only_listens = not votes and broker is None  # an earlier removal broke off when the broker was forgotten
        if votes or only_listens:
            await quorum.remove(cluster, node)
        if is_gone:
            await quorum.unregister(cluster, node)
        if options.wants_json:
            print_json({"node": node, "voter_removed": votes, "left_quorum": only_listens, "broker_forgotten": is_gone})
        else:
            done = [
                *(["no longer votes"] if votes else []),
                *(["has left the quorum"] if only_listens else []),
                *(["is no longer registered as a broker"] if is_gone else []),
            ]
            print(f"node {node} {' and '.join(done) or 'does not vote'}")
        if broker is not None and not is_gone:
            print(
                f"its broker is still running: stop it, then run `chronik cluster remove {node}` again", file=sys.stderr
            )

    return run(options, work)


@app.command
def rebalance(*, dry_run: bool = False, cancel: bool = False, options: Options = DEFAULTS) -> int:
    """Balance replicas and leaders over brokers and racks, with as few moves as possible.

    Waits until all moves are done. Ctrl-C stops waiting, not the moves.

    For example:
      chronik cluster rebalance --dry-run
      chronik cluster rebalance

    Parameters
    ----------
    dry_run
        Show the moves; move nothing.
    cancel
        Cancel all moves in progress.
    """

    async def work(cluster: ClusterClient) -> int:
        if cancel:
            return await _cancel(cluster, options)
        topology = await cluster.refresh(None)
        racks = {broker.node_id: broker.rack for broker in topology.brokers.values()}
        await _move(cluster, topology, racks, options, dry_run=dry_run, evens=True)
        return DONE

    return run(options, work)


@app.command
def decommission(
    node: int,
    *,
    dry_run: bool = False,
    timeout_s: Annotated[int, Parameter(name="--timeout")] = 10,
    options: Options = DEFAULTS,
) -> int:
    """Drain a node: move its replicas elsewhere, then remove its vote. Stop it afterwards.

    Shows progress, the time left and what it waits for. Ctrl-C stops waiting, not the moves; `chronik cluster rebalance
    --cancel` cancels them.

    For example:
      chronik cluster decommission 2 --dry-run
      chronik cluster decommission 2

    Parameters
    ----------
    node
        Id of the node.
    dry_run
        Show the moves; move nothing.
    timeout_s
        Stop waiting after N seconds without progress; default: 10.
    """

    async def work(cluster: ClusterClient) -> int:
        from chronik.client.admin import quorum

        topology = await cluster.refresh(None)
        racks = {broker.node_id: broker.rack for broker in topology.brokers.values() if broker.node_id != node}
        if node not in topology.brokers and not _held_by(node, topology):
            raise CommandFailed(f"node {node} holds no replicas, and no broker with that id is alive")
        if not racks:
            raise CommandFailed(f"node {node} is the only broker: there is nowhere for its replicas to go")
        while True:
            await _move(cluster, topology, racks, options, dry_run=dry_run, evens=False, stalled_s=timeout_s)
            if dry_run:
                return DONE
            topology = await cluster.refresh(None)
            if not _held_by(node, topology):  # new topics may have come to it meanwhile
                break
        voters = (await quorum.describe(cluster)).voters
        if node in voters and len(voters) > 1:
            await quorum.remove(cluster, node)
        print(f"node {node} is drained: stop it, then run `chronik cluster remove {node}`", file=sys.stderr)
        return DONE

    return run(options, work)


def _held_by(node: int, topology: Topology) -> int:
    return sum(node in each.replicas for topic in topology.topics.values() for each in topic.partitions.values())


async def _move(
    cluster: ClusterClient,
    topology: Topology,
    racks: Racks,
    options: Options,
    *,
    dry_run: bool,
    evens: bool,
    stalled_s: float = 10,
) -> None:
    """Shows what has to move, and unless it is dry moves it."""
    from chronik.client.admin import reassignments
    from chronik.client.admin.balance import CannotPlace, plan
    from chronik.client.topology import TopicPartition

    placed: dict[TopicPartition, Replicas] = {
        TopicPartition(topic.name, each.partition): each.replicas
        for topic in topology.topics.values()
        for each in topic.partitions.values()
    }
    try:
        targets = plan(racks, placed, evens=evens)
    except CannotPlace as fault:
        raise CommandFailed(str(fault)) from fault
    rows: list[Row] = [
        {"partition": str(at), "from": list(placed[at]), "to": list(replicas)} for at, replicas in targets.items()
    ]
    print_rows(rows, MOVE_COLUMNS, as_json=options.wants_json, empty="Nothing has to move.")
    if dry_run or not targets:
        return
    with progress(f"moving {counted(len(targets), 'partition')}") as shown:
        reporter = _Reporter(shown.say)
        await carry_out(cluster, targets, reporter.say, stalled_s=stalled_s)
    if evens:
        await reassignments.elect(cluster, targets)


class _Reporter:
    """Shows every word where it replaces the one before, and only news where each is a line of its own."""

    def __init__(self, show: Any) -> None:
        self._show, self._left = show, -1

    def say(self, standing: Standing) -> None:
        self._show(str(standing))
        if not sys.stderr.isatty() and standing.partitions_left != self._left:
            print(standing, file=sys.stderr)
        self._left = standing.partitions_left


async def _cancel(cluster: ClusterClient, options: Options) -> int:
    from chronik.client.admin import reassignments

    moving = await reassignments.under_way(cluster)
    results = await reassignments.move(cluster, dict.fromkeys(moving)) if moving else {}
    faults = [fault for fault in results.values() if fault is not None]
    for fault in faults:
        complain(str(fault))
    if options.wants_json:
        print_json([str(at) for at, fault in results.items() if fault is None])
    else:
        done = len(results) - len(faults)
        print(f"{counted(done, 'move')} cancelled" if results else "No moves were in progress.")
    return REFUSED if faults else DONE
