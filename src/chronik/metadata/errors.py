"""The errors of the metadata store.

MetadataError
├── MetadataRefused    caller error: the command breaks a rule, and the Kafka code says which
├── NotController      this node cannot decide now; retry the command with the same request id
├── StoreClosed        internal: the node is stopping
├── WrongCluster       operator error: this directory belongs to another cluster
├── ForeignMetadata    operator error: this directory belongs to another node
├── MetadataMissing    operator error: the metadata of a cluster in use is missing
├── MetadataOutdated   operator error: the metadata ends before what this node has applied
├── NotANumber         operator error: a file that holds a number holds something else
└── DamagedMetadata    operator error: bytes in the metadata log or a snapshot were altered
    └── NewerMetadata  operator error: a newer release wrote them
"""

from __future__ import annotations

from typing import NoReturn

from chronik.wire.error_codes import ErrorCode


class MetadataError(Exception):
    """Base of all errors of this package."""

    kafka_error = ErrorCode.UNKNOWN_SERVER_ERROR


class MetadataRefused(MetadataError):
    """A rule refuses the command. `message` addresses the user who sent it."""

    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.kafka_error = self.error_code = error_code
        self.message = message

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.error_code, self.message)


class NotController(MetadataError):
    """If the command was already proposed, whether it was applied is unknown: repeat it with the same request id."""

    kafka_error = ErrorCode.NOT_CONTROLLER

    def __init__(self, leader_id: int | None) -> None:
        super().__init__(
            "no controller is elected: try again later"
            if leader_id is None
            else f"node {leader_id} is the controller, not this node: send the command there"
        )
        self.leader_id = leader_id


class StoreClosed(MetadataError):
    def __init__(self) -> None:
        super().__init__("the metadata store is closed: the node is stopping")


class WrongCluster(MetadataError):
    kafka_error = ErrorCode.INCONSISTENT_CLUSTER_ID

    def __init__(self, directory: str, found: str, expected: str) -> None:
        super().__init__(
            f"{directory} belongs to cluster {found!r}, but this node is configured for {expected!r}: "
            "correct cluster.id, or point metadata.log.dir at the right directory"
        )


class ForeignMetadata(MetadataError):
    def __init__(self, directory: str, owner: str, node_id: int) -> None:
        super().__init__(
            f"{directory} holds the metadata of node {owner}, this is node {node_id}: correct node.id, or point "
            "metadata.log.dir at this node's own directory"
        )


class MetadataMissing(MetadataError):
    def __init__(self, directory: str) -> None:
        super().__init__(
            f"{directory}/raft holds no metadata, but this node has been in a cluster, and no other node has a copy: "
            "mount or restore metadata.log.dir; to give up all topics and records and begin an empty cluster, move "
            "both log.dirs and metadata.log.dir away"
        )


class NotANumber(MetadataError):
    def __init__(self, path: str, data: bytes, log_directory: str) -> None:
        super().__init__(
            f"{path} holds {data[:40]!r}, which is not the number of this node's last process: restore it from a copy; "
            f"or remove it if {log_directory} is as this node left it, and the clock has not gone back"
        )


class MetadataOutdated(MetadataError):
    def __init__(self, directory: str, last_index: int, index_min: int) -> None:
        super().__init__(
            f"{directory}/raft ends at entry {last_index}, but this node has applied entry {index_min}: it is an old "
            "copy, or has lost its end, and no other node has the rest; restore a newer copy of metadata.log.dir; to "
            "go on with this one and lose what changed since, remove the file metadata-mark in log.dirs"
        )


class DamagedMetadata(MetadataError):
    advice = "restore the metadata directory from another node"

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"metadata entry, byte {position}: {reason}: {self.advice}")


class NewerMetadata(DamagedMetadata):
    advice = "upgrade this node to the release that the other nodes run"


def refuse(error_code: ErrorCode, message: str) -> NoReturn:
    """Refuses a command; decisions call this."""
    raise MetadataRefused(error_code, message)
