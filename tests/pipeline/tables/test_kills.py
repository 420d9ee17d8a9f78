"""kill -9 at random points of the loop that Spark runs, on real processes and a real disk, many times and cheaply.

`test_spark_kills` has Spark itself under the same rule, a few times: a driver of Spark's takes seconds to start.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest
from deltalake import DeltaTable

from chronik.pipeline.tables.place import Place
from tests.pipeline.tables.batch_loop import rows_of
from tests.pipeline.tables.rows import batches_in_history, offsets_in

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

KILLS = int(os.environ.get("CHRONIK_TABLE_KILLS", "5"))
BATCHES_PER_KILL = 4


def driver(folder: Path, batches: int) -> subprocess.Popen[bytes]:
    """Running: past its imports, in its first batch."""
    words = [sys.executable, "-m", "tests.pipeline.tables.batch_loop", str(folder), str(batches)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"started\n"
    return process


def progress(folder: Path) -> int:
    """Grows with every file, every note and every commit."""
    return sum(len(list(each.iterdir())) for each in folder.rglob("*") if each.is_dir())


def check(folder: Path, batches: int) -> None:
    place = Place.of(str(folder / "table"))
    assert offsets_in(place) == list(range(sum(map(rows_of, range(batches)))))
    assert batches_in_history(place) == [("query", number) for number in range(batches)]


def test_kills_at_any_point_lose_and_double_nothing(tmp_path: Path) -> None:
    """While files are written, before the commit, after it, while the table is compacted."""
    random = Random(30)
    for kill in range(KILLS):
        with driver(tmp_path, (kill + 1) * BATCHES_PER_KILL) as process:
            wanted = progress(tmp_path) + random.randrange(1, 20)
            while progress(tmp_path) < wanted and process.poll() is None:
                time.sleep(0.001)
            time.sleep(random.random() * 0.02)
            process.kill()
    batches = KILLS * BATCHES_PER_KILL
    with driver(tmp_path, batches) as process:
        assert process.wait() == 0
    check(tmp_path, batches)
    held = {Path(uri).name for uri in DeltaTable(str(tmp_path / "table")).file_uris()}
    orphans = len([file for file in (tmp_path / "table").glob("*.parquet") if file.name not in held])
    assert orphans  # otherwise no kill came at a critical moment


def test_two_loops_over_the_same_notes_commit_each_batch_once(tmp_path: Path) -> None:
    """Here nothing stops the second driver, as Spark does sooner or later."""
    batches = 12
    with driver(tmp_path, batches) as one, driver(tmp_path, batches) as two:
        assert (one.wait(), two.wait()) == (0, 0)
    check(tmp_path, batches)
