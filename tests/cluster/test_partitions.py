"""Networks that part: a leader in the minority stops acknowledging, the others go on, and after healing all agree."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice

import pytest

from tests.cluster.asking import Asked
from tests.cluster.load import Load, check_survived, eventually, live_view, rounds, wait_for_full_isr
from tests.cluster.produced import ask_to_produce, told
from tests.cluster.proxy import CabledCluster, Way
from tests.cluster.topic_clients import TopicClients
from tests.oracle.comparison import Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]

TOPIC = "parted"
NODES = (1, 2, 3)
SETTINGS = {
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "300",
    "replica.lag.time.max.ms": "2000",
}
# How a leader is parted from the others: it neither hears nor is heard, is not heard, does not hear; or from one only.
CUTS = ("both ways", "outward", "one peer", "inward")
CUTS_OFF = {"both ways", "outward", "inward"}


@pytest.fixture
def cluster(uncomplaining_nodes: None) -> Iterator[CabledCluster]:
    with CabledCluster(nodes=3, settings=SETTINGS) as cluster:
        node = Asked(cluster, 1)
        assert node.create(TOPIC) == {TOPIC: 0}
        node.close()
        yield cluster


def ways(cut: str, parted: int) -> list[Way]:
    others = [node_id for node_id in NODES if node_id != parted]
    out, into = [(parted, other) for other in others], [(other, parted) for other in others]
    return {"both ways": out + into, "outward": out, "inward": into, "one peer": [out[0], into[0]]}[cut]


def test_a_parted_leader_acknowledges_nothing_and_all_agree_after_healing(cluster: CabledCluster) -> None:
    """min.insync.replicas is 2: alone, it cannot keep the promise, nor have the others dropped from the in-sync set."""
    load, clients = Load(cluster, TOPIC), TopicClients(cluster, seed=4)
    for cut in islice(cycle(CUTS), rounds(3)):
        load.wait_for_more()
        parted = live_view(cluster, 1, TOPIC)[0].leader
        cluster.cables.cut(ways(cut, parted))
        if cut in CUTS_OFF:
            check_acknowledges_nothing(cluster, parted)
        load.wait_for_more()
        clients.wait_for_more()
        cluster.cables.heal()
        wait_for_full_isr(cluster, TOPIC)
        clients.next_round()
    load.stop()
    clients.stop()
    check_survived(cluster, load)
    clients.check()


def check_acknowledges_nothing(cluster: CabledCluster, parted: int) -> None:
    """Asked from when the cable is cut until another one leads, and once more then."""
    stale = Server(f"node {parted}", cluster.ports[parted - 1])
    witness = next(node_id for node_id in NODES if node_id != parted)

    def look() -> bool:
        is_over = live_view(cluster, witness, TOPIC)[0].leader not in (-1, parted)
        ask_to_produce(stale, TOPIC, b"alone", timeout_ms=100)
        assert told(stale) != 0, "a leader without followers acknowledged a record"
        return is_over

    eventually(look, f"another leader than {parted}")
    stale.close_all()
