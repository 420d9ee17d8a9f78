"""A slice of the frames that the quorum's port is fuzzed with; `make fuzz` sends a million, FUZZ_FRAMES more."""

from __future__ import annotations

import logging

import pytest

from chronik.raft.admission import Admission
from tests.fuzz.quorum_port import DOORS, fuzz_port


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
def test_no_frame_of_a_stranger_leaves_a_trace(door: str, caplog: pytest.LogCaptureFixture) -> None:
    """The seed is fixed, so a failure here is never a surprise of the day."""
    with caplog.at_level(logging.CRITICAL):
        assert fuzz_port(door, seed=7, frames=4_000) is None


@pytest.mark.slow
def test_the_fuzzer_notices_a_door_that_stands_open(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Were guests taken for members, their forged messages and commands would be carried out."""
    monkeypatch.setattr(Admission, "is_member", lambda self, node_id: True)
    with caplog.at_level(logging.CRITICAL):
        assert fuzz_port("guest", seed=7, frames=4_000) is not None
