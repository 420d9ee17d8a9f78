"""Leaders and ISRs of partitions when brokers join or leave. Every change of a partition is made here.

A leader comes from the ISR. If no ISR member is live and the cluster has `eligible.leader.replicas.version` 1, it comes
from the ELR: replicas that left the ISR while it was below min.insync.replicas. The high watermark did not advance
then, so they hold everything acknowledged (KIP-966). If the topic allows unclean elections, any live replica can lead.
Otherwise there is no leader until an ISR member returns. The ISR becomes empty only when its last member lost its disk:
then no replica is known to be complete, and only an unclean election helps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from chronik.metadata.config_layers import BrokerConfigs, resolve
from chronik.metadata.decisions.decision import Rules
from chronik.metadata.image import NO_LEADER, Partition, ResourceType, Topic, View
from chronik.metadata.records import NOBODY, PARTITION, MetadataRecord, PartitionChangeRecord, PartitionsChangeRecord
from chronik.runtime.invariants import broken, check

ALIKE_MAX = 1_000  # partitions in one record: records cannot be split over log entries
ELR_FEATURE = "eligible.leader.replicas.version"


class Shape(NamedTuple):
    """Where a partition's replicas are, and which ones a reassignment adds and removes."""

    replicas: Sequence[int]
    adding: Sequence[int] = ()
    removing: Sequence[int] = ()

    def completed(self, isr: Sequence[int]) -> tuple[Shape, Sequence[int]]:
        """The shape and ISR after the reassignment, if this ISR allows it to end: all added replicas are in sync, and
        an in-sync replica remains. Otherwise both unchanged."""
        if not self.adding and not self.removing:
            return self, isr
        staying = [each for each in isr if each not in self.removing]
        if not staying or not set(self.adding) <= set(staying):
            return self, isr
        return Shape([each for each in self.replicas if each not in self.removing]), staying


class Elections:
    """Changes of partitions, decided on one state. `gone` and `back` are brokers whose change it does not show yet."""

    def __init__(self, view: View, rules: Rules, *, gone: int | None = None, back: int | None = None) -> None:
        self.view = view
        self.live = {broker.broker_id for broker in view.brokers.values() if broker.live}
        if gone is not None:
            self.live.discard(gone)
        if back is not None:
            self.live.add(back)
        self.defaults = BrokerConfigs({}, view.config(ResourceType.BROKER, ""), rules.static_configs)
        self.default_values: dict[str, int] = {}
        self.elr_enabled = view.features.get(ELR_FEATURE, 0) > 0

    def with_isr(self, topic: Topic, index: int, isr: Sequence[int]) -> PartitionChangeRecord | None:
        """The change that sets the ISR to `isr` and elects a leader if needed; None if nothing changes.

        An ISR with all replicas that a reassignment adds also ends that reassignment.
        """
        return self.change(topic, index, _shape(topic.partitions[index]), isr)

    def change(
        self,
        topic: Topic,
        index: int,
        shape: Shape,
        isr: Sequence[int],
        *,
        prefers_first: bool = False,
        allows_unclean: bool = False,
    ) -> PartitionChangeRecord | None:
        """The same with the replicas in `shape`. `prefers_first` moves the leadership to the first replica if it may
        lead; `allows_unclean` permits an unclean election, whatever the topic's configuration.
        """
        before = topic.partitions[index]
        after = self._after(topic, before, shape, isr, prefers_first=prefers_first, allows_unclean=allows_unclean)
        return None if after is before else _record(topic.topic_id, index, before, after)

    def _after(
        self,
        topic: Topic,
        before: Partition,
        shape: Shape,
        isr: Sequence[int],
        *,
        lost: int | None = None,
        prefers_first: bool = False,
        allows_unclean: bool = False,
    ) -> Partition:
        """`before` itself when nothing changes. `lost` is a broker whose disk may have lost records: it leaves the ELR
        too."""
        # The last member stays in the ISR, because only it is complete, unless its disk is lost.
        if not isr and (lost is None or len(shape.replicas) == 1):
            isr = before.isr
        shape, isr = shape.completed(isr)
        replicas = shape.replicas
        elr, last_known_elr = self._elr(topic, before, replicas, isr, lost) if self.elr_enabled else (NOBODY, NOBODY)
        leader = before.leader
        if prefers_first and replicas[0] in isr and replicas[0] in self.live:
            leader = replicas[0]
        if leader not in isr or leader not in self.live:
            leader = self._first(replicas, isr)
            if leader == NO_LEADER and (leader := self._first(replicas, elr)) != NO_LEADER:
                # ISR members that are not live are complete too, so they stay eligible.
                isr, elr = [leader], [each for each in replicas if each != leader and each in (*isr, *elr)]
            if leader == NO_LEADER and (allows_unclean or self.unclean_is_allowed(topic)):
                leader = self._first(replicas, replicas)
                isr, elr, last_known_elr = (isr, elr, last_known_elr) if leader == NO_LEADER else ([leader], [], [])
            # A leader that is now the whole ISR may complete the reassignment.
            shape, isr = shape.completed(isr)
            replicas = shape.replicas
            elr = [each for each in elr if each in replicas]
            last_known_elr = [each for each in last_known_elr if each in replicas]
        after = Partition(
            leader,
            # A removed replica must stop fetching as a follower: the new epoch fences it.
            before.leader_epoch + (leader != before.leader or not set(before.replicas) <= set(replicas)),
            before.partition_epoch,
            tuple(replicas),
            tuple(isr),
            tuple(elr),
            tuple(last_known_elr),
            tuple(shape.adding),
            tuple(shape.removing),
        )
        if after.leader != NO_LEADER and after.leader not in after.isr:
            broken("11 a leader is in its ISR", topic=topic.name, before=before, after=after)
        if after.leader not in (NO_LEADER, before.leader) and after.leader not in self.live:
            broken("25 a new leader is live", topic=topic.name, before=before, after=after)
        if not set(after.isr) <= set(after.replicas):
            broken("29 the ISR is made of replicas", topic=topic.name, before=before, after=after)
        if lost is not None and (lost in after.elr or (lost in after.isr and len(after.replicas) > 1)):
            broken("7 nobody relies on a replica that lost its disk", topic=topic.name, lost=lost, after=after)
        return before if after == before else after._replace(partition_epoch=before.partition_epoch + 1)

    def without(self, broker_id: int, *, lost: bool = False) -> list[MetadataRecord]:
        """All changes caused by a broker leaving. It stays in an ISR only as the last member, and only if its disk is
        not `lost`.
        """

        def isr_of(partition: Partition) -> Sequence[int] | None:
            if broker_id in partition.isr or (lost and broker_id in partition.elr):
                return [member for member in partition.isr if member != broker_id]
            return None

        return self._everywhere(isr_of, lost=broker_id if lost else None)

    def without_lost(self, topic: Topic, index: int, broker_id: int) -> PartitionChangeRecord:
        """Removes a replica that lacks records it acknowledged, and starts a new leader epoch.

        Requires another replica in ISR or ELR. If that one is not live yet, it becomes leader when it is back.
        """
        before = topic.partitions[index]
        isr = [member for member in before.isr if member != broker_id]
        after = self._after(topic, before, _shape(before), isr, lost=broker_id)
        if after.leader_epoch == before.leader_epoch:
            after = after._replace(leader_epoch=before.leader_epoch + 1, partition_epoch=before.partition_epoch + 1)
        check(
            after.leader != broker_id and after.leader_epoch > before.leader_epoch,
            "7 a replica that lost records does not lead",
            topic=topic.name,
            index=index,
            broker=broker_id,
            after=after,
        )
        return _record(topic.topic_id, index, before, after)

    def for_the_leaderless(self) -> list[MetadataRecord]:
        """Elections that a returning broker makes possible."""
        return self._everywhere(lambda partition: partition.isr if partition.leader == NO_LEADER else None)

    def without_elr(self, topics: Iterable[Topic]) -> list[MetadataRecord]:
        """min.insync.replicas changes: replicas that left the ISR under the old value may lack records acknowledged
        under the new one. While a replica is eligible, leaders acknowledge nothing without it."""
        records: list[MetadataRecord] = []
        for topic in topics:
            for index, before in enumerate(topic.partitions):
                if before.elr or before.last_known_elr:
                    after = before._replace(elr=(), last_known_elr=(), partition_epoch=before.partition_epoch + 1)
                    records.append(_record(topic.topic_id, index, before, after))
        return records

    def _everywhere(
        self, isr_of: Callable[[Partition], Sequence[int] | None], *, lost: int | None = None
    ) -> list[MetadataRecord]:
        """The changes that give every partition the ISR that `isr_of` returns; None leaves it unchanged.

        Many partitions share few states, so each state is decided once and the result recorded for all of its
        partitions together, unless a topic's own configuration matters.
        """
        fates: dict[Partition, Partition] = {}
        alike: dict[Partition, list[tuple[bytes, int]]] = {}
        records: list[MetadataRecord] = []
        for topic in self.view.all_topics():
            known = fates if not self.view.config(ResourceType.TOPIC, topic.name) else {}
            for index, before in enumerate(topic.partitions):
                after = known.get(before)
                if after is None:
                    isr = isr_of(before)
                    after = before if isr is None else self._after(topic, before, _shape(before), isr, lost=lost)
                    known[before] = after
                if after is before or after == before:
                    continue
                if before.is_reassigning:
                    records.append(_record(topic.topic_id, index, before, after))
                else:
                    alike.setdefault(after, []).append((topic.topic_id, index))
        for after, partitions in alike.items():
            records += _records(after, partitions)
        return records

    def unclean_is_allowed(self, topic: Topic) -> bool:
        return bool(self._setting(topic, "unclean.leader.election.enable"))

    def _first(self, replicas: Sequence[int], eligible: Sequence[int]) -> int:
        return next((each for each in replicas if each in eligible and each in self.live), NO_LEADER)

    def _elr(
        self, topic: Topic, before: Partition, replicas: Sequence[int], isr: Sequence[int], lost: int | None
    ) -> tuple[list[int], list[int]]:
        if len(isr) >= self._setting(topic, "min.insync.replicas"):
            return NOBODY, NOBODY
        complete = {*before.isr, *before.elr} - {lost}
        known = {*before.isr, *before.elr, *before.last_known_elr}
        elr = [each for each in replicas if each in complete and each not in isr]
        return elr, [each for each in replicas if each in known and each not in isr and each not in elr]

    def _setting(self, topic: Topic, key: str) -> int:
        own = self.view.config(ResourceType.TOPIC, topic.name)
        if key in own:
            return int(resolve(key, own, self.defaults))
        if key not in self.default_values:
            self.default_values[key] = int(resolve(key, {}, self.defaults))
        return self.default_values[key]


def _shape(partition: Partition) -> Shape:
    return Shape(partition.replicas, partition.adding, partition.removing)


def _record(topic_id: bytes, index: int, before: Partition, after: Partition) -> PartitionChangeRecord:
    return PartitionChangeRecord(
        topic_id=topic_id,
        index=index,
        leader=after.leader,
        leader_epoch=after.leader_epoch,
        partition_epoch=after.partition_epoch,
        isr=list(after.isr),
        elr=list(after.elr) or NOBODY,
        last_known_elr=list(after.last_known_elr) or NOBODY,
        replicas=None if after.replicas == before.replicas else list(after.replicas),
        adding=list(after.adding) or NOBODY,
        removing=list(after.removing) or NOBODY,
    )


def _records(after: Partition, partitions: list[tuple[bytes, int]]) -> Iterator[PartitionsChangeRecord]:
    for at in range(0, len(partitions), ALIKE_MAX):
        yield PartitionsChangeRecord(
            leader=after.leader,
            leader_epoch=after.leader_epoch,
            partition_epoch=after.partition_epoch,
            replicas=list(after.replicas),
            isr=list(after.isr),
            partitions=b"".join([PARTITION.pack(*partition) for partition in partitions[at : at + ALIKE_MAX]]),
            elr=list(after.elr) or NOBODY,
            last_known_elr=list(after.last_known_elr) or NOBODY,
        )
