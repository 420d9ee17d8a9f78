"""A separate driver: python -m tests.pipeline.tables.topic_to_table BOOTSTRAP TOPIC TABLE CHECKPOINT BATCH_ROWS.

Appends the topic's records to the table, in batches of this many rows, and ends. Tests kill it.
"""

from __future__ import annotations

import sys

from chronik.pipeline.session import spark_session
from chronik.pipeline.tables.provenance import with_provenance
from tests.pipeline.spark_session import SETTINGS as SHORT_LIVED

SETTINGS = SHORT_LIVED | {"spark.driver.host": "127.0.0.1", "spark.sql.streaming.minBatchesToRetain": "1000"}


def main(bootstrap: str, topic: str, table: str, checkpoint: str, batch_rows: str) -> None:
    spark = spark_session("topic to table", "local[2,4]", SETTINGS)  # a task may fail three times: workers get killed
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
