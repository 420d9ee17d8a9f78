"""Uncommitted changes between one image and the next. Only `replay` writes to a delta; decisions read it like an image.

A delta starts from an image and does not change it. `finish` returns the next image and the changes, and ends the
delta's use. Topics under change keep their partitions in a mutable list until `seal`, which runs after each command's
records, so that the next command is decided on them.
"""

from __future__ import annotations

from typing import NamedTuple

from immutables import Map, MapMutation

from chronik.metadata.access import AccessRules
from chronik.metadata.image import (
    NO_CONFIG,
    NO_QUOTAS,
    Applied,
    Broker,
    ConfigResource,
    DelegationToken,
    Image,
    Partition,
    QuotaEntity,
    ResourceType,
    ScramCredential,
    ScramKey,
    Topic,
    View,
)
from chronik.metadata.image_invariants import check_image
from chronik.runtime.invariants import broken, check


class Changes(NamedTuple):
    """The difference between two images. A topic that was created and removed in between is in none of the lists."""

    topics_added: tuple[Topic, ...] = ()
    topics_removed: tuple[Topic, ...] = ()
    topics_changed: tuple[tuple[Topic, Topic], ...] = ()  # (before, after): partitions were added or changed
    brokers: tuple[int, ...] = ()
    configs: tuple[ConfigResource, ...] = ()  # including those of added and removed topics
    features: bool = False
    quotas: bool = False
    access: bool = False


def lookalike(name: str) -> str | None:
    """A topic's name as metrics write it; None when no other name can collide with it."""
    return name.replace(".", "_") if "." in name or "_" in name else None


class Delta(View):
    __slots__ = (
        "_brokers_touched",
        "_configs_touched",
        "_features_touched",
        "_open",
        "_quotas_touched",
        "_topics_touched",
        "base",
    )

    topics: MapMutation[bytes, Topic]
    topics_by_name: MapMutation[str, Topic]
    lookalikes: MapMutation[str, tuple[str, ...]]
    configs: MapMutation[ConfigResource, Map[str, str]]
    scram: MapMutation[ScramKey, ScramCredential]

    def __init__(self, base: Image) -> None:
        self.base = base
        self.cluster_id = base.cluster_id
        self.topics = base.topics.mutate()
        self.topics_by_name = base.topics_by_name.mutate()
        self.lookalikes = base.lookalikes.mutate()
        self.configs = base.configs.mutate()
        self.brokers = base.brokers
        self.broker_epoch_last = base.broker_epoch_last
        self.features = base.features
        self.quotas = base.quotas
        self.next_producer_id = base.next_producer_id
        self.access = base.access
        self.applied = base.applied
        self.scram = base.scram.mutate()
        self.scram_secret = base.scram_secret
        self.tokens = base.tokens
        self._open: dict[bytes, tuple[str, list[Partition]]] = {}
        # Keys of a dict: a set has no defined order.
        self._topics_touched: dict[bytes, None] = {}
        self._brokers_touched: dict[int, None] = {}
        self._configs_touched: dict[ConfigResource, None] = {}
        self._features_touched = False
        self._quotas_touched = False

    def all_topics(self) -> list[Topic]:
        frozen = self.topics_by_name.finish()
        self.topics_by_name = frozen.mutate()
        return [topic for _, topic in sorted(frozen.items())]

    def add_topic(self, topic_id: bytes, name: str) -> None:
        """Add its partitions to `open_partitions` before the next `seal`."""
        self._begin_topic(topic_id, name)
        self._open[topic_id] = name, []

    def put_new_topic(self, topic: Topic) -> None:
        """Adds a complete topic."""
        self._begin_topic(topic.topic_id, topic.name)
        self.topics[topic.topic_id] = self.topics_by_name[topic.name] = topic

    def _begin_topic(self, topic_id: bytes, name: str) -> None:
        if topic_id in self.topics or topic_id in self._open:
            broken("8 a topic id is given once", topic=topic_id)
        if name in self.topics_by_name:
            broken("29 a topic's name is taken once", name=name, topic=topic_id)
        self._topics_touched[topic_id] = None
        if (alike := lookalike(name)) is not None:
            self.lookalikes[alike] = (*self.lookalikes.get(alike, ()), name)

    def open_partitions(self, topic_id: bytes) -> list[Partition]:
        """The topic's partitions; change them in place before the next `seal`."""
        if opened := self._open.get(topic_id):
            return opened[1]
        topic = self.topics.get(topic_id)
        if topic is None:
            broken("29 a partition belongs to a topic", topic=topic_id)
        partitions = list(topic.partitions)
        self._open[topic_id] = topic.name, partitions
        self._topics_touched[topic_id] = None
        return partitions

    def seal(self) -> None:
        """Publishes the changed topics to readers."""
        for topic_id, (name, partitions) in self._open.items():
            if not partitions:
                broken("29 a topic comes with its partitions", topic=topic_id, name=name)
            before = self.topics.get(topic_id)
            if before is not None and (before.name != name or len(before.partitions) > len(partitions)):
                broken(
                    "29 a topic keeps its name and its partitions",
                    topic=topic_id,
                    name=name,
                    before=len(before.partitions),
                    now=len(partitions),
                )
            self.topics[topic_id] = self.topics_by_name[name] = Topic(topic_id, name, tuple(partitions))
        self._open.clear()
        if len(self.topics) != len(self.topics_by_name):
            broken("29 every topic is known by id and by name", ids=len(self.topics), names=len(self.topics_by_name))

    def remove_topic(self, topic_id: bytes) -> None:
        self.seal()
        check(topic_id in self.topics, "29 only a known topic is removed", topic=topic_id)
        topic = self.topics.pop(topic_id)
        check(
            self.topics_by_name[topic.name].topic_id == topic_id,
            "29 every topic is known by id and by name",
            topic=topic_id,
            name=topic.name,
        )
        del self.topics_by_name[topic.name]
        self._topics_touched[topic_id] = None
        if (alike := lookalike(topic.name)) is not None:
            self.lookalikes[alike] = tuple(name for name in self.lookalikes[alike] if name != topic.name)
            if not self.lookalikes[alike]:
                del self.lookalikes[alike]
        self._drop_configs(ConfigResource(ResourceType.TOPIC, topic.name))

    def put_broker(self, broker: Broker) -> None:
        self.brokers = dict(sorted({**self.brokers, broker.broker_id: broker}.items()))
        self._brokers_touched[broker.broker_id] = None

    def remove_broker(self, broker_id: int) -> None:
        self.brokers = {known: broker for known, broker in self.brokers.items() if known != broker_id}
        self._brokers_touched[broker_id] = None
        self._drop_configs(ConfigResource(ResourceType.BROKER, str(broker_id)))

    def set_config(self, resource: ConfigResource, key: str, value: str | None) -> None:
        before = self.configs.get(resource, NO_CONFIG)
        after = before.set(key, value) if value is not None else before.delete(key) if key in before else before
        self._configs_touched[resource] = None
        if after:
            self.configs[resource] = after
        else:
            self.configs.pop(resource, None)

    def _drop_configs(self, resource: ConfigResource) -> None:
        if resource in self.configs:
            del self.configs[resource]
            self._configs_touched[resource] = None

    def set_feature(self, name: str, level: int) -> None:
        features = {known: at for known, at in self.features.items() if known != name}
        self.features = dict(sorted({**features, name: level}.items())) if level else features
        self._features_touched = True

    def set_quota(self, entity: QuotaEntity, key: str, value: float | None) -> None:
        before = self.quotas.get(entity, NO_QUOTAS)
        after = before.set(key, value) if value is not None else before.delete(key) if key in before else before
        if after:
            self.quotas = self.quotas.set(entity, after)
        elif before:
            self.quotas = self.quotas.delete(entity)
        self._quotas_touched = True

    def put_scram(self, key: ScramKey, credential: ScramCredential) -> None:
        self.scram[key] = credential

    def remove_scram(self, key: ScramKey) -> None:
        check(key in self.scram, "29 only a known credential is removed", user=key.user, mechanism=key.mechanism)
        del self.scram[key]

    def put_token(self, token_id: str, token: DelegationToken) -> None:
        before = self.tokens.get(token_id)
        check(
            before is None or (before.owner, before.issue_ms) == (token.owner, token.issue_ms),
            "29 a delegation token keeps its owner",
            token=token_id,
        )
        self.tokens = self.tokens.set(token_id, token)

    def remove_token(self, token_id: str) -> None:
        check(token_id in self.tokens, "29 only a known delegation token is removed", token=token_id)
        self.tokens = self.tokens.delete(token_id)

    def put_access(self, access: AccessRules) -> None:
        self.access = access

    def put_applied(self, node_id: int, applied: Applied) -> None:
        self.applied = {**self.applied, node_id: applied}

    def finish(self, version: int) -> tuple[Image, Changes]:
        """The next image, for the Raft index `version`. Do not use the delta afterwards."""
        self.seal()
        image = Image()
        image.version = version
        image.cluster_id = self.cluster_id
        image.topics = self.topics.finish()
        image.topics_by_name = self.topics_by_name.finish()
        image.lookalikes = self.lookalikes.finish()
        image.configs = self.configs.finish()
        image.brokers = self.brokers
        image.live_brokers = (
            tuple(broker for broker in self.brokers.values() if broker.live)
            if self._brokers_touched
            else self.base.live_brokers
        )
        base = self.base
        if self.broker_epoch_last < base.broker_epoch_last or self.next_producer_id < base.next_producer_id:
            broken(
                "15 epochs and producer ids are never given again",
                broker_epoch=self.broker_epoch_last,
                before=base.broker_epoch_last,
                producer_id=self.next_producer_id,
            )
        if self._brokers_touched and any(each.epoch > self.broker_epoch_last for each in self.brokers.values()):
            broken("15 no broker has an epoch that was not given", last=self.broker_epoch_last)
        image.broker_epoch_last = self.broker_epoch_last
        image.features = self.features
        image.quotas = self.quotas
        image.next_producer_id = self.next_producer_id
        image.access = self.access
        image.applied = self.applied
        image.scram = self.scram.finish()
        image.scram_secret = self.scram_secret
        image.tokens = self.tokens
        check_image(image, self.base, self._topics_touched, has_touched_brokers=bool(self._brokers_touched))
        return image, self._changes(image)

    def _changes(self, image: Image) -> Changes:
        added, removed, changed = [], [], []
        for topic_id in self._topics_touched:
            before, after = self.base.topics.get(topic_id), image.topics.get(topic_id)
            if before is None and after is not None:
                added.append(after)
            elif before is not None and after is None:
                removed.append(before)
            elif before is not None and after is not None and before != after:
                changed.append((before, after))
        if len(image.topics) - len(self.base.topics) != len(added) - len(removed):
            broken(
                "29 topics come and go by what is told of them",
                before=len(self.base.topics),
                now=len(image.topics),
                added=len(added),
                removed=len(removed),
            )
        return Changes(
            topics_added=tuple(added),
            topics_removed=tuple(removed),
            topics_changed=tuple(changed),
            brokers=tuple(self._brokers_touched),
            configs=tuple(self._configs_touched),
            features=self._features_touched,
            quotas=self._quotas_touched,
            access=image.access is not self.base.access,
        )
