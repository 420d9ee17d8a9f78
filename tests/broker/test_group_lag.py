"""Lag of groups on /metrics: equal to what `chronik group describe` says, whichever node leads or coordinates."""

from __future__ import annotations

import asyncio
import time
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from chronik.broker import group_lag
from chronik.client.admin import quorum
from chronik.client.routing import ClusterClient
from chronik.runtime.real import real_runtime
from chronik.testing import Cluster
from tests.cli.conftest import Run, run_command

__all__ = ["run_command"]

pytestmark = pytest.mark.slow

Lags = dict[tuple[str, str, int], float]
HOUR_AGO_S = 3_600
SETTINGS = {
    "chronik.admin.listener": "127.0.0.1:0",
    "num.partitions": "6",
    "offsets.topic.replication.factor": "1",
}


class Metered:
    """Three nodes with separate admin listeners. Topics have one replica, so most leaders are on other nodes."""

    def __init__(self, cluster: Cluster, ports: list[int]) -> None:
        self.cluster, self._ports = cluster, ports

    def scrape(self, name: str, *groups: str) -> Lags:
        """The samples of these groups, of all nodes. Each group is coordinated by one of them."""
        found: Lags = {}
        for port in self._ports:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
                text = page.read().decode()
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    labels = sample.labels
                    if sample.name == name and labels["group"] in groups:
                        key = labels["group"], labels["topic"], int(labels["partition"])
                        assert key not in found, "two nodes report the same group"
                        found[key] = sample.value
        return found


@pytest.fixture(scope="module")
def metered() -> Iterator[Metered]:
    with Cluster(nodes=3, settings=SETTINGS) as cluster:
        yield Metered(cluster, asyncio.run(admin_ports(cluster)))


async def admin_ports(cluster: Cluster) -> list[int]:
    async with ClusterClient(real_runtime(), cluster.bootstrap) as client:
        while len(found := (await quorum.describe(client)).admin) < 3:  # a node registers a moment after it is ready
            await asyncio.sleep(0.05)
    return [address.port for address in found.values()]


@pytest.fixture
def chronik(run_command: Run, metered: Metered, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("CHRONIK_BOOTSTRAP", metered.cluster.bootstrap)
    return run_command


def described(chronik: Run, group: str) -> Lags:
    [document] = chronik("group", "describe", group, "--format", "json").json
    return {
        (group, row["topic"], row["partition"]): row["lag"]
        for row in document["partitions"]
        if row["committed"] is not None
    }


def test_records_and_seconds_are_those_that_describe_shows(chronik: Run, metered: Metered) -> None:
    """Alerts by one number and repairs by another would contradict each other."""
    chronik("topic", "create", "orders", "--replication-factor", "1")
    began_s = time.time()
    for partition in range(6):
        lines = b"".join(b"%d\n" % number for number in range(partition + 2))
        chronik("produce", "orders", "--partition", str(partition), "--timestamp", "1h ago", stdin=lines)
    written_s = time.time()
    for group in ("billing", "shipping"):
        chronik("consume", "orders", "--group", group)
        chronik("group", "reset", group, "--to", "1", "--execute")
    assert chronik("group", "reset", "shipping", "--to", "latest", "--partition", "5", "--execute").exit_code == 0
    expected = described(chronik, "billing") | described(chronik, "shipping")
    assert len(expected) == 12
    assert expected["billing", "orders", 5] == 6
    assert expected["shipping", "orders", 5] == 0
    asked_s = time.time()
    assert metered.scrape("kafka_consumergroup_lag", "billing", "shipping") == expected
    ages_s = metered.scrape("kafka_consumergroup_lag_seconds", "billing", "shipping")
    answered_s = time.time()
    assert ages_s.keys() == expected.keys()
    for key, age_s in ages_s.items():
        if expected[key]:
            # The command computes "1h ago" at some moment between the two, in whole milliseconds.
            assert HOUR_AGO_S + asked_s - written_s - 0.001 <= age_s <= HOUR_AGO_S + answered_s - began_s + 0.001
        else:
            assert age_s == 0


def test_a_group_below_the_start_of_the_log_is_behind_by_what_is_left(chronik: Run, metered: Metered) -> None:
    """What retention deleted cannot be read any more, so it is no lag."""
    chronik("topic", "create", "short", "--partitions", "1", "--replication-factor", "1")
    chronik("produce", "short", stdin=b"1\n2\n3\n4\n")
    chronik("consume", "short", "--group", "late")
    chronik("group", "reset", "late", "--to", "earliest", "--execute")
    from kafka import KafkaAdminClient, TopicPartition

    admin = KafkaAdminClient(bootstrap_servers=metered.cluster.bootstrap)
    try:
        admin.delete_records({TopicPartition("short", 0): 3})
    finally:
        admin.close()
    expected = described(chronik, "late")
    assert expected == {("late", "short", 0): 1}
    assert metered.scrape("kafka_consumergroup_lag", "late") == expected


def test_the_number_of_partitions_and_fetches_is_bounded(
    chronik: Run, metered: Metered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scrape must not cost more the more groups there are, without end."""
    chronik("topic", "create", "many", "--replication-factor", "1")
    for partition in range(6):
        chronik("produce", "many", "--partition", str(partition), stdin=b"1\n2\n")
    chronik("consume", "many", "--group", "wide")
    chronik("group", "reset", "wide", "--to", "earliest", "--execute")
    monkeypatch.setattr(group_lag, "FETCHES_MAX", 2)

    def ages() -> int:
        return len(metered.scrape("kafka_consumergroup_lag_seconds", "wide"))

    seen = [ages() for _ in range(3)]  # earlier results are cached, so each scrape knows more
    assert seen == sorted(seen)
    assert seen[0] < seen[2]
    monkeypatch.setattr(group_lag, "PARTITIONS_MAX", 3)
    assert len(metered.scrape("kafka_consumergroup_lag", "wide")) <= 3
