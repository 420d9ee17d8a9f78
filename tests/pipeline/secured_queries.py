"""Queries on a secured cluster that print as much as possible, for a test that searches their output for secrets.

`python -m tests.pipeline.secured_queries`, with topics, a folder and options as JSON on stdin. Spark logs as
CHRONIK_SPARK_LOG_LEVEL says, and writes the events that its pages are made of to the folder.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from chronik.pipeline.session import spark_session
from tests.pipeline.spark_session import SETTINGS


def main(source: str, target: str, folder: str, **ways: dict[str, str]) -> None:
    events = Path(folder) / "events"
    events.mkdir()
    logged = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
    }
    spark = spark_session("secrets", "local[2]", SETTINGS | logged)
    for name, options in ways.items():
        try:
            copy(spark, source, target, f"{folder}/checkpoint-{name}", options)
        except (PySparkException, Py4JError):
            traceback.print_exc(file=sys.stdout)
    spark.stop()
    print("ALL QUERIES HAVE RUN")


def copy(spark: Any, source: str, target: str, checkpoint: str, options: dict[str, str]) -> None:
    batch = spark.read.format("chronik").options(**options).option("subscribe", source).load()
    batch.explain("formatted")
    stream = spark.readStream.format("chronik").options(**options)
    frame = stream.options(subscribe=source, startingOffsets="earliest").load()
    frame.explain(True)
    writer = frame.select("value").writeStream.format("chronik").options(**options)
    writer = writer.options(topic=target, exactlyOnce="true", checkpointLocation=checkpoint)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    query.explain(True)
    print(query, query.status, query.lastProgress, batch.count())


if __name__ == "__main__":
    main(**json.load(sys.stdin))
