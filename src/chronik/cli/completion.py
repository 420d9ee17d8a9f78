"""`chronik completion`: prints a script that lets a shell complete the words of `chronik`."""

from __future__ import annotations

from typing import Final, Literal

# The script defines a function. Zsh runs the file when it completes for the first time, or somebody sources it.
RUN_BY_ZSH: Final = """\
if [[ $funcstack[1] == _chronik ]]; then
  _cyclopts_chronik "$@"
else
  compdef _cyclopts_chronik chronik
fi"""

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
    if shell == "zsh":
        print(RUN_BY_ZSH)
    return 0
