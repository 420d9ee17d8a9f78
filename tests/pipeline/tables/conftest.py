"""Tests of tables need the extra `spark`, as all of the pipeline's do; `make test` installs it."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

collect_ignore_glob: list[str] = []
if find_spec("deltalake") is None or find_spec("pyarrow") is None:
    collect_ignore_glob += ["test_*.py"]
elif find_spec("pyspark") is None:
    collect_ignore_glob += ["test_spark_*.py"]


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """One session for the process: starting one takes longer than most tests. It ends with the process."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    builder = SparkSession.builder.master("local[2]").appName("chronik-tests")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
    }.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
