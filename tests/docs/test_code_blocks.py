"""The Python code of the documentation runs, and prints the documented output."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import chronik.client
from chronik.testing import Cluster
from tests.docs.code_blocks import Block, blocks_of, run_blocks, shown_tests
from tests.house.repository import ROOT, SOURCE

CLIENT = ROOT / "docs/reference/python-client.md"
READING = ROOT / "docs/how-to/read-table-and-topic.md"
TESTING = ROOT / "docs/reference/testing.md"
INTERNAL = {
    "identity",
    "producer",
    "include",
    "adds_by_writing",
    "transactional_id",
}  # of a TransactionalProducer, for its producer
PAGES_OF_TESTS = {"docs/reference/testing.md": 5, "docs/tutorials/test-without-docker.md": 2}


def test_blocks_are_found_with_what_they_print() -> None:
    page = "x\n```python\nprint(1)\n```\n\n```text\n1\n```\n\n```python\ndef test_a(): ...\n```\n```console\n$ a\n```\n"
    assert blocks_of(page) == [Block(3, "print(1)\n", "1\n"), Block(11, "def test_a(): ...\n", None)]
    assert shown_tests(page) == "def test_a(): ...\n"


def test_a_block_that_prints_something_else_is_noticed() -> None:
    """A test that accepts everything would keep no page true."""
    page = "```python\nimport asyncio\nawait asyncio.sleep(0)\nprint(2)\n```\n\n```text\n1\n```\n"
    with pytest.raises(AssertionError, match=r"page, line 2: it printed\n2"):
        run_blocks(page, {}, "page")
    assert run_blocks(page.replace("print(2)", "print(1)"), {}, "page") == 1


def test_the_examples_of_the_python_client_run(chronik_cluster: Cluster) -> None:
    """They are the first thing that a user copies."""
    replaced = {"localhost:9092": chronik_cluster.bootstrap}
    assert run_blocks(CLIENT.read_text("utf-8"), replaced, CLIENT.name) >= 6


@pytest.mark.slow
def test_the_examples_of_chronik_read_run(chronik_cluster: Cluster, tmp_path: Path) -> None:
    """With a table and with records that it does not have."""
    pytest.importorskip("duckdb")
    from tests.pipeline.test_read import Shop

    shop = Shop(chronik_cluster.bootstrap, "orders", tmp_path)
    shop.send(9)
    shop.batch()
    shop.send(3)
    replaced = {"localhost:9092": chronik_cluster.bootstrap, "chronik-storage": str(tmp_path)}
    try:
        assert run_blocks(READING.read_text("utf-8"), replaced, READING.name) == 2
    finally:
        shop.close()


def test_the_page_of_the_client_names_everything_public() -> None:
    """Every exported name, and every public method and argument of the classes that users call."""
    page = CLIENT.read_text("utf-8")
    named = set(re.findall(r"\w+", page))
    assert set(chronik.client.__all__) - named - {"READ_UNCOMMITTED", "LATEST"} <= {"Member"}
    for each in (chronik.client.Producer, chronik.client.Consumer, chronik.client.connect):
        parameters = set(inspect.signature(each).parameters) - {"cluster", "transaction", "timing_ms"}
        assert parameters <= named, each
    for each in (chronik.client.Consumer, chronik.client.TransactionalProducer):
        methods = {name for name in vars(each) if not name.startswith("_")} - INTERNAL
        assert methods <= named, each


def test_every_public_name_can_be_imported_and_is_documented() -> None:
    """The list for type checkers and the list for Python could differ."""
    for name in chronik.client.__all__:
        assert getattr(chronik.client, name) is not None
    assert set(chronik.client.__all__) <= set(dir(chronik.client))
    with pytest.raises(AttributeError, match="conect"):
        _ = chronik.client.conect  # type: ignore[attr-defined]
    for each in (chronik.client.Producer, chronik.client.Consumer, chronik.client.TransactionalProducer):
        methods = [each.__init__, *(each.__dict__[name] for name in vars(each) if not name.startswith("_"))]
        assert [method for method in methods if not inspect.getdoc(method)] == []


def test_the_page_of_the_testing_kit_names_everything_public() -> None:
    named = set(re.findall(r"\w+", TESTING.read_text("utf-8")))
    public = {name for name in vars(Cluster) if not name.startswith("_")} - {"security"}
    assert public <= named
    assert set(inspect.signature(Cluster).parameters) <= named


def test_the_examples_of_the_testing_kit_run() -> None:
    page = TESTING.read_text("utf-8")
    assert run_blocks(page, {}, TESTING.name) == 1


@pytest.mark.slow
def test_the_tests_that_pages_show_pass(tmp_path: Path) -> None:
    """In a pytest of their own, as users run them: the plugin must be found by itself."""
    for number, page in enumerate(PAGES_OF_TESTS):
        (tmp_path / f"test_page_{number}.py").write_text(shown_tests((ROOT / page).read_text("utf-8")))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", str(tmp_path)]
    ran = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": str(SOURCE)}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{sum(PAGES_OF_TESTS.values())} passed" in ran.stdout
