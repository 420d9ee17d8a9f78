"""Brokers and a Spark session for the tests that need one."""

from tests.oracle.either_broker import bootstrap, our_broker, unique
from tests.oracle.kafka_server import kafka
from tests.pipeline.secured import secured
from tests.pipeline.spark_session import spark

__all__ = ["bootstrap", "kafka", "our_broker", "secured", "spark", "unique"]
