"""Any words at all: a command either runs or is refused in a sentence. It never ends in a traceback."""

from __future__ import annotations

import contextlib
import io
import os
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chronik.cli.main import main

LEAVES = """topic create;topic list;topic describe;topic alter;topic delete;produce;consume;group list;group describe
group reset;group delete;config get;config set;config unset;cluster status;cluster add;cluster remove;cluster rebalance
cluster decommission;debug compare-replicas;compat;dlq show;table list;help;version;status;topc""".replace("\n", ";")
# Without --bootstrap: a random word after it would be looked up by name.
OPTIONS = """--format --help --partitions -p --config --unset --if-not-exists --key --key-separator --key-field
--header --partition --timestamp --whole-files --input --null-as --acks --create --from --to --group --follow --count
--shift --topic --execute --all --docs --force --cancel --timeout --live --storage --version"""
VALUES = [
    "",
    "x",
    "-1",
    "0",
    "99999999999999999999",
    "earliest",
    "2h ago",
    "99999999999999999 d ago",
    "a=b",
    "=",
    "json",
]
VALUES += ["json", "csv", "--", "host:port", "::", "2026-03-01T12:00:00", "0001-01-01T00:00:00+14:00", "/"]
VALUES += ["1@h:1", "\x00", "\udcff", "\u2603", "a" * 300, "topic", "broker", "default", "help"]
WORDS = st.lists(st.sampled_from([*OPTIONS.split(), *VALUES]), max_size=5)


@given(st.sampled_from(LEAVES.split(";")), WORDS, WORDS.map(lambda words: words[:2]))
@example("topic list", ["--bootstrap", "a" * 300], [])
@example("topic list", ["--bootstrap", "\udcff"], [])
@example("topic list", ["--bootstrap", "a..b:1"], [])
@example("produce", ["x", "--key-separator", "\udcff"], [])
def test_no_command_line_ends_in_a_traceback(leaf: str, after: list[str], before: list[str]) -> None:
    """No broker runs, so a line that makes sense ends with 3."""
    with pytest.MonkeyPatch.context() as patch, open(os.devnull) as nothing:
        patch.setenv("CHRONIK_BOOTSTRAP", "127.0.0.1:1")
        patch.setattr(sys, "argv", ["chronik", *before, *leaf.split(), *after])
        patch.setattr(sys, "stdin", nothing)
        quiet = io.StringIO()
        with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet), pytest.raises(SystemExit) as ended:
            main()
    assert ended.value.code in (0, 1, 2, 3)
