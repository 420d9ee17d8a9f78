"""What can be set of a node's metadata store. Values only; who reads them is `store`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chronik.metadata.decisions.decision import Rules
from chronik.raft.addresses import Address
from chronik.raft.config import RaftConfig


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """What can be set. Voters are those that found the quorum; None waits to be added to one."""

    voters: Mapping[int, Address] | None
    rules: Rules = field(default_factory=Rules)
    raft: RaftConfig = field(default_factory=RaftConfig)
    features: Mapping[str, int] = field(default_factory=dict)  # levels that a new cluster begins with
    broker_session_timeout_ms: int = 9_000
    batching: bool = True  # off: every command is an entry, and a consensus round, of its own
    forwarding: bool = True  # off: a node that is not the controller says so, except about its own duties
    leases: bool = True  # off: every read is confirmed by the leader
    read_timeout_ms: int = 5_000  # a read that no leader confirmed for so long is given up
    submit_timeout_ms: int = 15_000  # a command that found no controller for so long is given up
    answer_timeout_ms: int = 2_000  # one that was sent is sent again after so long
