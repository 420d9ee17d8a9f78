"""The identity of a data directory: Kafka's meta.properties, written once and checked at every start.

A node never serves a directory of another node or another cluster. A directory that was formatted by Kafka's tool keeps
its cluster id.

`chronik.used` is added when the node has joined a cluster with this directory. From then on, the directory's manifest
and the node's metadata log must exist. If they are missing, a disk is not mounted; the node is not new.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import NamedTuple

from chronik.broker.errors import CannotStart
from chronik.broker.settings.properties import parse_properties
from chronik.metadata.image import Image
from chronik.runtime.interfaces import Runtime
from chronik.wire.uuids import uuid_text

FILE = "meta.properties"
VERSION = "1"
ID_BYTES = 16
KEYS = ("version", "cluster.id", "node.id", "directory.id", "chronik.used")
NAMED_MAX = 3  # maximum number of partitions in a message


class Identity(NamedTuple):
    node_id: int
    cluster_id: str
    directory_id: bytes  # 16 bytes, drawn when the directory was first used
    is_used: bool = False  # whether a node has joined a cluster with it

    def encode(self) -> bytes:
        directory = uuid_text(self.directory_id)
        lines = (
            f"version={VERSION}",
            f"cluster.id={self.cluster_id}",
            f"node.id={self.node_id}",
            f"directory.id={directory}",
            *(["chronik.used=true"] if self.is_used else []),
        )
        return "".join(f"{line}\n" for line in lines).encode()


def read_identity(runtime: Runtime, directory: str, node_id: int) -> Identity | None:
    """None for a new directory. Raises CannotStart if it belongs to another node or cannot be read."""
    path = f"{directory}/{FILE}"
    if not runtime.disk.exists(path):
        return None
    text = runtime.disk.read_file(path).decode("latin-1")
    values = parse_properties(text)
    missing = [key for key in ("version", "cluster.id", "node.id") if not values.get(key)]
    if missing:
        raise _damaged(path, f"it has no {' and no '.join(missing)}")
    if values.get("version") != VERSION:
        raise CannotStart(f"{path} is of version {values.get('version')}, this release reads {VERSION}")
    if values.get("node.id") != str(node_id):
        raise CannotStart(
            f"{directory} belongs to node {values.get('node.id')}, this is node {node_id}: "
            "correct node.id, or point log.dirs at this node's own directory"
        )
    drawn = values.get("directory.id")
    try:
        directory_id = runtime.randomness.bytes(ID_BYTES) if drawn is None else base64.urlsafe_b64decode(drawn + "==")
    except ValueError:
        directory_id = b""
    if len(directory_id) != ID_BYTES:
        raise _damaged(path, f"directory.id={drawn} is no id")
    last = text.rpartition("\n")[2]
    used = values.get("chronik.used")
    if used not in (None, "true") or (last and last.partition("=")[0].strip() not in KEYS):
        raise _damaged(path, f"it ends with {last or f'chronik.used={used}'!r}")
    return Identity(node_id, values["cluster.id"], directory_id, used == "true")


def _damaged(path: str, reason: str) -> CannotStart:
    return CannotStart(
        f"{path} was cut or damaged ({reason}): restore it; or remove it, and the node copies its replicas again from "
        "other nodes and keeps those that have no other copy"
    )


def require_used_first(runtime: Runtime, directory: str, others: Iterable[str]) -> None:
    """Raises CannotStart if the node would start empty in `directory` although another one of log.dirs has its data."""
    if runtime.disk.exists(f"{directory}/{FILE}"):
        return
    for other in others:
        if runtime.disk.exists(f"{other}/{FILE}"):
            raise CannotStart(
                f"{directory} is new, and {other} holds the data of a node, but only the first directory of log.dirs "
                f"is used: name {other} first"
            )


def settle_identity(
    runtime: Runtime, directory: str, found: Identity | None, *, node_id: int, cluster_id: str
) -> Identity:
    """Called once the cluster is known: writes the identity of a new directory, refuses a directory of another
    cluster."""
    if found is None:
        identity = Identity(node_id, cluster_id, runtime.randomness.bytes(16))
        runtime.disk.replace_file(f"{directory}/{FILE}", identity.encode())
        return identity
    if found.cluster_id != cluster_id:
        raise CannotStart(
            f"{directory} belongs to cluster {found.cluster_id!r}, this node is in {cluster_id!r}: point log.dirs at "
            "the right directory, or move the old one away to join empty"
        )
    return found


def keep_used(runtime: Runtime, directory: str, identity: Identity) -> None:
    """Called once the node has registered: from now on, its files must exist. Also stores the directory id if Kafka's
    tool did not."""
    if not identity.is_used:
        runtime.disk.replace_file(f"{directory}/{FILE}", identity._replace(is_used=True).encode())


def require_disk(image: Image, node_id: int, directory: str) -> None:
    """Refuses a new directory if it replaces one with the only copy of some partitions: that disk is probably not
    mounted."""
    broker = image.brokers.get(node_id)
    if broker is None or not broker.directory_ids:
        return
    alone = [
        f"{topic.name}-{index}"
        for topic in image.all_topics()
        for index, partition in enumerate(topic.partitions)
        if partition.replicas == (node_id,)
    ]
    if alone:
        more = f" and {len(alone) - NAMED_MAX} more" if len(alone) > NAMED_MAX else ""
        raise CannotStart(
            f"{directory} is new, but this node held the only copy of {', '.join(sorted(alone)[:NAMED_MAX])}{more} in "
            "another directory: mount that one as log.dirs; to give those records up, set chronik.lost.disk.accept=true"
        )


def renew_directory_id(runtime: Runtime, directory: str) -> Identity | None:
    """Draws a new id, as for a new disk: the controller then no longer relies on the directory's replicas.

    None if the directory has no identity yet: it gets a new id with its first start anyway.
    """
    found = _identity_of_any(runtime, directory)
    if found is None:
        return None
    renewed = found._replace(directory_id=runtime.randomness.bytes(ID_BYTES))
    runtime.disk.replace_file(f"{directory}/{FILE}", renewed.encode())
    return renewed


def directory_id_of(runtime: Runtime, directory: str) -> bytes:
    """Whichever node the directory belongs to. Empty if it has no identity yet."""
    found = _identity_of_any(runtime, directory)
    return b"" if found is None else found.directory_id


def _identity_of_any(runtime: Runtime, directory: str) -> Identity | None:
    path = f"{directory}/{FILE}"
    if not runtime.disk.exists(path):
        return None
    node_id = parse_properties(runtime.disk.read_file(path).decode("latin-1")).get("node.id", "")
    found = read_identity(runtime, directory, int(node_id)) if node_id.isdigit() else None
    if found is None:
        raise CannotStart(f"{path} names no node: restore it first")
    return found
