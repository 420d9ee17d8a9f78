"""Sets of checkers that run together."""

from __future__ import annotations

from chronik.sim.checkers.access import AsTheClusterSays, AsTheNodeKnew
from chronik.sim.checkers.bounds import MemoryBounds
from chronik.sim.checkers.damage import CommittedIsKept, DamageIsNotServed, DamageIsReal
from chronik.sim.checkers.deliveries import EachIsSettled
from chronik.sim.checkers.durable_commit import DurableCommit
from chronik.sim.checkers.durable_progress import DurableProgress
from chronik.sim.checkers.holders import OneHolder
from chronik.sim.checkers.leases import Leases
from chronik.sim.checkers.linearizability import LinearizableMetadata
from chronik.sim.checkers.one_change import OneChange
from chronik.sim.checkers.one_leader import OneLeader
from chronik.sim.checkers.owners import OneOwner
from chronik.sim.checkers.partitions import Elections, Followers, IdenticalReplicas, Watermarks
from chronik.sim.checkers.records import AcknowledgedIsReadable, CommitsStay, OneValuePerOffset, ProducerOrder
from chronik.sim.checkers.recovery import Recovery
from chronik.sim.checkers.same_state import SameState, SameStateAtEveryVersion
from chronik.sim.checkers.silence import Silence
from chronik.sim.checkers.topic_ids import (
    AcknowledgedIsReadableById,
    DeletedForEver,
    NothingFromElsewhere,
    ThePastIsRefused,
)
from chronik.sim.checkers.transactions import (
    AbortedTransactions,
    CircularTransactions,
    CommittedTransactions,
    FencedWriters,
    OffsetsOfTransactions,
)

RAFT_CHECKERS = (OneLeader, DurableProgress, Recovery, DurableCommit, SameState, Leases)
METADATA_CHECKERS = (*RAFT_CHECKERS, Silence, LinearizableMetadata)
MEMBERS_CHECKERS = (*METADATA_CHECKERS, OneChange)
RECORD_CHECKERS = (
    *RAFT_CHECKERS, Silence, Watermarks, Followers, Elections, IdenticalReplicas,
    OneValuePerOffset, AcknowledgedIsReadable, ProducerOrder, CommitsStay, DamageIsNotServed, DamageIsReal,
    CommittedIsKept,
)  # fmt: skip
# The state of a node that has lost data is not judged: only what clients see, and what all nodes agree on.
LOSS_CHECKERS = (
    SameStateAtEveryVersion, Elections, IdenticalReplicas,
    OneValuePerOffset, AcknowledgedIsReadable, ProducerOrder, CommitsStay, DamageIsNotServed, MemoryBounds,
)  # fmt: skip
SWARM_CHECKERS = (*RECORD_CHECKERS, MemoryBounds)
# Without the checkers that examine every partition after every callback: there are hundreds of partitions.
OVERLOAD_CHECKERS = (
    *RAFT_CHECKERS, Silence, IdenticalReplicas,
    OneValuePerOffset, AcknowledgedIsReadable, ProducerOrder, CommitsStay, DamageIsNotServed, MemoryBounds,
)  # fmt: skip
RECREATED_CHECKERS = (
    *(each for each in RECORD_CHECKERS if each is not AcknowledgedIsReadable),
    AcknowledgedIsReadableById, NothingFromElsewhere, DeletedForEver, ThePastIsRefused,
)  # fmt: skip
TRANSACTION_CHECKERS = (
    *RAFT_CHECKERS, Silence, Watermarks, Followers, Elections, IdenticalReplicas, OneValuePerOffset, DamageIsNotServed,
    CommittedTransactions, AbortedTransactions, CircularTransactions, FencedWriters, OffsetsOfTransactions,
)  # fmt: skip
ACCESS_CHECKERS = (*RAFT_CHECKERS, Silence, AsTheNodeKnew, AsTheClusterSays)
GROUP_CHECKERS = (*RECORD_CHECKERS, OneOwner)
CONSUMER_GROUP_CHECKERS = (*RECORD_CHECKERS, OneHolder)
SHARE_GROUP_CHECKERS = (*RECORD_CHECKERS, EachIsSettled)
