"""Asks the controller to change the ISRs of all partitions that this node leads, with one command at a time.

Each partition has at most one change in progress. A change names the epochs it is based on, so that the controller
refuses outdated ones. A command without a response may have been applied: its members still count (see `replica`), and
it is sent again until the image or a refusal shows the outcome.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from chronik.metadata.commands.alter_partition import AlterPartition, AlterPartitionReply, IsrMember, NewIsr, TopicIsrs
from chronik.metadata.errors import MetadataError, MetadataRefused
from chronik.replication.progress import FollowerProgress
from chronik.runtime.buggify import ISR_SHRUNK, LATE_ISR_CHANGE
from chronik.runtime.invariants import check
from chronik.runtime.units import NS_PER_MS
from chronik.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from chronik.metadata.image import Image
    from chronik.replication.full_replicas import FullReplicas
    from chronik.replication.replica import Replica
    from chronik.runtime.interfaces import Clock

logger = logging.getLogger("chronik.replication")

RETRY_MS_MIN, RETRY_MS_MAX = 50, 1_000
REFUSED_PAUSE_MS = 500  # before the next request for a partition whose change was refused
PARTITIONS_PER_COMMAND = 1_000
LOOK_MS = 1_000  # interval of the periodic check
REPLICAS_PER_STEP = 500  # examined before the loop continues: about a millisecond


class IsrChanges:
    def __init__(
        self,
        node_id: int,
        clock: Clock,
        *,
        submit: Callable[[AlterPartition], Awaitable[AlterPartitionReply]],
        image: Callable[[], Image],
        broker_epoch: Callable[[], int],
        lag_ms_max: int,
        full: FullReplicas,
    ) -> None:
        self._node_id = node_id
        self._clock = clock
        self._submit = submit
        self._image = image
        self._broker_epoch = broker_epoch
        self._lag_ms_max = lag_ms_max
        self._full = full
        self._wanted: dict[Replica, None] = {}  # replicas with an `isr_pending` to send
        self._has_work = asyncio.Event()

    # --- deciding

    def caught_up(self, replica: Replica, progress: FollowerProgress) -> None:
        """Asks to add a follower that has reached the high watermark and the start of this leader's epoch."""
        broker_id, state = progress.broker_id, replica.state
        if replica.isr_pending is not None or broker_id in state.isr or broker_id not in state.replicas:
            return
        broker = self._image().brokers.get(broker_id)
        if broker is None or not broker.live or broker.epoch != progress.broker_epoch:
            return
        if self._clock.monotonic_ns() < replica.isr_retry_ns:
            return
        check(
            progress.end_offset >= replica.high_watermark and progress.counted_epoch == state.leader_epoch,
            "10 who comes into the ISR holds all that is committed",
            partition=replica.name,
            broker=broker_id,
            offset=progress.end_offset,
            high_watermark=replica.high_watermark,
        )
        members = {*state.isr, broker_id}
        self._ask(replica, tuple(each for each in state.replicas if each in members))

    def found_no_space(self, replica: Replica) -> None:
        if len(replica.state.replicas) > 1:
            self._full.met((replica.log.topic_id, replica.log.partition))

    def look_at(self, replica: Replica, now_ns: int) -> None:
        """Removes followers that lag and adds those that have caught up."""
        if not replica.is_leader or len(replica.state.replicas) == 1 or replica.isr_pending is not None:
            return
        replica.look_for_caught_up()
        if len(replica.state.isr) == 1 or replica.isr_pending is not None:
            return
        if now_ns < replica.isr_retry_ns:
            return
        lagging = [each for each in replica.state.isr if each != self._node_id and self._lags(replica, each, now_ns)]
        if lagging:
            logger.info("%s: %s fell behind: removed from the in-sync replicas", replica.name, lagging)
            self._ask(replica, tuple(each for each in replica.state.isr if each not in lagging))

    def _lags(self, replica: Replica, broker_id: int, now_ns: int) -> bool:
        progress = replica.followers.get(broker_id)
        lag_ns_max = self._lag_ms_max * NS_PER_MS
        if ISR_SHRUNK.is_on and ISR_SHRUNK.fires():
            return True
        if progress is None:
            return now_ns - replica.left_ns.get(broker_id, replica.epoch_since_ns) > lag_ns_max
        return progress.lags(replica.log.end_offset, now_ns, lag_ns_max)

    def _ask(self, replica: Replica, isr: tuple[int, ...]) -> None:
        check(replica.is_leader, "11 only a leader asks for another ISR", partition=replica.name, isr=isr)
        check(
            replica.isr_pending is None,
            "11 one change of an ISR is on its way",
            partition=replica.name,
            pending=replica.isr_pending,
            isr=isr,
        )
        check(len(isr) > 0, "11 an ISR is never empty", partition=replica.name)
        replica.ask_for_isr(isr)
        self._wanted[replica] = None
        self._has_work.set()

    async def watch(self, replicas: Callable[[], Iterable[Replica]]) -> None:
        """Periodically checks for lagging followers and for refused changes."""
        while True:
            await asyncio.sleep(min(self._lag_ms_max / 4, LOOK_MS) / 1000)
            for count, replica in enumerate(list(replicas())):
                if count % REPLICAS_PER_STEP == REPLICAS_PER_STEP - 1:
                    await asyncio.sleep(0)
                self.look_at(replica, self._clock.monotonic_ns())

    # --- sending

    async def run(self) -> None:
        """Sends wanted changes until cancelled."""
        pause_ms = RETRY_MS_MIN
        while True:
            await self._has_work.wait()
            if LATE_ISR_CHANGE.is_on and LATE_ISR_CHANGE.fires():
                await asyncio.sleep(RETRY_MS_MIN / 1000)
            asked = list(self._wanted)[:PARTITIONS_PER_COMMAND]
            for replica in asked:
                del self._wanted[replica]
            if not self._wanted:
                self._has_work.clear()
            command, waiting = self._command(asked)
            if not waiting:
                continue
            try:
                reply = await self._submit(command)
            # The whole command was refused: the controller does not accept this node's registration.
            except MetadataRefused as refused:
                for replica in waiting.values():
                    self._refused(replica, refused.error_code)
                await asyncio.sleep(RETRY_MS_MAX / 1000)
            except MetadataError as fault:
                logger.info("the controller did not answer; in-sync replicas are unchanged: %s", fault)
                await asyncio.sleep(pause_ms / 1000)
                pause_ms = min(2 * pause_ms, RETRY_MS_MAX)
                self._wanted |= dict.fromkeys(waiting.values())
                self._has_work.set()
            else:
                pause_ms = RETRY_MS_MIN
                self._take(reply, waiting)

    def _command(self, asked: list[Replica]) -> tuple[AlterPartition, dict[tuple[bytes, int], Replica]]:
        topics: dict[bytes, TopicIsrs] = {}
        waiting: dict[tuple[bytes, int], Replica] = {}
        for replica in asked:
            if replica.isr_pending is None or not replica.is_leader or replica.is_gone:
                continue  # the image has changed meanwhile
            topic_id, index = replica.log.topic_id, replica.log.partition
            check(
                (topic_id, index) not in waiting,
                "11 one change of an ISR is on its way",
                partition=replica.name,
                isr=replica.isr_pending,
            )
            waiting[topic_id, index] = replica
            topic = topics.setdefault(topic_id, TopicIsrs(topic_id=topic_id, partitions=[]))
            topic.partitions.append(
                NewIsr(
                    index=index,
                    leader_epoch=replica.state.leader_epoch,
                    partition_epoch=replica.state.partition_epoch,
                    isr=[self._member(replica, broker_id) for broker_id in replica.isr_pending],
                )
            )
        command = AlterPartition(
            broker_id=self._node_id, broker_epoch=self._broker_epoch(), topics=list(topics.values())
        )
        return command, waiting

    def _member(self, replica: Replica, broker_id: int) -> IsrMember:
        if broker_id == self._node_id:
            return IsrMember(broker_id=broker_id, broker_epoch=self._broker_epoch())
        progress = replica.followers.get(broker_id)
        return IsrMember(broker_id=broker_id, broker_epoch=progress.broker_epoch if progress is not None else -1)

    def _take(self, reply: AlterPartitionReply, waiting: dict[tuple[bytes, int], Replica]) -> None:
        for topic in reply.topics:
            for partition in topic.partitions:
                replica = waiting.get((topic.topic_id, partition.index))
                if replica is None or replica.isr_pending is None:
                    continue  # the image shows the outcome already
                if partition.error_code or partition.partition_epoch <= replica.state.partition_epoch:
                    self._refused(replica, ErrorCode.of(partition.error_code))

    def _refused(self, replica: Replica, error: ErrorCode) -> None:
        if error:
            logger.info("%s: the controller refuses in-sync replicas %s: %s", replica.name, replica.isr_pending, error)
            replica.isr_retry_ns = self._clock.monotonic_ns() + REFUSED_PAUSE_MS * NS_PER_MS
        replica.ask_for_isr(None)
