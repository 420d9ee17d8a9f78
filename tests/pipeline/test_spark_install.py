"""A user's first steps: `pip install chronik[spark]` into an empty environment, then the query in the README."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from ast import literal_eval
from collections.abc import Callable
from pathlib import Path

import pytest

from chronik.testing import Cluster
from tests.house.repository import ROOT
from tests.pipeline import topics
from tests.pipeline.readme import readme_query

# Half a gigabyte is installed, which takes a minute or two and, the first time, a network.
pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(1800),
]

COUNT = 500
SCRIPT = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
reader = {query}
writer = reader.option("startingOffsets", "earliest").load().writeStream.format("memory").queryName("found")
writer.trigger(availableNow=True).start().awaitTermination()
for row in spark.table("found").orderBy("offset").collect():
    print("row", (bytes(row.key) if row.key else None, bytes(row.value) if row.value else None, row.offset))
"""


def test_the_query_of_the_readme_runs_where_nothing_else_is_installed(
    our_broker: Cluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """No jar, no Maven, no registration: the wheel with its extra is all, and rows are those that librdkafka reads."""
    topic = topics.create(our_broker.bootstrap, unique("readme"))
    topics.fill(our_broker.bootstrap, topic, COUNT)
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(ROOT))
    [wheel] = tmp_path.glob("chronik-*.whl")
    run(sys.executable, "-m", "venv", str(tmp_path / "env"))
    python = str(tmp_path / "env/bin/python")
    run(python, "-m", "pip", "install", "--quiet", "--no-compile", "-c", str(locked(tmp_path)), f"{wheel}[spark]")
    query = readme_query(our_broker.bootstrap, topic)
    told = run(python, "-c", SCRIPT.format(query=query), cwd=tmp_path)
    found = [literal_eval(line.removeprefix("row ")) for line in told.splitlines() if line.startswith("row ")]
    assert found == [(row[0], row[1], row[4]) for row in topics.dump(our_broker.bootstrap, topic, count=COUNT)]


def locked(folder: Path) -> Path:
    """The versions of all other tests, without hashes, which pip would otherwise require of the wheel too."""
    lines = re.findall(r"(?m)^([A-Za-z0-9_.\[\]-]+==\S+)", (ROOT / "requirements/all.txt").read_text())
    path = folder / "constraints.txt"
    path.write_text("\n".join(re.sub(r"\[.*?\]", "", line) for line in lines))
    return path


def run(*command: str, cwd: Path = ROOT) -> str:
    """As in an activated environment, with nothing of this one but where Java and pip's cache are."""
    kept = ("HOME", "JAVA_HOME", "PIP_CACHE_DIR", "PIP_INDEX_URL", "PIP_CONFIG_FILE")
    environment = {name: os.environ[name] for name in kept if name in os.environ} | {"SPARK_LOCAL_IP": "127.0.0.1"}
    environment["PATH"] = os.pathsep.join([str(Path(command[0]).parent), os.environ["PATH"]])
    done = subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
