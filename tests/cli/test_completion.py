"""Completion, tried by the shell it is for."""

from __future__ import annotations

import os
import pty
import shutil
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

    assert offered("chronik", "top") == {"topic"}
    assert offered("chronik", "topic", "de") >= {"describe", "delete"}
    assert "--replication-factor" in offered("chronik", "topic", "create", "--re")


@pytest.mark.slow
def test_zsh_completes_nouns_verbs_and_options(run_command: Run, tmp_path: Path) -> None:
    """In an interactive zsh, because its completion works nowhere else."""
    zsh = shutil.which("zsh")
    if zsh is None:
        pytest.skip("zsh is not installed")
    (tmp_path / "_chronik").write_text(run_command("completion", "zsh").out)
    (tmp_path / ".zshrc").write_text(
        f"fpath=({tmp_path} $fpath); autoload -Uz compinit; compinit -u -D; PS1='ready> '; chronik() {{ : }}\n"
        "zstyle ':completion:*' list-prompt ''; LISTMAX=1000; unsetopt beep menu_complete\n"
    )

    def typed(text: str, expected: str) -> None:
        """Fails by the time limit of tests if the word never appears."""
        ours, theirs = pty.openpty()
        environment = {**os.environ, "ZDOTDIR": str(tmp_path), "TERM": "dumb", "COLUMNS": "200"}
        with subprocess.Popen([zsh, "-i"], env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as shell:
            os.close(theirs)
            seen = b""
            while b"ready> " not in seen:
                seen += os.read(ours, 4096)
            os.write(ours, text.encode())
            while expected.encode() not in seen:
                seen += os.read(ours, 4096)
            shell.kill()
        os.close(ours)

    typed("chronik top\t", "chronik topic")
    typed("chronik topic cr\t", "chronik topic create")
    typed("chronik topic create --replication-f\t", "--replication-factor")


@pytest.mark.slow
def test_fish_completes_nouns_verbs_and_options(run_command: Run, tmp_path: Path) -> None:
    """By the command with which fish itself completes."""
    fish = shutil.which("fish")
    if fish is None:
        pytest.skip("fish is not installed")
    script = tmp_path / "chronik.fish"
    script.write_text(run_command("completion", "fish").out)

    def offered(line: str) -> set[str]:
        command = [fish, "--no-config", "-c", f"source {script}; complete --do-complete '{line}'"]
        environment = {**os.environ, "HOME": str(tmp_path)}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        assert done.stderr == ""
        return {each.partition("\t")[0] for each in done.stdout.splitlines()}

    assert "topic" in offered("chronik top")
    assert {"describe", "delete"} <= offered("chronik topic de")
    assert "--replication-factor" in offered("chronik topic create --re")
