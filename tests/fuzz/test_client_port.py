"""A slice of the requests that clients behind a login are fuzzed with; `make fuzz` sends more."""

from __future__ import annotations

import logging

import pytest

from chronik.broker.authorizer import StandardAuthorizer
from tests.fuzz.client_port import DOORS, fuzz_port


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
def test_no_spoilt_request_stops_the_node_and_none_of_a_user_without_rules_changes_it(
    door: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The seed is fixed, so a failure here is never a surprise of the day."""
    with caplog.at_level(logging.ERROR):
        assert fuzz_port(door, seed=7, frames=1_000) is None


@pytest.mark.slow
def test_the_fuzzer_notices_an_authorizer_that_allows_everything(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(StandardAuthorizer, "allows", lambda *_, **__: True)
    with caplog.at_level(logging.ERROR):
        assert "became" in (fuzz_port("SASL_PLAINTEXT, a user", seed=7, frames=1_000) or "")
