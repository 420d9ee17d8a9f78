"""Any words at all: a command either runs or is refused in a sentence. It never ends in a traceback."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from chronik.cli.main import main
from tests.cli.every_command import every_leaf, options_of

MANY = 10_000
# These start something that runs until it is stopped, or write files where they are started.
NEVER_TRIED = {("up",), ("server",), ("init",), ("sim", "run"), ("sim", "night"), ("materialize",)}
NEVER_TRIED |= {("pipeline", verb) for verb in ("init", "run", "test", "backfill", "replay", "dry-run")}
NEVER_TRIED |= {("cert", "renew"), ("storage", "format"), ("storage", "repair"), ("context", "add"), ("user", "add")}
LEAVES = [leaf for leaf in every_leaf() if leaf not in NEVER_TRIED and leaf[0] != "sim"]
WORDS_OF_THEIR_OWN = [("topc",), ("help",), ("version",), ("status",), ("topic", "creat")]
# Never tried with a random value: an address that is looked up by name, a file that is made, a wait.
LEFT_OUT = {"--bootstrap", "--bootstrap-server", "--bootstrap-servers", "--bundle", "--watch", "--master", "--storage"}
LEFT_OUT |= {"--for", "--timeout", "--follow", "-F"}
OPTIONS = {leaf: sorted({*options_of(leaf)} - LEFT_OUT) for leaf in LEAVES}
VALUES = [
    *("", "x", "-1", "0", "99999999999999999999", "earliest", "2h ago", "99999999999999999 d ago", "a=b", "=", "json"),
    *("csv", "--", "host:port", "::", "2026-03-01T12:00:00", "0001-01-01T00:00:00+14:00", "/", "{", "{value.x}"),
    *("1@h:1", "\x00", "\udcff", "\u2603", "a" * 300, "topic", "broker", "default", "help", "(", "SELECT 1", "--help"),
    *("--nope", "-z", "--version", "-1.5", "1e400", "User:x", "read", "true", "None", "[]", "*"),
]


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    leaf = draw(st.sampled_from([*LEAVES, *WORDS_OF_THEIR_OWN]))
    words = st.sampled_from([*OPTIONS.get(leaf, ["--format"]), *VALUES])
    return [*draw(st.lists(words, max_size=2)), *leaf, *draw(st.lists(words, max_size=6))]


@contextlib.contextmanager
def nowhere(folder: Path) -> Iterator[None]:
    """No broker, no input, no contexts, and a folder where files may appear."""
    before = Path.cwd()
    with pytest.MonkeyPatch.context() as patch, open(os.devnull) as nothing:
        patch.setenv("CHRONIK_BOOTSTRAP", "127.0.0.1:1")
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        patch.setattr(sys, "stdin", nothing)
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def exit_code_of(words: list[str]) -> object:
    quiet = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["chronik", *words])
        with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet), pytest.raises(SystemExit) as ended:
            main()
    return ended.value.code


@given(command_lines())
@example(["topic", "list", "--bootstrap", "a" * 300])
@example(["topic", "list", "--bootstrap", "\udcff"])
@example(["topic", "list", "--bootstrap", "a..b:1"])
@example(["produce", "x", "--key-separator", "\udcff"])
@example(["topic", "list", "--watch", "1e400"])
@example(["--", "group", "describe"])
@example(["pipeline", "status", "\x00"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_command_line_ends_in_a_traceback(tmp_path: Path, words: list[str]) -> None:
    """No broker runs, so a line that makes sense ends with 3."""
    with nowhere(tmp_path):
        assert exit_code_of(words) in (0, 1, 2, 3)


@pytest.mark.long
@given(command_lines())
@settings(max_examples=MANY, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_ten_thousand_command_lines_end_in_no_traceback(tmp_path: Path, words: list[str]) -> None:
    """The same, for long enough to reach rare cases."""
    with nowhere(tmp_path):
        assert exit_code_of(words) in (0, 1, 2, 3)
