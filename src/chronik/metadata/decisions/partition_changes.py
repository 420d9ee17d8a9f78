"""Shared by commands that change partitions one by one, with an error code for each."""

from __future__ import annotations

from collections.abc import Callable

from chronik.metadata.errors import MetadataRefused, refuse
from chronik.metadata.image import Partition, Topic, View
from chronik.metadata.records import MetadataRecord, PartitionChangeRecord
from chronik.wire.error_codes import ErrorCode

Change = Callable[[Topic, int, Partition], PartitionChangeRecord | None]


def attempt(
    view: View, name: str, index: int, change: Change, records: list[MetadataRecord]
) -> tuple[ErrorCode, str | None]:
    """Appends the change of one partition to `records`; returns the code and message of the answer."""
    try:
        topic = view.topic_named(name)
        if topic is None:
            refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
        before = topic.partition(index)
        if before is None:
            refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{name!r} has no partition {index}")
        record = change(topic, index, before)
    except MetadataRefused as refused:
        return refused.error_code, refused.message
    if record is not None:
        records.append(record)
    return ErrorCode.NONE, None
