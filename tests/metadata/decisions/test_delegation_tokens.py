"""Delegation tokens in the metadata: who may change them, until when, and which are removed. Errors are Kafka's."""

from __future__ import annotations

import pytest

from chronik.metadata.commands.change_delegation_token import ChangeDelegationToken
from chronik.metadata.commands.create_delegation_token import RENEWERS_MAX, TOKENS_MAX, CreateDelegationToken
from chronik.metadata.commands.remove_expired_tokens import REMOVED_MAX, RemoveExpiredTokens
from chronik.metadata.errors import MetadataRefused
from chronik.metadata.records import RemoveDelegationTokenRecord
from chronik.runtime.invariants import InvariantBroken
from chronik.wire.error_codes import ErrorCode
from tests.metadata.clusters import Cluster, cluster

E = ErrorCode


def new_token(token_id: str, renewers: tuple[str, ...] = ("User:bob",), expiry_ms: int = 50) -> CreateDelegationToken:
    return CreateDelegationToken(
        token_id=token_id,
        owner="User:alice",
        requester="User:carol",
        renewers=list(renewers),
        issue_ms=10,
        expiry_ms=expiry_ms,
        max_ms=100,
    )


def change_of(
    token_id: str, *, who: str = "User:alice", now_ms: int = 20, period_ms: int = 30, renews: bool = False
) -> ChangeDelegationToken:
    return ChangeDelegationToken(token_id=token_id, requester=who, now_ms=now_ms, period_ms=period_ms, renews=renews)


def refused(on: Cluster, command: ChangeDelegationToken | CreateDelegationToken) -> ErrorCode:
    before = on.image.tokens
    with pytest.raises(MetadataRefused) as caught:
        on.ask(command)
    assert on.image.tokens == before
    return caught.value.kafka_error


@pytest.mark.parametrize("renews", [True, False])
def test_owner_and_renewers_set_the_expiry_up_to_the_end(renews: bool) -> None:
    on = cluster(1)
    on.ask(new_token("t"))
    for who in ("User:alice", "User:bob"):
        assert on.ask(change_of("t", who=who, renews=renews)).expiry_ms == 50
    assert on.ask(change_of("t", period_ms=1000, renews=renews)).expiry_ms == 100
    assert on.image.tokens["t"].expiry_ms == 100
    assert refused(on, change_of("t", who="User:carol", renews=renews)) is E.DELEGATION_TOKEN_OWNER_MISMATCH
    assert refused(on, change_of("u", renews=renews)) is E.DELEGATION_TOKEN_NOT_FOUND
    assert refused(on, change_of("t", now_ms=101, renews=renews)) is E.DELEGATION_TOKEN_EXPIRED


def test_errors_come_in_kafkas_order() -> None:
    """For an expired token of another owner."""
    on = cluster(1)
    on.ask(new_token("t"))
    late = {"who": "User:carol", "now_ms": 51}
    assert refused(on, change_of("t", renews=True, **late)) is E.DELEGATION_TOKEN_EXPIRED  # type: ignore[arg-type]
    assert refused(on, change_of("t", **late)) is E.DELEGATION_TOKEN_OWNER_MISMATCH  # type: ignore[arg-type]


def test_a_token_that_has_expired_can_be_removed_and_a_removed_one_is_unknown() -> None:
    on = cluster(1)
    on.ask(new_token("t"))
    assert on.ask(change_of("t", now_ms=60, period_ms=-1)).expiry_ms == 60
    assert refused(on, change_of("t", period_ms=-1)) is E.DELEGATION_TOKEN_NOT_FOUND


def test_expired_tokens_are_removed_some_at_a_time() -> None:
    """One command must not hold up the controller, however many tokens there are."""
    on = cluster(1)
    for number in range(REMOVED_MAX + 3):
        on.ask(new_token(f"old{number}", renewers=()))
    on.ask(new_token("young", expiry_ms=90))
    on.ask(RemoveExpiredTokens(before_ms=50))
    assert len(on.image.tokens) == REMOVED_MAX + 4, "the last moment is a valid one"
    on.ask(RemoveExpiredTokens(before_ms=51))
    assert len(on.image.tokens) == 4
    on.ask(RemoveExpiredTokens(before_ms=51))
    assert list(on.image.tokens) == ["young"]


def test_tokens_are_bounded() -> None:
    on = cluster(1)
    assert refused(on, new_token("t", renewers=("User:x",) * (RENEWERS_MAX + 1))) is E.INVALID_REQUEST
    for number in range(TOKENS_MAX):
        on.ask(new_token(f"t{number}", renewers=()))
    assert refused(on, new_token("t")) is E.POLICY_VIOLATION


def test_only_a_known_token_is_removed_and_none_is_created_twice() -> None:
    on = cluster(1)
    on.ask(new_token("t"))
    assert refused(on, new_token("t")) is E.DUPLICATE_RESOURCE
    with pytest.raises(InvariantBroken, match="29"):
        on.apply([RemoveDelegationTokenRecord(token_id="u")])
