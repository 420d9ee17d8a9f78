"""Replays recorded Raft interactions against our core: `python -m tests.raft.transcript FILE...`

A file is a row of commands: a command line, lines of input if any, `----`, then the output up to an empty line (an
output with empty lines of its own stands between two pairs of `----`). Lines of the recorded implementation's own log
(INFO, DEBUG and so on) are left out of the comparison, and so is the `ok` that stands where nothing else was written.
Prints the first difference as a diff and exits 1; exits 0 when every file agrees.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.raft.interaction import LEVELS, Command, Environment
from tests.raft.verbs import VERBS

LOG_LINE = re.compile(rf"^\s*({'|'.join(LEVELS)}) ")
ARGUMENT = re.compile(r"([^\s=]+)(?:=(\([^)]*\)|\S+))?")


@dataclass
class Step:
    command: Command
    expected: str
    line: int


def parse(text: str) -> Iterator[Step]:
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        if not lines[at].strip() or lines[at].startswith("#"):
            at += 1
            continue
        first = at
        head = []
        while at < len(lines) and lines[at] != "----":
            head.append(lines[at])
            at += 1
        at += 1
        if lines[at : at + 1] == ["----"]:
            end = next(i for i in range(at + 1, len(lines)) if lines[i : i + 2] == ["----", "----"])
            output, at = lines[at + 1 : end], end + 2
        else:
            end = next((i for i in range(at, len(lines)) if not lines[i].strip()), len(lines))
            output, at = lines[at:end], end + 1
        yield Step(command(head), "\n".join(output), first + 1)


def command(head: list[str]) -> Command:
    name, _, rest = head[0].partition(" ")
    arguments = [
        (key, [part.strip() for part in value.strip("()").split(",") if part.strip()])
        for key, value in ARGUMENT.findall(rest)
    ]
    return Command(name, arguments, "\n".join(head[1:]))


def behaviour(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.splitlines() if not LOG_LINE.match(line)]
    return [] if lines == ["ok"] else lines


def first_difference(text: str, name: str) -> str | None:
    environment = Environment()
    for step in parse(text):
        verb = VERBS.get(step.command.name)
        if verb is None:
            return f"{name}:{step.line}: no such command: {step.command.name}\n"
        verb(environment, step.command)
        expected, actual = behaviour(step.expected), behaviour(environment.written())
        if expected != actual:
            where = f"{name}:{step.line} {step.command.name}"
            return "\n".join(
                difflib.unified_diff(expected, actual, f"{where} (recorded)", f"{where} (ours)", "", "", 3, "")
            )
    return None


def main(paths: list[str]) -> int:
    if not paths:
        print("usage: python -m tests.raft.transcript FILE...", file=sys.stderr)
        return 2
    for path in paths:
        difference = first_difference(Path(path).read_text(encoding="utf-8"), path)
        if difference is not None:
            print(difference)
            return 1
        print(f"{path}: agrees")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
