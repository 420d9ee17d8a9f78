"""Passwords for commands: from a prompt, a file or standard input, never from the command line.

The words of a command are seen by every user of the machine, and stay in the history of a shell.
"""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from chronik.cli.errors import Misused

STDIN = "-"
PasswordFile = Annotated[str | None, Parameter(allow_leading_hyphen=True)]  # `-` is a value and not an option


def read_password(file: str | None, user: str) -> str:
    """The first line of the file (- is standard input); without a file a prompt asks twice."""
    if file is None and sys.stdin.isatty():
        first = getpass.getpass(f"Password of {user}: ")
        if getpass.getpass("Once more: ") != first:
            raise Misused("the two passwords differ: nothing was changed")
        password = first
    elif file is None or file == STDIN:
        password = _first_line(sys.stdin.readline())
    else:
        try:
            password = _first_line(Path(file).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise Misused(f"--password-file {file}: {error}") from error
    if not password:
        raise Misused(f"the password of {user} is empty: write it into a file, or type it at the prompt")
    return password


def _first_line(text: str | bytes) -> str:
    lines = (text.decode() if isinstance(text, bytes) else text).splitlines()
    return lines[0] if lines else ""
