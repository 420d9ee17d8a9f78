"""Chronik for Spark: topics as streaming and batch sources and sinks, and what is built on them.

Needs the extra `spark` (`pip install chronik[spark]`); no other package of Chronik imports this one. What reads topics
without Spark stands apart: `decode` turns record batches into Arrow, `reading` fetches them with a blocking socket, and
neither imports pyspark.
"""
