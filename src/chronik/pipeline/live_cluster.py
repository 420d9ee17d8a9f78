"""A pipeline's blocking view of the cluster: topics, lag, a few records in or out.

Each call opens its own connection on its own event loop and closes it, so any driver thread may call, and nothing
outlives a query. Spark handles large amounts of records, not this module.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from chronik.client.admin import configs, lag, offsets, topics
from chronik.client.admin.vigil import unless_quorum_lost
from chronik.client.consumer import Consumer
from chronik.client.errors import ClientError, Refused, Unreachable
from chronik.client.fetch_answers import FetchOptions
from chronik.client.producer import Producer
from chronik.client.topology import TopicPartition
from chronik.pipeline.conditions import PipelineFault
from chronik.pipeline.denials import CREATE, DESCRIBE_CONFIGS, READ, WRITE, is_denied, naming
from chronik.pipeline.errors import PipelineError
from chronik.pipeline.plan import TopicFacts
from chronik.pipeline.security import NO_QUERY_SECURITY, QuerySecurity
from chronik.wire.error_codes import ErrorCode
from chronik.wire.isolation import READ_COMMITTED
from chronik.wire.offset_specs import EARLIEST, LATEST
from chronik.wire.uuids import uuid_text

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient
    from chronik.wire.records import Headers, Record

T = TypeVar("T")
POLL_MS: Final = 200


class Outgoing(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class Lag:
    messages: int
    ms: int  # age of the oldest unread record


class LiveCluster:
    def __init__(self, bootstrap: str, security: QuerySecurity = NO_QUERY_SECURITY) -> None:
        self.bootstrap = bootstrap
        self.security = security
        self._was_reached = self._has_answered = False

    @property
    def options(self) -> dict[str, str]:
        """Options for Spark readers and writers of the same cluster."""
        return {"kafka.bootstrap.servers": self.bootstrap, **self.security.options}

    def topics(self) -> Mapping[str, TopicFacts]:
        async def work(cluster: ClusterClient) -> dict[str, TopicFacts]:
            known = (await cluster.retrying(lambda: cluster.refresh(None))).topics
            return {name: TopicFacts(uuid_text(topic.topic_id), len(topic.partitions)) for name, topic in known.items()}

        try:
            return self._run(work)
        except Unreachable as error:
            raise PipelineFault("BROKER_NOT_REACHED", bootstrap=self.bootstrap, reason=str(error)) from error

    def why_denied(self, topic: str, operation: str) -> str:
        """The reason why access rules hide a topic from `topics`, or an empty string."""

        async def work(cluster: ClusterClient) -> None:
            code = (await cluster.retrying(lambda: cluster.refresh([topic]))).errors.get(topic)
            if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                raise Refused(code, f"topic {topic!r}")

        try:
            with naming(self.security, operation, topic=topic):
                self._run(work)
        except PipelineError as denied:
            return str(denied)
        return ""

    def configs_of(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        """All effective configs of these topics."""

        async def work(cluster: ClusterClient) -> dict[str, dict[str, str]]:
            found = {}
            for name in names:
                with naming(self.security, DESCRIBE_CONFIGS, topic=name):
                    told = await configs.describe(cluster, configs.ConfigResource(configs.ResourceKind.TOPIC, name))
                found[name] = {config.name: config.value or "" for config in told}
            return found

        return self._run(work)

    def create_topic(self, name: str, partition_count: int, settings: Mapping[str, str] | None = None) -> bool:
        """False if it already existed."""

        async def work(cluster: ClusterClient) -> bool:
            result = (await topics.create(cluster, [topics.NewTopic(name, partition_count, -1, settings or {})]))[name]
            if not isinstance(result, Refused):
                return True
            if result.kafka_error is ErrorCode.TOPIC_ALREADY_EXISTS:
                return False
            # Without CREATE permission the answer does not show that it exists; DESCRIBE permission finds it.
            if is_denied(result) and name in (await cluster.refresh([name])).topics:
                return False
            with naming(self.security, CREATE, topic=name):
                raise result

        return self._run(work)

    def send(self, topic: str, records: Sequence[Outgoing]) -> None:
        """Returns when all are acknowledged."""

        async def work(cluster: ClusterClient) -> None:
            async with Producer(cluster) as producer:
                for record in records:
                    await producer.send(topic, record.value, key=record.key, headers=record.headers)

        with naming(self.security, WRITE, topic=topic):
            self._run(work)

    def read(self, topic: str, each: Callable[[TopicPartition, Record], None]) -> None:
        """Every committed record that the topic holds now, in order within a partition."""

        async def work(cluster: ClusterClient) -> None:
            known = await cluster.topic(topic)
            partitions = [TopicPartition(topic, index) for index in known.partitions]
            ends = {at: told.offset for at, told in (await _ends(cluster, partitions)).items()}
            async with Consumer(cluster, options=FetchOptions(isolation_level=READ_COMMITTED)) as consumer:
                await consumer.assign(dict.fromkeys(partitions, EARLIEST))
                while any(at_end < ends[at] for at, at_end in consumer.positions().items()):
                    for fetched in await consumer.poll(POLL_MS):
                        for record in fetched.records:
                            if record.offset < ends[fetched.at]:
                                each(fetched.at, record)

        with naming(self.security, READ, topic=topic):
            self._run(work)

    def ends(self, topic: str) -> dict[int, int]:
        async def work(cluster: ClusterClient) -> dict[int, int]:
            known = await cluster.topic(topic)
            partitions = [TopicPartition(topic, index) for index in known.partitions]
            return {at.partition: told.offset for at, told in (await _ends(cluster, partitions)).items()}

        with naming(self.security, READ, topic=topic):
            return self._run(work)

    def lag_behind(self, topic: str, positions: Mapping[int, int]) -> Lag | None:
        """The lag of a reader at these offsets. Records deleted by retention do not count.

        None if it is unknown now, because a partition has no leader that answers.
        """

        async def work(cluster: ClusterClient) -> Lag | None:
            known = await cluster.topic(topic)
            committed = {TopicPartition(topic, index): positions.get(index) for index in known.partitions}
            return _summed(await lag.of(cluster, committed))

        with naming(self.security, READ, topic=topic):
            return self._run_if_possible(work)

    def lag_of(self, group: str, topic: str) -> Lag | None:
        """The same for a group's committed offsets."""

        async def work(cluster: ClusterClient) -> Lag | None:
            known = await cluster.topic(topic)
            stored = await offsets.committed(cluster, group)
            wanted = [TopicPartition(topic, index) for index in known.partitions]
            committed = {at: stored[at].offset if at in stored else None for at in wanted}
            return _summed(await lag.of(cluster, committed))

        with naming(self.security, READ, topic=topic, group=group):
            return self._run_if_possible(work)

    def _run_if_possible(self, work: Callable[[ClusterClient], Awaitable[T]]) -> T | None:
        """None for errors that a later attempt may not have."""
        try:
            return self._run(work)
        except ClientError as error:
            if not error.retriable:
                raise
            return None

    def _run(self, work: Callable[[ClusterClient], Awaitable[T]]) -> T:
        async def connected() -> T:
            async with self.security.client(self.bootstrap, "chronik-pipeline") as cluster:
                if not self._was_reached:
                    await cluster.to_any()  # fails at once if no broker is reachable; later errors are retried
                    self._was_reached = True
                # Before its first answer a lost quorum fails at once; a running pipeline waits until it is back.
                answer = await (work(cluster) if self._has_answered else unless_quorum_lost(cluster, work(cluster)))
                self._has_answered = True
                return answer

        return asyncio.run(connected())


async def _ends(cluster: ClusterClient, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, offsets.OffsetAt]:
    found = {}
    asked = dict.fromkeys(partitions, LATEST)
    answers = await offsets.look_up(cluster, asked, isolation_level=READ_COMMITTED)
    for at, told in answers.items():
        if isinstance(told, ClientError):
            raise told
        found[at] = told
    return found


def _summed(lags: Mapping[TopicPartition, lag.PartitionLag]) -> Lag | None:
    messages = [each.lag for each in lags.values() if each.lag is not None]
    if len(messages) < len(lags):  # a partition that did not answer may have lag
        return None
    return Lag(sum(messages), max((each.lag_ms or 0 for each in lags.values()), default=0))
