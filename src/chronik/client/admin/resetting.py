"""Plans to which offsets a group would be moved, per partition. Never commits anything.

A new offset is always within the log: one before its start or after its end is moved there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from chronik.client.admin import offsets
from chronik.client.consumer import AtTime, Start
from chronik.client.errors import ClientError
from chronik.client.topology import TopicPartition
from chronik.wire.offset_specs import EARLIEST, LATEST

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient


class Move(NamedTuple):
    at: TopicPartition
    old_offset: int | None  # None: the group has no offset here
    new_offset: int

    @property
    def moves(self) -> bool:
        return self.old_offset != self.new_offset

    def as_row(self, *, executed: bool) -> dict[str, Any]:
        return {
            "topic": self.at.topic,
            "partition": self.at.partition,
            "old_offset": self.old_offset,
            "new_offset": self.new_offset,
            "shift": None if self.old_offset is None else self.new_offset - self.old_offset,
            "committed": executed,
        }


async def plan(
    cluster: ClusterClient,
    committed: Mapping[TopicPartition, int],
    partitions: Sequence[TopicPartition],
    *,
    to: Start | None,
    shift: int = 0,
) -> list[Move]:
    """Moves to a place, or by `shift` from the committed offset, which must be known for every partition then."""
    starts = await _offsets(cluster, dict.fromkeys(partitions, EARLIEST))
    ends = await _offsets(cluster, dict.fromkeys(partitions, LATEST))
    if to is not None:
        wanted = await _places(cluster, partitions, to)
    else:
        wanted = {at: committed[at] + shift for at in partitions}
    return [Move(at, committed.get(at), min(max(wanted.get(at, ends[at]), starts[at]), ends[at])) for at in partitions]


async def _places(
    cluster: ClusterClient, partitions: Sequence[TopicPartition], place: Start
) -> dict[TopicPartition, int]:
    """The offset of a place in each partition; omits partitions whose records are all older than a time."""
    if isinstance(place, int) and place >= 0:
        return dict.fromkeys(partitions, place)
    timestamp = place.timestamp_ms if isinstance(place, AtTime) else place
    found = await _offsets(cluster, dict.fromkeys(partitions, timestamp))
    return {at: offset for at, offset in found.items() if offset != offsets.NONE}


async def _offsets(cluster: ClusterClient, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for at, answer in (await offsets.look_up(cluster, wanted)).items():
        if isinstance(answer, ClientError):
            raise answer
        found[at] = answer.offset
    return found
