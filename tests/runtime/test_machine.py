"""What a node learns about its machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from chronik.runtime import machine
from chronik.runtime.machine import Machine


def test_this_machine_has_memory_and_a_name() -> None:
    """Defaults are made of them."""
    here = Machine.here()
    assert 1 << 26 < here.memory_bytes < 1 << 50
    assert here.host_name


@pytest.mark.parametrize(("limit", "expected"), [("1048576\n", 1 << 20), ("max\n", None), (None, None)])
def test_a_container_has_the_memory_of_its_limit(
    limit: str | None, expected: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quarter of the host's memory could be more than all that the container may have."""
    file = tmp_path / "memory.max"
    if limit is not None:
        file.write_text(limit)
    monkeypatch.setattr(machine, "_cgroup_limits", (file,))
    physical = machine._physical_bytes()
    assert Machine.here().memory_bytes == (expected or physical)
