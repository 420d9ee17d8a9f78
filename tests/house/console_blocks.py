"""Runs the fenced `console` blocks of a document in one shell, and compares what each command prints.

    ```console
    $ chronik topic create orders
    created orders
    $ chronik topic create orders
    chronik: ...TOPIC_ALREADY_EXISTS...
    $ echo $?
    1
    ```

- A line that begins with `$ ` is a command; lines with `> ` behind it continue it. All other lines are what it prints,
  on standard output and standard error.
- `...` stands for any text in a line. A line that is only `...` stands for any number of lines.
- A command must succeed, unless the next one is `echo $?` and shows another status.
- Variables and background jobs last until the end of the document, as in a terminal. Commands have no standard input of
  their own. The document's other blocks are not run.
- Bash's own notices about jobs that were killed are ignored, because they come at any time.

A test names what differs on its machine, such as ports, in `replaced`: the document's text and what stands for it in
the test. It applies to commands, and backwards to what they print.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

ANY = "..."
COMMAND, CONTINUED = "$ ", "> "
STATUS = "echo $?"
_notice = re.compile(r"bash: line \d+: +\d+ (?:Killed|Terminated)\b")
_block = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Step(NamedTuple):
    line: int  # of the document, from 1
    command: str
    expected: tuple[str, ...]


class Mismatch(AssertionError):
    """A command did not do what the document says."""


def steps_of(document: str) -> list[Step]:
    """All commands in their order. Raises ValueError for a block that begins with output."""
    steps: list[Step] = []
    for block in _block.finditer(document):
        first = document.count("\n", 0, block.start(1)) + 1
        own: list[Step] = []
        for number, line in enumerate(block[1].splitlines(), first):
            if line.startswith(COMMAND):
                own.append(Step(number, line.removeprefix(COMMAND), ()))
            elif not own:
                raise ValueError(f"line {number}: a console block begins with a command: {line!r}")
            elif line.startswith(CONTINUED.rstrip()) and not own[-1].expected:
                more = line.removeprefix(CONTINUED.rstrip()).removeprefix(" ")
                own[-1] = own[-1]._replace(command=f"{own[-1].command}\n{more}")
            else:
                own[-1] = own[-1]._replace(expected=(*own[-1].expected, line.rstrip()))
        steps += own
    return steps


def fits(expected: tuple[str, ...], printed: str) -> bool:
    """Whether the output is what the document shows. Blanks at the ends of lines do not count."""
    pattern = "".join(
        r"(?:[^\n]*\n)*" if line == ANY else "[^\n]*".join(map(re.escape, line.split(ANY))) + r"\n" for line in expected
    )
    shown = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
    return re.fullmatch(pattern, shown) is not None


class Shell:
    """One bash for all commands. Whatever they left running ends with it."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._mark = f"-- end of a command in {directory} --"
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=directory,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, command: str) -> tuple[int, str]:
        """Its exit code, and all that it printed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        told = shlex.quote(self._mark)
        script = f"eval {shlex.quote(command)} < /dev/null\n__code=$?; echo; echo {told} $__code; (exit $__code)\n"
        self._process.stdin.write(script)
        self._process.stdin.flush()
        printed: list[str] = []
        for line in self._process.stdout:
            if line.startswith(self._mark):
                # The line end before the mark is ours, and completes a last line that had none.
                text = "".join(printed)
                return int(line.removeprefix(self._mark)), text[:-1] if text.endswith("\n\n") or text == "\n" else text
            if not _notice.match(line):
                printed.append(line)
        raise Mismatch(f"the shell ended in the middle of: {command}\n{''.join(printed)}")

    def close(self) -> None:
        try:
            os.killpg(self._process.pid, signal.SIGTERM)
            self._process.communicate()
        except ProcessLookupError:
            self._process.wait()

    def __enter__(self) -> Shell:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def check(document: Path, shell: Shell, replaced: Mapping[str, str] | None = None) -> int:
    """Runs all steps; how many there were. Raises Mismatch at the first that differs."""
    steps = steps_of(document.read_text("utf-8"))
    for step, after in _with_next(steps):
        command = step.command
        for text, real in (replaced or {}).items():
            command = command.replace(text, real)
        code, printed = shell.run(command)
        for text, real in (replaced or {}).items():
            printed = printed.replace(real, text)
        is_told = after is not None and after.command == STATUS
        if not fits(step.expected, printed) or (code != 0 and not is_told):
            shown = "\n".join(step.expected)
            raise Mismatch(
                f"{document.name}, line {step.line}: {step.command}\n"
                f"--- the document says\n{shown}\n--- it printed, with status {code}\n{printed}"
            )
    return len(steps)


def _with_next(steps: list[Step]) -> Iterator[tuple[Step, Step | None]]:
    yield from zip(steps, [*steps[1:], None], strict=True)
