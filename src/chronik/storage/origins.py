"""The origin of an append on a leader: a client or a coordinator. It decides what the log checks.

CLIENT: epoch, sequence numbers, repeated batches, and whether a transactional batch belongs to a known transaction.
COORDINATOR: the same without sequence numbers and repetitions. A coordinator numbers no batches: each begins with
sequence 0. It also writes the markers that end transactions. Replication has no origin: `Log.append_fetched` accepts
what the leader has checked.
"""

from __future__ import annotations

from enum import Enum


class Origin(Enum):
    CLIENT = "client"
    COORDINATOR = "coordinator"
