"""Completion, tried by the shell it is for."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Run

ASK = """\
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
_chronik
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.slow
def test_bash_completes_nouns_verbs_and_options(run_command: Run, tmp_path: Path) -> None:
    """Not only that a script is printed: that the shell finds words with it."""
    script = tmp_path / "chronik.bash"
    script.write_text(run_command("completion", "bash").out)

    def offered(*words: str) -> set[str]:
        command = ["bash", "-c", ASK, "bash", str(script), *words]
        return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())

    assert offered("chronik", "to") == {"topic"}
    assert offered("chronik", "topic", "de") == {"describe", "delete"}
    assert "--replication-factor" in offered("chronik", "topic", "create", "--re")
