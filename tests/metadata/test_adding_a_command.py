"""CONTRIBUTING says that a new metadata command takes its own file and a row in the registry.

This adds one to a copy of the sources. A follower submits it, the controller decides it, and the reply comes back.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.repository import ROOT, SOURCE

COMMAND, REGISTRY, TEST = (
    "src/chronik/metadata/commands/count_topics.py",
    "src/chronik/metadata/commands/registry.py",
    "test_count_topics.py",
)
ADDED = {
    COMMAND: '''"""Counts the topics whose names begin with a prefix."""

from __future__ import annotations

from chronik.metadata.commands.command import ControllerCommand, Reply
from chronik.metadata.decisions.decision import ControllerState, Decision
from chronik.wire.notation import int32, string


class CountTopicsReply(Reply):
    count: int32


class CountTopics(ControllerCommand[CountTopicsReply]):
    prefix: string

    def decide(self, state: ControllerState) -> Decision[CountTopicsReply]:
        count = sum(topic.name.startswith(self.prefix) for topic in state.view.all_topics())
        return Decision([], CountTopicsReply(count=count))
''',
    TEST: '''
import asyncio

from chronik.metadata.commands.command import RequestId
from chronik.metadata.commands.count_topics import CountTopics, CountTopicsReply
from chronik.metadata.forwarding import Forwarding
from tests.metadata.clusters import cluster, create, new_topic


class Notes:
    """Carries notes to the other side, on the next turn of the loop."""

    def __init__(self, own_id):
        self.own_id, self.other = own_id, None

    def send_note(self, to, note):
        asyncio.get_running_loop().call_soon(self.other.receive, self.own_id, note)
        return True

    def is_member(self, peer):
        return True


def test_a_follower_submits_it_and_gets_its_reply():
    on = cluster(1)
    create(on, *map(new_topic, ("orders", "orders-late", "returns")))

    async def scenario():
        def decide(command, request):
            done = asyncio.get_running_loop().create_future()
            done.set_result(on.controller.handle(command, request, 0).reply)
            return done

        follower_notes, leader_notes = Notes(2), Notes(1)
        follower = Forwarding(follower_notes, None, None, lambda: 0, incarnation=1)
        leader = Forwarding(leader_notes, decide, None, lambda: on.image.version, incarnation=1)
        follower_notes.other, leader_notes.other = leader, follower
        reply, _ = await follower.ask(1, CountTopics(prefix="orders"), RequestId(2, 1, 1, 1), 10)
        assert reply == CountTopicsReply(count=2)

    asyncio.run(scenario())
''',
}
IMPORT = "from chronik.metadata.commands.create_partitions import CreatePartitions\n"
ROWS = (
    (IMPORT, f"from chronik.metadata.commands.count_topics import CountTopics\n{IMPORT}"),
    ("\n)\nNUMBER_OF", "\n    CountTopics,\n)\nNUMBER_OF"),
)


@pytest.mark.slow
def test_a_new_command_takes_its_own_file_and_a_row(tmp_path: Path) -> None:
    shutil.copytree(SOURCE, tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for path, text in ADDED.items():
        (tmp_path / path).write_text(text)
    registry = (tmp_path / REGISTRY).read_text()
    for before, after in ROWS:
        assert before in registry
        registry = registry.replace(before, after)
    (tmp_path / REGISTRY).write_text(registry)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "src"), str(ROOT)])}
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(tmp_path), str(tmp_path / TEST)]
    options = ["-p", "no:cacheprovider", "--import-mode=importlib"]
    done = subprocess.run([*command, *options], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
