"""Explains access denials: the missing permissions of a query, and the commands that grant them.

Brokers answer with a code that names neither the principal nor the operation. `naming` surrounds requests whose
resource the caller knows, and turns such a code into the condition ACCESS_DENIED. It leaves all other errors unchanged.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from chronik.client.errors import ClientError, DeliveryFailed, Fenced, Refused, TransactionFailed
from chronik.pipeline.errors import PipelineError
from chronik.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from chronik.pipeline.security import QuerySecurity

READ, WRITE, CREATE, DESCRIBE_CONFIGS = "read", "write", "create", "describe-configs"
OWN_PREFIX: Final = "chronik-spark/"  # prefix of exactlyOnce's transactional ids and groups, followed by a query id
# READ and WRITE imply DESCRIBE, so a query needs these, whichever request was denied.
ON_GROUPS, ON_IDS = READ, WRITE
TOPIC, GROUP, TRANSACTIONAL_ID, CLUSTER = "topic", "group", "transactional-id", "cluster"  # options of `chronik acl`
RESOURCES: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: TOPIC,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: GROUP,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: TRANSACTIONAL_ID,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: CLUSTER,
}


@contextmanager
def naming(
    security: QuerySecurity, operation: str, *, topic: str = "", group: str = "", transactional_id: str = ""
) -> Iterator[None]:
    """`operation` is the one needed on the topic. Raises ACCESS_DENIED in place of a broker's denial."""
    try:
        yield
    except ClientError as fault:
        denied = denial(fault, security, operation, topic=topic, group=group, transactional_id=transactional_id)
        if denied is None:
            raise
        raise denied from fault


def is_denied(fault: ClientError) -> bool:
    refusal = _refusal(fault)
    return refusal is not None and refusal.kafka_error in RESOURCES


def denial(
    fault: ClientError,
    security: QuerySecurity,
    operation: str,
    *,
    topic: str = "",
    group: str = "",
    transactional_id: str = "",
) -> PipelineError | None:
    """ACCESS_DENIED if the fault is a denial, else None."""
    refusal = _refusal(fault)
    if refusal is None or refusal.kafka_error not in RESOURCES:
        return None
    resource = RESOURCES[refusal.kafka_error]
    topic = getattr(fault, "topic", "") or topic
    if resource == CLUSTER and topic:  # permission to write to a topic includes an idempotent producer's id
        resource = TOPIC
    name = {TOPIC: topic, GROUP: group, TRANSACTIONAL_ID: transactional_id, CLUSTER: ""}[resource]
    needed = {GROUP: ON_GROUPS, TRANSACTIONAL_ID: ON_IDS}.get(resource, operation)
    principal = security.principal
    return PipelineError(
        "ACCESS_DENIED",
        principal=principal,
        operation=needed,
        resource=resource.replace("-", " "),
        name=name,
        error=refusal.kafka_error.name,
        command=_command(principal, needed, resource, name),
    )


def _command(principal: str, operation: str, resource: str, name: str) -> str:
    """The command that grants the permission."""
    words = ["chronik", "acl", "add", "--principal", principal, "--operation", operation, f"--{resource}"]
    if resource == CLUSTER:
        return shlex.join(words)
    if name.startswith(OWN_PREFIX):
        return shlex.join([*words, OWN_PREFIX, "--prefix"])
    return shlex.join([*words, name])


def _refusal(fault: ClientError) -> Refused | None:
    """The broker's refusal, wherever it is in the chain of causes."""
    inner: object = fault
    while isinstance(inner, DeliveryFailed | TransactionFailed | Fenced):
        inner = inner.cause
    return inner if isinstance(inner, Refused) else None
