"""One Kafka of each release for all comparisons of a test process, each with a separate Chronik."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from chronik.testing import Cluster
from chronik.wire.messages.produce import ProduceRequest
from chronik.wire.notation import Versions
from tests.oracle.comparison import Pair, Server, ask_versions
from tests.oracle.kafka_server import KafkaServer
from tests.oracle.masks import Names

RELEASES = ("4.3.1", "3.9.1")  # the newer one judges all versions that it serves
# Kafka 4 advertises Produce from v0 on, so that librdkafka continues to compress, and closes the connection on v0 to
# v2.
SERVED_LESS = {"4.3.1": {ProduceRequest.api_key: Versions(3, 13)}}
# Both servers of a pair get these settings; all others are Kafka's defaults.
SETTINGS = {
    "num.partitions": "2",
    "offsets.topic.num.partitions": "4",
    "message.max.bytes": "100000",
    "log.retention.ms": "-1",  # records of scenarios are as old as they say they are
    "group.min.session.timeout.ms": "100",
    "group.consumer.assignment.interval.ms": "0",  # whether members of a group join within it depends on the machine
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "transaction.state.log.num.partitions": "4",
}


@pytest.fixture(scope="session")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Pair]]:
    folder = tmp_path_factory.mktemp("compat")
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        servers = [KafkaServer(folder / release, release=release, settings=SETTINGS) for release in RELEASES]
        for server in servers:
            stack.callback(server.stop)
        list(pool.map(KafkaServer.start, servers))
        made: dict[str, Pair] = {}
        newer: dict[int, object] = {}
        for release, kafka in zip(RELEASES, servers, strict=True):
            chronik = stack.enter_context(Cluster(settings=SETTINGS))
            pair = Pair(Server("kafka", kafka.port), Server("chronik", chronik.port), release, {}, dict(newer))
            pair.kafka_serves = ask_versions(pair.kafka) | SERVED_LESS.get(release, {})
            newer |= pair.kafka_serves
            pair.set_feature("transaction.version")
            for each in pair.servers:
                stack.callback(each.close_all)
            made[release] = pair
        yield made
        print(*(f"Kafka {each.release}: {each.compared} answers compared" for each in made.values()), sep="\n")


@pytest.fixture(params=RELEASES)
def pair(request: pytest.FixtureRequest, pairs: dict[str, Pair]) -> Iterator[Pair]:
    """A Kafka and a Chronik, and names that no other test uses: two files may have tests of the same name."""
    pair = pairs[request.param]
    file = request.path.stem.removeprefix("test_compat_")
    pair.prefix = re.sub(r"[^a-z0-9]+", "-", f"{file}-{request.node.name.removeprefix('test_')}")[:100]
    pair.case = ""
    for server in pair.servers:
        server.kept.clear()  # or a member would have an id of another test, which differs between the servers
        server.names = Names(server.port)  # or an id that only one server showed would shift those of all later tests
    yield pair
    for server in pair.servers:
        server.close_all()
    pair.complaints.clear()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """A scenario fails at its end with every difference, not at the first."""
    result = yield
    if isinstance(pair := pyfuncitem.funcargs.get("pair"), Pair):
        pair.settle()
    return result
