"""What can be set of a node's metadata store. Values only; `store` reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chronik.catalogue.defaults import of_broker
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
    broker_session_timeout_ms: int = of_broker("broker.session.timeout.ms")
    token_expiry_check_interval_ms: int = of_broker("delegation.token.expiry.check.interval.ms")
    batching: bool = of_broker(
        "chronik.metadata.batching.enable"
    )  # off: every command is an entry, and a consensus round, of its own
    forwarding: bool = of_broker(
        "chronik.metadata.forwarding.enable"
    )  # off: a node that is not the controller says so, except about its own duties
    leases: bool = of_broker("chronik.metadata.leases.enable")  # off: every read is confirmed by the leader
    read_timeout_ms: int = 5_000  # a read that no leader confirmed for so long is given up
    submit_timeout_ms: int = 15_000  # a command that found no controller for so long is given up
    answer_timeout_ms: int = of_broker(
        "controller.quorum.request.timeout.ms"
    )  # one that was sent is sent again after so long
