"""The prompt of `chronik sql`: statements over several lines, a history, and Ctrl-C that cancels only a query."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from chronik.cli.complaining import complain
from chronik.cli.errors import CommandError
from chronik.cli.sql_statements import cut

FIRST, NEXT = "sql> ", "...> "
HISTORY_LINES: Final = 1_000
HELP: Final = r"""End a statement with a semicolon. Ctrl-C cancels it; Ctrl-D or \q ends the prompt.
  SHOW TABLES;    topics and tables          \d        the same
  DESCRIBE x;     columns of x               \d x      the same
  FROM x LIMIT 5; the first rows             \?        this help"""


def prompt(ask: Callable[[str], None], read: Callable[[str], str] = input) -> None:
    """Reads statements and asks them until the user has had enough. `ask` prints the answer or raises CommandError."""
    print(HELP.splitlines()[0], file=sys.stderr)
    pending = ""
    while True:
        try:
            line = read(NEXT if pending else FIRST)
        except EOFError:
            print(file=sys.stderr)
            return
        except KeyboardInterrupt:  # forget what was typed
            print(file=sys.stderr)
            pending = ""
            continue
        try:
            word = line.strip()
            if not pending and word.lower() in ("\\q", "exit", "quit", "exit;", "quit;"):
                return
            if not pending and word.startswith("\\"):
                line = _meant(word)
            statements, pending = cut(f"{pending}\n{line}" if pending else line)
            pending = pending if pending.strip() else ""
            for statement in statements:
                _ask(ask, statement)
        except KeyboardInterrupt:
            pending = ""
            complain("cancelled")


def _ask(ask: Callable[[str], None], statement: str) -> None:
    try:
        ask(statement)
    except CommandError as error:
        complain(str(error))


def _meant(word: str) -> str:
    command, _, name = word.partition(" ")
    if command == "\\d":
        return f"DESCRIBE {name.strip().rstrip(';')};" if name.strip() else "SHOW TABLES;"
    print(HELP, file=sys.stderr)
    return ""


def history_path() -> Path:
    home = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return Path(home) / "chronik" / "sql_history"


class History:
    """Lines of earlier prompts, where readline exists. A file that cannot be read or written is no reason to fail."""

    def __enter__(self) -> History:
        with suppress(ImportError, OSError):
            import readline

            readline.set_history_length(HISTORY_LINES)
            readline.read_history_file(history_path())
        return self

    def __exit__(self, *exception: object) -> None:
        with suppress(ImportError, OSError):
            import readline

            history_path().parent.mkdir(parents=True, exist_ok=True)
            history_path().touch(mode=0o600)
            readline.write_history_file(history_path())
