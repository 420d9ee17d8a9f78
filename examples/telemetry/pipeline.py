"""A broker's metrics, from a topic into a table, and from the table into a plot.

The topic `metrics` carries {"name": "kafka_server_bytes_in", "value": 12.0, "at": "..."}; scrape.py fills it from a
broker's own metrics page, plot.py draws what came of it.

    chronik topic create metrics
    python examples/telemetry/scrape.py http://127.0.0.1:9644/metrics
    chronik pipeline run examples/telemetry/pipeline.py --once
    python examples/telemetry/plot.py chronik-storage/tables/metrics metrics.svg
"""

from chronik.pipeline import bronze, expect, silver


@bronze(
    topic="metrics",
    decode="json",
    schema="name string, labels map<string,string>, value double, at timestamp",
    unknown_fields="ignore",
)
def samples(records):
    """Every sample."""
    return records


@silver(expectations=[expect("named", "name IS NOT NULL", on_fail="drop"), expect("measured", "value IS NOT NULL")])
def metrics(samples):
    """Samples that can be drawn."""
    return samples
