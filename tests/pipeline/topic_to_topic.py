"""A driver that copies a topic to a topic with exactlyOnce, until it has read everything: for tests that kill it.

`python -m tests.pipeline.topic_to_topic BOOTSTRAP FROM TO CHECKPOINT BATCH_ROWS TASKS`
"""

from __future__ import annotations

import sys

from chronik.pipeline.session import spark_session
from tests.pipeline.spark_session import SETTINGS


def main(bootstrap: str, source: str, target: str, checkpoint: str, batch_rows: str, tasks: str) -> None:
    settings = SETTINGS | {"spark.driver.host": "127.0.0.1", "spark.sql.execution.arrow.maxRecordsPerBatch": "50"}
    spark = spark_session("topic to topic", "local[2,4]", settings)  # a task may fail three times: workers get killed
    records = (
        spark.readStream.format("chronik")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", batch_rows)
        .load()
        .selectExpr("value AS key", "value")
    )
    query = (
        records.repartition(int(tasks))
        .writeStream.format("chronik")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("exactlyOnce", "true")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
