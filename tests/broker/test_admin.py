"""The admin listener over real sockets and as bytes: its responses, what it refuses, and that it does no harm."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from typing import Any, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from chronik.broker import admin as admin_module
from chronik.broker import exposition
from chronik.broker.admin import HEAD_BYTES_MAX, Admin, AdminConnection
from chronik.broker.errors import CannotStart
from chronik.broker.node import Node
from chronik.broker.node_base import NodeBase
from chronik.broker.settings import Settings
from chronik.metadata.commands.broker_heartbeat import BrokerHeartbeat
from chronik.metadata.commands.delete_topics import DeleteTopics, TopicName
from chronik.metadata.snapshot import state_hash
from chronik.runtime.real import real_runtime
from chronik.sim.disk import SimDisk
from chronik.wire.messages.fetch import FetchResponse
from chronik.wire.messages.metadata import MetadataRequest, MetadataResponse
from chronik.wire.messages.produce import ProduceResponse
from tests.broker.harness import memory_runtime, start_node
from tests.broker.hostile import World, batch, fetch_request, produce_request, run

ADMIN = {"admin_listener": "127.0.0.1:9644"}


class Browser:
    """A connection to a node's admin listener, without a socket."""

    def __init__(self, node: Node | NodeBase) -> None:
        self.transport = _Wire()
        self.connection = AdminConnection(node.admin)
        self.connection.connection_made(self.transport)

    async def get(self, path: str, method: str = "GET") -> tuple[int, str]:
        return await self.send(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

    async def send(self, data: bytes) -> tuple[int, str]:
        """One response: its code and its body."""
        self.transport.sent.clear()
        self.connection.data_received(data)
        for _ in range(50):
            await asyncio.sleep(0)
        head, _, body = bytes(self.transport.sent).partition(b"\r\n\r\n")
        return (int(head.split()[1]), body.decode()) if head else (0, "")


class _Wire(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 4711)})
        self.sent = bytearray()
        self.is_closed = False

    def write(self, data: Any) -> None:
        self.sent += data

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading


async def scrape(node: Node) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample, as Prometheus' own parser reads it."""
    code, text = await Browser(node).get("/metrics")
    assert code == 200
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples: dict[Any, float], name: str, **labels: str) -> float:
    return samples[name, tuple(sorted(labels.items()))]


def test_every_number_moves_with_what_it_counts() -> None:
    """A metric that never changes is worse than none, because operators trust it."""

    async def test() -> None:
        world = await World.make()
        node = world.node
        before = await scrape(node)
        await world.create("orders")
        for records in (batch(b"a" * 100, b"b", b"c"), batch(b"d" * 50), batch(b"corrupt")[:-1] + b"!"):
            await world.client.ask(produce_request(records), ProduceResponse, 9)
        fetched = await world.fetch()
        await world.fetch()
        assert (await world.fetch(99)).error_code
        follower = fetch_request()
        follower.replica_id = 2
        await world.client.ask(follower, FetchResponse, 11)
        await world.client.ask(MetadataRequest(topics=None), MetadataResponse, 12)
        after = await scrape(node)

        def moved(name: str, **labels: str) -> float:
            return value(after, name, **labels) - before.get((name, tuple(sorted(labels.items()))), 0)

        traffic = "kafka_server_brokertopicmetrics_"
        size_bytes = len(cast(bytes, fetched.records))
        for labels in ({}, {"topic": "orders"}):
            assert moved(traffic + "messagesin_total", **labels) == 4
            assert moved(traffic + "bytesin_total", **labels) == size_bytes
            assert moved(traffic + "bytesout_total", **labels) == 2 * size_bytes
            assert moved(traffic + "replicationbytesout_total", **labels) == size_bytes
            assert moved(traffic + "failedproducerequests_total", **labels) == 1
            assert moved(traffic + "failedfetchrequests_total", **labels) == 1
        requests = "kafka_network_requestmetrics_"
        assert moved(requests + "requests_total", request="Produce") == 3
        assert moved(requests + "requests_total", request="Fetch") == 4
        assert moved(requests + "totaltimems_count", request="Metadata") == 1
        assert moved(requests + "totaltimems_bucket", request="Produce", le="+Inf") == 3
        assert moved("metadata_read_latency_ms_count") == 1
        assert moved("metadata_write_latency_ms_count") == 1
        assert moved("metadata_write_latency_ms_bucket", le="16777.216") == 1
        assert moved("chronik_sync_time_ms_count") >= 2
        assert value(after, "chronik_sync_time_ms_bucket", le="+Inf") == value(after, "chronik_sync_time_ms_count")
        directory = node.settings.log_dir
        free, total = (value(after, f"chronik_disk_{name}_bytes", log_dir=directory) for name in ("free", "total"))
        assert 0 < free <= total
        assert value(after, "chronik_memory_budget_bytes") == node.memory.size_bytes
        assert 1 <= moved("chronik_segments_open") <= value(after, "chronik_segments_open_max")
        assert value(after, "chronik_connections_max") == node.runtime.network.connections_max
        assert moved("topic_creations_total") == 1
        assert moved("topic_creation_throughput") == pytest.approx(1 / 60)
        assert moved("kafka_controller_kafkacontroller_globaltopiccount") == 1
        assert moved("kafka_server_replicamanager_leadercount") == 1
        assert moved("kafka_server_replicamanager_partitioncount") == 1
        assert moved("kafka_server_raftmetrics_applied_index") >= 1
        assert value(after, "kafka_controller_kafkacontroller_activecontrollercount") == 1
        assert value(after, "kafka_server_socketservermetrics_connection_count") == 1
        assert value(after, "metadata_replication_lag_ms", node="1") == 0
        for quiet in (
            "metadata_split_brain_detected",
            "metadata_wal_write_errors",
            "metadata_replication_errors",
            "lease_expiration_count",
            "leader_heartbeat_failures",
        ):
            assert value(after, quiet) == 0
        await node.store.submit(DeleteTopics(topics=[TopicName(name="orders")]))
        gone = await scrape(node)
        assert (traffic + "messagesin_total", (("topic", "orders"),)) not in gone
        assert value(gone, traffic + "messagesin_total") == 4

    run(test())


def test_numbers_of_the_quorum_are_those_of_its_health() -> None:
    """The names alone would not notice two of them swapped."""

    async def test() -> None:
        world = await World.make()
        health = world.node.store.raft.health
        expected = {
            "lease_expiration_count": 3,
            "metadata_wal_write_errors": 5,
            "metadata_replication_errors": 7,
            "leader_heartbeat_failures": 11,
            "metadata_split_brain_detected": 13,
        }
        fields = ("lease_expirations", "write_errors", "undelivered", "heartbeat_failures", "split_brains")
        for field, number in zip(fields, expected.values(), strict=True):
            setattr(health, field, number)
        samples = await scrape(world.node)
        assert {name: value(samples, name) for name in expected} == expected

    run(test())


def test_buckets_add_up_and_rise() -> None:
    async def test() -> None:
        world = await World.make()
        timing = world.node.metrics.request("Produce")
        for duration_us in (1, 100, 130, 300, 5_000, 60_000_000):
            timing.took(duration_us * 1000)
        samples = await scrape(world.node)
        name = "kafka_network_requestmetrics_totaltimems"
        buckets = {
            float(dict(labels)["le"]): count
            for (family, labels), count in samples.items()
            if family == f"{name}_bucket" and dict(labels)["request"] == "Produce"
        }
        counts = [count for _, count in sorted(buckets.items())]
        assert counts == sorted(counts)
        assert (buckets[0.128], buckets[0.256], buckets[0.512], buckets[8.192]) == (2, 3, 4, 5)
        assert buckets[16777.216] == 5
        assert buckets[float("inf")] == value(samples, f"{name}_count", request="Produce") == 6
        assert value(samples, f"{name}_sum", request="Produce") == pytest.approx(60_005.531)

    run(test())


def test_a_topic_with_a_strange_name_does_not_break_the_text() -> None:
    assert exposition._sample("m", {"topic": 'a"b\\c\nd'}, 1) == 'm{topic="a\\"b\\\\c\\nd"} 1'


def test_ready_is_not_said_before_clients_can_be_sent_here() -> None:
    """A load balancer or an operator waits on this; so a fenced broker must say why it is not ready."""

    async def test() -> None:
        starting = NodeBase(memory_runtime(SimDisk(0)), Settings.default(node_id=1, **ADMIN))
        assert (await Browser(starting).get("/readyz"))[0] == 503
        assert await Browser(starting).get("/healthz") == (200, "healthy\n")
        assert (await Browser(starting).get("/metrics"))[0] == 200
        node = await start_node(SimDisk(0))
        browser = Browser(node)
        assert await browser.get("/readyz") == (200, "ready\n")
        heartbeat = BrokerHeartbeat(broker_id=1, broker_epoch=node.broker_epoch, want_fence=True)
        await node.store.submit(heartbeat)
        code, body = await browser.get("/readyz")
        assert (code, body.startswith("not ready: the controller has fenced")) == (503, True)
        assert (await browser.get("/healthz"))[0] == 200
        node.stop_broken(RuntimeError("the disk is gone"))
        assert await browser.get("/healthz") == (503, "not healthy: the disk is gone\n")
        assert (await browser.get("/readyz"))[0] == 503
        with pytest.raises(RuntimeError):
            await node.wait_stopped()

    run(test())


def test_status_says_what_nodes_are_compared_by() -> None:
    async def test() -> None:
        world = await World.make()
        await world.create("orders")
        node = world.node
        code, body = await Browser(node).get("/status")
        page = json.loads(body)
        assert code == 200
        assert page["state_hash"] == state_hash(node.store.image)
        assert page["version"] == node.store.image.version
        assert (page["node_id"], page["cluster_id"], page["ready"]) == (1, node.cluster_id, True)
        assert page["quorum"]["leader_id"] == 1
        assert page["quorum"]["applied_index"] == node.store.raft.applied_index
        assert page["quorum"]["voters"] == [1]
        assert page["quorum"]["lag_ms"] == {"1": 0}
        assert page["broker"]["fenced"] is False
        await world.create("more")
        later = json.loads((await Browser(node).get("/status"))[1])
        assert later["state_hash"] != page["state_hash"]

    run(test())


BAD_REQUESTS = [
    (b"HELLO\r\n\r\n", 400),
    (b"GET /metrics HTTP/2.0\r\n\r\n", 400),
    (b"GET metrics HTTP/1.1\r\n\r\n", 400),
    (b"\x00\x00\x00\x10\x00\x12\x00\x03rest\r\n", 400),
    (b"\x16\x03\x01 a TLS client\n", 400),
    (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
    (b"GET /secrets HTTP/1.1\r\n\r\n", 404),
    (b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * (HEAD_BYTES_MAX // 6), 431),
    (b"x" * (HEAD_BYTES_MAX + 1), 431),
]


@pytest.mark.parametrize(("data", "code"), BAD_REQUESTS)
def test_what_is_not_served_is_refused_in_one_line(data: bytes, code: int, caplog: pytest.LogCaptureFixture) -> None:
    """Port scanners and lost Kafka clients come by; they must cost a line, not a stack trace."""

    async def test() -> None:
        node = await start_node(SimDisk(0))
        with caplog.at_level(logging.INFO, "chronik.broker.admin"):
            browser = Browser(node)
            assert (await browser.send(data))[0] == code
        assert browser.transport.is_closed is (code != 404)
        assert len([line for line in caplog.records if line.name == "chronik.broker.admin"]) == (code != 404)

    run(test())


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("localhost", 200),
        ("LOCALHOST:9644", 200),
        ("127.0.0.1:9644", 200),
        ("[::1]:9644", 200),
        ("10.1.2.3", 200),
        ("kafka.example", 200),
        ("metrics.example:80", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("evil.example:9644", 421),
        ("localhost, evil.example", 421),
        ("localhost\r\nHost: evil.example", 421),
        ("evil.example\r\nHost: localhost", 421),
        ("[::1", 421),
        ("", 421),
    ],
)
def test_a_page_of_another_name_cannot_read_it(host: str, code: int) -> None:
    """A name that points to 127.0.0.1 lets any web page request what a browser can reach (DNS rebinding)."""

    async def test() -> None:
        advertised = {"advertised_listeners": "PLAINTEXT://kafka.example:9092", "admin_hosts": "metrics.example"}
        node = await start_node(SimDisk(0), **advertised)
        answered, body = await Browser(node).send(f"GET /status HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert answered == code
        assert (node.cluster_id in body) == (code == 200)

    run(test())


def test_any_bytes_are_answered_or_waited_for() -> None:
    """Fed whole and byte by byte; nothing raises into the loop."""

    async def test() -> None:
        node = await start_node(SimDisk(0))
        for data, code in BAD_REQUESTS[:7]:
            browser = Browser(node)
            codes = [(await browser.send(data[at : at + 1]))[0] for at in range(len(data))]
            assert [each for each in codes if each] == [code], data

    run(test())


def test_requests_sent_ahead_are_answered_in_order_on_one_connection() -> None:
    async def test() -> None:
        node = await start_node(SimDisk(0))
        browser = Browser(node)
        browser.connection.data_received(b"GET /healthz HTTP/1.1\r\n\r\nHEAD /metrics HTTP/1.1\r\n\r\n")
        browser.connection.data_received(b"GET /nothing?q=1 HTTP/1.1\r\nConnection: close\r\n\r\n")
        for _ in range(200):
            await asyncio.sleep(0)
        sent = bytes(browser.transport.sent)
        codes = [int(part.split()[0]) for part in sent.split(b"HTTP/1.1 ")[1:]]
        assert codes == [200, 200, 404]
        assert b"kafka_" not in sent, "HEAD has no body"
        assert browser.transport.is_closed

    run(test())


def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_module, "CONNECTIONS_MAX", 2)

    async def test() -> None:
        node = await start_node(SimDisk(0))
        browsers = [Browser(node) for _ in range(3)]
        assert [browser.transport.is_closed for browser in browsers] == [True, False, False], "the oldest idler goes"
        assert (await browsers[1].get("/healthz"))[0] == 200
        browsers.append(Browser(node))
        assert [browser.transport.is_closed for browser in browsers] == [True, False, True, False]
        for browser in (browsers[1], browsers[3]):
            browser.connection.data_received(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert Browser(node).transport.is_closed, "nobody whose request is being answered makes room"
        assert len(node.admin.connections) == 2

    run(test())


def test_a_silent_connection_is_closed() -> None:
    async def test() -> None:
        node = await start_node(SimDisk(0))
        browser = Browser(node)
        browser.connection.data_received(b"GET /healthz")
        await asyncio.sleep(admin_module.SILENT_SECONDS_MAX + 1)
        assert browser.transport.is_closed

    run(test())


def test_a_port_in_use_is_a_warning_unless_it_was_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    """A second node on a laptop must start; a node whose probes were configured must not start without them."""

    async def test() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            asked = Settings.default(node_id=1, admin_listener=f"127.0.0.1:{port}")
            with pytest.raises(CannotStart, match=r"chronik\.admin\.listener"):
                await _opened(asked)
            default = Settings.default(node_id=1, listeners=f"PLAINTEXT://127.0.0.1:{port - 552}")
            admin = await _opened(default)
            assert admin.listener is None
            assert "the admin listener cannot use" in caplog.text

    asyncio.run(test())


def test_it_is_served_over_a_real_socket() -> None:
    async def test() -> None:
        admin = await _opened(Settings.default(node_id=1, listeners="PLAINTEXT://127.0.0.1:0"))
        assert admin.listener is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", admin.listener.port)
        writer.write(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert (await reader.read()).endswith(b"\r\n\r\nhealthy\n")
        writer.close()
        admin.close()

    asyncio.run(test())


async def _opened(settings: Settings) -> Admin:
    base = NodeBase(real_runtime(), settings)
    await base.admin.open()
    return base.admin


def test_an_alarm_is_on_the_status_page_and_in_the_metrics_until_it_is_cleared() -> None:
    """Operators watch these two pages; a condition that is only in the log is found too late."""

    async def test() -> None:
        node = await start_node(SimDisk(1), **ADMIN)
        browser = Browser(node)
        node.alarms.raised("disk-full", "no space in /data: free some", "/data")
        _, status = await browser.get("/status")
        [alarm] = json.loads(status)["alarms"]
        assert (alarm["cause"], alarm["subject"], alarm["count"]) == ("disk-full", "/data", 1)
        assert "free some" in alarm["text"]
        _, metrics = await browser.get("/metrics")
        assert 'chronik_alarm_active{cause="disk-full"} 1\n' in metrics
        assert 'chronik_alarms_total{cause="disk-full"} 1\n' in metrics
        assert 'chronik_alarm_active{cause="clock-jump"} 0\n' in metrics, "a rule needs the series before the alarm"
        node.alarms.cleared("disk-full", "there is space again", "/data")
        _, status = await browser.get("/status")
        assert json.loads(status)["alarms"] == []
        _, metrics = await browser.get("/metrics")
        assert 'chronik_alarm_active{cause="disk-full"} 0\n' in metrics
        assert 'chronik_alarms_total{cause="disk-full"} 1\n' in metrics
        await node.stop()

    run(test())
