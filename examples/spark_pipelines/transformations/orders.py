"""A streaming table straight from a topic, and a materialized view over it, in Spark's own words."""

import os

from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()
BOOTSTRAP = os.environ.get("CHRONIK_BOOTSTRAP", "localhost:9092")
TOPIC = os.environ.get("CHRONIK_TOPIC", "orders")


@dp.table
def order_records():
    """Every record of the topic, as it came."""
    return (
        spark.readStream.format("chronik")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .load()
    )


@dp.materialized_view
def order_count():
    """How many there are by partition."""
    return spark.table("order_records").groupBy("partition").agg(F.count("*").alias("records"))
