"""Logins, access rules and quotas together: the caller's identity decides what it may do and how much. In virtual
time."""

from __future__ import annotations

from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntry,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
)
from chronik.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)
from chronik.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from chronik.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from chronik.wire.messages.produce import ProduceResponse
from tests.broker.hostile import World, batch, produce_request, run
from tests.broker.sasl.logging_in import ALICE, BOB, Stranger, make_world

ADMIN = b"\0broker\0b"  # the node's own user, a super user
ALLOW, LITERAL, ANY_HOST = 3, 3, "*"
TOPIC, CLUSTER = 2, 4  # Kafka's numbers of resource types
WRITE, ALTER = 4, 7  # and of operations
SECURED = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:broker",
}


async def caller(world: World, token: bytes) -> Stranger:
    made = Stranger(world)
    assert (await made.log_in(token)).error_code == 0
    return made


async def allow(admin: Stranger, principal: str, kind: int, name: str, operation: int) -> None:
    creation = AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=LITERAL,
        principal=principal,
        host=ANY_HOST,
        operation=operation,
        permission_type=ALLOW,
    )
    answer = await admin.ask(CreateAclsRequest(creations=[creation]), CreateAclsResponse, 3)
    assert answer.results[0].error_code == 0, answer.results[0].error_message


async def create(admin: Stranger, name: str) -> None:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    answer = await admin.ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, 7)
    assert answer.topics[0].error_code == 0, answer.topics[0].error_message


async def produced(caller: Stranger, topic: str, size_bytes: int = 10) -> tuple[int, int]:
    """The error, and how long to wait."""
    answer = await caller.ask(produce_request(batch(b"x" * size_bytes), topic=topic), ProduceResponse, 9)
    return answer.responses[0].partition_responses[0].error_code, answer.throttle_time_ms


async def set_password(caller: Stranger, user: str) -> int:
    wanted = ScramCredentialUpsertion(name=user, mechanism=2, iterations=4096, salt=b"s", salted_password=b"p" * 64)
    request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[wanted])
    return (await caller.ask(request, AlterUserScramCredentialsResponse, 0)).results[0].error_code


def test_a_user_may_do_what_a_rule_allows_and_nobody_else_may() -> None:
    async def asked() -> None:
        world = await make_world(**SECURED)
        admin, alice, bob = [await caller(world, token) for token in (ADMIN, ALICE, BOB)]
        await create(admin, "orders")
        assert await produced(alice, "orders") == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0)
        await allow(admin, "User:alice", TOPIC, "orders", WRITE)
        assert await produced(alice, "orders") == (0, 0)
        assert await produced(bob, "orders") == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0)
        await world.node.stop()

    run(asked())


def test_who_may_alter_the_cluster_may_not_become_a_super_user() -> None:
    """Otherwise the right to set passwords would be the right to log in as anyone."""

    async def asked() -> None:
        world = await make_world(**SECURED)
        admin, alice = await caller(world, ADMIN), await caller(world, ALICE)
        assert await set_password(alice, "carol") == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        await allow(admin, "User:alice", CLUSTER, "kafka-cluster", ALTER)
        assert await set_password(alice, "carol") == 0
        assert await set_password(alice, "broker") == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert await set_password(admin, "broker") == 0
        await world.node.stop()

    run(asked())


def test_a_quota_is_that_of_the_user_who_logged_in() -> None:
    async def asked() -> None:
        world = await make_world(**SECURED)
        admin, alice, bob = [await caller(world, token) for token in (ADMIN, ALICE, BOB)]
        await create(admin, "orders")
        for user in ("User:alice", "User:bob"):
            await allow(admin, user, TOPIC, "orders", WRITE)
        entry = AlterClientQuotasRequestEntry(
            entity=[EntityData(entity_type="user", entity_name="alice")],
            ops=[OpData(key="producer_byte_rate", value=100.0, remove=False)],
        )
        request = AlterClientQuotasRequest(entries=[entry], validate_only=False)
        assert (await admin.ask(request, AlterClientQuotasResponse, 1)).entries[0].error_code == 0
        assert (await alice.ask(request, AlterClientQuotasResponse, 1)).entries[0].error_code != 0
        error, wait_ms = await produced(alice, "orders", 5_000)
        assert (error, wait_ms > 0) == (0, True)
        assert await produced(bob, "orders", 5_000) == (0, 0)
        await world.node.stop()

    run(asked())
