"""Questions before something is deleted for good: asked of people, never of scripts."""

from __future__ import annotations

import io
import sys

import pytest

from chronik.cli.errors import CommandFailed
from chronik.cli.session import confirm


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def ask(monkeypatch: pytest.MonkeyPatch, stdin: io.StringIO) -> str:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdin", stdin)
    monkeypatch.setattr(sys, "stderr", screen)
    confirm("Delete orders?")
    return screen.getvalue()


@pytest.mark.parametrize("answer", ["y\n", "YES\n"])
def test_yes_goes_on(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    """No other answer does."""
    assert ask(monkeypatch, Terminal(answer)) == "Delete orders? [y/N] "


@pytest.mark.parametrize("answer", ["\n", "", "n\n", "yep\n"])
def test_anything_else_changes_nothing(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    """Return alone, or the end of input, is no consent."""
    with pytest.raises(CommandFailed, match="Nothing was changed"):
        ask(monkeypatch, Terminal(answer))


def test_a_script_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would wait forever, or read its own data as the answer."""
    assert ask(monkeypatch, io.StringIO("n\n")) == ""
