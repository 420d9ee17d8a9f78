"""A node as a separate process under attack. Its memory stays below 64 MiB plus 16 times the received bytes, and below
the memory budget plus 128 MiB.

The kernel's high-water mark is checked, so nothing is missed between two checks.
"""

from __future__ import annotations

import gzip
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from chronik.testing.cluster import Cluster
from chronik.wire.compression import Codec
from chronik.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from chronik.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from chronik.wire.messages.find_coordinator import FindCoordinatorRequest
from chronik.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from chronik.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.hostile import batch, fetch_request, frame, produce_request
from tests.broker.test_bad_input import _compressed

MIB = 1 << 20
FREE_BYTES, BYTES_PER_WIRE_BYTE = 64 * MIB, 16
BUDGET_BYTES, FIXED_BYTES = 32 * MIB, 128 * MIB
TOPICS = {"plain": [], "compacted": [CreatableTopicConfig(name="cleanup.policy", value="compact")]}

pytestmark = pytest.mark.slow


class Node:
    """The process, and how much was sent to it since its memory was looked at."""

    def __init__(self, cluster: Cluster) -> None:
        self.port = cluster.port
        self.process = Path(f"/proc/{cluster._runners[0]._process.pid}")  # type: ignore[union-attr]
        self.open: list[socket.socket] = []
        self.sent_bytes = 0

    def connect(self) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.port), 20)
        self.open.append(made)
        return made

    def send(self, connection: socket.socket, data: bytes) -> None:
        connection.sendall(data)
        self.sent_bytes += len(data)

    def ask(self, data: bytes) -> bytes:
        """On a separate connection; empty if the node closed it."""
        connection = self.connect()
        self.send(connection, data)
        with connection.makefile("rb") as stream:
            return stream.read(int.from_bytes(stream.read(4), "big"))

    def memory_bytes(self, field: str) -> int:
        lines = (self.process / "status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024

    def end_all(self) -> None:
        for connection in self.open:
            connection.close()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(in_process=False, settings={"chronik.memory.budget.bytes": str(BUDGET_BYTES)}) as made:
        node = Node(made)
        topics = [
            CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=configs)
            for name, configs in TOPICS.items()
        ]
        assert node.ask(frame(CreateTopicsRequest(topics=topics), 5))
        assert node.ask(frame(FindCoordinatorRequest(coordinator_keys=["group"]), 4))
        for _ in range(60):
            assert node.ask(frame(produce_request(batch(bytes(900_000)), topic="plain"), 9))
        node.end_all()
        yield made


def consumers_that_never_read(node: Node) -> None:
    """A hundred bytes each, for an answer of 50 MB each."""
    for _ in range(20):
        node.send(node.connect(), frame(fetch_request(topic="plain", min_bytes=2, max_bytes=1 << 26), 11))


def decompression_bombs(node: Node) -> None:
    """60 MiB of zeros in 60 KiB, where every record must be looked at."""
    bomb = _compressed(gzip.compress(bytes(60 * MIB), 9), Codec.GZIP)
    for _ in range(5):
        assert node.ask(frame(produce_request(bomb, topic="compacted"), 9))


def very_many_elements(node: Node) -> None:
    """Two bytes each on the wire, and an object each if they were decoded."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name="")] * 999_999)
    for _ in range(3):
        assert node.ask(frame(request, 4)) == b""


def large_frames_that_never_end(node: Node) -> None:
    """Each announces 90 MB and sends a little: announced bytes take no memory beyond the budget."""
    for _ in range(20):
        node.send(node.connect(), (90 * MIB).to_bytes(4, "big") + bytes(300_000))


def fetch_sessions_of_many_partitions(node: Node) -> None:
    """Each would keep some megabytes until a thousand others have come."""
    wanted = [FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=1) for n in range(20_000)]
    begin = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        session_epoch=0,
        topics=[FetchTopic(topic="plain", partitions=wanted)],
        forgotten_topics_data=[],
    )
    data = frame(begin, 7)
    for _ in range(40):
        assert node.ask(data)


def members_with_much_metadata(node: Node) -> None:
    """Twenty megabytes each, each in a separate group, kept for half an hour; and many within the limits."""
    for size_bytes, count in ((20 * MIB, 10), (MIB - 1024, 60)):
        for n in range(count):
            join = JoinGroupRequest(
                group_id=f"group-{size_bytes}-{n}",
                session_timeout_ms=1_800_000,
                rebalance_timeout_ms=1_800_000,
                member_id="",
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(size_bytes))],
            )
            node.send(node.connect(), frame(join, 3))


def long_fetches_that_wait(node: Node) -> None:
    """Thousands of objects each, which live for as long as the fetch waits."""
    wanted = [FetchPartition(partition=0, fetch_offset=60, partition_max_bytes=1)] * 20_000
    wait = FetchRequest(
        max_wait_ms=300_000,
        min_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic="plain", partitions=wanted)],
        forgotten_topics_data=[],
    )
    data = frame(wait, 7)
    for _ in range(100):
        node.send(node.connect(), data)


def large_frames_that_arrive_in_part(node: Node) -> None:
    """A hundred of them, and of each a megabyte comes."""
    for _ in range(100):
        connection = node.connect()
        connection.settimeout(0.05)  # the node does not read on when the budget is spent
        with suppress(TimeoutError):
            node.send(connection, (90 * MIB).to_bytes(4, "big") + bytes(MIB))


KEPT_ATTACKS = [
    fetch_sessions_of_many_partitions,
    members_with_much_metadata,
    long_fetches_that_wait,
    large_frames_that_arrive_in_part,
]

ATTACKS = [consumers_that_never_read, decompression_bombs, very_many_elements, large_frames_that_never_end]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_memory_stays_within_what_was_promised(cluster: Cluster, attack: Callable[[Node], None]) -> None:
    """No client may end the process by its memory use, and the next client must be served."""
    node = Node(cluster)
    assert node.ask(frame(fetch_request(topic="compacted"), 11)), "it serves before"
    (node.process / "clear_refs").write_text("5")  # resets the high-water mark
    before_bytes = node.memory_bytes("VmRSS")
    try:
        attack(node)
        assert node.ask(frame(produce_request(batch(b"after"), topic="plain"), 9)), "others are served"
        grown_bytes = node.memory_bytes("VmHWM") - before_bytes
        allowed_bytes = FREE_BYTES + BYTES_PER_WIRE_BYTE * node.sent_bytes
        assert grown_bytes <= allowed_bytes, f"{grown_bytes // MIB} MiB for {node.sent_bytes} bytes"
        print(f"{attack.__name__}: {grown_bytes / MIB:.1f} MiB for {node.sent_bytes} bytes sent")
    finally:
        node.end_all()


@pytest.mark.parametrize("attack", [*ATTACKS, *KEPT_ATTACKS], ids=lambda attack: attack.__name__)
def test_memory_stays_below_the_budget_and_a_fixed_amount(cluster: Cluster, attack: Callable[[Node], None]) -> None:
    """An operator sets the budget by the machine's memory, and must be able to rely on it."""
    node = Node(cluster)
    assert node.ask(frame(fetch_request(topic="compacted"), 11)), "it serves before"
    (node.process / "clear_refs").write_text("5")
    before_bytes = node.memory_bytes("VmRSS")
    try:
        attack(node)
        assert node.ask(frame(produce_request(batch(b"after"), topic="plain"), 9)), "others are served"
        grown_bytes = node.memory_bytes("VmHWM") - before_bytes
        print(f"{attack.__name__}: {grown_bytes / MIB:.1f} MiB")
        assert grown_bytes <= BUDGET_BYTES + FIXED_BYTES, f"{grown_bytes // MIB} MiB"
    finally:
        node.end_all()
