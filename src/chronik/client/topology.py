"""A client's view of a cluster: brokers, topics, and the leader of each partition. Immutable values.

A `Topology` is as old as its last refresh. For anything unknown it raises Refused with Kafka's own error, so a caller
handles a leader unknown to the client and a leader missing in the cluster alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from chronik.client.addresses import Address
from chronik.client.errors import Refused
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.metadata import MetadataResponse, MetadataResponseTopic

NO_LEADER = -1


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Broker(NamedTuple):
    node_id: int
    address: Address
    rack: str | None


class Partition(NamedTuple):
    partition: int
    leader_id: int  # NO_LEADER if there is none
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


class Topic(NamedTuple):
    name: str
    topic_id: bytes  # ZERO_UUID if the broker is too old to report it
    is_internal: bool
    partitions: Mapping[int, Partition]


@dataclass(frozen=True, slots=True)
class Topology:
    cluster_id: str | None = None
    controller_id: int = -1
    brokers: Mapping[int, Broker] = field(default_factory=dict)
    topics: Mapping[str, Topic] = field(default_factory=dict)
    errors: Mapping[str, ErrorCode] = field(default_factory=dict)  # topics for which the cluster returned only an error

    def topic(self, name: str) -> Topic:
        if name in self.errors or name not in self.topics:
            raise Refused(self.errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), f"topic {name!r}")
        return self.topics[name]

    def partition(self, at: TopicPartition) -> Partition:
        partition = self.topic(at.topic).partitions.get(at.partition)
        if partition is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {at}")
        return partition

    def address_of(self, node_id: int) -> Address | None:
        """See `peer.directory.Directory`."""
        broker = self.brokers.get(node_id)
        return None if broker is None else broker.address

    def leader_of(self, topic: str, partition: int) -> int | None:
        """See `peer.directory.Directory`. A leader without a known address cannot be reached, so it counts as none."""
        known = self.topics.get(topic)
        told = None if known is None else known.partitions.get(partition)
        return None if told is None or told.leader_id not in self.brokers else told.leader_id

    def leader(self, at: TopicPartition) -> int:
        """The node that leads a partition. Raises Refused, with the reason why none is known."""
        self.partition(at)
        leader_id = self.leader_of(at.topic, at.partition)
        if leader_id is None:
            raise Refused(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {at}")
        return leader_id

    def merged(self, response: MetadataResponse, *, is_everything: bool) -> Topology:
        """This topology updated by a Metadata response about all topics, or about some."""
        told = {each.name: each for each in response.topics if each.name is not None}
        kept_topics = {} if is_everything else {k: v for k, v in self.topics.items() if k not in told}
        kept_errors = {} if is_everything else {k: v for k, v in self.errors.items() if k not in told}
        return Topology(
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
            brokers={
                each.node_id: Broker(each.node_id, Address(each.host, each.port), each.rack)
                for each in response.brokers
            },
            topics=kept_topics | {name: _topic(each) for name, each in told.items() if not each.error_code},
            errors=kept_errors
            | {name: ErrorCode.of(each.error_code) for name, each in told.items() if each.error_code},
        )

    def without(self, topic: str) -> Topology:
        """This topology without a topic whose metadata is outdated."""
        return replace(
            self,
            topics={k: v for k, v in self.topics.items() if k != topic},
            errors={k: v for k, v in self.errors.items() if k != topic},
        )


def _topic(told: MetadataResponseTopic) -> Topic:
    assert told.name is not None
    partitions = {
        each.partition_index: Partition(
            each.partition_index,
            each.leader_id,
            each.leader_epoch,
            tuple(each.replica_nodes),
            tuple(each.isr_nodes),
            tuple(each.offline_replicas),
        )
        for each in sorted(told.partitions, key=lambda each: each.partition_index)
    }
    return Topic(told.name, told.topic_id, told.is_internal, partitions)
