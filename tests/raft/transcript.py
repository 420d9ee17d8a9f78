"""Replays recorded Raft interactions against our core: `python -m tests.raft.transcript FILE...`

A file is a row of steps: a command line, lines of input if any, `----`, then the output up to an empty line (an output
that contains empty lines is between two pairs of `----`). A step may have several commands, whose outputs follow each
other. Lines of the recorded implementation's own log (INFO, DEBUG and so on) are not compared, and neither is the `ok`
of a command without other output. Prints the first difference as a diff and exits 1; exits 0 when every file agrees.

With `--record` first, the outputs in the files are replaced by ours: read the diff before you commit it.
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
    head: list[str]
    expected: list[str]
    line: int
    before: list[str]  # comments and empty lines

    @property
    def commands(self) -> list[Command]:
        """A line below the first that begins with no verb is input of the command above it."""
        found = [_command(self.head[0])]
        for line in self.head[1:]:
            if line.partition(" ")[0] in VERBS:
                found.append(_command(line))
            else:
                found[-1].body += f"\n{line}" if found[-1].body else line
        return found


def _command(line: str) -> Command:
    name, _, rest = line.partition(" ")
    arguments = [
        (key, [part.strip() for part in value.strip("()").split(",") if part.strip()])
        for key, value in ARGUMENT.findall(rest)
    ]
    return Command(name, arguments)


def parse(text: str) -> Iterator[Step]:
    lines = text.splitlines()
    at, before = 0, []
    while at < len(lines):
        if not lines[at].strip() or lines[at].startswith("#"):
            before.append(lines[at])
            at += 1
            continue
        separator = lines.index("----", at)
        step = Step(lines[at:separator], [], at + 1, before)
        at, before = separator + 1, []
        if lines[at : at + 1] == ["----"]:
            end = next(i for i in range(at + 1, len(lines)) if lines[i : i + 2] == ["----", "----"])
            step.expected, at = lines[at + 1 : end], end + 2
        else:
            end = next((i for i in range(at, len(lines)) if not lines[i].strip()), len(lines))
            step.expected, at = lines[at:end], end
        yield step


def behaviour(lines: list[str]) -> list[str]:
    kept = [line.rstrip() for line in lines if not LOG_LINE.match(line)]
    return [] if kept == ["ok"] else kept


def run(environment: Environment, step: Step) -> list[str]:
    for command in step.commands:
        verb = VERBS.get(command.name)
        if verb is None:
            return [f"no such command: {command.name}"]
        verb(environment, command)
    return environment.written().splitlines()


def first_difference(text: str, name: str) -> str | None:
    environment = Environment()
    for step in parse(text):
        expected, actual = behaviour(step.expected), behaviour(run(environment, step))
        if expected != actual:
            where = f"{name}:{step.line} {step.head[0]}"
            return "\n".join(difflib.unified_diff(expected, actual, f"{where} (file)", f"{where} (ours)", lineterm=""))
    return None


def recorded(text: str) -> str:
    environment = Environment()
    lines: list[str] = []
    for step in parse(text):
        output = run(environment, step) or ["ok"]
        lines += [*step.before, *step.head, "----", *output]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    recording = arguments[:1] == ["--record"]
    paths = arguments[1:] if recording else arguments
    if not paths:
        print("usage: python -m tests.raft.transcript [--record] FILE...", file=sys.stderr)
        return 2
    for path in map(Path, paths):
        text = path.read_text(encoding="utf-8")
        if recording:
            path.write_text(recorded(text), encoding="utf-8")
        elif difference := first_difference(text, str(path)):
            print(difference)
            return 1
        print(f"{path}: {'recorded' if recording else 'agrees'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
