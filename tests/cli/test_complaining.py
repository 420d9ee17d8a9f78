"""Messages on stderr: one line each, as text or as JSON, whichever layer found the error."""

from __future__ import annotations

import json

import pytest

from chronik.testing.ports import free_ports
from tests.cli.conftest import Run


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("topc", "`chronik` has no command 'topc'; did you mean 'topic'? See `chronik --help`"),
        ("topic zzz", "`chronik topic` has no command 'zzz'; see `chronik topic --help`"),
        (
            "topic list --inernal",
            "unknown option '--inernal'; did you mean '--internal'? See `chronik topic list --help`",
        ),
        ("cluster add", "NODE is missing; see `chronik cluster add --help`"),
        ("context add x", "--bootstrap is missing; see `chronik context add --help`"),
        ("topic list --format", "--format needs a value; see `chronik topic list --help`"),
        ("cluster remove 1 2", "unexpected argument '2'; see `chronik cluster remove --help`"),
        (
            "cluster remove x",
            'invalid value for NODE: unable to convert "x" into int; see `chronik cluster remove --help`',
        ),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line_like_any_other(run_command: Run, typed: str, message: str) -> None:
    """One style of error is recognised at once, and can be searched for; it says where to read on."""
    done = run_command(*typed.split())
    assert (done.exit_code, done.out, done.err) == (2, "", f"chronik: {message}\n")


def test_with_format_json_errors_are_json(run_command: Run) -> None:
    """A program that requests JSON can determine the error without parsing prose."""
    [port] = free_ports(1)
    for words, exit_code in (
        (["topic", "list", "--format", "json", "--bootstrap", f"127.0.0.1:{port}"], 3),
        (["topic", "list", "--format=json", "--nope"], 2),
        (["consume", "x", "--from", "soon", "--format", "json"], 2),
    ):
        done = run_command(*words)
        told = json.loads(done.err)
        assert (done.exit_code, told["exit_code"], told["code"], done.out) == (exit_code, exit_code, None, "")
        assert told["error"]
    assert run_command("topic", "list", "--nope", "--", "--format", "json").err.startswith("chronik: ")


def test_json_errors_carry_the_name_of_kafkas_error(chronik: Run, unique: object) -> None:
    """Scripts decide by the name; the sentence may change."""
    done = chronik("topic", "describe", "nothing-like-it", "--format", "json")
    told = json.loads(done.err)
    assert (done.exit_code, told["code"], told["exit_code"]) == (1, "UNKNOWN_TOPIC_OR_PARTITION", 1)
    refused = chronik("topic", "create", "bad name", "--format", "json")
    assert json.loads(refused.err)["code"] == "INVALID_TOPIC_EXCEPTION"
