"""Tokens work once, sessions end, and guessing passwords is slow."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chronik.console.sessions import (
    FAILURES_MAX,
    FAILURES_MS,
    SESSION_MS,
    SESSIONS_MAX,
    SESSIONS_OF_USER_MAX,
    TOKENS_MAX,
    Session,
    Sessions,
)


def counting() -> Callable[[int], bytes]:
    numbers = iter(range(10**6))
    return lambda count: next(numbers).to_bytes(count, "big")


@pytest.fixture
def sessions() -> Sessions:
    return Sessions(counting())


def test_a_token_opens_one_session(sessions: Sessions) -> None:
    """Whoever reads it later, in a history or over a shoulder, gets nothing."""
    token = sessions.new_token()
    secret = sessions.redeem(token, 0)
    assert secret is not None
    assert secret != token
    assert sessions.find(secret, 1) is not None
    assert sessions.redeem(token, 1) is None


@pytest.mark.parametrize("token", ["", "0" * 64, "ü", "\udcff"])
def test_a_token_that_was_never_given_out_opens_nothing(sessions: Sessions, token: str) -> None:
    assert sessions.redeem(token, 0) is None


def test_only_so_many_tokens_wait(sessions: Sessions) -> None:
    tokens = [sessions.new_token() for _ in range(TOKENS_MAX + 1)]
    assert sessions.redeem(tokens[0], 0) is None
    assert sessions.redeem(tokens[1], 0) is not None


def test_a_session_lasts_as_long_as_it_is_used() -> None:
    ended: list[Session] = []
    sessions = Sessions(counting(), ended.append)
    secret = sessions.open("ann", 0)
    assert sessions.find(secret, SESSION_MS) is not None
    found = sessions.find(secret, 2 * SESSION_MS)
    assert found is not None
    assert sessions.find(secret, 3 * SESSION_MS + 1) is None
    assert ended == [found]
    assert found.is_over


def test_signing_out_ends_one_session(sessions: Sessions) -> None:
    first, second = sessions.open("ann", 0), sessions.open("ann", 0)
    found = sessions.find(first, 0)
    assert found is not None
    sessions.close(found)
    assert sessions.find(first, 0) is None
    assert sessions.find(second, 0) is not None


def test_the_session_that_was_idle_longest_makes_room(sessions: Sessions) -> None:
    secrets = [sessions.open(None, 0) for _ in range(SESSIONS_MAX)]
    sessions.find(secrets[0], 1)
    sessions.open(None, 2)
    assert sessions.find(secrets[0], 2) is not None
    assert sessions.find(secrets[1], 2) is None


def test_an_address_that_fails_too_often_waits(sessions: Sessions) -> None:
    for _ in range(FAILURES_MAX):
        assert sessions.may_try("192.0.2.1", 0)
        sessions.note_failure("192.0.2.1", 0)
    assert not sessions.may_try("192.0.2.1", FAILURES_MS - 1)
    assert sessions.may_try("192.0.2.2", 0)
    assert sessions.may_try("192.0.2.1", FAILURES_MS)


def test_a_login_that_succeeded_counts_as_no_failure_and_forgives_none(sessions: Sessions) -> None:
    """Else a user could guess at the passwords of others, four times between two logins of their own."""
    for now_ms in range(FAILURES_MAX - 1):
        sessions.note_failure("192.0.2.1", now_ms)
    for now_ms in (10, 11, 12):
        sessions.note_failure("192.0.2.1", now_ms)
        sessions.forgive("192.0.2.1", now_ms)
        assert sessions.may_try("192.0.2.1", now_ms)
    sessions.note_failure("192.0.2.1", 13)
    assert not sessions.may_try("192.0.2.1", 13)


def test_a_user_who_logs_in_often_signs_nobody_else_out(sessions: Sessions) -> None:
    other = sessions.open("bob", 0)
    own = [sessions.open("ann", 1) for _ in range(SESSIONS_MAX)]
    assert sessions.find(other, 2) is not None
    assert [each for each in own if sessions.find(each, 2) is not None] == own[-SESSIONS_OF_USER_MAX:]
