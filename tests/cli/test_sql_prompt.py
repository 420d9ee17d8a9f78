"""The SQL prompt: what counts as a statement, and the effect of keys."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chronik.cli.errors import CommandFailed
from chronik.cli.sql_prompt import prompt
from chronik.cli.sql_statements import cut, statements_in
from tests.cli.interrupts import heed_interrupts
from tests.house.repository import SOURCE


@pytest.mark.parametrize(
    ("text", "statements", "rest"),
    [
        ("SELECT 1;", ["SELECT 1"], ""),
        ("SELECT 1", [], "SELECT 1"),
        ("SELECT ';'; SELECT \"a;b\" ", ["SELECT ';'"], ' SELECT "a;b" '),
        ("SELECT 'it''s;' ;x", ["SELECT 'it''s;'"], "x"),
        ("-- a;b\nSELECT 1; -- c;d", ["-- a;b\nSELECT 1"], " -- c;d"),
        ("/* ; */ SELECT $$;$$, $x$ $$;' $x$;", ["/* ; */ SELECT $$;$$, $x$ $$;' $x$"], ""),
        ("SELECT 'open; SELECT 1;", [], "SELECT 'open; SELECT 1;"),
        (";; /* only */ ;", [], ""),
        ("SELECT 1 /* open; ", [], "SELECT 1 /* open; "),
    ],
)
def test_semicolons_end_statements_outside_of_quotes_and_comments(text: str, statements: list[str], rest: str) -> None:
    """A text that holds a semicolon is not two statements."""
    assert cut(text) == (statements, rest)
    assert statements_in("SELECT 1 -- end") == ["SELECT 1 -- end"]
    assert statements_in("  -- nothing") == []


def typed(*lines: str | type[BaseException]) -> Callable[[str], str]:
    """Input with these lines or keys, and then Ctrl-D."""
    given: Iterator[str | type[BaseException]] = iter(lines)

    def read(_: str) -> str:
        line = next(given, EOFError)
        if isinstance(line, str):
            return line
        raise line

    return read


def test_statements_are_asked_when_they_end(capsys: pytest.CaptureFixture[str]) -> None:
    """A statement over several lines, several in one line; the prompt continues after an error."""
    asked: list[str] = []

    def ask(text: str) -> None:
        asked.append(text)
        if "bad" in text:
            raise CommandFailed("that was bad")
        if "long" in text:
            raise KeyboardInterrupt

    prompt(
        ask,
        typed("SELECT", "  1;", "bad; next;", "half", KeyboardInterrupt, "long; never;", "\\d", "\\d x", "\\?", ";"),
    )
    assert asked == ["SELECT\n  1", "bad", "next", "long", "SHOW TABLES", "DESCRIBE x"]
    err = capsys.readouterr().err
    assert "chronik: that was bad" in err
    assert "chronik: cancelled" in err


@pytest.mark.parametrize("word", ["\\q", "quit;", "EXIT"])
def test_words_that_end_the_prompt(word: str) -> None:
    """Those of psql, MySQL and shells."""
    asked: list[str] = []
    prompt(asked.append, typed(word, "SELECT 1;"))
    assert asked == []


@pytest.mark.slow
def test_ctrl_c_cancels_a_query_and_the_prompt_goes_on(tmp_path: Path) -> None:
    """On a real terminal, with a real query that would take hours. The history keeps the typed text."""
    pytest.importorskip("duckdb")
    pytest.importorskip("deltalake")
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "XDG_STATE_HOME": str(tmp_path), "NO_COLOR": "1"}
    command = [sys.executable, "-m", "chronik.cli", "sql"]
    with subprocess.Popen(
        command, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, preexec_fn=heed_interrupts
    ) as process:
        os.close(theirs)
        seen = b""

        def until(text: bytes) -> None:
            nonlocal seen
            while text not in seen:
                seen += os.read(ours, 4096)
            seen = seen.partition(text)[2]

        until(b"sql> ")
        os.write(ours, b"SELECT sum(i * i) FROM range(100000000000000) t(i);\n")
        until(b"t(i);")
        process.send_signal(signal.SIGINT)
        while b"sql> " not in seen:
            seen += os.read(ours, 4096)
        until(b"sql> ")
        os.write(ours, b"SELECT 6 * 7 AS answer;\n")
        until(b"42")
        until(b"sql> ")
        os.write(ours, b"\\q\n")
        assert process.wait() == 0
    os.close(ours)
    assert "SELECT 6 * 7 AS answer;" in (tmp_path / "chronik" / "sql_history").read_text()
