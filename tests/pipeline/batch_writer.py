"""A batch of a streaming query, written without Spark: its tasks one after another, then the driver's part.

Run as a program with a bootstrap address, it forks processes that are killed at a chosen request: see `serve`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, TopicPartition

from chronik.peer.connection import Connection
from chronik.pipeline.exactly_once import BatchTask, TaskResult, abort_batch, commit_batch
from chronik.pipeline.sink import end_batch, write_rows
from chronik.pipeline.sink_options import SinkOptions
from chronik.wire.messages.api_versions import ApiVersionsRequest
from chronik.wire.messages.find_coordinator import FindCoordinatorRequest
from chronik.wire.messages.metadata import MetadataRequest

READ_S = 20
LOOKING = (MetadataRequest, FindCoordinatorRequest, ApiVersionsRequest)


def options(bootstrap: str, topic: str, **more: Any) -> SinkOptions:
    return SinkOptions(bootstrap, topic, exactly_once=True, **{"delivery_timeout_ms": 30_000, **more})


def write(to: SinkOptions, query: str, run: str, batch: int, task: int, values: Sequence[str]) -> TaskResult:
    frame = pa.record_batch({"key": pa.array(values), "value": pa.array(values)})
    result = write_rows(iter([frame]), to, BatchTask(query, run, batch, task)).result
    assert result is not None
    return result


def write_batch(to: SinkOptions, query: str, run: str, batch: int, tasks: Sequence[Sequence[str]]) -> None:
    commit(to, batch, [write(to, query, run, batch, task, values) for task, values in enumerate(tasks)])


def commit(to: SinkOptions, batch: int, results: Sequence[TaskResult]) -> None:
    end_batch(commit_batch, results, batch, to)


def abort(to: SinkOptions, batch: int, results: Sequence[TaskResult]) -> None:
    end_batch(abort_batch, results, batch, to)


def visible(bootstrap: str, topic: str, partitions: int = 2) -> list[str]:
    """The records that a reader of committed records gets up to the end of the log; an open transaction would stop
    it."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "visible",
        "enable.auto.commit": False,
        "isolation.level": "read_uncommitted",
        "fetch.wait.max.ms": 10,
    }
    plain = Consumer(settings)
    ends = {i: plain.get_watermark_offsets(TopicPartition(topic, i), READ_S)[1] for i in range(partitions)}
    plain.close()
    reader = Consumer(settings | {"isolation.level": "read_committed", "enable.partition.eof": True})
    reader.assign([TopicPartition(topic, i, 0) for i in range(partitions)])
    found: list[str] = []
    behind = set(ends)
    while behind:
        message = reader.poll(READ_S)
        assert message is not None, f"no end of partitions {behind}"
        if (error := message.error()) is None:
            found.append(message.value().decode())
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            if message.offset() >= ends[message.partition()]:
                behind.discard(message.partition())
    reader.close()
    return sorted(found)


def die_at_request(number: int, moment: str) -> None:
    """Kills this process with SIGKILL before or after the request of that number, not counting those that look."""
    real = Connection.ask
    count = 0

    async def ask(self: Connection, request: Any, *args: Any, **named: Any) -> Any:
        nonlocal count
        if isinstance(request, LOOKING):
            return await real(self, request, *args, **named)
        count += 1
        is_last = count == number
        if is_last and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        answer = await real(self, request, *args, **named)
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    Connection.ask = ask  # type: ignore[method-assign]


ROWS = [[f"a{i}" for i in range(10)], [f"b{i}" for i in range(10)], []]


def serve(bootstrap: str) -> None:
    """For each line `TOPIC N MOMENT`, a process that is killed there; answers with its exit code."""
    for line in sys.stdin:
        topic, number, moment = line.split()
        pid = os.fork()
        if pid == 0:
            die_at_request(int(number), moment)
            write_batch(options(bootstrap, topic), f"q-{topic}", "run1", 0, ROWS)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])
