"""Tests of the pipeline need the extra `spark`; without it (`make quick` in a fresh clone) they are left out.

`make test` installs it, so what is left out here is never left out in CI.
"""

from __future__ import annotations

from importlib.util import find_spec

from tests.oracle.either_broker import bootstrap, our_broker, unique
from tests.oracle.kafka_server import kafka
from tests.pipeline.spark_session import spark

__all__ = ["bootstrap", "kafka", "our_broker", "spark", "unique"]

NEEDS_ARROW = ["test_decode.py", "test_planning.py", "test_reading.py"]
NEEDS_SPARK = ["test_sink.py", "test_spark_*.py"]

collect_ignore_glob: list[str] = []
if find_spec("pyarrow") is None:
    collect_ignore_glob += NEEDS_ARROW
if find_spec("pyspark") is None:
    collect_ignore_glob += NEEDS_SPARK
