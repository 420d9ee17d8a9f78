"""The first users of a cluster in which every listener needs a login: `chronik storage format` writes them to a file,
and the first start of a node reads it.

The file holds SCRAM credentials, no passwords. A starting node sends them to the controller and removes the file. The
controller accepts them only while the cluster has no credentials: nodes that were formatted the same way send the same
users, and a node that joins later does not restore deleted users.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from chronik.broker.errors import CannotStart
from chronik.metadata.commands.alter_scram_credentials import AlterScramCredentials, ScramUpsertion
from chronik.wire.scram import KINDS, ScramKind, keys_of

if TYPE_CHECKING:
    from chronik.metadata.store import MetadataStore
    from chronik.runtime.interfaces import Disk

log = logging.getLogger("chronik.broker.sasl")

FILE = "first-users.json"


def credential_of(name: str, kind: ScramKind, salt: bytes, iterations: int, salted: bytes) -> ScramUpsertion:
    keys = keys_of(kind, salted)
    return ScramUpsertion(
        name=name,
        mechanism=kind.number,
        iterations=iterations,
        salt=salt,
        stored_key=keys.stored_key,
        server_key=keys.server_key,
    )


def encode_first_users(users: Sequence[ScramUpsertion]) -> bytes:
    names = {kind.number: kind.name for kind in KINDS.values()}
    rows = [
        {
            "name": user.name,
            "mechanism": names[user.mechanism],
            "iterations": user.iterations,
            "salt": base64.b64encode(user.salt).decode(),
            "stored_key": base64.b64encode(user.stored_key).decode(),
            "server_key": base64.b64encode(user.server_key).decode(),
        }
        for user in users
    ]
    return json.dumps(rows, indent=1).encode() + b"\n"


def write_first_users(disk: Disk, directory: str, users: Sequence[ScramUpsertion]) -> None:
    disk.make_directory(directory)
    disk.replace_file(f"{directory}/{FILE}", encode_first_users(users))


def read_first_users(disk: Disk, directory: str) -> list[ScramUpsertion]:
    """An empty list if there is no file. Raises CannotStart if the file cannot be read."""
    path = f"{directory}/{FILE}"
    if not disk.exists(path):
        return []
    try:
        return [_user(row) for row in json.loads(disk.read_file(path))]
    except (ValueError, KeyError, TypeError) as fault:
        reason = f"{path} is not what `chronik storage format` writes: format again, or remove it"
        raise CannotStart(reason) from fault


def _user(row: dict[str, Any]) -> ScramUpsertion:
    return ScramUpsertion(
        name=str(row["name"]),
        mechanism=KINDS[row["mechanism"]].number,
        iterations=int(row["iterations"]),
        salt=base64.b64decode(row["salt"]),
        stored_key=base64.b64decode(row["stored_key"]),
        server_key=base64.b64decode(row["server_key"]),
    )


async def bring_first_users(disk: Disk, directory: str, store: MetadataStore) -> None:
    """Call this once the metadata is ready. Raises CannotStart if the controller refuses a user."""
    users = read_first_users(disk, directory)
    if not users:
        return
    command = AlterScramCredentials(deletions=[], upsertions=users, if_none_exist=True)
    for user in (await store.submit(command)).users:
        if user.error_code:
            path = f"{directory}/{FILE}"
            raise CannotStart(f"user {user.name!r} of {path} is refused: {user.error_message}; format again")
    disk.remove(f"{directory}/{FILE}")
    disk.sync_directory(directory)
    log.info("brought the first users: %s", ", ".join(repr(user.name) for user in users))
