"""`chronik completion`: prints a script that lets a shell complete the words of `chronik`."""

from __future__ import annotations

from typing import Literal

Shell = Literal["bash", "zsh", "fish"]


def completion(shell: Shell) -> int:
    """Print a completion script for a shell.

    For example:
      chronik completion bash > ~/.local/share/bash-completion/completions/chronik
      chronik completion zsh > ~/.zfunc/_chronik
      chronik completion fish > ~/.config/fish/completions/chronik.fish

    Parameters
    ----------
    shell
        bash, zsh or fish.
    """
    from chronik.cli.main import app

    print(app.generate_completion(shell=shell))
    return 0
