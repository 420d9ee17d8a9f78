"""`spark`: one local session for all tests of a process that need one. Import it into a conftest.

A session costs five seconds, so tests share it (mark them `xdist_group("spark")`, `java` and `slow`). Nothing is
registered: that the formats are found is what users are promised.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from chronik.pipeline import spark_home
from tests.house.repository import ROOT, SOURCE
from tests.oracle.jars import spark_kafka_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
_running: pytest.StashKey[Any] = pytest.StashKey()
SPARK_KAFKA = "4.2.0"
STARTS_MAX = 10
# A JVM that lives for a minute on few rows: whatever is compiled is hardly used, and of the time until it is ready most
# goes into classes, which are not checked again.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
}


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> SparkSession:
    config = request.config
    if _running not in config.stash:
        warehouse = tempfile.mkdtemp(prefix="chronik-warehouse-")
        config.add_cleanup(partial(shutil.rmtree, warehouse, ignore_errors=True))
        session = config.stash[_running] = _start(warehouse)
        config.add_cleanup(session.stop)  # cleaned up last to first
    made: SparkSession = config.stash[_running]
    return made


def _start(warehouse: str) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["TZ"] = "UTC"
    os.environ["PYTHONPATH"] = os.pathsep.join([str(SOURCE), str(ROOT)])  # of workers
    spark_home.settle_in()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("chronik-tests")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.sql.warehouse.dir", warehouse)
    if jars := spark_kafka_jars(SPARK_KAFKA):  # for the tests that compare us with Spark's own source
        builder = builder.config("spark.jars", ",".join(map(str, jars)))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def patiently(query: Callable[[], T]) -> T:
    """Runs a query to its end, again when Spark could not start the Python process of its source.

    Spark gives each Python process ten seconds to start, whatever the machine, and has no setting for it. It starts
    them at any time, so a streaming query may have finished batches by then; its checkpoint continues after them.
    """
    from pyspark.errors import PySparkException

    for _ in range(STARTS_MAX):
        try:
            return query()
        except PySparkException as fault:
            if "Python worker failed to connect back" not in str(fault):
                raise
            last = fault
    raise last
