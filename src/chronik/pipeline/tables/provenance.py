"""The origin of each row of a table: _topic_id, _partition, _offset, _timestamp.

The first three identify one record permanently: a topic that is deleted and created again has another id. The id is
looked up by name, once, when the query is defined, unless the rows have a column `topic_id`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from chronik.pipeline.security import NO_QUERY_SECURITY, QuerySecurity, security_of
from chronik.pipeline.tables.errors import TableError
from chronik.pipeline.tables.order import OFFSET, PARTITION, TIMESTAMP, TOPIC_ID

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SOURCE_TOPIC_ID: Final = "topic_id"
# Columns of the source that become provenance, or add nothing to it.
CONSUMED: Final = ("topic", "partition", "offset", "timestamp", "timestampType", SOURCE_TOPIC_ID)


def with_provenance(
    frame: DataFrame,
    *,
    bootstrap: str | None = None,
    topic_ids: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """A frame of the source with the four columns in place of its own; key, value and headers stay.

    Needs a cluster to look up topic ids, or the ids by name, or a column topic_id. `options` are the source's options
    for a secured cluster. A topic that appears after the query was defined has no known id: its first row fails the
    query, and a restart looks it up.
    """
    from pyspark.sql import functions as f

    if SOURCE_TOPIC_ID in frame.columns:
        topic_id = f.col(SOURCE_TOPIC_ID)
    else:
        if topic_ids is None:
            if bootstrap is None:
                raise TableError(
                    "TABLE_OPTION_MISSING",
                    option="bootstrap",
                    reason="rows carry no topic_id: pass with_provenance the cluster's address, or topic_ids by name",
                )
            given = {name.lower(): value for name, value in (options or {}).items()}
            topic_ids = look_up_topic_ids(bootstrap, security_of(given))
        topic_id = _by_name(topic_ids)
    added = [
        topic_id.alias(TOPIC_ID),
        f.col("partition").cast("int").alias(PARTITION),
        f.col("offset").cast("long").alias(OFFSET),
        f.col("timestamp").alias(TIMESTAMP),
    ]
    return frame.select(*[f.col(name) for name in frame.columns if name not in CONSUMED], *added)


def _by_name(topic_ids: Mapping[str, str]) -> Column:
    from pyspark.sql import functions as f

    unknown = f.raise_error(
        f.concat(f.lit("[TABLE_TOPIC_ID_UNKNOWN] new topic "), f.col("topic"), f.lit(": restart the query"))
    ).cast("string")
    if not topic_ids:
        return unknown
    pairs = [f.lit(each) for pair in sorted(topic_ids.items()) for each in pair]
    return f.coalesce(f.create_map(*pairs)[f.col("topic")], unknown)


def look_up_topic_ids(bootstrap: str, security: QuerySecurity = NO_QUERY_SECURITY) -> dict[str, str]:
    """The id of every topic of a cluster, in the format of Kafka's tools."""
    from chronik.pipeline.cluster import BlockingCluster

    cluster = BlockingCluster(bootstrap, client_id="chronik-pipeline", security=security)
    try:
        found = {name: topic.topic_id for name, topic in cluster.topics(None).items()}
    finally:
        cluster.close()
    for name, topic_id in found.items():
        if not topic_id:
            raise TableError("TABLE_TOPIC_ID_UNKNOWN", topic=name)
    return found
