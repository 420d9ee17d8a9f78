"""docs/how-to/backup.md, command by command."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from chronik.testing.ports import free_ports
from tests.house.console_blocks import Shell, check
from tests.house.repository import ROOT, SOURCE

STEPS_MIN = 18


@pytest.mark.slow
def test_every_command_of_the_guide_prints_what_the_guide_says(tmp_path: Path) -> None:
    """A disaster is the wrong time to find out that the guide is wrong."""
    before, after = free_ports(2)
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(SOURCE),
        "HOME": str(tmp_path),
        "KAFKA_CHRONIK_ADMIN_LISTENER": "none",
    }
    with Shell(tmp_path, environment) as shell:
        assert check(ROOT / "docs/how-to/backup.md", shell, {"9092": str(before), "9192": str(after)}) >= STEPS_MIN
