"""Processes one batch of a bronze or a silver, in an order that loses nothing and duplicates nothing.

1. If the table already holds the batch, an earlier attempt finished it: nothing is done.
2. Rows are decoded, transformed and checked against expectations, once, and cached for the next steps.
3. A row that fails an expectation with on_fail=fail stops the flow, before anything is written.
4. Dead letters are written.
5. The table is committed under the batch's number. Only this completes the batch.

A crash after 4 repeats the batch, and `dead_letters` then writes only the missing letters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from chronik.pipeline import dead_letters, table_writes
from chronik.pipeline.conditions import PipelineFault
from chronik.pipeline.declarations import Bronze, Silver
from chronik.pipeline.expectations import Expectation, OnFail
from chronik.pipeline.rows import (
    ERROR_CLASS,
    ERROR_MESSAGE,
    FAILED,
    KEYLESS,
    OUTCOME,
    bad,
    chain,
    decoded,
    good,
    judged,
    kept,
    passed_through,
    refused,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from chronik.pipeline.flows import Flow
    from chronik.pipeline.registry import Pipeline


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of one batch. rows_in = rows_out + rows_dead + rows_dropped, if functions neither add nor filter rows."""

    rows_in: int = 0
    rows_out: int = 0
    rows_dead: int = 0
    rows_dropped: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)
    table_version: int = -1


class TableFlow:
    """A bronze or silver that processes batches. One per run: it knows which batch is the run's first."""

    def __init__(self, pipeline: Pipeline, flow: Flow, topic_id: str, reach: Mapping[str, str]) -> None:
        bottom = pipeline.topic_of(flow.declaration)
        assert bottom is not None
        self.pipeline = pipeline
        self.flow = flow
        self.bronze: Bronze = bottom
        self.topic_id = topic_id
        self.reach = reach
        self._may_be_repeated = True

    @property
    def expectations(self) -> tuple[Expectation, ...]:
        declaration = self.flow.declaration
        return declaration.expectations if isinstance(declaration, Silver) else ()

    @property
    def keys(self) -> tuple[str, ...]:
        declaration = self.flow.declaration
        return declaration.keys if isinstance(declaration, Silver) else ()

    def take(self, records: DataFrame, application: str, batch_id: int) -> Counts:
        if table_writes.holds(self.flow.table, application, batch_id):
            return Counts()
        seen = Observation()
        rows = decoded(records, self.bronze, self.topic_id)
        rows = rows.observe(seen, F.count(F.lit(1)).alias("all"), F.count(ERROR_CLASS).alias("bad"))
        counts = self._written(records, rows, seen, application, batch_id)
        self._may_be_repeated = False
        return counts

    def _written(
        self, records: DataFrame, rows: DataFrame, seen: Observation, application: str, batch_id: int
    ) -> Counts:
        # If the bronze has a table, it writes the letters of records that cannot be decoded, not the silver.
        takes_all = isinstance(self.flow.declaration, Bronze) or not self.bronze.is_stored
        source = rows.persist() if takes_all else rows
        steps = chain(self.pipeline, self.flow.declaration)
        results = judged(passed_through(good(source), steps), self.expectations, self.keys).persist()
        try:
            tally = self._tally(results)
            told: Mapping[str, Any] = seen.get
            undecodable = int(told.get("bad") or 0)
            if tally[OnFail.FAIL]:
                raise self._failed(results, tally)
            if takes_all and undecodable and self.bronze.on_error == "fail":
                raise self._refused(source, undecodable)
            dead = []
            if takes_all and undecodable and self.bronze.on_error == "dlq":
                dead.append(bad(source))
            if tally[OnFail.DLQ] or tally[KEYLESS]:
                dead.append(refused(results, self.keys))
            letter_count = self._buried(records, dead)
            version = table_writes.write(kept(results), self.flow, application, batch_id)
            is_dropping = takes_all and self.bronze.on_error == "drop"
            return Counts(
                rows_in=int(told.get("all") or 0) - (0 if takes_all else undecodable),
                rows_out=tally["keep"],
                rows_dead=letter_count,
                rows_dropped=tally[OnFail.DROP] + (undecodable if is_dropping else 0),
                failed={each.name: tally[f"!{each.name}"] for each in self.expectations if tally[f"!{each.name}"]},
                table_version=version,
            )
        finally:
            results.unpersist()
            if takes_all:
                source.unpersist()

    def _buried(self, records: DataFrame, dead: list[DataFrame]) -> int:
        if not dead:
            return 0
        every = dead[0] if len(dead) == 1 else dead[0].unionByName(dead[1])
        return dead_letters.write(records, self.reach, self.flow, every, may_be_repeated=self._may_be_repeated)

    def _refused(self, source: DataFrame, count: int) -> PipelineFault:
        first = bad(source).orderBy("_partition", "_offset").first()
        assert first is not None
        return PipelineFault(
            "RECORD_REFUSED",
            at=self.flow.declaration.declared_at,
            name=self.flow.name,
            count=count,
            topic=self.flow.source_topic,
            partition=first["_partition"],
            offset=first["_offset"],
            reason=f"{first[ERROR_CLASS]}: {first[ERROR_MESSAGE]}",
        )

    def _tally(self, results: DataFrame) -> dict[str, int]:
        """Row counts by outcome, and by failed expectation."""
        outcomes = ["keep", KEYLESS, *(str(each) for each in OnFail if each is not OnFail.WARN)]
        sums = [F.count_if(F.col(OUTCOME) == outcome).alias(outcome) for outcome in outcomes]
        sums += [F.count_if(F.array_contains(FAILED, each.name)).alias(f"!{each.name}") for each in self.expectations]
        [row] = results.agg(*sums).collect()
        return {name: int(count) for name, count in row.asDict().items()}

    def _failed(self, results: DataFrame, tally: Mapping[str, int]) -> PipelineFault:
        hard = [each for each in self.expectations if each.on_fail is OnFail.FAIL and tally[f"!{each.name}"]]
        worst = hard[0]
        first = results.where(F.array_contains(FAILED, worst.name)).orderBy("_partition", "_offset").first()
        assert first is not None
        return PipelineFault(
            "EXPECTATION_FAILED",
            at=self.flow.declaration.declared_at,
            name=self.flow.name,
            count=tally[f"!{worst.name}"],
            expectation=worst.name,
            condition=worst.condition,
            topic=self.flow.source_topic,
            partition=first["_partition"],
            offset=first["_offset"],
        )
