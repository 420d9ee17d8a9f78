"""The stages of a connection, and which API is served in which: the table in the module, row by row."""

from __future__ import annotations

import pytest

from chronik.broker.api import served_apis
from chronik.broker.errors import Unanswerable
from chronik.broker.session import (
    ANONYMOUS,
    API_VERSIONS,
    FRAME_BYTES_MAX_BEFORE_LOGIN,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    SERVED,
    Principal,
    Session,
    Stage,
)

FRAME_BYTES_MAX = 100 << 20
ALICE = Principal("User", "alice")
EVERY_KEY = {*served_apis(), SASL_HANDSHAKE, SASL_AUTHENTICATE}
LOGIN = {
    Stage.FRESH: {API_VERSIONS, SASL_HANDSHAKE},
    Stage.GREETED: {SASL_HANDSHAKE},
    Stage.IN_HANDSHAKE: {SASL_AUTHENTICATE},
    Stage.BARE_TOKENS: set(),
    Stage.AUTHENTICATED: EVERY_KEY,
    Stage.EXPIRED: {SASL_HANDSHAKE},
}


def at(stage: Stage) -> Session:
    """A session that went there as a client goes."""
    session = Session("SASL_SSL", FRAME_BYTES_MAX, needs_login=True)
    if stage is not Stage.FRESH:
        session.require_served(API_VERSIONS, 0)
    if stage in (Stage.IN_HANDSHAKE, Stage.BARE_TOKENS, Stage.AUTHENTICATED, Stage.EXPIRED):
        session.require_served(SASL_HANDSHAKE, 0)
        session.begin_handshake(is_bare=stage is Stage.BARE_TOKENS)
    if stage in (Stage.AUTHENTICATED, Stage.EXPIRED):
        session.require_served(SASL_AUTHENTICATE, 0)
        session.logged_in(ALICE, until_ns=1000)
    if stage is Stage.EXPIRED:
        with pytest.raises(Unanswerable):
            session.require_served(API_VERSIONS, 1000)
    assert session.stage is stage
    return session


def serves(stage: Stage, key: int) -> bool:
    try:
        at(stage).require_served(key, 10)
    except Unanswerable:
        return False
    return True


@pytest.mark.parametrize("stage", Stage)
def test_each_stage_serves_what_its_row_says_and_nothing_else(stage: Stage) -> None:
    assert {key for key in EVERY_KEY if serves(stage, key)} == LOGIN[stage]
    assert set(SERVED) == set(Stage)


@pytest.mark.parametrize("stage", Stage)
def test_frames_are_small_until_somebody_has_logged_in(stage: Stage) -> None:
    expected = FRAME_BYTES_MAX if stage is Stage.AUTHENTICATED else FRAME_BYTES_MAX_BEFORE_LOGIN
    assert at(stage).frame_bytes_max == expected


def test_a_smaller_limit_of_the_node_holds_before_a_login_too() -> None:
    assert Session("SASL_SSL", 1000, needs_login=True).frame_bytes_max == 1000


def test_a_listener_without_logins_serves_everybody_at_once() -> None:
    session = Session("PLAINTEXT", FRAME_BYTES_MAX)
    for key in EVERY_KEY:
        session.require_served(key, 1 << 60)
    assert (session.stage, session.principal, str(session.principal)) == (
        Stage.AUTHENTICATED,
        ANONYMOUS,
        "User:ANONYMOUS",
    )


def test_a_login_ends_at_its_time_and_a_new_one_goes_on() -> None:
    session = at(Stage.AUTHENTICATED)
    session.require_served(0, 999)
    with pytest.raises(Unanswerable, match="API key 0 is not served after the end of its login on SASL_SSL"):
        session.require_served(0, 1000)
    session.require_served(SASL_HANDSHAKE, 1001)
    session.begin_handshake()
    session.require_served(SASL_AUTHENTICATE, 1002)
    session.logged_in(ALICE, until_ns=2000)
    session.require_served(0, 1500)


def test_a_second_greeting_before_a_login_is_refused() -> None:
    with pytest.raises(Unanswerable):
        at(Stage.GREETED).require_served(API_VERSIONS, 0)
