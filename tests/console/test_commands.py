"""The printed command lines: a shell that gets one sees the words that were meant, whatever topics are called."""

from __future__ import annotations

import json
import subprocess

import pytest

from chronik.console.commands import Name, command, option

NAMES = ["orders", "-rf", "--help", "it's", 'say "x"', "$(id)", "`id`", "a;b", "a b", "", "\\", "日本"]
NAMES += ["a\nb", "\x1b[2J", "\x9b2J", "\u202eevil", "\U000e0041'\\"]


def words_of(line: str) -> list[str]:
    script = f'chronik() {{ for each in "$@"; do printf \'%s\\0\' "$each"; done; }}; {line}'
    out = subprocess.run(["/bin/bash", "-c", script], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}).stdout
    return out.decode().split("\0")[:-1]


@pytest.mark.parametrize("name", NAMES, ids=json.dumps)
def test_a_name_is_one_word_and_no_option(name: str) -> None:
    line = command("topic", "delete", Name(name), "--yes")
    words = words_of(line)
    assert words.count(name) == 1
    if name.startswith("-"):
        assert words == ["topic", "delete", "--yes", "--", name]


@pytest.mark.parametrize("name", NAMES, ids=json.dumps)
def test_a_line_shows_what_it_does(name: str) -> None:
    """No character in it is obeyed by a terminal, hides, or turns the direction of what follows."""
    line = command("group", "explain", Name(name), *option("--topic", [name]))
    assert line.isprintable()


def test_a_value_of_an_option_is_none_itself() -> None:
    assert option("--topic", ["-x", "y"]) == ["--topic=-x", "--topic", "y"]
