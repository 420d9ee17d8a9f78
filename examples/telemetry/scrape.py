"""Puts a broker's metrics page into the topic `metrics`, one record for each sample.

python examples/telemetry/scrape.py http://127.0.0.1:9644/metrics [--bootstrap localhost:9092]
"""

import argparse
import json
import urllib.request
from datetime import UTC, datetime

from prometheus_client.parser import text_string_to_metric_families

from chronik.pipeline.live_cluster import LiveCluster, Outgoing


def samples_of(page: str, at: datetime) -> list[Outgoing]:
    """The samples of a page in Prometheus' text format, as records."""
    return [
        Outgoing(
            sample.name.encode(),
            json.dumps(
                {"name": sample.name, "labels": sample.labels, "value": sample.value, "at": at.isoformat()}
            ).encode(),
        )
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.value == sample.value  # a value that is not a number is not JSON either
    ]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("url")
    options.add_argument("--bootstrap", default="localhost:9092")
    chosen = options.parse_args()
    with urllib.request.urlopen(chosen.url) as answer:
        page = answer.read().decode()
    LiveCluster(chosen.bootstrap).send("metrics", samples_of(page, datetime.now(UTC)))


if __name__ == "__main__":
    main()
