"""JSON by declared types, strictly: a value of another type is reported, never converted. Spark columns.

Spark's own parser is lenient: it takes a number as seconds since 1970, a time of day as today's, a text as a decimal, a
number that is too large as infinity, and rounds excess digits. Such types are parsed as their JSON form (`raw`),
checked (`wrong`), and converted (`typed`). Spark's parser handles all other types strictly.

| type | accepts |
|---|---|
| timestamp | text that begins with a date, year of four digits; a time without a zone is in the session's |
| timestamp_ntz | the same, without a zone |
| date | a text yyyy-MM-dd |
| decimal(p,s) | a number that fits without rounding |
| float, double | a number that is finite in the type |

Fractions finer than Spark's microseconds are truncated. An array or a struct is wrong if any part of it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

if TYPE_CHECKING:
    from pyspark.sql import Column

DATE: Final = r"\d{4}-\d{1,2}-\d{1,2}"
TEXTS: Final[dict[type[DataType], str]] = {
    TimestampType: rf"^{DATE}([T ].*)?$",
    TimestampNTZType: rf"^{DATE}([T ]\d{{1,2}}:\d{{1,2}}(:\d{{1,2}}(\.\d+)?)?)?$",
    DateType: rf"^{DATE}$",
}
EXPONENT: Final = r"^-?\d+(\.\d+)?[eE][+-]?\d+$|^-?\d+\.0$"  # a double, as formatted by Spark
FLOAT_MAX: Final = 3.4028234663852886e38
DOUBLE_MAX: Final = 1.7976931348623157e308
SHOWN_CHARACTERS: Final = 80
ADVICE: Final = "; declare it long and convert it with timestamp_millis or timestamp_seconds"


def raw(kind: DataType) -> DataType:
    """The type for parsing the JSON."""
    match kind:
        case StructType():
            return StructType([StructField(each.name, raw(each.dataType)) for each in kind.fields])
        case ArrayType():
            return ArrayType(raw(kind.elementType))
        case MapType():
            return MapType(kind.keyType, raw(kind.valueType))
        case TimestampType() | TimestampNTZType() | DateType():
            return StringType()
        case DecimalType():
            return VariantType()
        case FloatType():
            return DoubleType()
    return kind


def typed(value: Column, kind: DataType) -> Column:
    """A value parsed with `raw(kind)`, as `kind`. Meaningless where `wrong` finds an error."""
    match kind:
        case StructType():
            fields = [typed(value[each.name], each.dataType).alias(each.name) for each in kind.fields]
            return F.when(value.isNotNull(), F.struct(*fields))
        case ArrayType() if _is_checked(kind):
            return F.transform(value, lambda item: typed(item, kind.elementType))
        case MapType() if _is_checked(kind):
            return F.transform_values(value, lambda _, item: typed(item, kind.valueType))
        case DecimalType():
            return F.try_variant_get(value, "$", kind.simpleString())
        case FloatType() | TimestampType() | TimestampNTZType() | DateType():
            return value.try_cast(kind)
    return value


def wrong(value: Column, kind: DataType, path: str = "") -> Column:
    """The error of a value, with its path; null if there is none."""
    match kind:
        case StructType():
            inside = [
                wrong(value[each.name], each.dataType, f"{path}.{each.name}" if path else each.name)
                for each in kind.fields
                if _is_checked(each.dataType)
            ]
            return F.coalesce(*inside) if inside else F.lit(None).cast("string")
        case ArrayType():
            return _first(value, lambda item: wrong(item, kind.elementType, f"{path}[]"))
        case MapType():
            return _first(F.map_values(value), lambda item: wrong(item, kind.valueType, f"{path}{{}}"))
        case DecimalType():
            shown = F.to_json(value)  # distinguishes a text from a number
            fits, is_absent = _fits(value, shown, kind), value.isNull() | (shown == "null")
        case FloatType() | DoubleType():
            largest = FLOAT_MAX if isinstance(kind, FloatType) else DOUBLE_MAX
            shown, fits, is_absent = value.cast("string"), F.abs(value) <= largest, value.isNull()
        case _:
            shown, is_absent = value, value.isNull()
            fits = value.rlike(TEXTS[type(kind)]) & value.try_cast(kind).isNotNull()
    text = F.concat(F.lit(f"{path} is no {kind.simpleString()}: "), F.substring(shown, 1, SHOWN_CHARACTERS))
    if isinstance(kind, TimestampType | TimestampNTZType):
        text = F.concat(text, F.when(value.rlike(r"^\d+$"), F.lit(ADVICE)).otherwise(F.lit("")))
    return F.when(~is_absent & ~F.coalesce(fits, F.lit(False)), text)


def unknown(value: Column, kind: DataType, path: str = "") -> Column:
    """Paths of the fields of a VARIANT, at any depth, that are not in the schema; null for another shape."""

    def inside(item: Column, kind: DataType, path: str) -> Column:
        return F.coalesce(unknown(item, kind, path), F.array().cast("array<string>"))

    match kind:
        case StructType():
            fields = F.try_variant_get(value, "$", "map<string,variant>")
            known = F.array(*(F.lit(each.name) for each in kind.fields)).cast("array<string>")
            own = F.array_except(F.map_keys(fields), known)
            if path:
                own = F.transform(own, lambda name: F.concat(F.lit(f"{path}."), name))
            nested = [
                inside(F.try_element_at(fields, F.lit(each.name)), each.dataType, f"{path}.{each.name}".lstrip("."))
                for each in kind.fields
                if _has_struct(each.dataType)
            ]
            return F.concat(own, *nested)
        case ArrayType():
            items = F.try_variant_get(value, "$", "array<variant>")
            return F.flatten(F.transform(items, lambda item: inside(item, kind.elementType, f"{path}[]")))
        case MapType():
            items = F.map_values(F.try_variant_get(value, "$", "map<string,variant>"))
            return F.flatten(F.transform(items, lambda item: inside(item, kind.valueType, f"{path}{{}}")))
    return F.lit(None).cast("array<string>")


def _fits(value: Column, text: Column, kind: DecimalType) -> Column:
    """Whether the type can hold the number's digits. With an exponent it is a double, and must round-trip."""
    decimal = F.try_variant_get(value, "$", kind.simpleString())
    is_same = decimal.cast("double") == F.try_variant_get(value, "$", "double")
    digits = rf"^-?\d+(\.\d{{1,{kind.scale}}})?$" if kind.scale else r"^-?\d+$"
    return F.when(text.rlike(digits), decimal.isNotNull()).when(text.rlike(EXPONENT), is_same)


def _first(items: Column, find: Callable[[Column], Column]) -> Column:
    return F.get(F.filter(F.transform(items, find), lambda found: found.isNotNull()), F.lit(0))


def _is_checked(kind: DataType) -> bool:
    match kind:
        case StructType():
            return any(_is_checked(each.dataType) for each in kind.fields)
        case ArrayType():
            return _is_checked(kind.elementType)
        case MapType():
            return _is_checked(kind.valueType)
    return isinstance(kind, DoubleType) or raw(kind) != kind


def _has_struct(kind: DataType) -> bool:
    match kind:
        case StructType():
            return True
        case ArrayType():
            return _has_struct(kind.elementType)
        case MapType():
            return _has_struct(kind.valueType)
    return False
