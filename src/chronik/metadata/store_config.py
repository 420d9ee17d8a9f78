"""Settings of a node's metadata store. Values only; `store` reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chronik.catalogue.defaults import of_broker
from chronik.metadata.decisions.decision import Rules
from chronik.raft.addresses import Address
from chronik.raft.config import RaftConfig


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """`voters` are the founders of the quorum; None waits to be added to one."""

    voters: Mapping[int, Address] | None
    rules: Rules = field(default_factory=Rules)
    raft: RaftConfig = field(default_factory=RaftConfig)
    features: Mapping[str, int] = field(default_factory=dict)  # initial levels of a new cluster
    broker_session_timeout_ms: int = of_broker("broker.session.timeout.ms")
    token_expiry_check_interval_ms: int = of_broker("delegation.token.expiry.check.interval.ms")
    batching: bool = of_broker(
        "chronik.metadata.batching.enable"
    )  # off: each command has its own entry and consensus round
    forwarding: bool = of_broker(
        "chronik.metadata.forwarding.enable"
    )  # off: other nodes answer NOT_CONTROLLER, except for their own duties
    leases: bool = of_broker("chronik.metadata.leases.enable")  # off: the leader confirms every read
    read_timeout_ms: int = 5_000  # how long a read waits for a leader's confirmation
    submit_timeout_ms: int = 15_000  # how long a command looks for a controller
    answer_timeout_ms: int = of_broker(
        "controller.quorum.request.timeout.ms"
    )  # a command without an answer is resent after this time
