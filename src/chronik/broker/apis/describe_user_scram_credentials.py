"""DescribeUserScramCredentials (key 50): which SCRAM mechanisms users have, with their iterations; never a secret.

An empty list or null means all users, by name. A caller without permission gets CLUSTER_AUTHORIZATION_FAILED if it asks
for all users, where Kafka sends no response.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.linearizable_reads import reads_metadata
from chronik.broker.permissions import CLUSTER, DESCRIBE
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context
    from chronik.metadata.image import Image


@api(DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse, needs=(DESCRIBE.on(CLUSTER),))
@reads_metadata
def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, context: Context
) -> DescribeUserScramCredentialsResponse:
    if not context.allows_on_cluster(DESCRIBE):
        return _denied(len(request.users or []))
    infos = _infos(context.services.store.image)
    asked = [user.name for user in request.users or []]
    times = Counter(asked)
    return DescribeUserScramCredentialsResponse(
        throttle_time_ms=0,
        error_code=0,
        error_message="",
        results=[_result(name, infos.get(name), times[name]) for name in dict.fromkeys(asked or infos)],
    )


def _denied(count: int) -> DescribeUserScramCredentialsResponse:
    """An error for each user in the request, without the names, as in Kafka."""
    error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    results = [
        DescribeUserScramCredentialsResult(user="", error_code=error, error_message=error.message, credential_infos=[])
        for _ in range(count)
    ]
    return DescribeUserScramCredentialsResponse(
        throttle_time_ms=0, error_code=error, error_message=error.message, results=results
    )


def _infos(image: Image) -> dict[str, list[CredentialInfo]]:
    """By user, in ascending order."""
    found: dict[str, list[CredentialInfo]] = {}
    for key, credential in sorted(image.scram.items()):
        info = CredentialInfo(mechanism=key.mechanism, iterations=credential.iterations)
        found.setdefault(key.user, []).append(info)
    return found


def _result(name: str, infos: list[CredentialInfo] | None, times: int) -> DescribeUserScramCredentialsResult:
    error, message = ErrorCode.NONE, ""
    if times > 1:
        error = ErrorCode.DUPLICATE_RESOURCE
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
    elif infos is None:
        error = ErrorCode.RESOURCE_NOT_FOUND
        message = f"Attempt to describe a user credential that does not exist: {name}"
    return DescribeUserScramCredentialsResult(
        user=name, error_code=error, error_message=message, credential_infos=[] if error else infos or []
    )
