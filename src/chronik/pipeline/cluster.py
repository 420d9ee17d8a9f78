"""A driver's queries to a cluster: topics, offsets by position and time, and a group's committed offsets. Blocking.

A thin layer over `chronik.client`, which finds leaders and coordinators and retries while Kafka calls an error
retriable. Every call fetches fresh metadata: between two batches topics may grow, be deleted or be recreated.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from chronik.client.admin import groups, offsets
from chronik.client.admin.vigil import unless_quorum_lost
from chronik.client.errors import ClientError, Refused
from chronik.client.topology import TopicPartition
from chronik.pipeline.denials import READ, naming
from chronik.pipeline.security import NO_QUERY_SECURITY, QuerySecurity
from chronik.wire.error_codes import ErrorCode
from chronik.wire.notation import ZERO_UUID
from chronik.wire.uuids import uuid_text

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Mapping
    from contextlib import AbstractAsyncContextManager

    from chronik.client.routing import ClusterClient
    from chronik.pipeline.options import SourceOptions

T = TypeVar("T")


class KnownTopic(NamedTuple):
    topic_id: str  # in the format of Kafka's tools; empty if brokers have no ids
    partitions: tuple[int, ...]


class BlockingCluster:
    """Connects on first use. Close it, or let the process end."""

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str,
        security: QuerySecurity = NO_QUERY_SECURITY,
        is_patient: bool = True,
    ) -> None:
        """Raises UNSUPPORTED_SECURITY. Unless `is_patient`, calls raise QuorumLost when retries cannot succeed."""
        self._is_patient = is_patient
        self._security = security
        self._client = security.client(bootstrap, client_id)
        self._runner = asyncio.Runner()
        self._cluster: ClusterClient = self._runner.run(_entered(self._client))

    def close(self) -> None:
        self._runner.run(_left(self._client))
        self._runner.close()

    def topics(self, names: Iterable[str] | None) -> dict[str, KnownTopic]:
        """The topics among `names` that exist; None: all except Kafka's own."""
        wanted = None if names is None else list(names)
        topology = self._run(self._cluster.retrying(lambda: self._cluster.refresh(wanted)))
        for name, code in topology.errors.items():
            if wanted is not None and name in wanted and code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                with naming(self._security, READ, topic=name):
                    raise Refused(code, f"topic {name!r}")
        return {
            name: KnownTopic("" if topic.topic_id == ZERO_UUID else uuid_text(topic.topic_id), tuple(topic.partitions))
            for name, topic in sorted(topology.topics.items())
            if (name in wanted if wanted is not None else not topic.is_internal)
        }

    def offsets(self, wanted: Mapping[TopicPartition, int], isolation_level: int) -> dict[TopicPartition, int | None]:
        """The offset at LATEST, EARLIEST or a time in ms; None if no record is that late."""
        if not wanted:
            return {}
        found = self._run(offsets.look_up(self._cluster, wanted, isolation_level=isolation_level))
        answers: dict[TopicPartition, int | None] = {}
        for at, told in found.items():
            if isinstance(told, ClientError):
                with naming(self._security, READ, topic=at.topic):
                    raise told
            answers[at] = None if told.offset == offsets.NONE else told.offset
        return answers

    def committed(self, group_id: str) -> dict[TopicPartition, tuple[int, str]]:
        """Committed offsets and their texts, for partitions that have one."""
        with naming(self._security, READ, group=group_id):
            found = self._run(offsets.committed(self._cluster, group_id))
        return {at: (each.offset, each.metadata) for at, each in found.items()}

    def commit(self, group_id: str, positions: Mapping[TopicPartition, int], *, text: str = "") -> None:
        committed = {at: offsets.Committed(offset, -1, text) for at, offset in positions.items()}
        topic = next((at.topic for at in positions), "")
        with naming(self._security, READ, topic=topic, group=group_id):
            self._run(offsets.commit(self._cluster, group_id, committed))

    def list_groups(self) -> list[str]:
        return [group.group_id for group in self._run(groups.list_all(self._cluster))]

    def delete_group(self, group_id: str) -> None:
        self._run(groups.delete(self._cluster, [group_id]))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work if self._is_patient else unless_quorum_lost(self._cluster, work))


def cluster_of(options: SourceOptions) -> BlockingCluster:
    return BlockingCluster(options.bootstrap, client_id=options.client_id, security=options.security)


async def _entered(client: AbstractAsyncContextManager[ClusterClient]) -> ClusterClient:
    return await client.__aenter__()


async def _left(client: AbstractAsyncContextManager[ClusterClient]) -> None:
    await client.__aexit__(None, None, None)
