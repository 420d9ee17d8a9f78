"""Changes the number of replicas of partitions: a pure function from the current placement to the new one.

It moves no replica that may stay. A new replica goes to a rack that has none, then to the broker with the fewest. The
preferred leader stays, unless its broker is gone. The least useful replicas are removed first: those on a missing
broker, then those out of sync, then those whose rack has another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from chronik.client.admin.balance import CannotPlace, Racks, Replicas
from chronik.client.topology import TopicPartition


def resized(
    racks: Racks,
    placed: Mapping[TopicPartition, Replicas],
    changing: Mapping[TopicPartition, Sequence[int]],
    factor: int,
) -> dict[TopicPartition, Replicas]:
    """The replicas of each partition in `changing`, which maps it to its in-sync replicas, if they have to change.

    `placed` are all partitions of the cluster: broker loads decide the placement. Raises CannotPlace.
    """
    rack_of = {broker: rack or f"broker {broker}" for broker, rack in sorted(racks.items())}
    held = Counter(broker for replicas in placed.values() for broker in replicas)
    targets: dict[TopicPartition, Replicas] = {}
    for at, in_sync in sorted(changing.items()):
        replicas = list(placed[at])
        while len(replicas) > factor:
            leaving = _least_useful(replicas, in_sync, rack_of, held)
            replicas.remove(leaving)
            held[leaving] -= 1
        while len(replicas) < factor:
            used = {rack_of[broker] for broker in replicas if broker in rack_of}
            able = [broker for broker in rack_of if broker not in replicas]
            if not able:
                raise CannotPlace(at, factor, rack_of)
            coming = min(able, key=lambda broker: (rack_of[broker] in used, held[broker], broker))
            replicas.append(coming)
            held[coming] += 1
        if tuple(replicas) != tuple(placed[at]):
            targets[at] = tuple(replicas)
    return targets


def _least_useful(
    replicas: Sequence[int], in_sync: Sequence[int], rack_of: Mapping[int, str], held: Mapping[int, int]
) -> int:
    racks = Counter(rack_of.get(broker) for broker in replicas)

    def use(broker: int) -> tuple[bool, bool, bool, bool, int, int]:
        is_leader = broker == replicas[0]
        is_alone_in_rack = racks[rack_of.get(broker)] == 1
        return broker in rack_of, broker in in_sync, is_leader, is_alone_in_rack, -held[broker], -broker

    return min(replicas, key=use)
