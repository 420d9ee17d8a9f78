"""Groups that consume, transform and produce in transactions: each input is once in the output, whatever happens.

Members come and go, so that partitions move from one to the other; members and brokers are killed, and brokers hang.
`CHRONIK_KILLS=20` does so more often. `CHRONIK_JUDGES=kafka` does it to a Kafka of three nodes instead, which shows
whose doing it is when a library gives up.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from chronik.testing import Cluster
from tests.clients.group_copier import MEMBERS
from tests.clients.group_copying import GroupCopying, Nodes
from tests.cluster.load import rounds
from tests.oracle.kafka_cluster import KafkaCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

RECORDS_PER_FAULT = 600
PROGRESS = 150  # records between two faults


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    if os.environ.get("CHRONIK_JUDGES") == "kafka":
        with KafkaCluster(tmp_path_factory.mktemp("kafka")) as kafka:
            yield kafka
    else:
        with Cluster(nodes=3, in_process=False) as cluster:
            yield cluster


def test_each_input_is_copied_once_by_a_group_of_our_own_client(nodes: Nodes, tmp_path: Path) -> None:
    """The short form: a broker and a member are killed, and a third member comes."""
    copying = GroupCopying(nodes, "chronik", tmp_path, 600)
    with copying.members(2):
        copying.wait_for_progress(PROGRESS)
        nodes.kill(1)
        copying.kill(0)
        copying.start(0)
        nodes.start_again(1)
        copying.start(2)
        copying.wait_until_done()
    copying.check()


@pytest.mark.long
@pytest.mark.parametrize("library", MEMBERS)
def test_each_input_is_copied_once_while_members_and_brokers_fail(nodes: Nodes, tmp_path: Path, library: str) -> None:
    play(nodes, library, tmp_path, rounds(2))


def play(nodes: Nodes, library: str, folder: Path, times: int) -> None:
    """Injects each kind of fault in turn, `times` times."""
    faults = (broker_dies, member_dies, broker_hangs, member_comes, member_goes)
    copying = GroupCopying(nodes, library, folder, times * len(faults) * RECORDS_PER_FAULT)
    with copying.members(2):
        for number in range(times * len(faults)):
            copying.wait_for_progress(PROGRESS)
            faults[number % len(faults)](copying, number)
        copying.wait_until_done()
    copying.check()


def broker_dies(copying: GroupCopying, number: int) -> None:
    copying.nodes.kill(number % 3 + 1)
    copying.nodes.start_again(number % 3 + 1)


def member_dies(copying: GroupCopying, number: int) -> None:
    """Its partitions wait until the group's patience with it ends, or until it comes again, which it does at once."""
    copying.kill(number % 2)
    copying.start(number % 2)


def broker_hangs(copying: GroupCopying, number: int) -> None:
    """Its connections stay open and nothing answers, for longer than the cluster waits for it."""
    copying.nodes.pause(number % 3 + 1)
    try:
        copying.wait_for_progress(PROGRESS)
    finally:
        copying.nodes.resume(number % 3 + 1)


def member_comes(copying: GroupCopying, number: int) -> None:
    copying.start(2)


def member_goes(copying: GroupCopying, number: int) -> None:
    copying.kill(2)
