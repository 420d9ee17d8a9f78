"""CONTRIBUTING says that a new configuration key takes three files. This adds one to a copy of the sources.

The row in the catalogue, the code that reads the value, and a test. The file, DescribeConfigs, AlterConfigs and
docs/reference/configuration.md know the key without further edits.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.scratch_copy import ScratchCopy

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
from chronik.broker.context import Context
from chronik.broker.settings import Settings
from chronik.broker.settings.document import document
from chronik.broker.topics import example_topics_max
from chronik.metadata.commands.alter_configs import ConfigChange, ResourceChange
from chronik.metadata.image import ResourceType
from tests.broker.small_node import SmallNode, run

KEY, WORDS = "chronik.example.topics.max", "Maximum number of topics in an example."


def alter(node, value):
    change = ResourceChange(
        resource_type=ResourceType.BROKER, resource_name="", configs=[ConfigChange(key=KEY, value=value)]
    )
    context = Context(node, None, 1, "test")
    return run(change_configs(context, [change], incremental=True, validate_only=False))[0]


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
    copy = ScratchCopy(tmp_path)
    copy.replace(CATALOGUE, '    section("Topics")\n', f'    section("Topics")\n{ROW}')
    copy.write(USER, (tmp_path / USER).read_text("utf-8") + USE)
    copy.write(TEST, EXAMPLE)
    assert copy.changed() == {CATALOGUE, USER, TEST}
    copy.run(TEST)
