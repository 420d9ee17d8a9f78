"""add-nodes and compact: nodes start with a log that begins after a snapshot, or with an empty one."""

from __future__ import annotations

from chronik.raft.core import UNLIMITED, Core, CoreConfig
from chronik.raft.messages import Membership, Snapshot
from chronik.raft.reads import ReadMode
from chronik.raft.stable_log import StableLog
from tests.raft import describing
from tests.raft.interaction import Command, Environment, empty_history

ELECTION_TICKS, HEARTBEAT_TICKS = 3, 1
READ_MODES = {"safe": ReadMode.QUORUM, "lease-based": ReadMode.LEASE}


def add_nodes(environment: Environment, command: Command) -> None:
    count = command.nodes()[0]
    index = int(command.option("index", "0"))
    members = Membership(tuple(sorted(command.options("voters"))), tuple(sorted(command.options("learners"))))
    content = command.option("content").encode()
    if index <= 1 and (index or content or any(members)):
        environment.refuse("index must be specified as > 1 due to bootstrap")
        return
    if command.option("read-only", "safe") not in READ_MODES:
        environment.refuse(f'invalid read-only option "{command.option("read-only")}"')
        return
    for _ in range(count):
        _add(environment, command, Snapshot(index, 1 if index else 0, members, content))


def _add(environment: Environment, command: Command, start: Snapshot) -> None:
    node_id = environment.next_id()
    config = CoreConfig(
        node_id=node_id,
        jitter=lambda bound: bound - 1,  # a node campaigns by itself only when a transcript sets its timeout
        election_ticks=ELECTION_TICKS,
        heartbeat_ticks=HEARTBEAT_TICKS,
        pre_vote=command.flag("prevote"),
        check_quorum=command.flag("checkquorum"),
        async_writes=command.flag("async-storage-writes"),
        read_mode=READ_MODES[command.option("read-only", "safe")],
        committed_bytes_max=int(command.option("max-committed-size-per-ready", "0")) or UNLIMITED,
        inflight_messages_max=int(command.option("inflight", "0")) or UNLIMITED,
        step_down_on_removal=command.flag("step-down-on-removal"),
        validates_changes=not command.flag("disable-conf-change-validation"),
    )
    history = [start] if start.index else empty_history()
    stable = StableLog(lambda: history[-1])
    stable.restart_behind(start.index, start.term)
    core = Core(config, stable, members=start.membership, applied=start.index)
    environment.add_node(core, stable, history)


def compact(environment: Environment, command: Command) -> None:
    node_id, index = command.nodes()
    stable = environment.nodes[node_id].stable
    if index < stable.first_index:
        environment.refuse("requested index is unavailable due to compaction")
        return
    stable.compact(index)
    show_log(environment, node_id)


def show_log(environment: Environment, node_id: int) -> None:
    stable = environment.nodes[node_id].stable
    entries = stable.entries(stable.first_index, stable.last_index + 1)
    empty = f"log is empty: first index={stable.first_index}, last index={stable.last_index}\n"
    environment.write(describing.entries(entries) if entries else empty)
