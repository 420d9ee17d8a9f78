"""Requests are not allowed by rules that are older than broker.session.timeout.ms."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chronik.broker.api import served_apis
from chronik.broker.dispatch import Dispatcher
from chronik.broker.rule_freshness import RuleFreshness
from chronik.broker.session import Principal
from chronik.broker.settings.access import STANDARD
from chronik.metadata.errors import NotController
from chronik.security.deciding import Policy
from chronik.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from chronik.wire.messages.produce import ProduceResponse
from tests.broker.harness import Closed
from tests.broker.hostile import World, batch, produce_request, run

SECOND_NS = 1_000_000_000


class Store:
    """Its image is current while `has_lease`."""

    has_lease = True

    def current(self) -> object | None:
        return "image" if self.has_lease else None


def freshness(store: Store) -> RuleFreshness:
    policy = Policy(super_users=frozenset({"User:admin"}))
    settings = SimpleNamespace(broker_session_timeout_ms=9000, access_policy=policy)
    return RuleFreshness(cast(Any, SimpleNamespace(store=store, settings=settings)))


def principal(name: str = "alice") -> Principal:
    return Principal("User", name)


def test_rules_stay_fresh_for_a_session_timeout_after_the_last_lease() -> None:
    store = Store()
    rules = freshness(store)
    assert rules.is_fresh(principal(), 100 * SECOND_NS)
    store.has_lease = False
    assert rules.is_fresh(principal(), 108 * SECOND_NS)
    assert not rules.is_fresh(principal(), 109 * SECOND_NS)
    assert rules.is_fresh(principal("admin"), 109 * SECOND_NS), "a super user does not depend on rules"
    store.has_lease = True
    assert rules.is_fresh(principal(), 110 * SECOND_NS)


def test_rules_that_were_never_confirmed_are_not_fresh() -> None:
    store = Store()
    store.has_lease = False
    rules = freshness(store)
    assert not rules.is_fresh(principal(), 5)
    rules.confirmed(6)
    assert rules.is_fresh(principal(), 7)


class Cut:
    """A store that has no lease. `read` fails until `is_back`."""

    def __init__(self, store: Any) -> None:
        self._store, self.is_back = store, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def current(self) -> None:
        return None

    async def read(self) -> Any:
        if not self.is_back:
            raise NotController(None)
        return self._store.image


async def cut_off(*, is_back: bool) -> World:
    world = await World.make(
        authorizer_class_name=STANDARD, allow_everyone_if_no_acl_found=True, broker_session_timeout_ms=9000
    )
    await world.create()
    store = Cut(world.node.store)
    store.is_back = is_back
    services = replace(world.node.services, store=cast(Any, store))
    world.node.dispatcher = Dispatcher(services, served_apis())
    return world


def test_a_request_waits_for_the_confirmation_and_is_then_served() -> None:
    async def story() -> None:
        world = await cut_off(is_back=True)
        for _ in range(2):  # the second one without asking again
            assert (await world.produce()).error_code == 0

    run(story())


def test_without_a_confirmation_the_connection_ends_and_what_needs_no_permission_is_served() -> None:
    async def story() -> None:
        world = await cut_off(is_back=False)
        await world.client.ask(ApiVersionsRequest(), ApiVersionsResponse, 2)
        with pytest.raises(Closed):
            await world.client.ask(produce_request(batch(b"v")), ProduceResponse, 9)

    run(story())
