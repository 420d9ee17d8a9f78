"""The runner of documents: what it must detect, and what it must accept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.house.console_blocks import Mismatch, Shell, check, fits, steps_of

ENVIRONMENT = {"PATH": os.environ["PATH"]}
TEXT = """\
# Title

```console
$ echo one; echo two
one
...
$ cat <<END
> a
> b
> END
a
b
```

    $ not a block

```sh
exit 1
```
"""


def run(tmp_path: Path, text: str, **replaced: str) -> int:
    document = tmp_path / "d.md"
    document.write_text(text)
    with Shell(tmp_path, ENVIRONMENT) as shell:
        return check(document, shell, replaced)


def block(*lines: str) -> str:
    return "\n".join(["```console", *lines, "```", ""])


def test_only_console_blocks_are_steps() -> None:
    first, second = steps_of(TEXT)
    assert (first.line, first.command, first.expected) == (4, "echo one; echo two", ("one", "..."))
    assert second.command == "cat <<END\na\nb\nEND"
    with pytest.raises(ValueError, match="line 2: a console block begins with a command"):
        steps_of(block("output"))


def test_a_document_that_is_right_passes(tmp_path: Path) -> None:
    assert run(tmp_path, TEXT) == 2
    assert run(tmp_path, block("$ true", "$ printf x", "x", "$ echo", "", "$ printf 'a\\n\\n'", "a", "")) == 4


WRONG = [
    block("$ echo one", "two"),
    block("$ echo one"),
    block("$ true", "one"),
    block("$ echo one; echo two", "one"),
    block("$ false"),
    block("$ false", "$ echo $?", "0"),
    block("$ true", "$ echo $?", "1"),
    block("$ exit 3"),
    block("$ echo out; exit 1 >&2", "out"),
]


@pytest.mark.parametrize("text", WRONG)
def test_a_document_that_is_wrong_fails(tmp_path: Path, text: str) -> None:
    """A runner that cannot fail would keep wrong documents green."""
    with pytest.raises(Mismatch):
        run(tmp_path, text)


def test_statuses_variables_and_errors_are_seen(tmp_path: Path) -> None:
    text = block("$ x=5", "$ (echo no >&2; exit $x)", "no", "$ echo $?", "5", '$ read line; echo "[$line]"', "[]")
    assert run(tmp_path, text) == 4


def test_what_a_document_leaves_running_ends_with_it(tmp_path: Path) -> None:
    run(tmp_path, block("$ sleep 1000 & echo $! > pid"))
    pid = int((tmp_path / "pid").read_text())
    while is_running(pid):
        os.sched_yield()  # it has closed its files already, and is about to be gone


def test_a_notice_about_a_killed_job_is_not_output(tmp_path: Path) -> None:
    """Bash prints it with whatever command comes when it has noticed."""
    assert run(tmp_path, block("$ sleep 1000 &", "$ kill -9 $!", "$ wait $!", "$ echo $?", "137", "$ echo a", "a")) == 5


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def test_ports_are_replaced_in_commands_and_back_in_what_they_print(tmp_path: Path) -> None:
    assert run(tmp_path, block("$ echo at 9092 | tee seen", "at 9092"), **{"9092": "17003"}) == 1
    assert (tmp_path / "seen").read_text() == "at 17003\n"


MATCHES = [
    (("a ... c",), "a b c\n", True),
    (("a ... c",), "a b\nc\n", False),
    (("a...",), "a\n", True),
    (("...",), "", True),
    (("...", "z"), "x\ny\nz\n", True),
    (("x", "...", "z"), "x\nz\n", True),
    (("x", "..."), "y\nx\n", False),
    (("a.c",), "abc\n", False),
    (("a",), "a  \n", True),
    ((), "\n", False),
]


@pytest.mark.parametrize(("expected", "printed", "is_fitting"), MATCHES)
def test_masks(expected: tuple[str, ...], printed: str, *, is_fitting: bool) -> None:
    assert fits(expected, printed) is is_fitting
