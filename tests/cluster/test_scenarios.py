"""Metadata on three real nodes: forwarding, batched writes, leases, all together, under every combination of flags."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from chronik.testing import Cluster
from chronik.wire.error_codes import ErrorCode
from tests.cluster.asking import Asked

pytestmark = pytest.mark.slow

NODES = (1, 2, 3)
FLAGS = ("forwarding", "batching", "leases")
TOPICS_AUTO_CREATED = 100
TOPICS_TOGETHER, CREATORS = 240, 24
READS = 100


class Trio:
    def __init__(self, cluster: Cluster, flags: dict[str, bool]) -> None:
        self.cluster, self.flags = cluster, flags
        self.nodes = {node_id: Asked(cluster, node_id) for node_id in NODES}

    @property
    def controller(self) -> Asked:
        return self.nodes[self.nodes[1].metadata().controller_id]

    @property
    def followers(self) -> list[Asked]:
        controller = self.controller
        return [node for node in self.nodes.values() if node is not controller]


@pytest.fixture(
    params=list(itertools.product([True, False], repeat=3)), ids=lambda on: "".join("nf"[not x] for x in on)
)
def trio(request: pytest.FixtureRequest) -> Iterator[Trio]:
    flags = dict(zip(FLAGS, request.param, strict=True))
    settings = {f"chronik.metadata.{name}.enable": str(on).lower() for name, on in flags.items()}
    with Cluster(nodes=3, settings=settings, in_process=False) as cluster:
        trio = Trio(cluster, flags)
        yield trio
        for node in trio.nodes.values():
            node.close()


def test_every_scenario_holds(trio: Trio) -> None:
    """Each phase can be turned off alone, so the same checks run under every combination of them."""
    check_forwarding(trio)
    check_auto_created_topics(trio)
    check_all_together(trio)
    check_leases(trio)


def check_forwarding(trio: Trio) -> None:
    """Created by one node, listed by all; without forwarding a follower says who decides instead of deciding."""
    for node in trio.nodes.values():
        name = f"created-on-{node.node_id}"
        is_controller = node is trio.controller
        answer = node.create(name)[name]
        if not is_controller and not trio.flags["forwarding"]:
            assert answer == ErrorCode.NOT_CONTROLLER
            assert trio.controller.create(name)[name] == 0
        else:
            assert answer == 0
        shown = [other.placed(name) for other in trio.nodes.values()]
        assert shown[0] == shown[1] == shown[2]
        assert all(len(placed.replicas) == 3 and set(placed.isr) == {1, 2, 3} for placed in shown[0])


def check_auto_created_topics(trio: Trio) -> None:
    """A topic that a follower is asked for exists everywhere by the time it is answered, or nowhere."""
    asked = trio.followers[0] if trio.flags["forwarding"] else trio.controller
    names = [f"auto-{number}" for number in range(TOPICS_AUTO_CREATED)]
    for name in names:
        (created,) = asked.metadata(name, creates=True).topics
        assert created.error_code == 0
    for node in trio.nodes.values():
        assert set(names) <= {topic.name for topic in node.metadata().topics}
    if not trio.flags["forwarding"]:
        (refused,) = trio.followers[0].metadata("auto-nowhere", creates=True).topics
        assert ErrorCode.of(refused.error_code).retriable
        assert all("auto-nowhere" not in {t.name for t in node.metadata().topics} for node in trio.nodes.values())


def check_all_together(trio: Trio) -> None:
    """Many creators at once on all nodes: each topic is created by exactly one of those who asked for it."""
    names = [f"together-{number}" for number in range(TOPICS_TOGETHER)]
    creating = list(trio.nodes) if trio.flags["forwarding"] else [trio.controller.node_id]

    def create(creator: int) -> int:
        node = Asked(trio.cluster, creating[creator % len(creating)])
        mine = [name for number, name in enumerate(names) if (number + creator) % CREATORS < 2]  # two ask for each
        created = sum(node.create(name)[name] == 0 for name in mine)
        node.close()
        return created

    with ThreadPoolExecutor(CREATORS) as pool:
        assert sum(pool.map(create, range(CREATORS))) == TOPICS_TOGETHER
    shown = [{t.name for t in node.metadata().topics if t.name.startswith("together-")} for node in trio.nodes.values()]
    assert shown == [set(names)] * 3


def check_leases(trio: Trio) -> None:
    """What one node has acknowledged every other one shows at once; and no node answers from before a lost leader."""
    follower = trio.followers[0]
    for number in range(READS):
        name = f"seen-{number}"
        assert trio.controller.create(name, partitions=1, replicas=1)[name] == 0
        assert follower.placed(name)
    paused, others = trio.controller, trio.followers
    trio.cluster.pause(paused.node_id)
    try:
        elected = trio.nodes[controller_other_than(paused, others[0])]
        name = "after-the-pause"
        assert elected.create(name, partitions=1, replicas=1)[name] == 0
        assert all(other.placed(name) for other in others)
    finally:
        trio.cluster.resume(paused.node_id)
    assert paused.placed("after-the-pause"), "back from a pause it must ask before it answers"


def controller_other_than(paused: Asked, asked: Asked) -> int:
    """Until another one leads nobody can promise anything, so these reads wait, or are answered as retriable."""
    while (controller_id := asked.metadata("seen-0").controller_id) in (paused.node_id, -1):
        pass
    return controller_id
