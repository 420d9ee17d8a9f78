"""Page views per five minutes, from clicks that come late and out of order.

The topic `clicks` carries {"page": ..., "visitor": ..., "at": ...}. A window is written once, when no click that is at
most ten minutes late can still fall into it; a click that is later than that is counted as late, and in no window.

    chronik topic create clicks --partitions 3
    chronik pipeline run examples/clickstream/pipeline.py
    chronik sql "SELECT * FROM 'chronik-storage/tables/page_views' ORDER BY window_start, page"
"""

from pyspark.sql import functions as F

from chronik.pipeline import bronze, gold, silver, to_topic


@bronze(topic="clicks", decode="json", schema="page string, visitor string, at timestamp")
def clicks(records):
    """Every click, as it came."""
    return records


@silver()
def views(clicks):
    """Clicks by people. Rows are appended: a click has no key by which a later one could replace it."""
    return clicks.where("page IS NOT NULL AND at IS NOT NULL AND NOT visitor LIKE 'bot%'")


@gold(watermark=("at", "10 minutes"), window="5 minutes")
def page_views(views):
    """`window` is a column that the declaration above has added; in the table it is window_start and window_end."""
    return views.groupBy("window", "page").agg(F.count("*").alias("views"))


@to_topic(topic="views", key="page")
def views_out(views):
    """The same rows for whoever reads topics."""
    return views.select("page", "visitor", "at")
