"""Who leads a partition and who is in sync, after brokers came or went. Every change of a partition is made here.

A leader comes from the ISR. If no member of it is live and the cluster has `eligible.leader.replicas.version` 1, it
comes from the ELR: replicas that left the ISR while it was below min.insync.replicas, when the high watermark stood
still, so that they hold all that was acknowledged (KIP-966). If unclean elections are allowed for the topic, any live
replica will do. Otherwise there is no leader until an ISR member is back: the ISR is never emptied.
"""

from __future__ import annotations

from collections.abc import Sequence

from chronik.metadata.decisions.decision import Rules
from chronik.metadata.image import NO_LEADER, Partition, ResourceType, Topic, View
from chronik.metadata.records import NOBODY, PartitionChangeRecord, Record
from chronik.metadata.topic_configs import BrokerConfigs, resolve

ELR_FEATURE = "eligible.leader.replicas.version"


class Elections:
    """Changes of partitions, decided on one state. `gone` and `back` say what that state does not show yet."""

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

    def with_isr(
        self, topic: Topic, index: int, isr: Sequence[int], *, lost: int | None = None
    ) -> PartitionChangeRecord | None:
        """The change that makes `isr` the ISR and elects a leader if need be; None when all stays as it is.

        `lost` is a broker whose disk may have lost what it had: it leaves the ELR too.
        """
        before = topic.partitions[index]
        isr = isr or before.isr
        elr, last_known_elr = self._elr(topic, before, isr, lost) if self.elr_enabled else (NOBODY, NOBODY)
        leader = before.leader
        if leader not in isr or leader not in self.live:
            leader = self._first(before, isr)
            if leader == NO_LEADER and (leader := self._first(before, elr)) != NO_LEADER:
                isr, elr = [leader], [other for other in elr if other != leader]
            if leader == NO_LEADER and self._setting(topic, "unclean.leader.election.enable"):
                leader = self._first(before, before.replicas)
                isr, elr, last_known_elr = (isr, elr, last_known_elr) if leader == NO_LEADER else ([leader], [], [])
        kept = (tuple(isr), tuple(elr), tuple(last_known_elr)) == (before.isr, before.elr, before.last_known_elr)
        if kept and leader == before.leader:
            return None
        return PartitionChangeRecord(
            topic_id=topic.topic_id,
            index=index,
            leader=leader,
            leader_epoch=before.leader_epoch + (leader != before.leader),
            partition_epoch=before.partition_epoch + 1,
            isr=list(isr),
            elr=elr,
            last_known_elr=last_known_elr,
        )

    def without(self, broker_id: int, *, lost: bool = False) -> list[Record]:
        """All changes that a broker's leaving makes. It stays in an ISR only where it is the last member."""
        records: list[Record] = []
        for topic in self.view.all_topics():
            for index, partition in enumerate(topic.partitions):
                if broker_id in partition.isr or (lost and broker_id in partition.elr):
                    isr = [member for member in partition.isr if member != broker_id]
                    change = self.with_isr(topic, index, isr, lost=broker_id if lost else None)
                    if change is not None:
                        records.append(change)
        return records

    def for_the_leaderless(self) -> list[Record]:
        """Elections that became possible because a broker is back."""
        records: list[Record] = []
        for topic in self.view.all_topics():
            for index, partition in enumerate(topic.partitions):
                if partition.leader == NO_LEADER:
                    change = self.with_isr(topic, index, partition.isr)
                    if change is not None:
                        records.append(change)
        return records

    def _first(self, before: Partition, eligible: Sequence[int]) -> int:
        return next((each for each in before.replicas if each in eligible and each in self.live), NO_LEADER)

    def _elr(
        self, topic: Topic, before: Partition, isr: Sequence[int], lost: int | None
    ) -> tuple[list[int], list[int]]:
        if len(isr) >= self._setting(topic, "min.insync.replicas"):
            return NOBODY, NOBODY
        complete = {*before.isr, *before.elr} - {lost}
        known = {*before.isr, *before.elr, *before.last_known_elr}
        elr = [each for each in before.replicas if each in complete and each not in isr]
        return elr, [each for each in before.replicas if each in known and each not in isr and each not in elr]

    def _setting(self, topic: Topic, key: str) -> int:
        own = self.view.config(ResourceType.TOPIC, topic.name)
        if key in own:
            return int(resolve(key, own, self.defaults))
        if key not in self.default_values:
            self.default_values[key] = int(resolve(key, {}, self.defaults))
        return self.default_values[key]
