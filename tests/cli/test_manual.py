"""The manual page: whole, and readable by `man`."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from chronik.cli.manual import page
from tests.cli.conftest import Run
from tests.cli.every_command import every_leaf, options_of


def test_the_page_has_every_command_and_every_option(run_command: Run) -> None:
    """It is made from the help, so a new option is in it on the same day."""
    shown = run_command("man").out.replace("\\-", "-")
    for leaf in every_leaf():
        found = re.search(rf'(?s)\.SS "chronik {" ".join(leaf)}[ "].*?(?=\n\.S[SH] )', shown)
        assert found, leaf
        section = found[0]
        for option in options_of(leaf):
            if not option.startswith(("--no-", "--empty-")):
                assert option in section, (leaf, option)
    for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "ENVIRONMENT", "FILES", "EXIT STATUS"):
        assert f"\n.SH {heading}\n" in shown


def test_groff_reads_it_without_a_complaint() -> None:
    """A quote or a dot at the wrong place would drop words without a sign."""
    groff = shutil.which("groff")
    if groff is None:
        pytest.skip("groff is not installed")
    done = subprocess.run(
        [groff, "-man", "-Tascii", "-ww", "-P-c"], input=page(), capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    plain = " ".join(done.stdout.split())
    assert "chronik topic create orders payments --partitions 6 --replication-factor 3" in plain
    assert "chronik group list --format json | jq -r '.[] | select(.state == \"Empty\") | .group'" in plain
    assert r'chronik sql "SELECT * FROM tables.orders EXCEPT SELECT * FROM tables.\"orders@v3\""' in plain
