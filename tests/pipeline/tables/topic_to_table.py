"""A driver of its own: python -m tests.pipeline.tables.topic_to_table BOOTSTRAP TOPIC TABLE CHECKPOINT BATCH_ROWS.

Appends what the topic holds to the table, in batches of so many rows, and ends. It is there to be killed.
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from chronik.pipeline.tables.provenance import with_provenance

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "OFF",
    "spark.sql.streaming.minBatchesToRetain": "1000",
}


def main(bootstrap: str, topic: str, table: str, checkpoint: str, batch_rows: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2,4]")  # a task may fail three times: its worker may be killed
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    source = spark.readStream.format("chronik").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    source = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", batch_rows)
    rows = with_provenance(source.load(), bootstrap=bootstrap)
    query = (
        rows.writeStream.format("chronik-table")
        .option("checkpointLocation", checkpoint)
        .option("compactAbove", "6")
        .trigger(availableNow=True)
        .start(table)
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
