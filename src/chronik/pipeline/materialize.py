"""The Spark application that keeps all materialized topics as tables. `supervisor` runs it as a separate process.

Every few seconds it determines which topics want a table, starts new ones, stops those that are unwanted or have
changed settings, and publishes each table's state in the topic __chronik_tables. A failed table is retried with
increasing delays; the others are not affected. Brokers are not involved: produce never waits for a table.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from chronik.client.errors import ClientError
from chronik.pipeline import table_writes
from chronik.pipeline.conditions import PipelineFault
from chronik.pipeline.errors import PipelineError
from chronik.pipeline.flows import table_path
from chronik.pipeline.frames import EmptyFrames
from chronik.pipeline.live_cluster import LiveCluster, Outgoing
from chronik.pipeline.materialized import (
    PIPELINE,
    STATES_TOPIC,
    State,
    TableSettings,
    TableState,
    schema_of_columns,
    state_of,
)
from chronik.pipeline.plan import dry_run
from chronik.pipeline.registry import Pipeline
from chronik.pipeline.running import Pace, Run
from chronik.pipeline.security import NO_QUERY_SECURITY, security_in
from chronik.pipeline.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

TICK_S: Final = 2
RETRY_S_MIN, RETRY_S_MAX = 5, 300
SAMPLE_RECORDS: Final = 1000  # sample from which a new table's JSON schema is inferred, once


@dataclass
class Kept:
    """One materialized topic."""

    settings: TableSettings
    run: Run | None = None
    error: str = ""
    is_refused: bool = False
    retry_at_s: float = 0
    retry_s: int = RETRY_S_MIN


class Materializer:
    def __init__(
        self, spark: SparkSession, cluster: LiveCluster, storage: Storage, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._spark, self._cluster, self._storage, self._clock_s = spark, cluster, storage, clock_s
        self.kept: dict[str, Kept] = {}

    def prepare(self) -> None:
        self._cluster.create_topic(STATES_TOPIC, 1, {"cleanup.policy": "compact"})

    def tick(self) -> list[TableState]:
        """Updates all tables once; returns their states."""
        wanted = self._wanted()
        for topic in list(self.kept):
            if self.kept[topic].settings != wanted.get(topic):
                self._stop(self.kept.pop(topic))
        for topic, settings in wanted.items():
            self._keep(self.kept.setdefault(topic, Kept(settings)))
        states = [self._state(kept) for kept in self.kept.values()]
        self._cluster.send(STATES_TOPIC, [Outgoing(state.topic.encode(), state.encoded()) for state in states])
        return states

    def stop(self) -> None:
        for kept in self.kept.values():
            self._stop(kept)

    def _wanted(self) -> dict[str, TableSettings]:
        names = [name for name in self._cluster.topics() if not name.startswith("__")]
        found = (TableSettings.of(name, configs) for name, configs in self._cluster.configs_of(names).items())
        return {settings.topic: settings for settings in found if settings is not None}

    def _keep(self, kept: Kept) -> None:
        """Starts the table if it should run and does not."""
        if kept.run is not None and not kept.run.goes_on():
            self._ended(kept)
        if kept.run is not None or kept.is_refused or self._clock_s() < kept.retry_at_s:
            return
        try:
            schema = self._schema(kept.settings)
            if schema is not None:
                kept.run = self._started(kept.settings, schema)
                kept.error = ""
        except (PipelineError, ClientError) as fault:
            self._later(kept, str(fault))

    def _started(self, settings: TableSettings, schema: str) -> Run:
        pipeline = Pipeline(PIPELINE, "", tuple(settings.declarations(schema)))
        plan = dry_run(
            pipeline, cluster=self._cluster, storage=self._storage, frames=EmptyFrames(self._spark), master=""
        )
        # Half of the target lag is spent waiting, the other half working.
        run = Run(self._spark, plan, self._cluster, Pace(max(settings.target_lag_ms // 2, 1)))
        run.start()
        return run

    def _ended(self, kept: Kept) -> None:
        assert kept.run is not None
        try:
            kept.run.finish()
            self._later(kept, "it stopped without a word")
        except PipelineFault as fault:
            kept.is_refused = fault.condition == "RECORD_REFUSED"
            self._later(kept, str(fault))
        kept.run = None

    def _later(self, kept: Kept, error: str) -> None:
        logger.warning("table of %s: %s", kept.settings.topic, error)
        kept.error = error
        kept.retry_at_s = self._clock_s() + kept.retry_s
        kept.retry_s = min(2 * kept.retry_s, RETRY_S_MAX)

    def _stop(self, kept: Kept) -> None:
        if kept.run is not None:
            kept.run.stop()
            kept.run = None

    def _schema(self, settings: TableSettings) -> str | None:
        """The schema of values: from the table, else inferred from the first records; None while there are none."""
        if settings.decode == "none":
            return ""
        table = table_path(self._storage.root, settings.table)
        if table_writes.version_of(table) >= 0:
            frame = self._spark.read.format("chronik-table").load(table)
            return schema_of_columns(frame.dtypes)
        records = (
            self._spark.read.format("chronik")
            .options(**self._cluster.options)
            .option("subscribe", settings.topic)
            .load()
            .where("value IS NOT NULL AND is_valid_utf8(value)")
            .limit(SAMPLE_RECORDS)
        )
        lines = [bytes(row.value).decode() for row in records.select("value").collect()]
        if not lines:
            return None
        found = self._spark.read.option("dropFieldIfAllNull", "true").json(self._spark.sparkContext.parallelize(lines))
        return schema_of_columns([pair for pair in found.dtypes if pair[0] != "_corrupt_record"]) or None

    def _state(self, kept: Kept) -> TableState:
        settings, run = kept.settings, kept.run
        table = table_path(self._storage.root, settings.table)
        if run is not None:
            run.refresh()
        standing = run.standings[settings.table] if run is not None else None
        lag = standing.lag if standing is not None else None
        state = state_of(
            is_active=run is not None or not kept.error,
            is_refused=kept.is_refused,
            has_begun=standing is not None and (standing.batch_id >= 0 or lag is not None),
            lag_ms=lag.ms if lag is not None else None,
            target_lag_ms=settings.target_lag_ms,
        )
        return TableState(
            settings.topic,
            str(state),
            table,
            table_writes.version_of(table),
            standing.rows_dead if standing is not None else 0,
            kept.error,
            time.time_ns() // 1_000_000,
        )


def main() -> None:
    from chronik.pipeline.session import spark_session

    words = argparse.ArgumentParser(prog="python -m chronik.pipeline.materialize")
    words.add_argument("--bootstrap", required=True)
    words.add_argument("--command-config", default="")
    words.add_argument("--storage", required=True, type=Path)
    words.add_argument("--master")
    words.add_argument("--tick-s", type=float, default=TICK_S)
    given = words.parse_args()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    spark = spark_session("materialize", given.master)
    security = security_in(given.command_config) if given.command_config else NO_QUERY_SECURITY
    materializer = Materializer(spark, LiveCluster(given.bootstrap, security), Storage(given.storage))
    materializer.prepare()
    try:
        while True:
            for state in materializer.tick():
                if state.state in (State.FAILED, State.SUSPENDED):
                    logger.warning("%s is %s: %s", state.topic, state.state, state.error)
            time.sleep(given.tick_s)
    except KeyboardInterrupt:
        materializer.stop()


if __name__ == "__main__":
    main()
