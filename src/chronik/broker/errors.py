"""The errors of the broker.

BrokerError
├── Unanswerable    a peer's request without a possible response in Kafka's protocol: its connection is closed
│   └── OutOfTurn   a request during a login: it gets an error if its API has one, then the connection is closed
├── LoginRefused    a peer's failed login, which is reported to the peer (in `broker.sasl.mechanism`)
├── BadSetting      operator error: a key, its value, the reason
├── CannotStart     operator error: what prevents the start, and what to do
│   └── NotRegistered  the cluster did not register the node in time: a later start may succeed
├── Replaced        operator error: another process runs as this node, and this one ends
└── DutyFailed      internal: a permanent task has failed, and the node with it
"""

from __future__ import annotations

from chronik.metadata.errors import MetadataError
from chronik.replication.errors import ReplicationError
from chronik.storage.errors import StorageError
from chronik.wire.errors import WireError

# Errors of lower layers that a handler returns as their Kafka error. Any other exception is a bug and closes the
# connection.
REFUSALS = (StorageError, ReplicationError, WireError, MetadataError)


class BrokerError(Exception):
    """Base of this package's errors."""


class Unanswerable(BrokerError):
    """The request cannot be answered. Close the connection with one log line."""


class OutOfTurn(Unanswerable):
    """The peer must finish its login first."""


class BadSetting(BrokerError):
    """A configuration value that cannot be used."""

    def __init__(self, key: str, value: object, reason: str) -> None:
        super().__init__(f"{key}={value}: {reason}")
        self.key, self.value, self.reason = key, value, reason


class CannotStart(BrokerError):
    """The node cannot start."""


class NotRegistered(CannotStart):
    """The cluster did not register the node in time, for example without a quorum. A later start may succeed."""


class Replaced(BrokerError):
    """Another process is registered as this node. Two data directories under one node.id would diverge."""

    def __init__(self, node_id: int, directory: str, others: str) -> None:
        super().__init__(
            f"another process registered as node {node_id}{others and f' at {others}'}, so the one on {directory} ends"
            ": stop the process whose data is an old copy, and start the other one again; if they are two nodes, give "
            "each a node.id of its own"
        )


class DutyFailed(BrokerError):
    """A task that must run permanently has failed, and would not run until the next start."""

    def __init__(self, task: str, cause: Exception) -> None:
        super().__init__(f"task {task} failed: {type(cause).__name__}: {cause}")
        self.__cause__ = cause
