"""Which quota applies to a client: Kafka's order of precedence, and the entities that share a quota."""

from __future__ import annotations

import pytest

from chronik.broker.quotas.limits import Limit, client_limit, connection_rate
from chronik.metadata.image import QuotaEntity

KEY = "producer_byte_rate"
CLIENT, ANY_CLIENT = ("client-id", "app"), ("client-id", None)
USER, ANY_USER = ("user", "alice"), ("user", None)
# Each precedes those after it.
ORDER: list[tuple[QuotaEntity, tuple[str, str]]] = [
    ((CLIENT, USER), ("alice", "app")),
    ((ANY_CLIENT, USER), ("alice", "app")),
    ((USER,), ("alice", "")),
    ((CLIENT, ANY_USER), ("alice", "app")),
    ((ANY_CLIENT, ANY_USER), ("alice", "app")),
    ((ANY_USER,), ("alice", "")),
    ((CLIENT,), ("", "app")),
    ((ANY_CLIENT,), ("", "app")),
]


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_the_most_specific_quota_holds(first: int) -> None:
    quotas = {entity: {KEY: float(place)} for place, (entity, _) in enumerate(ORDER) if place >= first}
    assert client_limit(quotas, KEY, "alice", "app") == Limit(float(first), ORDER[first][1])


def test_a_quota_of_another_key_or_of_somebody_else_does_not_hold() -> None:
    quotas = {(USER,): {"request_percentage": 5.0}, (("user", "bob"),): {KEY: 5.0}}
    assert client_limit(quotas, KEY, "alice", "app") is None


def test_an_address_has_its_own_rate_or_that_of_all() -> None:
    key = "connection_creation_rate"
    quotas = {(("ip", "10.0.0.1"),): {key: 3.0}, (("ip", None),): {key: 9.0}}
    assert [connection_rate(quotas, host) for host in ("10.0.0.1", "10.0.0.2")] == [3.0, 9.0]
    assert connection_rate({}, "10.0.0.1") is None
