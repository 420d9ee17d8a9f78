"""docs/how-to/secure.md, command by command, against three nodes that are processes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.cluster.from_files import free_places, place_words
from tests.house.console_blocks import Shell, check
from tests.house.repository import ROOT, SOURCE

STEPS_MIN = 25


@pytest.mark.slow
def test_every_command_of_the_guide_prints_what_the_guide_says(tmp_path: Path) -> None:
    """Users of a wrong guide give up on security first."""
    places = free_places(3)
    init = "chronik init cluster --nodes 3 --secure"
    replaced = {init: " ".join([init, *place_words(places)])}
    replaced |= {f"127.0.0.1:{port}": place.address for port, place in zip((9092, 9093, 9094), places, strict=True)}
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(SOURCE),
        "HOME": str(tmp_path),
        "KAFKA_CHRONIK_ADMIN_LISTENER": "none",  # its port would follow from that of the clients
    }
    with Shell(tmp_path, environment) as shell:
        assert check(ROOT / "docs/how-to/secure.md", shell, replaced) >= STEPS_MIN
