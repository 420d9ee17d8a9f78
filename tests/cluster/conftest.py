"""What the tests of clusters share: nodes that must not complain."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

COMPLAINTS = (" ERROR ", " CRITICAL ", "Traceback", "Exception in callback")


@pytest.fixture
def uncomplaining_nodes(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Whatever is done to a cluster, no node meets a state that its authors did not expect."""
    yield
    said = capfd.readouterr().err
    complaints = [line for line in said.splitlines() if any(each in line for each in COMPLAINTS)]
    assert not complaints, f"nodes complained {len(complaints)} times; they said:\n{said[-4000:]}"
