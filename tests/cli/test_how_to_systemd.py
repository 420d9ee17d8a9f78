"""docs/how-to/systemd.md, as far as it can run without changing the machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.house.console_blocks import Shell, check
from tests.house.repository import ROOT, SOURCE


@pytest.mark.slow
def test_every_command_of_the_guide_prints_what_the_guide_says(tmp_path: Path) -> None:
    """The configuration that the guide copies to three machines is what `chronik init` writes."""
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(SOURCE),
        "HOME": str(tmp_path),
    }
    with Shell(tmp_path, environment) as shell:
        assert check(ROOT / "docs/how-to/systemd.md", shell, {}) >= 2
