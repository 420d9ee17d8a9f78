"""A rule, a quota, a login or a leader that changes between two requests of one connection: the next request obeys.

A node decides once what every request would have to ask, and remembers the decision. Each story sends a request before
the change, so that whatever is remembered has been.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from chronik.broker.session import Stage
from chronik.broker.settings.access import STANDARD
from chronik.metadata.access import DENY, LITERAL
from chronik.metadata.commands.create_acls import AclRule, CreateAcls
from chronik.replication.replica import Replica
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntry,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
)
from chronik.wire.messages.produce import ProduceResponse
from tests.broker.harness import Closed
from tests.broker.hostile import TOPIC, World, batch, produce_request, run

WRITE, TOPIC_KIND = 4, 2


def replica_of(world: World) -> Replica:
    [found] = world.node.replicas.all()
    return found


async def another_leads(world: World) -> None:
    replica = replica_of(world)
    state = replica.state
    replica.change(
        state._replace(leader=2, isr=(1, 2), replicas=(1, 2), leader_epoch=state.leader_epoch + 1, partition_epoch=99)
    )


async def replicas_fall_out_of_sync(world: World) -> None:
    replica = replica_of(world)
    replica.change(replica.state._replace(replicas=(1, 2, 3), isr=(1,), elr=(2,), partition_epoch=99))


async def the_partition_moves_away(world: World) -> None:
    replica_of(world).end()


async def a_rule_denies(world: World) -> None:
    rule = AclRule(
        resource_type=TOPIC_KIND,
        resource_name=TOPIC,
        pattern_type=LITERAL,
        principal="User:ANONYMOUS",
        host="*",
        operation=WRITE,
        permission_type=DENY,
    )
    await world.node.store.submit(CreateAcls(rules=[rule]))


CHANGES: list[tuple[Callable[[World], Awaitable[None]], ErrorCode]] = [
    (another_leads, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    (replicas_fall_out_of_sync, ErrorCode.NOT_ENOUGH_REPLICAS),
    (the_partition_moves_away, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    (a_rule_denies, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
]


@pytest.mark.parametrize(("change", "error"), CHANGES, ids=[change.__name__ for change, _ in CHANGES])
def test_the_next_request_is_refused(change: Callable[[World], Awaitable[None]], error: ErrorCode) -> None:
    async def story() -> None:
        world = await World.make(authorizer_class_name=STANDARD, allow_everyone_if_no_acl_found=True)
        await world.create()
        assert (await world.produce()).error_code == 0
        await change(world)
        assert ErrorCode.of((await world.produce()).error_code) is error

    run(story())


def test_a_quota_holds_for_the_next_request() -> None:
    async def story() -> None:
        world = await World.make()
        await world.create()
        request = produce_request(batch(b"x" * 60_000))
        assert not (await world.client.ask(request, ProduceResponse, 9)).throttle_time_ms
        entry = AlterClientQuotasRequestEntry(
            entity=[EntityData(entity_type="user", entity_name="ANONYMOUS")],
            ops=[OpData(key="producer_byte_rate", value=1_000.0, remove=False)],
        )
        await world.client.ask(
            AlterClientQuotasRequest(entries=[entry], validate_only=False), AlterClientQuotasResponse, 1
        )
        waits = [(await world.client.ask(request, ProduceResponse, 9)).throttle_time_ms for _ in range(2)]
        assert any(waits)

    run(story())


def login_ends(world: World) -> None:
    world.client.connection.session.open_until_ns = 1


def login_begins_again(world: World) -> None:
    world.client.connection.session.begin_handshake()


def tokens_follow(world: World) -> None:
    world.client.connection.session.begin_handshake(is_bare=True)


@pytest.mark.parametrize("change", [login_ends, login_begins_again, tokens_follow])
def test_a_connection_whose_login_is_over_writes_nothing(change: Callable[[World], None]) -> None:
    """The stage is not looked at before `open_until_ns`: every change of stage has to set that."""

    async def story() -> None:
        world = await World.make()
        await world.create()
        assert (await world.produce()).error_code == 0
        end_offset = replica_of(world).log.end_offset
        change(world)
        request = produce_request(batch(b"v"))
        with suppress(Closed):
            await world.client.ask(request, ProduceResponse, 9)
        assert replica_of(world).log.end_offset == end_offset
        assert world.client.connection.session.stage is not Stage.AUTHENTICATED

    run(story())
