"""Named points at which the product may do something allowed but unlikely: read less, roll early, answer late, retry.

A point marks a choice that is correct either way and that tests alone would seldom cover. Every point is off unless the
simulator turns it on, so in production it costs one attribute test:

    if EARLY_ROLL.is_on and EARLY_ROLL.fires():

None is on the path of a single record. A point never causes incorrect behaviour: faults of the machine belong to the
simulator's disk and network, not here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

POINTS: dict[str, Point] = {}


class Point:
    __slots__ = ("_chance", "is_on", "name")

    def __init__(self, name: str) -> None:
        if name in POINTS:
            raise ValueError(f"there are two points named {name!r}: give one of them another name")
        self.name = name
        self.is_on = False
        self._chance: Callable[[Point], bool] | None = None
        POINTS[name] = self

    def fires(self) -> bool:
        """Call this only if the point is on."""
        return self._chance is not None and self._chance(self)


def turn_on(points: Iterable[Point], chance: Callable[[Point], bool]) -> None:
    """For the simulator. `chance` is called each time one of these points is reached."""
    for point in points:
        point.is_on, point._chance = True, chance


def turn_off() -> None:
    for point in POINTS.values():
        point.is_on, point._chance = False, None


# storage
EARLY_ROLL = Point("storage: a segment is rolled before it is full")
ONE_BATCH_READ = Point("storage: a read returns one batch though more would fit")
CHECKED_AGAIN = Point("storage: the CRC of batches that were checked is checked again")
SYNCED_BY_FILE = Point("storage: a round syncs a segment instead of using the journal")
GATHERED_LONGER = Point("storage: a round waits for others though there is no crowd")
FORCED_CHECKPOINT = Point("storage: a checkpoint is made though none is due")
FEW_OPEN_FILES = Point("storage: another segment closes its files before one opens")
INDEX_UNUSED = Point("storage: a walk begins at the start of the segment, not at an index entry")
TIME_INDEX_UNUSED = Point("storage: a lookup by time begins at the start of the segment")
SMALL_SCRUB_PAUSE = Point("storage: the scrubber begins its next pass at once")

# raft
FORCED_SNAPSHOT = Point("raft: a snapshot is made though the log is short")
NOTHING_TRAILS = Point("raft: a snapshot leaves no entries behind it in the log")
LEADERSHIP_TRANSFER = Point("raft: a leader hands over though nothing is wrong")
HURRIED_ELECTION = Point("raft: a follower stands as soon as its promises are over")
SKIPPED_TICK = Point("raft: a tick is skipped, as if the loop had been busy")
LATE_PUMP = Point("raft: messages and entries wait for a millisecond")
ONE_ENTRY_APPENDED = Point("raft: an append carries one entry")
FULL_QUEUE = Point("raft: a frame finds the queue to its peer full")
STREAM_DROPPED = Point("raft: a stream is closed and connected anew")
LEASE_UNUSED = Point("raft: a leader does without its lease")

# metadata
FOLLOWER_LEASE_UNUSED = Point("metadata: a read is confirmed by the leader though a lease allows it")
LEASE_REFUSED = Point("metadata: a leader grants no lease")
QUESTION_LOST = Point("metadata: a forwarded command is not sent")
QUESTION_DOUBLED = Point("metadata: a forwarded command is sent twice")
ANSWER_LOST = Point("metadata: the answer to a forwarded command is dropped")
SMALL_BATCH = Point("metadata: a batch of commands is closed early")
WRITER_FULL = Point("metadata: the controller asks to come again later")
HEARTBEAT_SKIPPED = Point("metadata: a broker's heartbeat is left out")

# replication
LINK_CLOSED = Point("replication: a follower drops its connection and begins a new session")
FOLLOWER_SESSION_LOST = Point("replication: a leader has forgotten a follower's session")
FEW_NAMED = Point("replication: a follower names one partition at a time")
FETCHED_IGNORED = Point("replication: a follower ignores an answer and asks again")
ONE_PARTITION_ANSWERED = Point("replication: a leader answers for one partition at a time")
ANSWERED_EMPTY = Point("replication: a leader answers a fetch at once, with nothing")
SPURIOUS_WAKE = Point("replication: those who wait for a partition are woken for nothing")
ISR_SHRUNK = Point("replication: a follower leaves the in-sync replicas though it does not lag")
LATE_ISR_CHANGE = Point("replication: a change of in-sync replicas is asked for later")
EARLY_NEWS = Point("replication: a follower is told of the high watermark at once")
EARLY_TIMEOUT = Point("replication: a produce request times out at once")

# coordinator
STILL_LOADING = Point("coordinator: a shard says that it is loading")
SMALL_LOADS = Point("coordinator: a shard is loaded a batch at a time")
NO_COORDINATOR = Point("coordinator: nobody is known to coordinate a group")

# broker
SHORT_TURN = Point("broker: a turn of the loop ends early")
IN_PIECES = Point("broker: a small request is decoded in pieces")
REQUEST_WAITS = Point("broker: a request waits for the next turn of the loop")
CONNECTION_CLOSED = Point("broker: a connection is closed behind an answer")
FETCH_NOT_AWAITED = Point("broker: a fetch is answered before its wait is over")
SMALL_PORTION = Point("broker: a fetch is given the smallest portion")
FETCH_SESSION_LOST = Point("broker: a fetch session is forgotten")
LONG_WAY = Point("broker: a plain produce request takes the way of the others")
IDS_DROPPED = Point("broker: the rest of a block of producer ids is thrown away")
DESCRIPTION_DROPPED = Point("broker: the cached description of a topic is dropped")
