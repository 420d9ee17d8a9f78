"""Determines the columns of a pipeline's tables on empty frames: the functions run, but no record is read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame

from chronik.pipeline.conditions import PipelineFault
from chronik.pipeline.declarations import Bronze, Declaration, Gold
from chronik.pipeline.rows import decoded, empty_records, good, timed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from chronik.pipeline.registry import Pipeline


RAISED: Final = re.compile(r"(\w+\.)*[A-Z]\w+(Error|Exception|Unreachable|Refused|Broken): ")


class EmptyFrames:
    """Caches results: a table that many declarations read is resolved once."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._found: dict[str, Any] = {}

    def columns_of(self, pipeline: Pipeline, declaration: Declaration) -> Mapping[str, str]:
        return dict(self.frame_of(pipeline, declaration).dtypes)

    def why_not_boolean(self, pipeline: Pipeline, declaration: Declaration, condition: str) -> str:
        try:
            self.frame_of(pipeline, declaration).where(condition)
        except PySparkException as error:
            return first_line(error)
        return ""

    def frame_of(self, pipeline: Pipeline, declaration: Declaration) -> Any:
        if declaration.name not in self._found:
            self._found[declaration.name] = self._resolved(pipeline, declaration)
        return self._found[declaration.name]

    def _resolved(self, pipeline: Pipeline, declaration: Declaration) -> Any:
        if isinstance(declaration, Bronze):
            inputs = [self._decoded(declaration)]
        else:
            inputs = [self.frame_of(pipeline, each) for name in declaration.reads if (each := pipeline.named(name))]
        at = declaration.declared_at
        try:
            if isinstance(declaration, Gold):
                inputs = [timed(frame, declaration) for frame in inputs]
            result = declaration.transform(*inputs) if declaration.transform is not None else inputs[0]
        except Exception as error:
            raise PipelineFault("FUNCTION_FAILED", at=at, name=declaration.name, reason=first_line(error)) from error
        if not isinstance(result, DataFrame):
            raise PipelineFault("FUNCTION_RETURNS", at=at, name=declaration.name, returned=type(result).__name__)
        return result

    def _decoded(self, bronze: Bronze) -> Any:
        try:
            return good(decoded(empty_records(self._spark), bronze, ""))
        except (AnalysisException, ParseException) as error:
            raise PipelineFault(
                "SCHEMA_INVALID",
                at=bronze.declared_at,
                name=bronze.name,
                schema=", ".join(filter(None, (bronze.key, bronze.schema))),
                reason=first_line(error),
            ) from error


def first_line(error: BaseException) -> str:
    """The first line of a Spark error or, for a Python error, the last line; traces are only shown on request."""
    lines = str(error).strip().splitlines()
    raised = [line.strip() for line in lines if RAISED.match(line)]
    if raised and "Traceback" in str(error):
        return raised[-1]
    return lines[0] if lines else type(error).__name__
