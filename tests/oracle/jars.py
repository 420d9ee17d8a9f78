"""Where the jars of a real Kafka lie, and those of Spark's own source for it. Tests that need them carry the mark
`java`; nothing here fetches anything.
"""

from __future__ import annotations

import os
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def cache_folder() -> Path:
    """The folder of everything that is fetched or built once: CHRONIK_CACHE, which several clones may share."""
    return Path(os.environ.get("CHRONIK_CACHE") or REPOSITORY / ".cache")


def kafka_jars(version: str) -> Path:
    """The folder with all jars of a Kafka release. It must be there: a comparison that is skipped proves nothing."""
    folder = cache_folder() / f"kafka-{version}"
    if not any(folder.glob("kafka-clients-*.jar")):
        raise FileNotFoundError(f"no jars of Kafka {version} in {folder}: `make jars` fetches them")
    return folder


def spark_kafka_jars(version: str) -> list[Path]:
    """The jars of Spark's own Kafka source, for `spark.jars`; none when they have not been fetched."""
    return sorted((cache_folder() / f"spark-kafka-{version}").glob("*.jar"))
