"""Finds out which coordinator epoch fences the markers of a coordinator that was not replaced.

A partition remembers the highest coordinator epoch of each producer's markers, and refuses lower ones. This fences a
replaced coordinator. But an operator can send a marker with any epoch, to abort a transaction manually. If no
coordinator ever had this epoch, the partition refuses the markers of the real coordinator permanently. The transaction
would never complete, and read_committed consumers would wait forever.

So a coordinator whose markers were refused for a minute asks the quorum whether it still leads the transaction's state
partition, in the leader epoch of its marker. If so, no other coordinator exists, and it sends the marker with the epoch
that the partition knows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from chronik.metadata.errors import MetadataError
from chronik.wire.internal_topics import TRANSACTIONS_TOPIC
from chronik.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from chronik.wire.peer_errors import PeerError

if TYPE_CHECKING:
    from chronik.broker.services import Services
    from chronik.coordinator.transactions.transaction import TopicPartition

log = logging.getLogger("chronik.broker.transactions")

NONE_KNOWN: Final = -1


class FencedMarkers:
    def __init__(self, node_id: int, services: Callable[[], Services]) -> None:
        self._node_id = node_id
        self._services = services  # a callable, because the services are created after the coordinators

    async def epoch_at(
        self, partition: TopicPartition, producer_id: int, state_partition: int, coordinator_epoch: int
    ) -> int:
        """The coordinator epoch that the partition's leader knows for this producer. NONE_KNOWN if the leader does not
        respond, or if this node no longer leads the state partition in this epoch."""
        services = self._services()
        try:
            image = await services.store.read()
            state_topic = image.topic_named(TRANSACTIONS_TOPIC)
            state = None if state_topic is None else state_topic.partition(state_partition)
            if state is None or (state.leader, state.leader_epoch) != (self._node_id, coordinator_epoch):
                return NONE_KNOWN
            known = await self._known_at(partition, producer_id)
        except (MetadataError, PeerError) as fault:
            log.info("cannot find out why markers for %s-%d are refused: %s", *partition, fault)
            return NONE_KNOWN
        if known > coordinator_epoch:
            self._tell(partition, producer_id, known, coordinator_epoch)
        return known

    def _tell(self, partition: TopicPartition, producer_id: int, known: int, coordinator_epoch: int) -> None:
        log.warning(
            "partition %s-%d knows coordinator epoch %d of producer %d, but the coordinator's is %d: somebody sent a "
            "marker with an epoch of its own; the transaction is ended with the epoch that the partition knows",
            *partition,
            known,
            producer_id,
            coordinator_epoch,
        )

    async def _known_at(self, partition: TopicPartition, producer_id: int) -> int:
        services, (name, index) = self._services(), partition
        topic = services.store.image.topic_named(name)
        state = None if topic is None else topic.partition(index)
        if topic is None or state is None:
            return NONE_KNOWN
        if state.leader == self._node_id:
            replica = services.replicas.get(topic, index)
            producer = None if replica is None else replica.log.producers.producers.get(producer_id)
            return NONE_KNOWN if producer is None else producer.coordinator_epoch
        request = DescribeProducersRequest(topics=[TopicRequest(name=name, partition_indexes=[index])])
        answer = await services.peers.ask(state.leader, request, DescribeProducersResponse)
        found = [
            producer.coordinator_epoch
            for each in answer.topics
            for told in each.partitions
            for producer in told.active_producers
            if producer.producer_id == producer_id
        ]
        return found[0] if found else NONE_KNOWN
