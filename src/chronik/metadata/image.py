"""The metadata of a cluster at one log index: topics, brokers, configs, features, quotas, users, tokens, access rules,
applied requests.

An image is immutable. Replaying a batch creates the next image, which shares all unchanged parts. You can keep and read
an image as long as you like, without a lock, and compare two by identity. Two nodes whose images have the same version
have the same `state_hash`, whether they got there by log or by snapshot.

Maps that grow with the number of topics are persistent: a change costs under a microsecond at any size, while copying
two dicts of 10,000 costs 100 us. Their order has no meaning and differs between processes: sort where order shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple, Protocol, TypeVar

from immutables import Map

from chronik.metadata.access import NO_ACCESS_RULES, AccessRules

K = TypeVar("K", contravariant=True)
V = TypeVar("V", covariant=True)

NO_LEADER = -1


class ResourceType(IntEnum):
    """What a config belongs to, with Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    type: int
    name: str  # for a broker: its id, or "" for the default of all brokers


# What a quota applies to: (type, name) pairs, ascending by type. A type is `user`, `client-id` or `ip`; the name None
# means every entity without a quota of its own. For example (("client-id", None), ("user", "alice")).
QuotaEntity = tuple[tuple[str, str | None], ...]


class Partition(NamedTuple):
    leader: int  # NO_LEADER while no in-sync replica is alive
    leader_epoch: int  # increases whenever the leader changes or restarts
    partition_epoch: int  # increases with every change
    replicas: tuple[int, ...]  # the first is the preferred leader
    isr: tuple[int, ...]  # empty only when the last member lost its disk; then there is no leader either
    elr: tuple[int, ...] = ()  # not in sync, but hold everything below the high watermark (KIP-966)
    last_known_elr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()  # subset of `replicas`: added by the current reassignment
    removing: tuple[int, ...] = ()  # subset of `replicas`: removed once all added ones are in sync

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding or self.removing)


class Topic(NamedTuple):
    topic_id: bytes
    name: str
    partitions: tuple[Partition, ...]

    def partition(self, index: int) -> Partition | None:
        return self.partitions[index] if 0 <= index < len(self.partitions) else None


class Endpoint(NamedTuple):
    name: str
    host: str
    port: int
    security_protocol: int


class FeatureRange(NamedTuple):
    level_min: int
    level_max: int


class Broker(NamedTuple):
    broker_id: int
    epoch: int  # increases across the cluster with each registration
    incarnation_id: bytes  # of the process
    fenced: bool
    in_controlled_shutdown: bool
    rack: str | None
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, FeatureRange]
    directory_ids: tuple[bytes, ...]

    @property
    def live(self) -> bool:
        """Not fenced and not shutting down: may lead and join ISRs."""
        return not self.fenced and not self.in_controlled_shutdown

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((each for each in self.endpoints if each.name == listener), None)


class Applied(NamedTuple):
    """The requests of one node that were applied and that it may still repeat."""

    incarnation: int
    answered_below: int
    replies: Map[int, bytes]  # by sequence; at most the node's requests in flight


class ScramKey(NamedTuple):
    user: str
    mechanism: int  # 1 SCRAM-SHA-256, 2 SCRAM-SHA-512


class ScramCredential(NamedTuple):
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential({self.iterations} iterations, [hidden])"


class DelegationToken(NamedTuple):
    """Times are milliseconds of the wall clock. Principals are written as User:alice."""

    owner: str  # the principal it logs in as
    requester: str  # the principal that created it
    renewers: tuple[str, ...]  # principals that may change its expiry, besides the owner
    issue_ms: int
    expiry_ms: int
    max_ms: int  # it cannot be renewed beyond this time

    def belongs_to(self, principal: str) -> bool:
        """Whether the principal may renew, expire and describe it without another permission."""
        return principal == self.owner or principal in self.renewers

    def is_expired(self, now_ms: int) -> bool:
        return min(self.expiry_ms, self.max_ms) < now_ms


class Lookup(Protocol[K, V]):
    """What persistent maps and their mutations share."""

    def get(self, key: K) -> V | None: ...
    def __contains__(self, key: object) -> bool: ...
    def __len__(self) -> int: ...


class View:
    """The read interface of images and deltas, so that a decision runs on either."""

    __slots__ = (
        "access",
        "applied",
        "broker_epoch_last",
        "brokers",
        "cluster_id",
        "configs",
        "features",
        "lookalikes",
        "next_producer_id",
        "quotas",
        "scram",
        "scram_secret",
        "tokens",
        "topics",
        "topics_by_name",
    )

    cluster_id: str  # "" before the first controller
    topics: Lookup[bytes, Topic]
    topics_by_name: Lookup[str, Topic]
    lookalikes: Lookup[str, tuple[str, ...]]  # topic names with '.' or '_', by their name in metrics
    brokers: Mapping[int, Broker]  # ascending
    broker_epoch_last: int  # the highest ever assigned
    configs: Lookup[ConfigResource, Map[str, str]]
    features: Mapping[str, int]
    quotas: Map[QuotaEntity, Map[str, float]]
    next_producer_id: int
    access: AccessRules
    applied: Mapping[int, Applied]  # by node id
    scram: Lookup[ScramKey, ScramCredential]
    scram_secret: bytes  # b"" until the first credential
    tokens: Map[str, DelegationToken]  # by id

    def topic(self, topic_id: bytes) -> Topic | None:
        return self.topics.get(topic_id)

    def topic_named(self, name: str) -> Topic | None:
        return self.topics_by_name.get(name)

    def config(self, resource_type: int, name: str) -> Mapping[str, str]:
        """The keys set on the resource, without defaults."""
        return self.configs.get(ConfigResource(resource_type, name)) or NO_CONFIG

    def is_live(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.live

    def all_topics(self) -> list[Topic]:
        """Sorted by name."""
        raise NotImplementedError


class Image(View):
    """One version of the metadata. `version` is the Raft index of its last entry; `live_brokers` is sorted by id."""

    __slots__ = ("live_brokers", "version")

    version: int
    live_brokers: tuple[Broker, ...]
    topics: Map[bytes, Topic]
    topics_by_name: Map[str, Topic]
    lookalikes: Map[str, tuple[str, ...]]
    configs: Map[ConfigResource, Map[str, str]]
    scram: Map[ScramKey, ScramCredential]

    def all_topics(self) -> list[Topic]:
        return [topic for _, topic in sorted(self.topics_by_name.items())]

    def __repr__(self) -> str:
        return f"<Image {self.version}: {len(self.topics)} topics, {len(self.brokers)} brokers>"


NO_CONFIG: Map[str, str] = Map()
NO_QUOTAS: Map[str, float] = Map()


def _empty() -> Image:
    image = Image()
    image.version = 0
    image.cluster_id = ""
    image.topics = Map()
    image.topics_by_name = Map()
    image.lookalikes = Map()
    image.brokers = {}
    image.live_brokers = ()
    image.broker_epoch_last = 0
    image.configs = Map()
    image.features = {}
    image.quotas = Map()
    image.next_producer_id = 0
    image.access = NO_ACCESS_RULES
    image.applied = {}
    image.scram = Map()
    image.scram_secret = b""
    image.tokens = Map()
    return image


EMPTY = _empty()
