"""Leaders that die, hang or are restarted under load, one at a time and all together, as real processes.

Times are reported, never asserted: a slow machine must not fail them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from chronik.testing import Cluster
from chronik.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.cluster.asking import METADATA_VERSION, Asked
from tests.cluster.load import (
    Load,
    check_survived,
    eventually,
    live_view,
    rounds,
    wait_for_full_isr,
)
from tests.cluster.produced import ask_to_produce, told
from tests.oracle.comparison import Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]

TOPIC = "survives"
NODES = (1, 2, 3)
STALE_CONNECTIONS = 5
# A hang is noticed after one session; a short one keeps the test short.
QUICK_SESSION = {"broker.session.timeout.ms": "1500", "broker.heartbeat.interval.ms": "300"}
Report = Callable[[str, object], None]


@pytest.fixture
def cluster(uncomplaining_nodes: None) -> Iterator[Cluster]:
    with Cluster(nodes=3, settings=QUICK_SESSION, in_process=False) as cluster:
        node = Asked(cluster, 1)
        assert node.create(TOPIC) == {TOPIC: 0}
        node.close()
        yield cluster


@pytest.fixture
def load(cluster: Cluster) -> Iterator[Load]:
    load = Load(cluster, TOPIC)
    load.wait_for_more()
    yield load
    load.stop()


def leader_of_first(cluster: Cluster, asked: int = 1) -> int:
    return live_view(cluster, asked, TOPIC)[0].leader


def wait_for_leader_other_than(cluster: Cluster, paused: int, witness: int) -> None:
    eventually(lambda: leader_of_first(cluster, witness) not in (-1, paused), f"another leader than {paused}")


def finish(cluster: Cluster, load: Load, report: Report) -> None:
    load.stop()
    report("longest pause, ms", load.longest_pause_ms())
    report("acknowledged", len(load.acknowledged))
    check_survived(cluster, load)


def test_killing_leaders_loses_moves_and_doubles_nothing(cluster: Cluster, load: Load, record_property: Report) -> None:
    """What was acknowledged is on another in-sync replica, and only such a one may lead next."""
    for _ in range(rounds(2)):
        killed = leader_of_first(cluster)
        cluster.kill(killed)
        load.wait_for_more()
        cluster.start_again(killed)
        wait_for_full_isr(cluster, TOPIC)
        load.wait_for_more()
    finish(cluster, load, record_property)


def test_a_leader_back_from_a_hang_acknowledges_nothing_it_was_fenced_for(
    cluster: Cluster, load: Load, record_property: Report
) -> None:
    """It wakes with its old image and requests in its sockets; nobody follows it in its epoch, so it cannot commit."""
    for number in range(rounds(1)):
        paused = leader_of_first(cluster)
        witness = next(node_id for node_id in NODES if node_id != paused)
        stale = [Server(f"connection {each}", cluster.ports[paused - 1]) for each in range(STALE_CONNECTIONS)]
        for each in stale:  # an answer shows that the node knows the connection
            each.send(MetadataRequest(topics=[]), METADATA_VERSION)
            each.receive(MetadataResponse, METADATA_VERSION)
        cluster.pause(paused)
        for each in stale:
            ask_to_produce(each, TOPIC, b"stale %d" % number)
        wait_for_leader_other_than(cluster, paused, witness)
        load.wait_for_more()
        cluster.resume(paused)
        assert all(told(each) != 0 for each in stale), "a deposed leader acknowledged a record"
        for each in stale:
            each.close_all()
        wait_for_full_isr(cluster, TOPIC)
        load.wait_for_more()
    finish(cluster, load, record_property)


def test_killing_all_nodes_at_once_loses_nothing(cluster: Cluster, load: Load, record_property: Report) -> None:
    """Everything acknowledged was on disk, on every in-sync replica; nobody's memory is needed."""
    for _ in range(rounds(1)):
        with ThreadPoolExecutor(len(NODES)) as pool:
            list(pool.map(cluster.kill, NODES))
        cluster.start_all_again()
        load.wait_for_more()
    finish(cluster, load, record_property)


def test_a_rolling_restart_fails_no_produce(cluster: Cluster, load: Load, record_property: Report) -> None:
    """A node that stops hands its leaderships over first, so clients only move."""
    for _ in range(rounds(1)):
        for node_id in NODES:
            cluster.restart(node_id)
            wait_for_full_isr(cluster, TOPIC)
            load.wait_for_more()
    finish(cluster, load, record_property)
