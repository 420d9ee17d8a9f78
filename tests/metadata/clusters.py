"""Small clusters to decide on: an image that grows by commands, without quorum, disk or clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chronik.metadata.commands.broker_heartbeat import BrokerHeartbeat
from chronik.metadata.commands.command import Command, RequestId
from chronik.metadata.commands.create_topics import CreateTopics, NewTopic
from chronik.metadata.commands.register_broker import EndpointAt, RegisterBroker, SupportedFeature
from chronik.metadata.commands.update_features import FEATURES
from chronik.metadata.controller import Controller
from chronik.metadata.decisions.decision import Rules
from chronik.metadata.image import EMPTY, Image, Partition, Topic
from chronik.metadata.records import ClusterRecord, FeatureLevelRecord, MetadataRecord
from chronik.metadata.replay import replay_onto

CLUSTER_ID = "cluster-of-the-tests"
SECOND_NS = 1_000_000_000
SESSION_NS = 9 * SECOND_NS


class Cluster:
    """Decides each command and applies its records at once. `records` is everything so far, `image` its state."""

    def __init__(self, rules: Rules | None = None) -> None:
        self.rules = rules or Rules()
        self.records: list[MetadataRecord] = []
        self.image: Image = EMPTY
        self.sequence = 0
        self.now_ns = 0
        self.controller = self._controller()

    def _controller(self) -> Controller:
        return Controller(self.image, self.rules, session_timeout_ns=SESSION_NS, now_ns=self.now_ns)

    def apply(self, records: Sequence[MetadataRecord]) -> None:
        self.records += records
        self.image, _ = replay_onto(self.image, self.image.version + 1, records)

    def ask(self, command: Command, request: RequestId | None = None) -> Any:
        """The reply, after the decision holds. MetadataRefused as it comes."""
        self.sequence += 1
        request = request or RequestId(0, 1, self.sequence, self.sequence)
        decision = self.controller.handle(command, request, self.now_ns)
        if decision.records:
            self.apply(decision.records)
        return decision.reply

    def change_controller(self) -> None:
        """A new leader starts from the applied state; the old leader's other state is gone."""
        self.controller = self._controller()

    def topic(self, name: str) -> Topic:
        topic = self.image.topic_named(name)
        assert topic is not None
        return topic

    def partition(self, name: str, index: int = 0) -> Partition:
        return self.topic(name).partitions[index]

    def epoch(self, broker_id: int) -> int:
        return self.image.brokers[broker_id].epoch


def registration(
    broker_id: int,
    *,
    process: int = 1,
    rack: str | None = None,
    directory: bytes = b"",
    earlier: Sequence[int] | None = None,
) -> RegisterBroker:
    return RegisterBroker(
        broker_id=broker_id,
        cluster_id=CLUSTER_ID,
        incarnation_id=bytes([process]) * 16,
        endpoints=[EndpointAt(name="PLAINTEXT", host=f"host-{broker_id}", port=9092)],
        rack=rack,
        features=[SupportedFeature(name=n, level_min=low, level_max=high) for n, (low, high) in FEATURES.items()],
        directory_ids=[directory] if directory else [],
        earlier_incarnation_ids=None if earlier is None else [bytes([each]) * 16 for each in earlier],
    )


def cluster(
    brokers: int = 3,
    *,
    fenced: Sequence[int] = (),
    racks: Mapping[int, str] | None = None,
    features: Mapping[str, int] | None = None,
    rules: Rules | None = None,
) -> Cluster:
    """Brokers 1 to n, live but for `fenced`."""
    made = Cluster(rules)
    founding: list[MetadataRecord] = [ClusterRecord(cluster_id=CLUSTER_ID)]
    founding += [FeatureLevelRecord(name=name, level=level) for name, level in (features or {}).items()]
    made.apply(founding)
    made.change_controller()
    for broker_id in range(1, brokers + 1):
        epoch = made.ask(registration(broker_id, rack=(racks or {}).get(broker_id))).broker_epoch
        if broker_id not in fenced:
            made.ask(BrokerHeartbeat(broker_id=broker_id, broker_epoch=epoch))
    return made


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"\1")[:16]


def new_topic(name: str, partition_count: int = 1, replication_factor: int = 1, **more: Any) -> NewTopic:
    return NewTopic(
        name=name,
        topic_id=topic_id(name),
        partition_count=partition_count,
        replication_factor=replication_factor,
        **more,
    )


def create(on: Cluster, *topics: NewTopic, validate_only: bool = False) -> Any:
    return on.ask(CreateTopics(topics=list(topics), validate_only=validate_only))
