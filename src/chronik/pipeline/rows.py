"""From records to rows: decoding, what is wrong with a record, and what is expected of a row. Columns of Spark only.

Nothing here raises on bytes from outside: a record that cannot be decoded is a row with an error class and a message,
so it can be counted, kept with its bytes, and replayed. The JSON of a value must be one object, whole and with nothing
after it, and every known field of its type: a text where a number belongs is not made one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from chronik.pipeline.declarations import DELETED, LINEAGE, UNKNOWN, Bronze, Gold, Silver
from chronik.pipeline.expectations import Expectation, OnFail

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from chronik.pipeline.declarations import Declaration
    from chronik.pipeline.registry import Pipeline

ERROR_CLASS: Final = "_error_class"
ERROR_MESSAGE: Final = "_error_message"
FAILED: Final = "_failed"  # names of the expectations that a row did not meet
OUTCOME: Final = "_outcome"  # keep | drop | dlq | fail
MESSAGE_CHARACTERS_MAX: Final = 300
RECORD_SCHEMA: Final = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int, "
    "headers array<struct<key:string,value:binary>>"
)
_CORRUPT: Final = "_chronik_corrupt"


def empty_records(spark: SparkSession) -> DataFrame:
    """What a topic looks like before its first record."""
    return spark.createDataFrame([], RECORD_SCHEMA)


def decoded(records: DataFrame, bronze: Bronze, topic_id: str) -> DataFrame:
    """Rows with their lineage; ERROR_CLASS is null in those that are good."""
    lineage = {
        "_topic_id": F.lit(topic_id),
        "_partition": F.col("partition"),
        "_offset": F.col("offset"),
        "_timestamp": F.col("timestamp"),
    }
    wrong: list[tuple[Column, str, Column]] = []  # condition, error class, message; the first that holds is told
    columns: dict[str, Column] = {}
    if bronze.value_bytes_max is not None:
        size = F.octet_length("value")
        text = F.format_string(f"the value has %d bytes, at most {bronze.value_bytes_max} are allowed", size)
        wrong.append((size > bronze.value_bytes_max, "VALUE_TOO_LARGE", text))
    if bronze.decode == "json":
        records = _parsed(records, bronze)
        columns |= _json_columns(records, bronze, wrong)
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


def _parsed(records: DataFrame, bronze: Bronze) -> DataFrame:
    """The value as text, its fields by type, and the names of all that it has, each computed once."""
    text = F.when(F.is_valid_utf8(F.col("value")), F.col("value").cast("string"))
    with_text = records.withColumn("_text", text)
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, "allowNonNumericNumbers": "false"}
    fields = F.from_json("_text", f"{bronze.schema}, {_CORRUPT} string", options)
    # Spark's parsers stop after the first value. As the only item of a list, a value has nothing after it.
    alone = F.try_parse_json(F.concat(F.lit("["), F.col("_text"), F.lit("]")))
    is_whole = alone.isNotNull() & F.try_variant_get(alone, "$[1]", "variant").isNull()
    return (
        with_text.withColumn("_fields", fields)
        .withColumn("_names", F.json_object_keys("_text"))
        .withColumn("_is_whole", is_whole)
    )


def _json_columns(parsed: DataFrame, bronze: Bronze, wrong: list[tuple[Column, str, Column]]) -> dict[str, Column]:
    names = [name for name in parsed.schema["_fields"].dataType.names if name != _CORRUPT]
    has_value = F.col("value").isNotNull()
    excerpt = F.substring("_text", 1, 80)
    position = F.format_string("it has %d bytes", F.octet_length("value"))
    wrong += [
        (has_value & F.col("_text").isNull(), "VALUE_NOT_UTF8", F.concat(F.lit("the value is not UTF-8; "), position)),
        (
            has_value & (F.col("_names").isNull() | ~F.col("_is_whole")),
            "VALUE_NOT_JSON",
            F.concat(F.lit("the value is not one whole JSON object; it begins: "), excerpt),
        ),
        (
            has_value & (F.col("_fields").isNull() | F.col(f"_fields.{_CORRUPT}").isNotNull()),
            "VALUE_WRONG_TYPE",
            F.concat(F.lit(f"a field does not fit the schema ({bronze.schema}); the value begins: "), excerpt),
        ),
    ]
    columns = {name: F.col(f"_fields.`{name}`") for name in names}
    foreign = F.array_except(F.col("_names"), F.array(*map(F.lit, names)).cast("array<string>"))
    if bronze.unknown_fields == "keep":
        columns[UNKNOWN] = F.when(F.size(foreign) > 0, F.col("_text"))
    elif bronze.unknown_fields == "dlq":
        text = F.concat(F.lit("the schema does not know "), F.array_join(foreign, ", "))
        wrong.append((F.size(foreign) > 0, "VALUE_UNKNOWN_FIELD", text))
    return columns


def _key_column(of_value: Column | None, key_type: str, name: str, wrong: list[tuple[Column, str, Column]]) -> Column:
    """The record's key as a column. A field of the same name in the value must agree with it, or be absent."""
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
    """Those that could be decoded, as functions of a pipeline see them."""
    return rows.where(F.col(ERROR_CLASS).isNull()).drop(ERROR_CLASS, ERROR_MESSAGE)


def bad(rows: DataFrame) -> DataFrame:
    """Where the others stand, and what is wrong with them."""
    return rows.where(F.col(ERROR_CLASS).isNotNull()).select(*LINEAGE, ERROR_CLASS, ERROR_MESSAGE)


def chain(pipeline: Pipeline, declaration: Declaration) -> list[Declaration]:
    """What rows pass on their way from the topic to this declaration, itself included, bronze first."""
    found = [declaration]
    while found[-1].reads:
        before = pipeline.named(found[-1].reads[0])
        if before is None:
            break
        found.append(before)
    return found[::-1]


def passed_through(rows: DataFrame, declarations: Sequence[Declaration]) -> DataFrame:
    """Good rows through the functions of a chain; what expectations keep back on the way does not go on."""
    for index, each in enumerate(declarations):
        if isinstance(each, Gold):
            rows = timed(rows, each)
        rows = each.transform(rows) if each.transform is not None else rows
        is_last = index == len(declarations) - 1
        if not is_last and (expectations := getattr(each, "expectations", ())):
            rows = kept(judged(rows, expectations))
    return rows


def timed(rows: DataFrame, gold: Gold) -> DataFrame:
    """The watermark and the column `window` that a gold asked for."""
    if gold.watermark is None:
        return rows
    column, delay = gold.watermark
    rows = rows.withWatermark(column, delay)
    return rows.withColumn("window", F.window(column, gold.window)) if gold.window else rows


def judged(rows: DataFrame, expectations: Sequence[Expectation]) -> DataFrame:
    """Rows with the names of what they fail, and what is to become of them."""
    if not expectations:
        empty = F.array().cast("array<string>")
        return rows.withColumn(FAILED, empty).withColumn(OUTCOME, F.lit("keep"))

    def fails(each: Expectation) -> Column:
        return ~F.coalesce(F.expr(each.condition), F.lit(True))

    names = F.array_compact(F.array(*(F.when(fails(each), F.lit(each.name)) for each in expectations)))
    outcome: Any = F.lit("keep")
    for on_fail in (OnFail.DROP, OnFail.DLQ, OnFail.FAIL):  # the hardest is asked last and stands outermost
        some = [each.name for each in expectations if each.on_fail is on_fail]
        if some:
            hit = F.arrays_overlap(FAILED, F.array(*map(F.lit, some)))
            outcome = F.when(hit, F.lit(str(on_fail))).otherwise(outcome)
    return rows.withColumn(FAILED, names).withColumn(OUTCOME, outcome)


def marked(rows: DataFrame, silver: Silver) -> DataFrame:
    """`_deleted` says which rows take their key out of the table; no condition, none."""
    condition = F.expr(silver.delete_when) if silver.delete_when else F.lit(False)
    return rows.withColumn(DELETED, F.coalesce(condition, F.lit(False)))


def kept(rows: DataFrame) -> DataFrame:
    return rows.where(F.col(OUTCOME) == "keep").drop(FAILED, OUTCOME)


def refused(rows: DataFrame) -> DataFrame:
    """Where the rows stand that belong to the dead letters, in the columns of `bad`."""
    message = F.concat(F.lit("does not meet "), F.array_join(FAILED, ", "))
    dead = rows.where(F.col(OUTCOME) == str(OnFail.DLQ))
    return dead.select(*LINEAGE, F.lit("EXPECTATION_FAILED").alias(ERROR_CLASS), message.alias(ERROR_MESSAGE))
