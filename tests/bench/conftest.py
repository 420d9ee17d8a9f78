"""Brokers to measure."""

from tests.oracle.either_broker import bootstrap, our_broker, unique
from tests.oracle.kafka_server import kafka

__all__ = ["bootstrap", "kafka", "our_broker", "unique"]
