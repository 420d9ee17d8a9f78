"""Sets and removes SCRAM credentials. A credential is a salt and the keys that verify logins, never a password.

Each user of the command is decided alone, with all its changes together, as in Kafka. Results are in the order in which
the users are named, deletions first. With `if_none_exist` the command does nothing in a cluster that has a credential:
a formatted node uses this to create the first users.
"""

from __future__ import annotations

from chronik.metadata.commands.command import ControllerCommand, Reply
from chronik.metadata.decisions.decision import ControllerState, Decision
from chronik.metadata.errors import MetadataRefused, refuse
from chronik.metadata.image import ScramKey, View
from chronik.metadata.records import (
    MetadataRecord,
    RemoveScramCredentialRecord,
    ScramCredentialRecord,
    ScramSecretRecord,
)
from chronik.runtime.interfaces import Randomness
from chronik.wire.error_codes import ErrorCode
from chronik.wire.notation import Struct, binary, boolean, int8, int16, int32, string
from chronik.wire.scram import ITERATIONS_MAX, ITERATIONS_MIN, KIND_OF

SECRET_BYTES = 32


class AlterScramCredentialsReply(Reply):
    users: list[AlteredUser]


class AlteredUser(Struct):
    name: string
    error_code: int16 = 0
    error_message: string | None = None


class AlterScramCredentials(ControllerCommand[AlterScramCredentialsReply]):
    deletions: list[ScramDeletion]
    upsertions: list[ScramUpsertion]
    secret: binary = b""  # for the salts of unknown users, if the cluster has none yet
    if_none_exist: boolean = False

    def __repr__(self) -> str:
        return f"AlterScramCredentials({len(self.deletions)} deletions, {len(self.upsertions)} upsertions, [hidden])"

    def draw_ids(self, randomness: Randomness) -> None:
        if not self.secret:
            self.secret = randomness.bytes(SECRET_BYTES)

    def decide(self, state: ControllerState) -> Decision[AlterScramCredentialsReply]:
        view = state.view
        changes: list[ScramDeletion | ScramUpsertion] = [*self.deletions, *self.upsertions]
        by_user: dict[str, list[ScramDeletion | ScramUpsertion]] = {}
        for change in changes:
            by_user.setdefault(change.name, []).append(change)
        if self.if_none_exist and len(view.scram):
            return Decision([], AlterScramCredentialsReply(users=[AlteredUser(name=name) for name in by_user]))
        records: list[MetadataRecord] = []
        users = []
        for name, own in by_user.items():
            user = AlteredUser(name=name)
            users.append(user)
            try:
                records += _changed(view, own)
            except MetadataRefused as refused:
                user.error_code, user.error_message = refused.error_code, refused.message
        if not view.scram_secret and any(isinstance(record, ScramCredentialRecord) for record in records):
            records.insert(0, ScramSecretRecord(secret=self.secret))
        return Decision(records, AlterScramCredentialsReply(users=users))


class ScramDeletion(Struct):
    name: string
    mechanism: int8


class ScramUpsertion(Struct):
    name: string
    mechanism: int8
    iterations: int32
    salt: binary
    stored_key: binary
    server_key: binary

    def __repr__(self) -> str:
        return f"ScramUpsertion(name={self.name!r}, mechanism={self.mechanism}, [hidden])"


def _changed(view: View, changes: list[ScramDeletion | ScramUpsertion]) -> list[MetadataRecord]:
    """The records for one user's changes."""
    records: list[MetadataRecord] = []
    seen: set[int] = set()
    for change in changes:
        _require_name_and_mechanism(change)
        if change.mechanism in seen:
            refuse(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
        seen.add(change.mechanism)
        if isinstance(change, ScramDeletion):
            if ScramKey(change.name, change.mechanism) not in view.scram:
                refuse(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
            records.append(RemoveScramCredentialRecord(user=change.name, mechanism=change.mechanism))
        else:
            _require_iterations(change.iterations)
            records.append(
                ScramCredentialRecord(
                    user=change.name,
                    mechanism=change.mechanism,
                    salt=bytes(change.salt),
                    stored_key=bytes(change.stored_key),
                    server_key=bytes(change.server_key),
                    iterations=change.iterations,
                )
            )
    return records


def _require_name_and_mechanism(change: ScramDeletion | ScramUpsertion) -> None:
    if not change.name:
        refuse(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if change.mechanism not in KIND_OF:
        refuse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")


def _require_iterations(iterations: int) -> None:
    if iterations < ITERATIONS_MIN:
        refuse(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if iterations > ITERATIONS_MAX:
        refuse(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
