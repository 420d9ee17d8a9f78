"""The API when it is needed most: with a node killed, and without a quorum. It answers, and says what is missing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from chronik.client import Producer, connect
from chronik.client.admin import topics
from chronik.testing import Cluster
from tests.console.served import Served, serving

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.xdist_group("console-three")]

WITH_ADMIN = {"chronik.admin.listener": "127.0.0.1:0"}
TRUTH = "no controller is elected: 1 of 3 voters answer, 2 are needed; no answer from nodes 2 and 3"
# Parts are given up after 2 s, and few wait for each other. The bound is far from that: a busy machine must not decide.
ANSWER_S = 20
PATHS = (
    "/overview",
    "/events",
    "/topics",
    "/topics/orders",
    "/topics/orders/configs",
    "/topics/orders/records",
    "/topics/orders/histogram",
    "/groups",
    "/nodes",
    "/nodes/isr",
    "/nodes/moves",
    "/doctor",
    "/letters",
    "/pipelines",
    "/search?q=o",
    "/security/users",
    "/security/quotas",
    "/activity",
    "/lab/scenarios",
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, settings=WITH_ADMIN, in_process=False) as made:
        asyncio.run(fill(made.bootstrap))
        yield made


async def fill(bootstrap: str) -> None:
    async with connect(bootstrap) as client:
        await topics.create(client, [topics.NewTopic("orders", 3, 3)])
        async with Producer(client) as producer:
            for number in range(30):
                await producer.send("orders", str(number).encode(), partition=number % 3)


def all_answer(console: Served) -> None:
    for path in PATHS:
        began_s = time.monotonic()
        document = console.get(path)
        assert time.monotonic() - began_s < ANSWER_S, path
        assert isinstance(document["missing"], list), path


def test_a_cluster_that_loses_one_node_and_then_its_quorum(cluster: Cluster) -> None:
    """In one test, because nodes do not come back."""
    with serving(cluster.bootstrap, "--allow-changes") as console:
        whole(console)
        cluster.kill(3)
        one_killed(console)
        cluster.kill(2)
        no_quorum(console)
    with serving(cluster.bootstrap) as late:
        started_too_late(late)


def whole(console: Served) -> None:
    shown = console.until("/overview", lambda document: document["cluster"]["nodes_answering"] == 3)
    assert (shown["cluster"]["voters"], shown["cluster"]["votes_needed"]) == (3, 2)
    quorum = console.until("/nodes", lambda document: document["quorum"]["states_agree"] is not None)["quorum"]
    assert quorum["states_agree"]
    rows = console.until("/nodes/isr?search=orders", lambda document: document["total"] == 3)["rows"]
    assert all(sorted(row["cells"]) == ["isr", "isr", "leader"] for row in rows)
    all_answer(console)


def one_killed(console: Served) -> None:
    shown = console.until(
        "/overview", lambda document: any(item["id"] == "node-fenced:3" for item in document["attention"])
    )
    assert shown["cluster"]["verdict"] == "attention"
    assert [part["part"] for part in shown["missing"]] == ["node 3"]
    console.until("/nodes/isr?problems=1&search=orders", lambda document: document["total"] == 3)
    nodes = {node["node_id"]: node for node in console.get("/nodes")["nodes"]}
    assert (nodes[3]["heard_via"], nodes[3]["state_hash"], nodes[3]["is_fenced"]) == ("quorum", None, True)
    assert {"node-silent", "node-fenced", "isr-shrunk"} <= {each["kind"] for each in console.get("/events")["events"]}
    assert len(console.get("/topics/orders/records")["records"]) == 30
    all_answer(console)


def no_quorum(console: Served) -> None:
    shown = console.until("/overview", lambda document: document["cluster"]["verdict"] == "no-quorum")
    assert shown["attention"][0]["what"] == TRUTH
    assert shown["cluster"]["not_ready_because"]
    assert (shown["cluster"]["voters_answering"], shown["cluster"]["votes_needed"]) == (1, 2)
    assert [node["is_answering"] for node in console.get("/nodes")["nodes"]] == [True, False, False]
    assert "orders" in [each["name"] for each in console.get("/topics")["topics"]]
    missing = console.get("/topics/orders")["missing"]
    assert TRUTH in [part["reason"] for part in missing]
    assert console.error("GET", "/groups/billing/why") in ("NO_CONTROLLER", "GROUP_NOT_FOUND")
    assert console.get("/doctor")["findings"][0]["check"] == "no-controller"
    assert "quorum-lost" in [each["kind"] for each in console.get("/events")["events"]]
    all_answer(console)


def started_too_late(console: Served) -> None:
    """It knows no topics, and says so instead of showing none."""
    shown = console.until("/overview", lambda document: document["cluster"]["verdict"] == "no-quorum")
    assert (shown["cluster"]["topics"], shown["attention"][0]["what"]) == (None, TRUTH)
    assert console.get("/topics")["missing"]
    assert console.error("GET", "/topics/orders") in ("NO_CONTROLLER", "UNREACHABLE")
