"""Golden transcripts of the group protocol: each file is a story, its answers in the order in which they were given.

A transcript that no longer agrees is rewritten with CHRONIK_REWRITE=1, and its diff is reviewed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.coordinator.script import Script
from tests.coordinator.virtual import run_virtually

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))
SEPARATOR = "----"


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_the_group_protocol_answers_as_written_down(path: Path) -> None:
    """Clients depend on every one of these answers, and on their order."""
    expected = path.read_text()
    found = play(expected)
    if os.environ.get("CHRONIK_REWRITE"):
        path.write_text(found)
        return
    assert found == expected


def play(text: str) -> str:
    """Runs a transcript and writes down what happened in its place."""
    blocks = text.rstrip("\n").split("\n\n")
    settings: dict[str, str] = {}
    for line in blocks[0].splitlines():
        if line.startswith("set "):
            settings.update(word.split("=", 1) for word in line.split()[1:])
    script = Script(settings)

    async def perform() -> str:
        written = [blocks[0]]
        for block in blocks[1:]:
            before, _, _ = block.partition(f"{SEPARATOR}\n")
            lines = [line for line in before.splitlines() if line != SEPARATOR]
            commands = [line for line in lines if not line.startswith("#")]
            output = await script.run(commands)
            written.append("\n".join([*lines, SEPARATOR, *output]))
        return "\n\n".join(written) + "\n"

    return run_virtually(perform(), script.clock)
