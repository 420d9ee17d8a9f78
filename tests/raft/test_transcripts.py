"""Recorded interactions replayed on our core: ours, and a trusted implementation's where their folder is at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.raft.transcript import first_difference, main, recorded

OURS = Path(__file__).parent / "transcripts"
OTHERS = Path(__file__).parents[3] / "shared" / "raft-transcripts"
FILES = sorted([*OURS.glob("*.txt"), *OTHERS.glob("*.txt")])


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_core_behaves_as_recorded(path: Path) -> None:
    """Message for message: a deviation that seems harmless here may be the one that loses an entry elsewhere."""
    difference = first_difference(path.read_text(encoding="utf-8"), path.name)
    assert difference is None, difference


def test_a_difference_is_shown_and_ends_the_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A replay that cannot fail would prove nothing."""
    text = (OURS / "divergent_logs.txt").read_text(encoding="utf-8")
    path = tmp_path / "altered.txt"
    path.write_text(text.replace('"kept_a"', '"kept_b"', 1), encoding="utf-8")
    assert main([str(path)]) == 1
    shown = capsys.readouterr().out
    assert '-2/8 EntryNormal "kept_b"' in shown
    assert '+2/8 EntryNormal "kept_a"' in shown


def test_an_unknown_command_is_a_difference() -> None:
    """Skipping unknown commands would accept files that were never replayed."""
    assert "no such command" in str(first_difference("levitate 1\n----\nok\n", "x"))


def test_a_step_may_have_several_commands() -> None:
    """Some recordings have several. Lines that are not commands are input of the command above."""
    two_nodes = "add-nodes 2 voters=(1) index=3\ncampaign 1\nstabilize log-level=none\n"
    states = "1: StateLeader (Voter) Term:1 Lead:1\n2: StateFollower (Non-Voter) Term:0 Lead:0\n"
    log = "log-level none\n----\nok\n\n" + two_nodes + "log-level debug\nraft-state\n----\n" + states
    assert first_difference(log, "x") is None
    assert "StateLeader" in str(first_difference(log.replace("campaign 1\n", ""), "x"))


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("propose 2 x", "raft proposal dropped"),
        ("compact 1 3", "requested index is unavailable due to compaction"),
        ("add-nodes 1 voters=(1,2) index=1", "index must be specified as > 1 due to bootstrap"),
        ("add-nodes 1 read-only=perhaps", 'invalid read-only option "perhaps"'),
        ("propose-conf-change 1 v1=true\nv2 v3", "v1 conf change can only have one operation and no transition"),
        ("log-level loud", "log levels must be either of [DEBUG INFO WARN ERROR FATAL NONE]"),
    ],
)
@pytest.mark.parametrize("level", ["none", "debug"])
def test_a_command_that_is_refused_says_so_at_every_level(command: str, answer: str, level: str) -> None:
    """Recordings turn the output off while they set up; a step of that which failed must not look like success."""
    before = f"add-nodes 2 voters=(1,2) index=3\n----\nok\n\nlog-level {level}\n----\nok\n\n"
    assert first_difference(f"{before}{command}\n----\n{answer}\n", "x") is None


def test_recording_again_changes_nothing() -> None:
    """The files contain the code's current output, including comments."""
    for path in OURS.glob("*.txt"):
        text = path.read_text(encoding="utf-8")
        assert recorded(text) == text, path.name
