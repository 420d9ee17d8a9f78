"""A share consumer's session with one broker: fetches, and acknowledgements, one request at a time.

Acknowledgements go to the broker from which the records came, with the next fetch or in a request of their own. If the
session is lost, so are they: the broker has released the records, and the group gets them again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from chronik.client.errors import BadAnswer, ClientError, Refused, refuse
from chronik.client.fetch_answers import ANSWER_TIMEOUT_MS, DECOMPRESSED_BYTES_MAX, damage_of
from chronik.client.topology import TopicPartition
from chronik.peer.backoff import Backoff
from chronik.wire import records as record_codec
from chronik.wire.batches import crc_holds, split
from chronik.wire.error_codes import ErrorCode
from chronik.wire.errors import Malformed
from chronik.wire.messages import share_acknowledge as acknowledging
from chronik.wire.messages import share_fetch as fetching
from chronik.wire.records import Record

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient

EPOCH_FINAL, EPOCH_INITIAL, EPOCH_MAX = -1, 0, 2**31 - 1
GAP: Final = 0


class Acknowledge(IntEnum):
    """What became of a record."""

    ACCEPT = 1  # processed: the group does not get it again
    RELEASE = 2  # not processed: any member gets it again
    REJECT = 3  # cannot be processed by anybody: the group does not get it again


class ShareRecord(NamedTuple):
    """A record that this consumer holds until it is acknowledged or its lock ends."""

    at: TopicPartition
    record: Record
    delivery_count: int  # 1 at the first delivery


@dataclass(frozen=True, slots=True)
class ShareFetchOptions:
    """How long brokers wait for records, and how much they return."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 50 << 20
    max_records: int = 500


A = TypeVar("A", fetching.ShareFetchResponse, acknowledging.ShareAcknowledgeResponse)
Decisions = dict[TopicPartition, dict[int, int]]  # offset: type of acknowledgement


class ShareSession:
    def __init__(
        self, cluster: ClusterClient, node_id: int, group_id: str, member_id: str, options: ShareFetchOptions
    ) -> None:
        self._cluster, self.node_id = cluster, node_id
        self._group_id, self._member_id, self._options = group_id, member_id, options
        self._epoch = EPOCH_INITIAL
        self._may_exist = False  # at the broker, also if no answer says so
        self.backoff = Backoff(cluster.randomness)
        self._partitions: frozenset[TopicPartition] = frozenset()  # as the broker knows them
        self._decisions: Decisions = {}
        self._turn = asyncio.Lock()

    @property
    def has_decisions(self) -> bool:
        return bool(self._decisions)

    @property
    def _is_open(self) -> bool:
        return self._epoch != EPOCH_INITIAL

    def decide(self, at: TopicPartition, offset: int, kind: int) -> None:
        """Goes with the next request."""
        self._decisions.setdefault(at, {})[offset] = kind

    async def fetch(
        self, partitions: Iterable[TopicPartition], failed: dict[TopicPartition, ClientError]
    ) -> tuple[list[ShareRecord], dict[TopicPartition, ClientError]]:
        """Records, and errors of partitions. Acknowledgements that were refused are added to `failed`."""
        async with self._turn:
            return await self._fetch(frozenset(partitions), failed)

    async def _fetch(
        self, wanted: frozenset[TopicPartition], failed: dict[TopicPartition, ClientError]
    ) -> tuple[list[ShareRecord], dict[TopicPartition, ClientError]]:
        options = self._options
        decisions = self._take_decisions(failed)
        topics = self._topics({*(wanted - self._partitions), *decisions})
        request = fetching.ShareFetchRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=self._epoch,
            max_wait_ms=options.max_wait_ms,
            min_bytes=options.min_bytes,
            max_bytes=options.max_bytes,
            max_records=options.max_records,
            batch_size=options.max_records,
            share_acquire_mode=0,
            is_renew_ack=False,
            topics=[
                fetching.FetchTopic(
                    topic_id=topic_id,
                    partitions=[
                        fetching.FetchPartition(
                            partition_index=at.partition,
                            acknowledgement_batches=[
                                fetching.AcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=types
                                )
                                for first, last, types in _batches(decisions.get(at, {}))
                            ],
                        )
                        for at in them
                    ],
                )
                for topic_id, them in topics.items()
            ],
            forgotten_topics_data=[
                fetching.ForgottenTopic(topic_id=topic_id, partitions=[at.partition for at in them])
                for topic_id, them in self._topics(self._partitions - wanted).items()
            ],
        )
        response = await self._ask(
            request, fetching.ShareFetchResponse, decisions, failed, options.max_wait_ms + ANSWER_TIMEOUT_MS
        )
        self._partitions = wanted
        names = {topic.topic_id: name for name, topic in self._cluster.topology.topics.items()}
        records: list[ShareRecord] = []
        faults: dict[TopicPartition, ClientError] = {}
        for topic in response.responses:
            for told in topic.partitions:
                at = TopicPartition(names.get(topic.topic_id, ""), told.partition_index)
                if told.acknowledge_error_code:
                    failed[at] = _refused(told.acknowledge_error_code, at, told.acknowledge_error_message)
                if told.error_code:
                    faults[at] = Refused(ErrorCode.of(told.error_code), f"cannot read {at}", told.error_message)
                elif told.acquired_records:
                    records += self._records(at, told)
        return records, faults

    def _records(self, at: TopicPartition, told: fetching.PartitionData) -> list[ShareRecord]:
        """Acquired offsets without a record, such as those of markers, are reported as gaps."""
        counts = {
            offset: each.delivery_count
            for each in told.acquired_records
            for offset in range(each.first_offset, each.last_offset + 1)
        }
        data = told.records or b""
        view = memoryview(b"".join(data)) if isinstance(data, list) else memoryview(data)
        found: list[ShareRecord] = []
        try:
            for batch in split(view, cut_tail=True):
                if not crc_holds(batch):
                    raise damage_of(at, batch)
                if not batch.is_control:
                    found += [
                        ShareRecord(at, record, counts.pop(record.offset))
                        for record in record_codec.iterate(batch, DECOMPRESSED_BYTES_MAX)
                        if record.offset in counts
                    ]
        except Malformed as fault:
            raise BadAnswer(f"records of {at} cannot be read: {fault}") from fault
        for offset in counts:
            self.decide(at, offset, GAP)
        return found

    async def acknowledge(self, failed: dict[TopicPartition, ClientError], *, closes: bool = False) -> None:
        """Sends what was decided. `closes` ends the session, which releases what was not decided."""
        async with self._turn:
            if not (self._may_exist if closes else self._is_open and self._decisions):
                return
            decisions = self._take_decisions(failed)
            request = acknowledging.ShareAcknowledgeRequest(
                group_id=self._group_id,
                member_id=self._member_id,
                share_session_epoch=EPOCH_FINAL if closes else self._epoch,
                is_renew_ack=False,
                topics=[
                    acknowledging.AcknowledgeTopic(
                        topic_id=topic_id,
                        partitions=[
                            acknowledging.AcknowledgePartition(
                                partition_index=at.partition,
                                acknowledgement_batches=[
                                    acknowledging.AcknowledgementBatch(
                                        first_offset=first, last_offset=last, acknowledge_types=types
                                    )
                                    for first, last, types in _batches(decisions[at])
                                ],
                            )
                            for at in them
                        ],
                    )
                    for topic_id, them in self._topics(decisions).items()
                ],
            )
            response = await self._ask(
                request, acknowledging.ShareAcknowledgeResponse, decisions, failed, ANSWER_TIMEOUT_MS
            )
            names = {topic.topic_id: name for name, topic in self._cluster.topology.topics.items()}
            for topic in response.responses:
                for told in topic.partitions:
                    if told.error_code:
                        at = TopicPartition(names.get(topic.topic_id, ""), told.partition_index)
                        failed[at] = _refused(told.error_code, at, told.error_message)
            if closes:
                self._lose()
                self._may_exist = False

    async def _ask(
        self,
        request: fetching.ShareFetchRequest | acknowledging.ShareAcknowledgeRequest,
        answer: type[A],
        decisions: Decisions,
        failed: dict[TopicPartition, ClientError],
        timeout_ms: int,
    ) -> A:
        """A session belongs to its connection: a new connection means a new session."""
        self._may_exist = True
        try:
            connection = await self._cluster.to_node(self.node_id, f"share {self._member_id}")
            response = await connection.ask(request, answer, version_min=1, timeout_ms=timeout_ms)
            refuse(response.error_code, f"cannot share-fetch from broker {self.node_id}", response.error_message)
        except ClientError as fault:
            self._lose()
            failed |= dict.fromkeys(decisions, fault)
            raise
        self._epoch = 1 if self._epoch == EPOCH_MAX else self._epoch + 1
        self.backoff.reset()
        return response

    def _lose(self) -> None:
        self._epoch, self._partitions = EPOCH_INITIAL, frozenset()

    def _take_decisions(self, failed: dict[TopicPartition, ClientError]) -> Decisions:
        """An opening request takes none."""
        decisions, self._decisions = self._decisions, {}
        decisions = {at: them for at, them in decisions.items() if them}
        if self._is_open:
            return decisions
        lost = ErrorCode.SHARE_SESSION_NOT_FOUND
        failed |= {at: _refused(lost, at, "the connection to the broker was lost") for at in decisions}
        return {}

    def _topics(self, partitions: Iterable[TopicPartition]) -> dict[bytes, list[TopicPartition]]:
        topics = self._cluster.topology.topics
        found: dict[bytes, list[TopicPartition]] = {}
        for at in sorted(partitions):
            if at.topic in topics:
                found.setdefault(topics[at.topic].topic_id, []).append(at)
        return found


def _batches(decisions: Mapping[int, int]) -> list[tuple[int, int, list[int]]]:
    """Ranges of offsets; one type for all of a range, or one for each offset."""
    offsets = sorted(decisions)
    breaks = [0, *(n for n, (one, other) in enumerate(pairwise(offsets), 1) if other != one + 1), len(offsets)]
    ranges = []
    for begin, end in pairwise(breaks):
        if begin < end:
            types = [decisions[offset] for offset in offsets[begin:end]]
            ranges.append((offsets[begin], offsets[end - 1], types[:1] if len(list(groupby(types))) == 1 else types))
    return ranges


def _refused(code: int, at: TopicPartition, detail: str | None) -> Refused:
    return Refused(ErrorCode.of(code), f"cannot acknowledge records of {at}", detail)
