"""AlterUserScramCredentials (key 51): sets and removes SCRAM credentials.

Clients send salted passwords, so a broker never sees a password. The two keys derived from it are stored. The
controller decides about each user separately.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.authorizer import may_touch
from chronik.broker.command_splitting import some_at_a_time
from chronik.broker.permissions import ALTER, CLUSTER
from chronik.broker.topics import refused_by
from chronik.metadata.commands.alter_scram_credentials import AlterScramCredentials, ScramDeletion, ScramUpsertion
from chronik.metadata.errors import MetadataError
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialUpsertion,
)
from chronik.wire.scram import KIND_OF, Keys, keys_of

if TYPE_CHECKING:
    from chronik.broker.context import Context

log = logging.getLogger("chronik.broker.sasl")


@api(AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse, needs=(ALTER.on(CLUSTER),))
async def alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, context: Context
) -> AlterUserScramCredentialsResponse:
    deletions = [ScramDeletion(name=each.name, mechanism=each.mechanism) for each in request.deletions]
    changes: list[ScramDeletion | ScramUpsertion] = [*deletions, *map(_upsertion, request.upsertions)]
    results: list[AlterUserScramCredentialsResult] = []
    if not context.allows_on_cluster(ALTER):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        results = [_result(name, error, error.message) for name in dict.fromkeys(each.name for each in changes)]
        return AlterUserScramCredentialsResponse(throttle_time_ms=0, results=results)
    policy = context.services.settings.access_policy
    if policy is not None:
        spared = {each.name for each in changes if not may_touch(policy, context.principal, f"User:{each.name}")}
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        message = "only a super user changes the credentials of a super user"
        results += [_result(name, error, message) for name in sorted(spared)]
        changes = [each for each in changes if each.name not in spared]
    for some in some_at_a_time(changes, lambda change: change.name):
        command = AlterScramCredentials(
            deletions=[each for each in some if isinstance(each, ScramDeletion)],
            upsertions=[each for each in some if isinstance(each, ScramUpsertion)],
        )
        try:
            reply = await context.services.store.submit(command)
        except MetadataError as fault:
            error, message = refused_by(fault)
            results += [_result(name, error, message) for name in dict.fromkeys(each.name for each in some)]
            continue
        for user in reply.users:
            results.append(_result(user.name, user.error_code, user.error_message))
            if not user.error_code:
                log.info("%s at %s changed SCRAM credentials of %r", context.principal, context.client_host, user.name)
    return AlterUserScramCredentialsResponse(throttle_time_ms=0, results=results)


def _upsertion(asked: ScramCredentialUpsertion) -> ScramUpsertion:
    kind = KIND_OF.get(asked.mechanism)
    keys = keys_of(kind, bytes(asked.salted_password)) if kind is not None else Keys(b"", b"")
    return ScramUpsertion(
        name=asked.name,
        mechanism=asked.mechanism,
        iterations=asked.iterations,
        salt=bytes(asked.salt),
        stored_key=keys.stored_key,
        server_key=keys.server_key,
    )


def _result(name: str, error: int, message: str | None) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(user=name, error_code=error, error_message=message)
