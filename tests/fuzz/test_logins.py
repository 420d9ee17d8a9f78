"""A slice of the frames that logins are fuzzed with; `make fuzz` sends more."""

from __future__ import annotations

import logging

import pytest

from chronik.broker.sasl.plain import PlainServer
from chronik.broker.session import Principal, Session
from tests.fuzz.logins import STAGES, fuzz_logins


@pytest.mark.parametrize("stage", STAGES)
def test_no_spoilt_frame_logs_anybody_in(stage: str, caplog: pytest.LogCaptureFixture) -> None:
    """The seed is fixed, so a failure here is never a surprise of the day."""
    with caplog.at_level(logging.ERROR):
        assert fuzz_logins(stage, seed=7, frames=400) is None


def test_the_fuzzer_notices_a_stage_that_is_skipped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def skipping(self: Session, *, is_bare: bool = False) -> None:
        self.logged_in(Principal("User", "alice"))

    monkeypatch.setattr(Session, "begin_handshake", skipping)
    with caplog.at_level(logging.ERROR):
        assert "logged in" in (fuzz_logins("fresh", seed=7, frames=400) or "")


def test_the_fuzzer_notices_a_password_that_is_not_compared(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(PlainServer, "_is_password", lambda self, user, password: True)
    with caplog.at_level(logging.ERROR):
        assert "logged in" in (fuzz_logins("plain", seed=7, frames=400) or "")
