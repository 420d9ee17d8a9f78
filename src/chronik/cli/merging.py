"""Records of several partitions in the order of their timestamps, as far as they can be. Pure; it reads nothing.

Within a partition records keep their order. A record is given out when every partition that may still have an earlier
one has shown its next record. The caller stops reading partitions that are far ahead, which `full` lists.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from chronik.client.topology import TopicPartition
    from chronik.wire.records import Record

WAITING_BYTES_MAX: Final = 4 << 20  # per partition: enough for several fetches, little for a thousand partitions


class TimeMerge:
    def __init__(self) -> None:
        self._waiting: dict[TopicPartition, deque[Record]] = {}
        self._waiting_bytes: dict[TopicPartition, int] = {}

    def add(self, at: TopicPartition, records: Iterable[Record]) -> None:
        waiting = self._waiting.setdefault(at, deque())
        for record in records:
            waiting.append(record)
            self._waiting_bytes[at] = self._waiting_bytes.get(at, 0) + _size_bytes(record)

    def full(self) -> list[TopicPartition]:
        return [at for at, size_bytes in self._waiting_bytes.items() if size_bytes > WAITING_BYTES_MAX]

    def take(self, unfinished: Collection[TopicPartition]) -> Iterator[tuple[TopicPartition, Record]]:
        """What is certainly next. `unfinished` are the partitions that may bring more records."""
        while all(self._waiting.get(at) for at in unfinished):
            heads = [(waiting[0].timestamp, at) for at, waiting in self._waiting.items() if waiting]
            if not heads:
                return
            _, at = min(heads)
            record = self._waiting[at].popleft()
            self._waiting_bytes[at] -= _size_bytes(record)
            yield at, record


def _size_bytes(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"") + 100
