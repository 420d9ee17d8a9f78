"""Turns records into rows: decoding, decoding errors, and expectations. Only Spark columns.

Invalid input never raises: a record that cannot be decoded is a row with an error class and a message, so it can be
counted, kept with its bytes, and replayed. The JSON of a value must be exactly one object, and every known field must
have its type: a string is not converted to a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.types import StringType, StructField, StructType

from chronik.pipeline import json_types
from chronik.pipeline.declarations import DELETED, LINEAGE, UNKNOWN, Bronze, Gold, Silver
from chronik.pipeline.expectations import Expectation, OnFail

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from chronik.pipeline.declarations import Declaration
    from chronik.pipeline.registry import Pipeline

ERROR_CLASS: Final = "_error_class"
ERROR_MESSAGE: Final = "_error_message"
FAILED: Final = "_failed"  # expectations that the row does not meet
OUTCOME: Final = "_outcome"  # keep | drop | dlq | fail | keyless
KEYLESS: Final = "keyless"  # no expectation decides, but a keyed table cannot hold it: a dead letter
MESSAGE_CHARACTERS_MAX: Final = 300
RECORD_SCHEMA: Final = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int, "
    "headers array<struct<key:string,value:binary>>"
)
_CORRUPT: Final = "_chronik_corrupt"


def empty_records(spark: SparkSession) -> DataFrame:
    """The frame of a topic without records."""
    return spark.createDataFrame([], RECORD_SCHEMA)


def decoded(records: DataFrame, bronze: Bronze, topic_id: str) -> DataFrame:
    """Rows with their lineage; ERROR_CLASS is null for valid rows."""
    lineage = {
        "_topic_id": F.lit(topic_id),
        "_partition": F.col("partition"),
        "_offset": F.col("offset"),
        "_timestamp": F.col("timestamp"),
    }
    wrong: list[tuple[Column, str, Column]] = []  # (condition, error class, message); the first that holds is reported
    columns: dict[str, Column] = {}
    if bronze.value_bytes_max is not None:
        size = F.octet_length("value")
        text = F.format_string(f"the value has %d bytes, at most {bronze.value_bytes_max} are allowed", size)
        wrong.append((size > bronze.value_bytes_max, "VALUE_TOO_LARGE", text))
    if bronze.decode == "json":
        schema = StructType.fromDDL(bronze.schema)
        records = _parsed(records, schema)
        columns |= _json_columns(bronze, schema, wrong)
    else:
        columns |= {name: F.col(name) for name in ("key", "value", "headers") if name in records.columns}
    if bronze.key:
        name, key_type = bronze.key.split(None, 1)
        columns[name] = _key_column(columns.get(name), key_type, name, wrong)
    columns[DELETED] = F.col("value").isNull()
    error_class, message = F.lit(None).cast("string"), F.lit(None).cast("string")
    for condition, name, text in reversed(wrong):
        error_class = F.when(condition, F.lit(name)).otherwise(error_class)
        message = F.when(condition, F.substring(text, 1, MESSAGE_CHARACTERS_MAX)).otherwise(message)
    columns |= lineage | {ERROR_CLASS: error_class, ERROR_MESSAGE: message}
    return records.select(*(column.alias(name) for name, column in columns.items()))


def _parsed(records: DataFrame, schema: StructType) -> DataFrame:
    """The value as text, as typed fields, and as parsed JSON, each computed once."""
    text = F.when(F.is_valid_utf8(F.col("value")), F.col("value").cast("string"))
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, "allowNonNumericNumbers": "false"}
    raw_schema = StructType([*json_types.raw(schema).fields, StructField(_CORRUPT, StringType())])
    # Spark's parsers stop after the first value. As the only item of a list, a value cannot have trailing data.
    alone = F.try_parse_json(F.concat(F.lit("["), F.col("_text"), F.lit("]")))
    is_only = F.try_variant_get("_alone", "$[1]", "variant").isNull()
    return (
        records.withColumn("_text", text)
        .withColumn("_fields", F.from_json("_text", raw_schema, options))
        .withColumn("_wrong", json_types.wrong(F.col("_fields"), schema))
        .withColumn("_typed", json_types.typed(F.col("_fields"), schema))
        .withColumn("_alone", alone)
        .withColumn("_whole", F.when(is_only, F.try_variant_get("_alone", "$[0]", "variant")))
        .withColumn("_foreign", json_types.unknown(F.col("_whole"), schema))
    )


def _json_columns(bronze: Bronze, schema: StructType, wrong: list[tuple[Column, str, Column]]) -> dict[str, Column]:
    has_value = F.col("value").isNotNull()
    excerpt = F.substring("_text", 1, 80)
    position = F.format_string("it has %d bytes", F.octet_length("value"))
    fault = F.coalesce(F.col("_wrong"), F.concat(F.lit("the value begins: "), excerpt))
    wrong += [
        (has_value & F.col("_text").isNull(), "VALUE_NOT_UTF8", F.concat(F.lit("the value is not UTF-8; "), position)),
        (
            has_value & F.col("_foreign").isNull(),
            "VALUE_NOT_JSON",
            F.concat(F.lit("the value is not one whole JSON object; it begins: "), excerpt),
        ),
        (
            has_value
            & (F.col("_fields").isNull() | F.col(f"_fields.{_CORRUPT}").isNotNull() | F.col("_wrong").isNotNull()),
            "VALUE_WRONG_TYPE",
            F.concat(F.lit(f"a field does not fit the schema ({bronze.schema}): "), fault),
        ),
    ]
    columns = {name: F.col("_typed")[name] for name in schema.names}
    if bronze.unknown_fields == "keep":
        columns[UNKNOWN] = F.when(F.size("_foreign") > 0, F.col("_text"))
    elif bronze.unknown_fields == "dlq":
        text = F.concat(F.lit("the schema does not know "), F.array_join("_foreign", ", "))
        wrong.append((F.size("_foreign") > 0, "VALUE_UNKNOWN_FIELD", text))
    return columns


def _key_column(of_value: Column | None, key_type: str, name: str, wrong: list[tuple[Column, str, Column]]) -> Column:
    """The record's key as a column. A field of the same name in the value must match it, or be absent."""
    text = F.when(F.is_valid_utf8(F.col("key")), F.col("key").cast("string"))
    typed = text.try_cast(key_type)
    wrong.append((F.col("key").isNull(), "KEY_MISSING", F.lit(f"the record has no key, which the column {name} is")))
    said = F.concat(F.lit(f"the key is no {key_type}: "), F.substring(F.coalesce(text, F.hex("key")), 1, 80))
    wrong.append((typed.isNull(), "KEY_MALFORMED", said))
    if of_value is None:
        return typed
    differs = F.concat(F.lit(f"the value's {name} is not the record's key "), text)
    wrong.append((of_value.isNotNull() & (of_value != typed), "KEY_DIFFERS", differs))
    return F.coalesce(of_value, typed)


def good(rows: DataFrame) -> DataFrame:
    """Decoded rows, as passed to a pipeline's functions."""
    return rows.where(F.col(ERROR_CLASS).isNull()).drop(ERROR_CLASS, ERROR_MESSAGE)


def bad(rows: DataFrame) -> DataFrame:
    """Coordinates and errors of the other rows."""
    return rows.where(F.col(ERROR_CLASS).isNotNull()).select(*LINEAGE, ERROR_CLASS, ERROR_MESSAGE)


def chain(pipeline: Pipeline, declaration: Declaration) -> list[Declaration]:
    """The declarations from the topic to this one, inclusive, bronze first."""
    found = [declaration]
    while found[-1].reads:
        before = pipeline.named(found[-1].reads[0])
        if before is None:
            break
        found.append(before)
    return found[::-1]


def passed_through(rows: DataFrame, declarations: Sequence[Declaration]) -> DataFrame:
    """Valid rows through the functions of a chain; rows that expectations reject are removed on the way."""
    for index, each in enumerate(declarations):
        if isinstance(each, Gold):
            rows = timed(rows, each)
        rows = each.transform(rows) if each.transform is not None else rows
        is_last = index == len(declarations) - 1
        if not is_last and isinstance(each, Silver):
            rows = kept(judged(rows, each.expectations, each.keys))
    return rows


def timed(rows: DataFrame, gold: Gold) -> DataFrame:
    """Adds the watermark and the column `window` that a gold declares."""
    if gold.watermark is None:
        return rows
    column, delay = gold.watermark
    rows = rows.withWatermark(column, delay)
    return rows.withColumn("window", F.window(column, gold.window)) if gold.window else rows


def judged(rows: DataFrame, expectations: Sequence[Expectation], keys: Sequence[str] = ()) -> DataFrame:
    """Rows with the names of failed expectations, and their outcome. `keys` are those of a keyed table."""
    outcome: Any = F.lit("keep")
    if keys:
        outcome = F.when(reduce(or_, (F.col(name).isNull() for name in keys)), F.lit(KEYLESS)).otherwise(outcome)
    if not expectations:
        empty = F.array().cast("array<string>")
        return rows.withColumn(FAILED, empty).withColumn(OUTCOME, outcome)

    def fails(each: Expectation) -> Column:
        return ~F.coalesce(F.expr(each.condition), F.lit(True))

    names = F.array_compact(F.array(*(F.when(fails(each), F.lit(each.name)) for each in expectations)))
    for on_fail in (OnFail.DROP, OnFail.DLQ, OnFail.FAIL):  # the strictest comes last, so it is outermost and wins
        some = [each.name for each in expectations if each.on_fail is on_fail]
        if some:
            hit = F.arrays_overlap(FAILED, F.array(*map(F.lit, some)))
            outcome = F.when(hit, F.lit(str(on_fail))).otherwise(outcome)
    return rows.withColumn(FAILED, names).withColumn(OUTCOME, outcome)


def marked(rows: DataFrame, silver: Silver) -> DataFrame:
    """Adds `_deleted`: the rows that remove their key from the table; without a condition none do."""
    condition = F.expr(silver.delete_when) if silver.delete_when else F.lit(False)
    return rows.withColumn(DELETED, F.coalesce(condition, F.lit(False)))


def kept(rows: DataFrame) -> DataFrame:
    return rows.where(F.col(OUTCOME) == "keep").drop(FAILED, OUTCOME)


def refused(rows: DataFrame, keys: Sequence[str] = ()) -> DataFrame:
    """Coordinates of the rows that become dead letters, in the columns of `bad`."""
    is_keyless = F.col(OUTCOME) == KEYLESS
    error = F.when(is_keyless, F.lit("KEY_MISSING")).otherwise(F.lit("EXPECTATION_FAILED"))
    without = F.lit(f"the row has no value of a key of its table ({', '.join(keys)})")
    message = F.when(is_keyless, without).otherwise(F.concat(F.lit("does not meet "), F.array_join(FAILED, ", ")))
    dead = rows.where(F.col(OUTCOME).isin(str(OnFail.DLQ), KEYLESS))
    return dead.select(*LINEAGE, error.alias(ERROR_CLASS), message.alias(ERROR_MESSAGE))
