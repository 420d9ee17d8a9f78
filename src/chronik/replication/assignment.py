"""The replicas of this node: created on first use, changed and removed according to the image.

A partition that the image places here gets a replica on first use. Nothing is opened before that, so ten thousand idle
topics cost nothing. Only the image defines which partitions exist and which node leads them. It is used only after it
shows this node's own registration (`begin`), because an older image may show a former leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from chronik.metadata.decisions.elections import ELR_FEATURE
from chronik.metadata.image import EMPTY, NO_LEADER, Image, Partition, Topic
from chronik.replication.errors import ReplicationError
from chronik.replication.fetcher import Fetchers
from chronik.replication.follower import Follower
from chronik.replication.full_replicas import FullReplicas
from chronik.replication.lost_replicas import LostReplicas
from chronik.replication.mending import Mending
from chronik.replication.progress import FollowerProgress, Key
from chronik.replication.replica import IsrKeeper, Replica
from chronik.replication.sessions import FollowerSessions
from chronik.replication.topic_settings import TopicSettings
from chronik.runtime.interfaces import Clock, Randomness
from chronik.runtime.invariants import broken, check
from chronik.storage.errors import StorageError, StorageFailed
from chronik.storage.log import Log
from chronik.storage.logs import Logs
from chronik.storage.lost_logs import compare_epochs

logger = logging.getLogger("chronik.replication")

MEND_AGAIN_S = 1.0  # after a full disk, for example
TOPICS_AT_ONCE = 500  # processed at once when a node begins, which limits the time that clients wait


class Replicas:
    refusals = (StorageError, ReplicationError)  # errors of reads that are returned to a peer

    def __init__(
        self,
        node_id: int,
        logs: Logs,
        settings_of: Callable[[Image, str], TopicSettings],
        *,
        clock: Clock,
        randomness: Randomness,
        keeper: IsrKeeper,
        fetchers: Fetchers,
        losses: LostReplicas,
        full: FullReplicas,
    ) -> None:
        self.node_id = node_id
        self.logs = logs
        logs.on_lost = self._log_lost
        self.losses = losses
        self.full = full
        full.changed = self._space_changed
        self.clock = clock
        self.image = EMPTY
        self.sessions = FollowerSessions(self)
        self._settings_of = settings_of
        self._randomness = randomness
        self._keeper = keeper
        self._fetchers = fetchers
        fetchers.attach(self._make_follower)
        self._has_begun = False
        self._from_before: frozenset[bytes] = frozenset()  # topics that are older than this process
        self._later: list[bytes] = []  # topics that `begin_more` still has to process
        self._replicas: dict[Key, Replica] = {}
        self._mending = Mending(self._cut)
        self._reported: dict[Key, int] = {}  # lost replicas: the leader epoch of the first report to the controller
        # By broker id, for partitions that this node leads.
        self._followers: dict[Key, dict[int, FollowerProgress]] = {}

    # --- lookup

    def get(self, topic: Topic, index: int) -> Replica | None:
        """The replica of a partition that is placed on this node, else None. Creates it on first use."""
        replica = self._replicas.get((topic.topic_id, index))
        if replica is not None:
            return replica
        if not self._has_begun or not 0 <= index < len(topic.partitions):
            return None
        if self.node_id not in topic.partitions[index].replicas:
            return None
        return self._make(topic, index)

    def opened(self, key: Key) -> Replica | None:
        """The replica if it was created before or has a log; otherwise None, and nothing is created."""
        replica = self._replicas.get(key)
        if replica is not None or self.logs.get(*key) is None:
            return replica
        topic = self.image.topics.get(key[0])
        return None if topic is None else self.get(topic, key[1])

    def all(self) -> Iterable[Replica]:
        """The replicas that were created. Others have no state except their logs."""
        return self._replicas.values()

    def _make(self, topic: Topic, index: int) -> Replica:
        key = (topic.topic_id, index)
        if key in self._replicas:
            broken("9 a partition has one replica on a node", topic=topic.name, index=index)
        settings = self._settings_of(self.image, topic.name)
        log = self.logs.create(topic.name, topic.topic_id, index, settings.log)
        if (log.topic_id, log.partition) != key:
            broken("8 a replica's log is its partition's", topic=topic.name, index=index, log=log)
        made = self._replicas[key] = Replica(
            log,
            self.node_id,
            topic.partitions[index],
            settings,
            clock=self.clock,
            keeper=self._keeper,
            followers=self._followers.get(key, {}),
            is_elr_kept=self.image.features.get(ELR_FEATURE, 0) > 0,
            is_from_before=topic.topic_id in self._from_before,
        )
        for progress in made.followers.values():
            progress.session.has_more(progress)  # its offset counts now
        self._invite_absent(key, made.state)
        return made

    def _make_follower(self, key: Key, leader_epoch: int) -> Follower:
        return Follower(key, leader_epoch, opened=self.opened, open_=self._open)

    def _open(self, key: Key) -> Replica:
        topic = self.image.topics.get(key[0])
        replica = None if topic is None else self.get(topic, key[1])
        if replica is None:
            broken("9 what is followed is placed here", topic=key[0], index=key[1], node=self.node_id)

        return replica

    # --- followers of partitions led here

    def followers_of(self, key: Key) -> dict[int, FollowerProgress]:
        followers = self._followers.get(key)
        if followers is None:
            followers = self._followers[key] = {}
            replica = self._replicas.get(key)
            if replica is not None:
                replica.followers = followers
        replica = self._replicas.get(key)
        check(
            replica is None or replica.followers is followers,
            "9 a replica and its sessions know the same followers",
            topic=key[0],
            index=key[1],
        )
        return followers

    def led_with_log(self, follower_id: int) -> Iterable[Key]:
        """The partitions that a follower should fetch when it starts a session."""
        for log in self.logs.all():
            topic = self.image.topics.get(log.topic_id)
            state = topic.partition(log.partition) if topic is not None else None
            if state is not None and state.leader == self.node_id and follower_id in state.replicas:
                yield log.topic_id, log.partition

    def _invite_absent(self, key: Key, state: Partition) -> None:
        """Invites followers that do not fetch a partition that has, or will soon have, records."""
        if state.leader == self.node_id and len(state.replicas) > 1:
            present = self._followers.get(key, {})
            for broker_id in state.replicas:
                if broker_id not in present:
                    self.sessions.invite(broker_id, key)

    def follower_left(self, key: Key, progress: FollowerProgress) -> None:
        followers = self._followers.get(key, {})
        if followers.get(progress.broker_id) is progress:
            del followers[progress.broker_id]
            replica = self._replicas.get(key)
            if replica is not None:  # its next session may take some time to name all its partitions
                replica.left_ns[progress.broker_id] = self.clock.monotonic_ns()

    def draw_session_id(self) -> int:
        return 1 + self._randomness.below(2**31 - 1)

    # --- following the image

    def begin(self, image: Image) -> None:
        """Called when the image shows this node's registration: from now on the node leads and follows as the image
        says.

        Topics without a log here are processed last. If there are many, call `begin_more` until all are processed.
        """
        check(not self._has_begun, "30 a node begins once", node=self.node_id)
        self._has_begun = True
        self._from_before = frozenset(image.topics)
        here = {log.topic_id for log in self.logs.all()}
        topics = image.all_topics()
        self._later = [topic.topic_id for topic in topics if topic.topic_id not in here]
        self.follow(image, [topic for topic in topics if topic.topic_id in here], ())
        self.begin_more()

    def begin_more(self) -> bool:
        """Processes more topics. Returns whether some are left."""
        some, self._later = self._later[:TOPICS_AT_ONCE], self._later[TOPICS_AT_ONCE:]
        known = [self.image.topics.get(topic_id) for topic_id in some]
        self.follow(self.image, [topic for topic in known if topic is not None], ())
        return bool(self._later)

    def follow(
        self, image: Image, changed: Iterable[Topic], removed: Iterable[Topic], brokers: Iterable[int] = ()
    ) -> list[Log]:
        """Applies a new image. Returns the logs that no longer belong here; the caller deletes them."""
        if image.version < self.image.version:
            broken(
                "4 a node follows images in the order of their versions", before=self.image.version, now=image.version
            )
        self.image = image
        if any(image.is_live(broker_id) for broker_id in brokers):
            for replica in self._replicas.values():
                replica.look_for_caught_up()  # includes a broker that had caught up before it was live
        gone: list[Log] = []
        if not self._has_begun:
            return gone
        for topic in removed:
            for index in range(len(topic.partitions)):
                gone += self._leave((topic.topic_id, index))
        for topic in changed:
            for index, partition in enumerate(topic.partitions):
                key = (topic.topic_id, index)
                if self.node_id not in partition.replicas:
                    gone += self._leave(key)
                else:
                    self._take(key, partition)
        return gone

    def _take(self, key: Key, partition: Partition) -> None:
        log = self.logs.get(*key)
        replica = self._replicas.get(key)
        if replica is not None:
            if replica.log is not log:
                broken("9 a partition has one log on a node", index=key[1], log=log)
            replica.is_elr_kept = self.image.features.get(ELR_FEATURE, 0) > 0
            if partition != replica.state:
                replica.change(partition)
        if log is not None:
            compare_epochs(log, partition.leader_epoch)
        is_lost = log is not None and log.lost is not None
        if is_lost:
            self._mend(key, partition)
        is_full = key in self.full.keys
        if is_full and self.node_id in partition.isr and len(partition.isr) > 1:
            self.full.withdraw(key)
        if is_lost or is_full or partition.leader in (NO_LEADER, self.node_id):
            if key in self._fetchers.leader_of:
                self._fetchers.forget(key)
        else:
            is_untouched = log is None and self.node_id in partition.isr
            self._fetchers.follow(key, partition.leader, partition.leader_epoch, when_invited=is_untouched)
        followers = self._followers.get(key)
        if followers:
            for progress in followers.values():
                progress.session.has_more(progress)  # leader, epoch or replicas may match the session now, or no longer
        if log is not None:
            self._invite_absent(key, partition)

    def _space_changed(self, key: Key) -> None:
        """Deferred, because the caller that found no space is still processing its request."""
        asyncio.get_running_loop().call_soon(self._look_again, key)

    def _look_again(self, key: Key) -> None:
        topic = self.image.topics.get(key[0])
        state = topic.partition(key[1]) if topic is not None else None
        if self._has_begun and state is not None and self.node_id in state.replicas:
            self._take(key, state)

    # --- replicas that lack acknowledged records

    def _log_lost(self, log: Log) -> None:
        """Deferred, because the caller that found the damage is still reading."""
        asyncio.get_running_loop().call_soon(self._look_at_lost, log)

    def _look_at_lost(self, log: Log) -> None:
        if log.lost is not None and not log.deleted:
            self._look_again((log.topic_id, log.partition))

    def _mend(self, key: Key, partition: Partition) -> None:
        """First has the controller remove the replica from ISR and ELR, so that the cluster does not rely on it. Then
        drops the damaged part, which is fetched again from the leader.

        The drop waits for a leader epoch in which this node has not reported its position. In an earlier epoch, the
        leader may be about to add this node to the ISR because of an offset that the drop makes wrong.
        """
        reported_epoch = self._reported.setdefault(key, partition.leader_epoch)
        check(
            reported_epoch <= partition.leader_epoch,
            "11 a leader epoch never goes back",
            partition=key,
            reported=reported_epoch,
            now=partition.leader_epoch,
        )
        if self.node_id in (*partition.isr, *partition.elr) or partition.leader_epoch <= reported_epoch:
            self.losses.report(key)
        elif partition.leader not in (NO_LEADER, self.node_id):  # another replica leads and has the records
            self._mending.add(key)

    def _may_cut(self, key: Key, partition: Partition) -> bool:
        """Whether the conditions of `_mend` still hold."""
        reported_epoch = self._reported.get(key)
        return (
            reported_epoch is not None
            and self.node_id not in (*partition.isr, *partition.elr)
            and partition.leader_epoch > reported_epoch
            and partition.leader not in (NO_LEADER, self.node_id)
            and not self._open(key).is_leader
        )

    def _cut(self, key: Key) -> None:
        """Runs in its own loop iteration. `_take` has removed the partition from the fetcher, whose position is no
        longer valid."""
        log, topic = self.logs.get(*key), self.image.topics.get(key[0])
        partition = None if topic is None else topic.partition(key[1])
        if log is None or log.lost is None or partition is None or not self._may_cut(key, partition):
            return
        replica = self._open(key)
        logger.warning("%s: fetching again from broker %d: %s", replica.name, partition.leader, log.lost)
        try:
            self.logs.cut_lost(log, self.clock.wall_ms())
        except StorageFailed:
            return  # the error has already been reported to the node, which stops
        except (StorageError, OSError) as fault:
            logger.error("%s: cannot prepare for fetching lost records again, retrying: %s", replica.name, fault)
            asyncio.get_running_loop().call_later(MEND_AGAIN_S, self._look_at_lost, log)
            return
        replica.was_cut()
        self.losses.forget(key)
        del self._reported[key]
        self._take(key, partition)

    def _leave(self, key: Key) -> list[Log]:
        self.losses.forget(key)
        self.full.forget(key)
        self._mending.forget(key)
        self._reported.pop(key, None)
        self._fetchers.forget(key)
        self._followers.pop(key, None)
        replica = self._replicas.pop(key, None)
        log = replica.log if replica else self.logs.get(*key)
        if replica is not None:
            replica.end()
        return [] if log is None else [log]

    def configure_all(self, image: Image) -> None:
        """Like `configure`, for all topics with logs or replicas here."""
        for topic_id in dict.fromkeys(log.topic_id for log in self.logs.all()):
            topic = image.topics.get(topic_id)
            if topic is not None:
                self.configure(image, topic)

    def configure(self, image: Image, topic: Topic) -> None:
        """Applies a topic's changed configuration."""
        self.image = image
        settings = self._settings_of(image, topic.name)
        for index in range(len(topic.partitions)):
            replica = self._replicas.get((topic.topic_id, index))
            if replica is not None:
                replica.configure(settings)
            log = self.logs.get(topic.topic_id, index)
            if log is not None:
                log.config = settings.log

    def end(self) -> None:
        """The node stops: it neither follows nor serves followers after this."""
        self._mending.end()
        self._fetchers.end()
        self.sessions.end()
