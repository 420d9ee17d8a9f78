"""One node of a cluster, asked in structs over a socket of its own; what metadata says there, in plain values."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from chronik.testing import Cluster
from chronik.wire.compiler import decoder_of
from chronik.wire.headers import ResponseHeader, response_header_version
from chronik.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from chronik.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from chronik.wire.notation import Request, Response
from tests.oracle.comparison import Server

R = TypeVar("R", bound=Response)
METADATA_VERSION = 12
CREATE_VERSION = 7
TIMEOUT_MS = 10_000
ANSWER_BUDGET_BYTES = 1 << 30  # of memory: a list of ten thousand topics is an honest answer


class Placed(NamedTuple):
    """One partition as a node shows it."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class Asked:
    """A connection to one node."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        self.node_id = node_id
        self._server = Server(f"node {node_id}", cluster.ports[node_id - 1])

    def ask(self, request: Request, response: type[R], version: int) -> R:
        self._server.send(request, version)
        frame = memoryview(self._server.receive_frame())
        _, at = decoder_of(ResponseHeader, response_header_version(response, version))(frame)
        answer, end = decoder_of(response, version)(frame, at, ANSWER_BUDGET_BYTES)
        assert end == len(frame)
        return answer

    def metadata(self, *topics: str, creates: bool = False) -> MetadataResponse:
        """Of all topics when none is named."""
        wanted = [MetadataRequestTopic(name=name) for name in topics] if topics else None
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=creates)
        return self.ask(request, MetadataResponse, METADATA_VERSION)

    def placed(self, topic: str) -> list[Placed]:
        """By partition."""
        (described,) = self.metadata(topic).topics
        assert described.error_code == 0, f"{topic} on node {self.node_id}: error {described.error_code}"
        return [
            Placed(p.leader_id, p.leader_epoch, tuple(p.replica_nodes), tuple(p.isr_nodes))
            for p in sorted(described.partitions, key=lambda each: each.partition_index)
        ]

    def create(
        self, *topics: str, partitions: int = 3, replicas: int = 3, version: int = CREATE_VERSION
    ) -> dict[str, int]:
        """Error codes by name."""
        asked = [
            CreatableTopic(
                name=name, num_partitions=partitions, replication_factor=replicas, assignments=[], configs=[]
            )
            for name in topics
        ]
        request = CreateTopicsRequest(topics=asked, timeout_ms=TIMEOUT_MS)
        answer = self.ask(request, CreateTopicsResponse, version)
        return {topic.name: topic.error_code for topic in answer.topics}

    def close(self) -> None:
        self._server.close_all()
