"""A JSON Schema as rules over columns. The package jsonschema decides records that columns cannot decide.

Columns decide type, required, properties, additionalProperties (true or false), enum and const of scalars, bounds of
numbers and lengths of texts, and simple patterns, at any depth of objects. With any other keyword, jsonschema decides
the records that have the keyword's field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronik.pipeline.contracts.facts import INTEGERS, MISSING, NUMBERS, Facts, Mask, Path, Shape, can_be_named
from chronik.pipeline.contracts.verdicts import Rows, Verdicts
from chronik.pipeline.errors import PipelineError

NOT_JSON: Final = "$: JSON"
NOT_UTF8: Final = "$: UTF-8"
ANNOTATIONS: Final = frozenset(
    [
        "$schema",
        "$id",
        "$comment",
        "$defs",
        "definitions",
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "format",
        "contentEncoding",
        "contentMediaType",
    ]
)
STRUCTURE: Final = frozenset({"type", "properties", "required", "additionalProperties"})
BOUNDS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "minimum": pc.greater_equal,
    "maximum": pc.less_equal,
    "exclusiveMinimum": pc.greater,
    "exclusiveMaximum": pc.less,
}
LENGTHS: Final[dict[str, Callable[[Any, Any], Any]]] = {"minLength": pc.greater_equal, "maxLength": pc.less_equal}
TYPES: Final[dict[str, tuple[str, ...]]] = {
    "object": ("OBJECT",),
    "array": ("ARRAY",),
    "string": ("VARCHAR",),
    "number": NUMBERS,
    "integer": INTEGERS,
    "boolean": ("BOOLEAN",),
    "null": ("NULL",),
}
EXACT_DIGITS_MAX: Final = 15  # a longer integer may not be exact as a double
# A pattern that Python's and RE2's engines interpret alike: ASCII letters, digits, sets and counts, no classes.
_PATTERN: Final = re.compile(
    r"\^?(?:(?:[A-Za-z0-9 _:@/,;=-]|\\[.+*?()/-]|\[[A-Za-z0-9_.:@/-]+\])(?:[?*+]|\{\d{1,3}(?:,\d{1,3})?\})?)*\$?"
)


class JsonSchema:
    """Rules with labels such as `$.amount: type number`. Raises CONTRACT_INVALID for an invalid schema."""

    def __init__(self, schema: Any, file: str = "") -> None:
        from jsonschema.exceptions import SchemaError
        from jsonschema.validators import validator_for

        kind = validator_for(schema)
        try:
            kind.check_schema(schema)
        except SchemaError as error:
            raise PipelineError("CONTRACT_INVALID", file=file, reason=f"{error.json_path}: {error.message}") from None
        self._validator = kind(schema)
        self._nodes: dict[Path, Mapping[str, Any]] = {}
        self._opaque: dict[Path, bool] = {}
        # Before draft 6, 1.0 is not an integer, and exclusiveMinimum is a boolean.
        self.is_columnar = "draft-04" not in str(kind.META_SCHEMA) and "draft-03" not in str(kind.META_SCHEMA)
        self._gather((), schema)
        self.paths = list(self._nodes)
        self.objects = [
            path for path, node in self._nodes.items() if {*node} & {"properties", "required", "additionalProperties"}
        ]
        self.texts = [
            path for path in self.paths if any(_reads_text(word, node) for node in [self._nodes[path]] for word in node)
        ]

    def _gather(self, path: Path, schema: Any) -> None:
        node = schema if isinstance(schema, Mapping) else {} if schema is True else {"not": {}}
        if "$ref" in node or not can_be_named(path):
            node, is_opaque = {}, True
        else:
            is_opaque = any(not _is_columnar(word, node) for word in node)
        self._nodes[path], self._opaque[path] = node, is_opaque
        for name, inner in (node.get("properties") or {}).items():
            if not can_be_named((*path, name)):
                self._opaque[path] = True
            else:
                self._gather((*path, name), inner)

    # --- by columns

    def judge(self, facts: Facts) -> Verdicts:
        unknown = ~facts.sane
        told = [self._of_shape(shape) for shape in facts.shapes]
        unknown |= facts.where([is_unknown for _, is_unknown in told])
        fails: dict[str, Mask] = {}
        for label in sorted({label for labels, _ in told for label in labels}):
            fails[label] = facts.where([label in labels for labels, _ in told])
        for path in self.texts:
            for label, fails_here, unknown_here in self._of_values(path, facts):
                fails[label] = fails.get(label, np.zeros(len(unknown), np.bool_)) | (fails_here & facts.sane)
                unknown |= unknown_here & facts.sane
        return Verdicts(fails, unknown)

    def _of_shape(self, shape: Shape) -> tuple[set[str], bool]:
        """The rules that every value of the shape breaks, and whether other rules depend on the values."""
        fails: set[str] = set()
        if shape.has_duplicates:
            return fails, True
        is_unknown = False
        for path, node in self._nodes.items():
            kind = shape.types[path]
            if kind == MISSING:
                continue
            is_unknown |= self._opaque[path]
            allowed = node.get("type")
            if (
                allowed is not None
                and not _has_type(kind, allowed)
                and not (kind == "DOUBLE" and "integer" in _listed(allowed))
            ):
                fails.add(_label(path, "type", allowed))
            if kind == "OBJECT":
                names = shape.names.get(path, ())
                fails |= {_label((*path, name), "required") for name in node.get("required", ()) if name not in names}
                if node.get("additionalProperties") is False and set(names) - set(node.get("properties", ())):
                    fails.add(_label(path, "additionalProperties"))
        return fails, is_unknown

    def _of_values(self, path: Path, facts: Facts) -> Iterator[tuple[str, Mask, Mask]]:
        node, text = self._nodes[path], facts.texts[path]
        is_kind = {
            kind: facts.where([shape.types[path] == kind for shape in facts.shapes])
            for kind in (*NUMBERS, "VARCHAR", "BOOLEAN", "NULL", "OBJECT", "ARRAY")
        }
        is_number = is_kind["UBIGINT"] | is_kind["BIGINT"] | is_kind["DOUBLE"]
        if is_number.any() and ({*node} & {*BOUNDS} or "integer" in _listed(node.get("type"))):
            numbers, is_dubious = _numbers(text, is_number, is_kind["DOUBLE"])
            if "integer" in _listed(node.get("type")) and "number" not in _listed(node.get("type")):
                is_whole = np.zeros(len(numbers), np.bool_)
                with np.errstate(invalid="ignore"):
                    is_whole = numbers == np.floor(numbers)
                yield (
                    _label(path, "type", node["type"]),
                    is_kind["DOUBLE"] & ~is_whole & ~is_dubious,
                    is_kind["DOUBLE"] & is_dubious,
                )
            for word, holds in BOUNDS.items():
                if word in node:
                    is_met = holds(pa.array(numbers), float(node[word])).to_numpy(zero_copy_only=False)
                    yield _label(path, word, node[word]), is_number & ~is_met & ~is_dubious, is_number & is_dubious
        is_text = is_kind["VARCHAR"]
        for word, holds in LENGTHS.items():
            if word in node:
                is_met = _true(holds(pc.utf8_length(text), int(node[word])))
                yield _label(path, word, node[word]), is_text & ~is_met, np.zeros(len(is_met), np.bool_)
        if "pattern" in node:
            is_met = _true(pc.match_substring_regex(text, node["pattern"]))
            # Before a line break, $ matches in Python but not in RE2.
            has_break = _true(pc.match_substring(text, "\n"))
            yield _label(path, "pattern", node["pattern"]), is_text & ~is_met & ~has_break, is_text & has_break
        for word in ("enum", "const"):
            if word in node:
                yield self._of_enum(path, word, node[word] if word == "enum" else [node[word]], text, is_kind)

    def _of_enum(
        self, path: Path, word: str, allowed: Sequence[Any], text: pa.Array, is_kind: Mapping[str, Mask]
    ) -> tuple[str, Mask, Mask]:
        def one_of(values: list[str]) -> Mask:
            return _true(pc.is_in(text, value_set=pa.array(values, pa.string())))

        is_integer = is_kind["UBIGINT"] | is_kind["BIGINT"]
        numbers = [each for each in allowed if isinstance(each, int | float) and not isinstance(each, bool)]
        met = is_kind["VARCHAR"] & one_of([each for each in allowed if isinstance(each, str)])
        met |= is_kind["BOOLEAN"] & one_of([json.dumps(each) for each in allowed if isinstance(each, bool)])
        met |= is_integer & one_of([str(int(each)) for each in numbers if each == int(each)])
        if None in allowed:
            met |= is_kind["NULL"]
        unknown = is_kind["OBJECT"] | is_kind["ARRAY"] | is_kind["DOUBLE"]
        if any(abs(each) >= 10**EXACT_DIGITS_MAX for each in numbers):
            unknown |= is_integer
        known = is_kind["VARCHAR"] | is_kind["BOOLEAN"] | is_integer | is_kind["NULL"]
        return _label(path, word), known & ~met & ~unknown, unknown

    # --- record by record

    def exact(self, row: Rows) -> list[str]:
        """The labels of all rules that a record breaks."""
        value = row["value"]
        if value is None:
            return []
        try:
            found = json.loads(value.decode(), parse_constant=_no_constant)
        except UnicodeDecodeError:
            return [NOT_UTF8]
        except (ValueError, RecursionError):
            return [NOT_JSON]
        labels: set[str] = set()
        for error in self._validator.iter_errors(found):
            path = tuple("[]" if isinstance(each, int) else str(each) for each in error.absolute_path)
            if error.validator == "required":
                labels |= {
                    _label((*path, name), "required") for name in error.validator_value if name not in error.instance
                }
            else:
                labels.add(_label(path, str(error.validator), error.validator_value))
        return sorted(labels)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _label(path: Path, word: str, value: Any = None) -> str:
    where = "$" + "".join(each if each == "[]" else f".{each}" for each in path)
    if word not in (*BOUNDS, *LENGTHS, "type", "pattern"):
        return f"{where}: {word}"
    shown = " or ".join(value) if isinstance(value, list) else value
    return f"{where}: {word} {shown}"


def _listed(kind: Any) -> list[str]:
    return [kind] if isinstance(kind, str) else list(kind or ())


def _has_type(kind: str, allowed: Any) -> bool:
    return any(kind in TYPES[each] for each in _listed(allowed))


def _reads_text(word: str, node: Mapping[str, Any]) -> bool:
    return word in (*BOUNDS, *LENGTHS, "pattern", "enum", "const") or (
        word == "type" and "integer" in _listed(node["type"])
    )


def _is_columnar(word: str, node: Mapping[str, Any]) -> bool:
    value = node[word]
    if word in ANNOTATIONS or word in ("type", "properties", "required"):
        return True
    if word == "additionalProperties":
        return isinstance(value, bool)
    if word in BOUNDS:
        return bool(abs(value) < 10**EXACT_DIGITS_MAX)
    if word == "pattern":
        return _PATTERN.fullmatch(value) is not None
    if word in ("enum", "const"):
        return not any(isinstance(each, dict | list) for each in (value if word == "enum" else [value]))
    return word in LENGTHS


def _numbers(text: pa.Array, is_number: Mask, is_double: Mask) -> tuple[Any, Mask]:
    """The numbers as doubles, and a mask of those for which the double may differ from the text."""
    shown = pc.if_else(pa.array(is_number), text, None)
    is_long = _true(pc.greater(pc.utf8_length(shown), EXACT_DIGITS_MAX)) & ~is_double
    try:
        numbers = pc.cast(shown, pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return np.full(len(text), np.nan), is_number
    is_large = is_double & ~(np.abs(np.nan_to_num(numbers, nan=np.inf)) < 10**EXACT_DIGITS_MAX)
    return numbers, is_long | is_large


def _true(found: pa.Array) -> Mask:
    mask: Mask = pc.fill_null(found, False).to_numpy(zero_copy_only=False)
    return mask
