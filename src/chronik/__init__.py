"""Chronik: a Kafka-wire-compatible broker cluster with a Raft metadata quorum, and a data pipeline on Spark."""

__version__ = "0.1.0"
