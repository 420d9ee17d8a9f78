"""One complete measurement: topic, workers, load, report.

It never retries a measurement and never hides an error: errors are counted by name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from chronik.bench import report, workloads
from chronik.bench.errors import BenchError
from chronik.bench.frames import require_versions
from chronik.bench.load import Load, Worker
from chronik.bench.report import Setup
from chronik.client.admin import offsets, topics
from chronik.client.errors import ClientError, Refused
from chronik.client.routing import ClusterClient
from chronik.client.topology import TopicPartition
from chronik.runtime.real import real_runtime
from chronik.runtime.tls import TlsClient
from chronik.wire.compression import Codec
from chronik.wire.error_codes import ErrorCode
from chronik.wire.offset_specs import EARLIEST, LATEST

__all__ = ["Setup", "measure"]

ACKS: Final = {"all": -1, "-1": -1, "1": 1, "0": 0}
OPENING_MAX: Final = 64  # connections opened concurrently


async def measure(bootstrap: str, setup: Setup, seconds: float, *, as_json: bool, tls: TlsClient | None = None) -> None:
    async with ClusterClient(real_runtime(), bootstrap, client_id="chronik-bench", tls=tls) as cluster:
        require_versions(await cluster.to_any())
        setup = replace(setup, partitions=await _ensure_topic(cluster, setup))
        load = Load(rate=setup.rate)
        readers = await _readers(load, cluster, setup)
        workers = await _workers(load, cluster, setup)

        def each_second() -> None:
            for worker in workers:
                if isinstance(worker, workloads.ProduceWorker):
                    worker.refresh()

        watching = asyncio.create_task(report.live(load, seconds, each_second))
        try:
            await _open_all([*readers, *workers])
            for reader in readers:
                reader.begin()
            totals = await load.run(workers, seconds)
        finally:
            watching.cancel()
            for each in (*readers, *workers):
                each.close()
            report.end_live_line()
        report.print_summary(report.summary(setup, totals), as_json=as_json)


async def _open_all(workers: Sequence[Worker]) -> None:
    gate = asyncio.Semaphore(OPENING_MAX)

    async def open_one(worker: Worker) -> None:
        async with gate:
            await worker.open()

    await asyncio.gather(*(open_one(worker) for worker in workers))


async def _ensure_topic(cluster: ClusterClient, setup: Setup) -> int:
    """Creates the topic if necessary; returns its number of partitions."""
    topic = setup.topic
    await cluster.refresh([topic])
    if topic not in cluster.topology.topics:
        wanted = topics.NewTopic(topic, setup.partitions, setup.replication_factor)
        created = (await topics.create(cluster, [wanted]))[topic]
        if isinstance(created, Refused) and created.kafka_error is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise created

    known = (await cluster.retrying(lambda: cluster.topic(topic))).partitions
    # A broker may take a moment to lead its new partitions: one that knows their offsets does.
    await _offsets(cluster, [TopicPartition(topic, index) for index in known], LATEST)
    return len(known)


async def _readers(load: Load, cluster: ClusterClient, setup: Setup) -> Sequence[workloads.Reader]:
    """The workers that wait for sent records; only a round trip has them."""
    if setup.mode != "roundtrip":
        return []
    count = min(setup.partitions, setup.concurrency)
    ends = await _offsets(cluster, [TopicPartition(setup.topic, index) for index in range(count)], LATEST)
    return [workloads.Reader(load, cluster, at, offset) for at, offset in ends.items()]


async def _workers(load: Load, cluster: ClusterClient, setup: Setup) -> Sequence[Worker]:
    places = [TopicPartition(setup.topic, index % setup.partitions) for index in range(setup.concurrency)]
    acks, codec = ACKS[setup.acks], Codec[setup.compression.upper()]
    if setup.mode == "produce":
        count, size_bytes = setup.messages_per_request, setup.message_size
        return [
            workloads.ProduceWorker(
                load, cluster, at, workloads.values(count, size_bytes, seed=index), acks=acks, codec=codec
            )
            for index, at in enumerate(places)
        ]
    if setup.mode == "consume":
        return await _fetch_workers(load, cluster, places)
    if setup.mode == "metadata":
        addresses = [broker.address for broker in cluster.topology.brokers.values()]
        return [
            workloads.MetadataWorker(load, cluster, at, addresses[index % len(addresses)])
            for index, at in enumerate(places)
        ]
    [value] = workloads.values(1, setup.message_size, seed=0)
    return [workloads.RoundTripWorker(load, cluster, at, value, acks=acks) for at in places]


async def _fetch_workers(load: Load, cluster: ClusterClient, places: list[TopicPartition]) -> Sequence[Worker]:
    starts = await _offsets(cluster, places, EARLIEST)
    ends = await _offsets(cluster, places, LATEST)
    filled = [at for at in starts if ends[at] > starts[at]]
    if not filled:
        raise BenchError(f"topic {places[0].topic!r} is empty: fill it first, with --mode produce")
    chosen = [filled[index % len(filled)] for index in range(len(places))]
    return [workloads.FetchWorker(load, cluster, at, starts[at]) for at in chosen]


async def _offsets(cluster: ClusterClient, places: list[TopicPartition], place: int) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for at, answer in (await offsets.look_up(cluster, dict.fromkeys(places, place))).items():
        if isinstance(answer, ClientError):
            raise answer
        found[at] = answer.offset
    return found
