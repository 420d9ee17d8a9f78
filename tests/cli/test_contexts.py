"""Saved contexts: which cluster a command asks, and that a login never goes to another cluster than its own."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from chronik.cli.contexts import BOOTSTRAP, COMMAND_CONFIG, CONTEXT, Context, Contexts, apply_context, contexts_path
from chronik.cli.errors import CommandFailed, Misused
from chronik.testing import Cluster
from tests.cli.conftest import Run


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def saved() -> Contexts:
    """`prod` with a login is current; `local` has none."""
    made = Contexts({"prod": Context("p:9092", "/etc/prod.properties"), "local": Context("l:9092")}, "prod")
    made.save()
    return made


PROD = {BOOTSTRAP: "p:9092", COMMAND_CONFIG: "/etc/prod.properties", CONTEXT: "prod"}
LOCAL = {BOOTSTRAP: "l:9092", CONTEXT: "local"}


@pytest.mark.usefixtures("saved")
@pytest.mark.parametrize(
    ("typed", "before", "after"),
    [
        ("topic list", {}, PROD),
        ("topic list --context local", {}, LOCAL),
        ("--context=local topic list", {}, LOCAL),
        ("topic list", {CONTEXT: "local"}, LOCAL),
        ("topic list --context prod", {CONTEXT: "local"}, PROD),
        ("topic list --bootstrap x:1", {}, {}),
        ("topic list --bootstrap-server=x:1", {CONTEXT: "prod"}, {}),
        ("topic list", {BOOTSTRAP: "x:1", CONTEXT: "prod"}, {BOOTSTRAP: "x:1"}),
        ("topic list", {COMMAND_CONFIG: "/mine"}, PROD | {COMMAND_CONFIG: "/mine"}),
        ("--help", {}, {}),
        ("context list", {}, {}),
    ],
)
def test_which_cluster_is_asked(typed: str, before: dict[str, str], after: dict[str, str]) -> None:
    """An address that was typed wins over CHRONIK_CONTEXT, and that over the current context."""
    environment = dict(before)
    words = apply_context(typed.split(), environment)
    assert environment == after
    assert not any(word.startswith("--context") for word in words)
    assert words[:2] != ["local", "topic"]


@pytest.mark.usefixtures("saved")
def test_a_context_and_an_address_exclude_each_other() -> None:
    """One of them would be ignored, and the login of one cluster could reach another."""
    with pytest.raises(Misused, match="exclude each other"):
        apply_context(["topic", "list", "--context", "prod", "--bootstrap", "x:1"], {})
    with pytest.raises(Misused, match="exclude each other"):
        apply_context(["topic", "list", "--context", "prod"], {BOOTSTRAP: "x:1"})


@pytest.mark.usefixtures("saved")
def test_words_behind_two_hyphens_are_not_options() -> None:
    """A group may have any name."""
    words = ["group", "describe", "--", "--context", "x"]
    assert apply_context(words, {}) == words


@pytest.mark.usefixtures("saved")
def test_an_unknown_context_names_the_nearest() -> None:
    with pytest.raises(Misused, match="did you mean 'prod'"):
        apply_context(["topic", "list", "--context", "prd"], {})
    with pytest.raises(Misused, match="needs a name"):
        apply_context(["topic", "list", "--context"], {})


def test_without_contexts_nothing_changes() -> None:
    """Most people have none."""
    environment: dict[str, str] = {}
    assert apply_context(["topic", "list"], environment) == ["topic", "list"]
    assert environment == {}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"contexts": {"a": {}}}', '{"contexts": 5}'])
def test_a_damaged_file_is_named_with_what_to_do(content: str) -> None:
    path = contexts_path()
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(CommandFailed, match="correct or remove the file"):
        apply_context(["topic", "list"], {})
    assert apply_context(["--help"], {}) == ["--help"]


def test_contexts_are_saved_listed_used_and_removed(run_command: Run, our_broker: Cluster, tmp_path: Path) -> None:
    """The whole noun, against a broker."""
    assert "No contexts" in run_command("context", "list").err
    added = run_command("context", "add", "here", "--bootstrap", our_broker.bootstrap)
    assert "it is the current context" in added.out
    assert stat.S_IMODE((tmp_path / "config/chronik/contexts.json").stat().st_mode) == 0o600
    assert run_command("topic", "list").exit_code == 0
    assert run_command("context", "add", "here", "--bootstrap", "x:1").exit_code == 2
    assert run_command("context", "add", "gone", "--bootstrap", "127.0.0.1:1").exit_code == 0
    assert run_command("topic", "list").exit_code == 0
    lost = run_command("topic", "list", "--context", "gone")
    assert lost.exit_code == 3
    assert "Asked: 127.0.0.1:1 (context gone)" in lost.err
    assert run_command("context", "use", "gone").exit_code == 0
    assert run_command("topic", "list").exit_code == 3
    rows = run_command("context", "list", "--format", "json").json
    assert [(row["name"], row["current"]) for row in rows] == [("gone", True), ("here", False)]
    assert "no context is current" in run_command("context", "remove", "gone").out
    assert run_command("topic", "list", "--context", "here").exit_code == 0
    assert run_command("context", "remove", "gone").exit_code == 2


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["two words", "--bootstrap", "x:1"], "is not a name"),
        (["a", "--bootstrap", "x:port"], "--bootstrap"),
        (["a", "--bootstrap", "x:1", "--command-config", "/no/such/file"], "there is no such file"),
    ],
)
def test_what_cannot_be_a_context_is_refused(run_command: Run, words: list[str], why: str) -> None:
    done = run_command("context", "add", *words)
    assert done.exit_code == 2
    assert why in done.err
    assert "No contexts" in run_command("context", "list").err
