"""What the wire layer costs, beside kio and kafka-python on the same bytes.

    make bench-wire        prints the table and writes docs/benchmarks/wire.md and wire.json

Each figure is the best of many short rounds: the machine's other work only ever makes a round slower. `bar` is what we
hold ourselves to; a miss is printed, never hidden. Nothing here is a test: a slow machine fails nobody.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chronik.wire.batches import build, validate_produced
from chronik.wire.compiler import decoder_of, encode, encoder_of
from chronik.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from chronik.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from chronik.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from chronik.wire.records import Record

OUTPUT = Path(__file__).parent.parent / "docs" / "benchmarks"
ROUNDS = 60


def best_us(work: Callable[[], Any], *, seconds_per_round: float = 0.01) -> float:
    """Microseconds for one call, from the fastest round."""
    started = time.perf_counter()
    work()
    once = max(time.perf_counter() - started, 1e-7)
    calls = max(1, int(seconds_per_round / once))
    rounds = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for _ in range(calls):
            work()
        rounds.append((time.perf_counter() - started) / calls)
    return min(rounds) * 1e6


def produce_request() -> bytes:
    batch = build([Record(offset=0, timestamp=1, key=None, value=bytes(1000), headers=())])
    partition = PartitionProduceData(index=0, records=batch)
    topic = TopicProduceData(name="topic", partition_data=[partition])
    return encode(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic]), 9)


def metadata_response() -> MetadataResponse:
    topics = [
        MetadataResponseTopic(
            error_code=0,
            name=f"topic-{number:04}",
            topic_id=number.to_bytes(16, "big"),
            partitions=[
                MetadataResponsePartition(
                    error_code=0,
                    partition_index=index,
                    leader_id=index % 3 + 1,
                    leader_epoch=0,
                    replica_nodes=[1, 2, 3],
                    isr_nodes=[1, 2, 3],
                )
                for index in range(12)
            ],
        )
        for number in range(100)
    ]
    brokers = [MetadataResponseBroker(node_id=i, host="localhost", port=9091 + i) for i in (1, 2, 3)]
    return MetadataResponse(brokers=brokers, cluster_id="MkU3OEVBNTcwNTJENDM2Qk", controller_id=1, topics=topics)


def fetch_request() -> bytes:
    partitions = [
        FetchPartition(partition=i, current_leader_epoch=0, fetch_offset=1000 + i, partition_max_bytes=1 << 20)
        for i in range(100)
    ]
    request = FetchRequest(max_wait_ms=500, min_bytes=1, topics=[FetchTopic(topic="topic", partitions=partitions)])
    return encode(request, 12)


def import_ms() -> float:
    """Time to import the wire layer in a fresh interpreter, over and above starting it."""
    code = (
        "import time; t = time.perf_counter(); import chronik.wire.compiler, chronik.wire.batches;"
        " print((time.perf_counter() - t) * 1e3)"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(9)]
    return min(float(run.stdout) for run in runs)


def rows() -> list[dict[str, Any]]:
    produce, fetch, metadata = memoryview(produce_request()), memoryview(fetch_request()), metadata_response()
    decode_produce, decode_fetch = decoder_of(ProduceRequest, 9), decoder_of(FetchRequest, 12)
    encode_metadata = encoder_of(MetadataResponse, 12)
    values = [Record(offset=i, timestamp=i, key=None, value=bytes(1000), headers=()) for i in range(1000)]
    batch = memoryview(bytearray(build(values)))

    def encode_joined() -> bytes:
        parts: list[Any] = []
        encode_metadata(metadata, parts)
        return b"".join(parts)

    return [
        row("decode Produce v9, 1 KB record", 4, best_us(lambda: decode_produce(produce)), **others.produce(produce)),
        row("encode Metadata v12, 100 x 12", 1000, best_us(encode_joined), **others.metadata(encode_joined())),
        row("decode Fetch v12, 100 partitions", 150, best_us(lambda: decode_fetch(fetch)), **others.fetch(fetch)),
        row("validate a 1 MB batch", 100, best_us(lambda: validate_produced(batch, 1 << 24))),
        row("import chronik.wire (ms)", 30, import_ms()),
    ]


def row(work: str, bar: float, chronik: float, **beside: float | None) -> dict[str, Any]:
    return {"work": work, "bar_us": bar, "chronik_us": round(chronik, 2), "met": chronik <= bar, **beside}


class others:  # noqa: N801 - a namespace that reads as a sentence
    """The same work by libraries that others wrote. None where a library has not the version."""

    @staticmethod
    def produce(data: memoryview) -> dict[str, float | None]:
        from kio.schema.produce.v9.request import ProduceRequest as KioProduce

        theirs = python_decode("ProduceRequest", 9, data)
        return {"kio_us": kio_decode(KioProduce, bytes(data)), "kafka_python_us": theirs}

    @staticmethod
    def fetch(data: memoryview) -> dict[str, float | None]:
        from kio.schema.fetch.v12.request import FetchRequest as KioFetch

        theirs = python_decode("FetchRequest", 12, data)
        return {"kio_us": kio_decode(KioFetch, bytes(data)), "kafka_python_us": theirs}

    @staticmethod
    def metadata(data: bytes) -> dict[str, float | None]:
        import io

        from kio.schema.metadata.v12.response import MetadataResponse as KioMetadata
        from kio.serial import entity_reader, entity_writer

        try:
            value = entity_reader(KioMetadata)(io.BytesIO(data))
        except TypeError:
            value, _ = entity_reader(KioMetadata)(data, 0)
        write = entity_writer(KioMetadata)
        kio = best_us(lambda: write(io.BytesIO(), value))
        return {"kio_us": round(kio, 1), "kafka_python_us": python_encode("MetadataResponse", 12, data)}


def kio_decode(entity: Any, data: bytes) -> float:
    import io

    from kio.serial import entity_reader

    read = entity_reader(entity)
    try:
        read(io.BytesIO(data))
    except TypeError:
        return round(best_us(lambda: read(data, 0)), 1)
    return round(best_us(lambda: read(io.BytesIO(data))), 1)


def python_message(name: str) -> Any:
    """kafka-python's class of that name, wherever this release keeps it."""
    import importlib
    import pkgutil

    import kafka.protocol

    for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if ".old" in module.name:
            continue
        found = getattr(importlib.import_module(module.name), name, None)
        if found is not None:
            return found
    return None


def python_decode(name: str, version: int, data: memoryview) -> float | None:
    message = python_message(name)
    if message is None:
        return None
    raw = bytes(data)
    message.decode(raw, version=version)
    return round(best_us(lambda: message.decode(raw, version=version)), 1)


def python_encode(name: str, version: int, data: bytes) -> float | None:
    message = python_message(name)
    if message is None:
        return None
    value = message.decode(data, version=version)
    value._header = None  # a decoded message of theirs has none, and cannot be encoded without
    return round(best_us(lambda: value.encode(version=version)), 1)


def report(found: list[dict[str, Any]]) -> str:
    lines = [
        "# What the wire layer costs",
        "",
        f"`make bench-wire`, Python {platform.python_version()}, {platform.machine()}, best of {ROUNDS} rounds.",
        "Microseconds unless the row says otherwise. kio reads by compiled code; the other two are plain Python.",
        "",
        "| work | bar | chronik | kio | kafka-python | |",
        "|---|--:|--:|--:|--:|---|",
    ]
    for each in found:
        beside = [each.get("kio_us"), each.get("kafka_python_us")]
        cells = ["-" if value is None else f"{value:,}" for value in beside]
        mark = "met" if each["met"] else "MISSED"
        figures = [f"{each['bar_us']:,}", f"{each['chronik_us']:,}", *cells, mark]
        lines.append(f"| {each['work']} | {' | '.join(figures)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    found = rows()
    OUTPUT.mkdir(parents=True, exist_ok=True)
    (OUTPUT / "wire.json").write_text(json.dumps(found, indent=2) + "\n")
    (OUTPUT / "wire.md").write_text(report(found))
    print(report(found))


if __name__ == "__main__":
    main()
