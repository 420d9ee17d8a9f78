"""The command as a whole: help that teaches, exit codes that mean something, errors on one line."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from chronik.cli.entry import parse_log_level
from chronik.cli.main import COMMANDS, normalized
from chronik.testing.ports import free_ports
from tests.cli.conftest import Run
from tests.cli.interrupts import heed_interrupts
from tests.house.repository import SOURCE

LEAVES = (
    ["up"],
    ["server"],
    ["topic", "create"],
    ["topic", "list"],
    ["topic", "describe"],
    ["topic", "alter"],
    ["topic", "delete"],
    ["produce"],
    ["consume"],
    ["group", "list"],
    ["group", "describe"],
    ["group", "reset"],
    ["group", "delete"],
    ["config", "get"],
    ["config", "set"],
    ["config", "unset"],
    ["quota", "list"],
    ["quota", "set"],
    ["quota", "unset"],
    ["cluster", "status"],
    ["cluster", "add"],
    ["cluster", "remove"],
    ["cluster", "rebalance"],
    ["cluster", "decommission"],
    ["debug", "compare-replicas"],
    ["compat"],
    ["pipeline", "init"],
    ["pipeline", "dry-run"],
    ["pipeline", "run"],
    ["pipeline", "status"],
    ["pipeline", "test"],
    ["pipeline", "backfill"],
    ["pipeline", "replay"],
    ["pipeline", "stop"],
    ["dlq", "show"],
    ["dlq", "replay"],
    ["table", "list"],
    ["materialize"],
)


def test_help_lists_every_noun_with_what_it_is_for(run_command: Run) -> None:
    """A newcomer types `chronik --help`; what says nothing there is not tried."""
    done = run_command("--help")
    assert done.exit_code == 0
    for noun in COMMANDS:
        assert re.search(rf"│ {noun} +\w+,? \w+", done.out), noun
    assert "Exit codes: 0 done; 1 refused, or not found" in done.out
    assert "CHRONIK_BOOTSTRAP" in done.out


def test_help_lists_nouns_in_the_order_in_which_they_are_needed(run_command: Run) -> None:
    """A newcomer starts a broker first; by letter `up` would be the last."""
    listed = re.findall(r"│ ([a-z]+) {2,}", run_command("--help").out.partition("Commands")[2])
    assert listed == list(COMMANDS)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("help", "--help"),
        ("help topic create", "topic create --help"),
        ("version", "--version"),
        ("status --format json", "cluster status --format json"),
        ("--bootstrap a:1 topic list", "topic list --bootstrap a:1"),
        ("--format=json --bootstrap-server a:1 status", "cluster status --format=json --bootstrap-server a:1"),
        ("--bootstrap a:1 produce t -- -x", "produce t --bootstrap a:1 -- -x"),
        ("--bootstrap", "--bootstrap"),
        ("topic describe help", "topic describe help"),
        ("--help", "--help"),
        ("", ""),
    ],
)
def test_words_that_people_try_first_are_understood(typed: str, meant: str) -> None:
    """As in other tools: help and version are words, and where a cluster is may be said before what to do with it."""
    assert normalized(typed.split()) == meant.split()


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_help_is_written_in_plain_english(run_command: Run, words: list[str]) -> None:
    """Short sentences in the terms of Kafka's own documentation; these turns are none."""
    told = re.sub(r"[\s│]+", " ", run_command(*words, "--help").out)
    for turn in ("when left out", "so many", "no more", "is to have", "may be given", "is fine", "call off", "is no "):
        assert turn not in told.lower(), turn


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_every_command_teaches_itself(run_command: Run, words: list[str]) -> None:
    """Help without an example is a list of words."""
    done = run_command(*words, "--help")
    assert done.exit_code == 0
    if words[0] != "server":
        assert f"chronik {' '.join(words)}" in done.out.split("╭")[0].split("For example:")[1]
    if words[0] not in ("up", "server"):
        assert "--format" in done.out


def test_the_short_form_of_a_command_is_not_slow_because_of_others(run_command: Run) -> None:
    """`chronik --help` must not load the client, the broker or uvloop."""
    code = (
        "import sys; sys.argv = ['chronik', '--help']\n"
        "from chronik.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print([name for name in sys.modules if name.startswith(('chronik.client', 'chronik.broker', 'uvloop'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(SOURCE)}
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_node_does_not_wait_for_the_parser_of_commands(tmp_path: Path) -> None:
    """`chronik server FILE` starts with every restart of a cluster: a parser or a client would be a fifth of that."""
    code = (
        "import sys; sys.argv = ['chronik', 'server', sys.argv[1]]\n"
        "from chronik.cli.entry import main\n"
        "try: main()\n"
        "except SystemExit as ended: print(ended.code)\n"
        "print([name for name in sys.modules if name.startswith(('chronik.client', 'cyclopts', 'rich', 'prometheus'))])"
    )
    wrong = tmp_path / "server.properties"
    wrong.write_text("node.id=nobody\n")
    done = subprocess.run(
        [sys.executable, "-c", code, wrong], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(SOURCE)}
    )
    assert done.stdout.splitlines() == ["2", "[]"]
    assert "chronik server: " in done.stderr
    assert "node.id" in done.stderr


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["topc"], "topc"),
        (["topic", "creat", "x"], "creat"),
        (["topic", "create"], "name at least one topic"),
        (["topic", "create", "x", "--partitions", "many"], "partitions"),
        (["topic", "create", "x", "--config", "retention.ms"], "write key=value"),
        (["topic", "alter", "x"], "nothing to change"),
        (["topic", "list", "--format", "xml"], "format"),
        (["topic", "list", "--bootstrap", "host:port"], "'port' is not a port"),
        (["consume", "x", "--from", "yesterday"], "write earliest, latest, an offset, a time"),
        (["consume", "x", "--from", "2026-03-01T12:00:00"], "add a time zone"),
        (["consume", "x", "--follow", "--to", "latest"], "choose one"),
        (["consume", "x", "--group", "g", "--from", "7"], "chronik group reset"),
        (["up", "--log-level", "LOUD"], "write one of DEBUG, INFO, WARNING, ERROR, CRITICAL"),
        (["server", "--log-level", "LOUD"], "write one of DEBUG, INFO, WARNING, ERROR, CRITICAL"),
        (["produce", "x", "--key", "a", "--key-separator", ":"], "choose one"),
        (["produce", "x", "--whole-files"], "needs files"),
        (["produce", "x", "--key-field", "id"], "--input jsonl or csv"),
        (["produce", "x", "--input", "json", "--key", "k"], "each record has its own key"),
        (["produce", "x", "--input", "csv", "--key-separator", ":"], "--input text"),
        (["produce", "x", "--timestamp", "yesterday"], "write a time such as"),
        (["consume", "ord*"], "--match takes a pattern, as in 'ord.*'"),
        (["group", "reset", "g"], "either --to or --shift"),
        (["group", "reset", "g", "--to", "latest", "--execute", "--dry-run"], "choose one"),
        (["config", "set", "topic", "x"], "nothing to set"),
        (["config", "get", "topics", "x"], "topics"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_what_makes_no_sense_is_refused_with_2_before_anything_is_tried(
    run_command: Run, words: list[str], what: str
) -> None:
    """No broker runs here: had anything been tried, the code would be 3."""
    done = run_command(*words)
    assert done.exit_code == 2
    assert what in re.sub(r"\s*│\n│\s*", " ", done.out + done.err)


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--help"], ["topic", "create", "--help"]], ids=" ".join)
def test_help_that_is_not_read_to_its_end_is_no_error(words: list[str]) -> None:
    """`chronik --help | head` must not end a script that runs with pipefail."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "chronik.cli", *words]
    with open(writer, "wb") as closed:
        ended = subprocess.run(
            command, stdout=closed, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(SOURCE)}, check=False
        )
    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.parametrize(("text", "level"), [("debug", "DEBUG"), ("Warning", "WARNING"), (" error ", "ERROR")])
def test_log_levels_are_taken_in_any_case(text: str, level: str) -> None:
    """Every other tool takes `debug`."""
    assert parse_log_level(text) == level


def test_no_broker_is_3_and_says_where_it_was_looked_for(run_command: Run) -> None:
    """A script must be able to tell "not there" from "refused"."""
    [port] = free_ports(1)
    done = run_command("topic", "list", "--bootstrap", f"127.0.0.1:{port}")
    assert done.exit_code == 3
    [line] = done.err.splitlines()
    assert f"cannot connect to 127.0.0.1:{port}" in line
    assert "is a broker running there?" in line
    assert "CHRONIK_BOOTSTRAP" in line


def test_errors_go_to_stderr_without_colours_in_a_pipe(run_command: Run) -> None:
    """Output for programs must not contain escape codes, nor errors among the results."""
    [port] = free_ports(1)
    done = run_command("topic", "list", "--format", "json", "--bootstrap", f"127.0.0.1:{port}")
    assert done.out == ""
    assert "\033" not in done.err


def test_compat_prints_the_permissions_that_each_api_needs(run_command: Run) -> None:
    rows = {
        row["api"]: row["needs"] for row in json.loads(run_command("compat", "--permissions", "--format", "json").out)
    }
    assert rows["Heartbeat"] == ["READ GROUP"]
    assert rows["ApiVersions"] == []
    assert "WRITE TOPIC" in run_command("compat", "--permissions").out


def test_compat_prints_what_the_handlers_say(run_command: Run) -> None:
    """Straight from the table that ApiVersions is answered from."""
    from chronik.broker.api import served_apis

    done = run_command("compat", "--format", "json")
    assert done.json == [
        {"key": key, "api": api.name, "versions": str(api.versions)} for key, api in served_apis().items()
    ]
    assert "ApiVersions" in run_command("compat").out


def test_compat_compares_with_a_running_broker(chronik: Run) -> None:
    """Which key a broker lacks is the first question when a client does not work with it."""
    told = {row["api"]: row for row in chronik("compat", "--live", "--format", "json").json}
    assert told["Fetch"]["broker"]
    assert told["Fetch"]["versions"]


@pytest.mark.slow
def test_ctrl_c_ends_quietly_with_130(our_broker: object, tmp_path: Path) -> None:
    """No stack trace, because the user pressed the key."""
    bootstrap = our_broker.bootstrap  # type: ignore[attr-defined]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "CHRONIK_BOOTSTRAP": bootstrap}
    chronik = [sys.executable, "-m", "chronik.cli"]
    subprocess.run([*chronik, "topic", "create", "interrupted"], env=environment, check=True, capture_output=True)
    subprocess.run(
        [*chronik, "produce", "interrupted"], env=environment, check=True, capture_output=True, input=b"seen"
    )
    follow = [*chronik, "consume", "interrupted", "--follow", "--from", "earliest", "--format", "json"]
    with subprocess.Popen(
        follow, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heed_interrupts
    ) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["value"] == "seen"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"")
