"""CONTRIBUTING says that a new configuration key takes three files. This adds one to a copy of the sources.

The row in the catalogue, the code that reads the value, and a test. The file, DescribeConfigs, AlterConfigs and
docs/configuration.md know the key without further edits.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.repository import ROOT, SOURCE

CATALOGUE, USER, TEST = (
    "src/chronik/catalogue/broker_values.py",
    "src/chronik/broker/topics.py",
    "test_example.py",
)

ROW = """
    example_topics_max: int = key(
        "chronik.example.topics.max  int  7  cluster-wide  1..100",
        "Maximum number of topics in an example.",
    )
"""
USE = """

def example_topics_max(node: Node) -> int:
    return node.settings.example_topics_max
"""
EXAMPLE = """
from chronik.broker.config_changes import change_configs
from chronik.broker.config_entries import broker_entries
from chronik.broker.settings import Settings
from chronik.broker.settings.document import document
from chronik.broker.topics import example_topics_max
from chronik.metadata.commands import ConfigChange, ResourceChange
from chronik.metadata.image import ResourceType
from tests.broker.small_node import SmallNode, run

KEY, WORDS = "chronik.example.topics.max", "Maximum number of topics in an example."


def alter(node, value):
    change = ResourceChange(
        resource_type=ResourceType.BROKER, resource_name="", configs=[ConfigChange(key=KEY, value=value)]
    )
    return run(change_configs(node, [change], incremental=True, validate_only=False))[0]


def test_the_key_is_read_shown_changed_checked_and_documented():
    node = SmallNode(Settings.load(None, environment={}, overrides={KEY: "8"}))
    assert example_topics_max(node) == 8
    assert example_topics_max(SmallNode()) == 7
    [entry] = [each for each in broker_entries(node.settings) if each.name == KEY]
    assert (entry.value, entry.read_only, entry.documentation) == ("8", False, WORDS)
    assert alter(node, "101").error_code
    assert not alter(node, "9").error_code
    assert example_topics_max(node) == 9
    assert f"| `{KEY}` | int | `7` | cluster | {WORDS} Allowed: 1 to 100. |" in document()
"""


@pytest.mark.slow
def test_a_new_key_takes_three_files(tmp_path: Path) -> None:
    """The catalogue, the user of the value, and the test."""
    shutil.copytree(SOURCE, tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    catalogue = tmp_path / CATALOGUE
    catalogue.write_text(catalogue.read_text().replace('    section("Topics")\n', f'    section("Topics")\n{ROW}', 1))
    user = tmp_path / USER
    user.write_text(user.read_text() + USE)
    example = tmp_path / TEST
    example.write_text(EXAMPLE)
    changed = {
        str(path.relative_to(tmp_path))
        for path in tmp_path.rglob("*.py")
        if not (ROOT / path.relative_to(tmp_path)).exists()
        or (ROOT / path.relative_to(tmp_path)).read_bytes() != path.read_bytes()
    }
    assert changed == {CATALOGUE, USER, TEST}

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "src"), str(ROOT)])}
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(tmp_path), str(example)]
    options = ["-p", "no:cacheprovider", "--import-mode=importlib"]
    done = subprocess.run([*command, *options], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
