"""Help as a person with a terminal of 80 columns reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from chronik.cli.helping import joined
from chronik.cli.main import COMMANDS, app
from tests.cli.conftest import Run
from tests.cli.every_command import every_leaf

WIDTH = 80


def every_command() -> Iterator[tuple[str, ...]]:
    yield ()
    for noun in COMMANDS:
        yield (noun,)
        yield from ((noun, verb) for verb in app[noun] if not verb.startswith("-"))


def columns_of_boxes(text: str) -> Iterator[list[str]]:
    """The descriptions in each box of options or commands, line by line."""
    for box in re.findall(r"(?s)╭.*?╮\n(.*?)╰", text):
        rows = [row[2:-2].rstrip() for row in box.splitlines()]
        # Descriptions begin where the longest name ends: the only column with two blanks before it in every row.
        starts = [
            column
            for column in range(4, WIDTH)
            if all(row[column - 2 : column].strip() == "" for row in rows)
            and any(row[column : column + 1].strip() for row in rows)
        ]
        if starts:
            yield [row[starts[0] :] if not row[: starts[0]].strip() else f"\0{row[starts[0] :]}" for row in rows]


def stubs(lines: list[str], width: int) -> Iterator[str]:
    """Lines that end although the next word would fit."""
    for line, after in pairwise(lines):
        begins = "\0" in after or not after or after[0].isspace() or not line or line[0].isspace()
        if not begins and len(line.lstrip("\0")) + 1 + len(after.split()[0]) <= width and not line.endswith(":"):
            yield line


@pytest.mark.parametrize("words", list(every_command()), ids=" ".join)
def test_help_has_no_stub_lines_on_80_columns(
    words: tuple[str, ...], run_command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Docstrings are wrapped at the width of the source, which no terminal has to have."""
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    shown = run_command(*words, "--help")
    assert shown.exit_code == 0
    assert max(map(len, shown.lines)) <= WIDTH
    prose = [line.rstrip() if line[:1] not in "╭│╰" else "" for line in shown.lines]
    assert list(stubs(prose, WIDTH)) == []
    for column in columns_of_boxes(shown.out):
        assert list(stubs(column, max(len(row.lstrip("\0")) for row in column))) == []


def test_only_paragraphs_are_joined() -> None:
    """Examples are lines to copy."""
    text = "One\ntwo.\n\nFor example:\n  chronik up\n  chronik up --nodes 3\n\nThree\nfour."
    assert joined(text) == "One two.\n\nFor example:\n  chronik up\n  chronik up --nodes 3\n\nThree four."


def test_every_default_is_told_in_the_help() -> None:
    """Users must know the value of an option that they omit."""
    silent = []
    for leaf in every_leaf():
        command = app
        for word in leaf:
            command = command[word]
        for argument in command.assemble_argument_collection(parse_docstring=True):
            default = argument.field_info.default
            is_value = isinstance(default, int | float | str | Path) and not isinstance(default, bool) and default != ""
            if argument.show and is_value and "default" not in (argument.parameter.help or "").lower():
                silent.append((*leaf, argument.name))
    assert silent == []
