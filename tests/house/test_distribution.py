"""Tests of one group run in one process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONFTEST = """
from tests.distribution import pytest_collection_modifyitems, pytest_configure_node, pytest_xdist_make_scheduler
"""
TESTS = """
import os, pathlib, pytest
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("shared")]

@pytest.mark.parametrize("number", range(10))
def test_a(number):
    with open({written!r}, "a") as file:
        file.write(os.environ["PYTEST_XDIST_WORKER"] + "\\n")
"""
MARKERS = "[pytest]\nmarkers =\n    slow\n    java\n    spark\n"


def test_tests_with_the_same_group_run_in_one_process(tmp_path: Path) -> None:
    """Otherwise each process silently starts a separate Kafka and Spark."""
    written = tmp_path / "workers"
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text(f"{MARKERS}pythonpath = {ROOT} {ROOT / 'src'} {ROOT / 'tools'}\n")
    for name in ("test_one.py", "test_two.py"):
        (tmp_path / name).write_text(TESTS.format(written=str(written)))
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup", "--import-mode=importlib"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    workers = written.read_text().split()
    assert len(workers) == 20
    assert len(set(workers)) == 1, workers
