"""Prints what metadata costs: `PYTHONPATH=src:. python -m tests.metadata.measure [topics]`. CPU time, one process.

Figures are per topic of 3 partitions, replication factor 3, created in requests of 100, unless they say otherwise.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from time import process_time

from chronik.metadata.commands.command import RequestId
from chronik.metadata.commands.create_topics import CreateTopics, NewTopic
from chronik.metadata.commands.fence_broker import FenceBroker
from chronik.metadata.image import Image
from chronik.metadata.records import PartitionChangeRecord, decode_batch, encode_batch
from chronik.metadata.replay import replay_onto
from chronik.metadata.snapshot import decode_snapshot, encode_snapshot
from tests.metadata.clusters import Cluster, cluster

PER_REQUEST = 100


def create(on: Cluster, topics: int) -> dict[str, float]:
    """Seconds by step, of a leader (decide, encode, apply its own records) and a follower (decode and apply)."""
    spent = dict.fromkeys(("decide", "encode", "follow", "apply"), 0.0)
    for request in range(topics // PER_REQUEST):
        asked = CreateTopics(
            topics=[
                NewTopic(
                    name=f"topic-{request}-{number}",
                    topic_id=bytes([7]) + (request * PER_REQUEST + number).to_bytes(15, "big"),
                    partition_count=3,
                    replication_factor=3,
                )
                for number in range(PER_REQUEST)
            ]
        )
        times = [process_time()]
        records = on.controller.handle(asked, RequestId(1, 1, request, request), 0).records
        times.append(process_time())
        data = encode_batch(records)
        on.controller.settle()
        times.append(process_time())
        replay_onto(on.image, on.image.version + 1, decode_batch(data))
        times.append(process_time())
        on.image, _ = replay_onto(on.image, on.image.version + 1, records)
        times.append(process_time())
        for step, start, end in zip(spent, times, times[1:], strict=False):
            spent[step] += end - start
    return spent


def change_one(image: Image) -> float:
    """Microseconds to apply a batch that changes one partition, in a cluster of all those topics."""
    names = [topic.name for topic in image.all_topics()[:500]]
    start = process_time()
    for name in names:
        topic = image.topic_named(name)
        assert topic is not None
        before = topic.partitions[0]
        record = PartitionChangeRecord(
            topic_id=topic.topic_id,
            index=0,
            leader=before.leader,
            leader_epoch=before.leader_epoch,
            partition_epoch=before.partition_epoch + 1,
            isr=list(before.isr[:2]),
        )
        image, _ = replay_onto(image, image.version + 1, [record])
    return (process_time() - start) / len(names) * 1e6


def main(topics: int) -> None:
    on = cluster(3)
    spent = create(on, topics)
    for step, seconds in spent.items():
        print(f"{step:<28}{seconds / topics * 1e6:8.1f} us/topic")
    leader = sum(spent.values()) - spent["follow"]
    print(f"{'leader, all':<28}{leader / topics * 1e6:8.1f} us/topic  {topics / leader:9.0f} topics/s")
    print(f"{'apply one partition change':<28}{change_one(on.image):8.1f} us at {topics} topics")

    start = process_time()
    data = encode_snapshot(on.image)
    middle = process_time()
    decode_snapshot(data)
    print(f"{'snapshot':<28}{len(data) / 1e6:8.1f} MB, made in {(middle - start) * 1e3:.0f} ms, "
          f"read in {(process_time() - middle) * 1e3:.0f} ms")  # fmt: skip

    on.change_controller()
    start = process_time()
    fence = FenceBroker(broker_id=2, broker_epoch=2)
    records = on.controller.handle(fence, RequestId(1, 1, topics, topics), 0).records
    middle = process_time()
    entry = encode_batch(records)
    replay_onto(on.image, on.image.version + 1, decode_batch(entry))
    print(f"{'a broker is fenced':<28}{len(records):8} records, decided in {(middle - start) * 1e3:.0f} ms, "
          f"written and applied in {(process_time() - middle) * 1e3:.0f} ms")  # fmt: skip

    del on, records
    gc.collect()
    tracemalloc.start()
    image = decode_snapshot(data)
    gc.collect()
    print(
        f"{'memory of the image':<28}{tracemalloc.get_traced_memory()[0] / 1e6:8.1f} MB for {len(image.topics)} topics"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
