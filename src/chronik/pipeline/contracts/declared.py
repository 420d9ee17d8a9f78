"""The declared schema of a pipeline as rules: they find the records that the flow would send to its dead letters.

A record counts for the first rule that it breaks, because its dead letter has one error class. `plain_rows` decides
records that columns cannot decide.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronik.pipeline.contracts.facts import INTEGERS, MISSING, NUMBERS, Facts, Mask, Path, Shape, can_be_named
from chronik.pipeline.contracts.verdicts import Rows, Verdicts
from chronik.pipeline.ddl import Kind, Scalar, Struct, parse_ddl
from chronik.pipeline.declarations import Bronze
from chronik.pipeline.plain_rows import PlainRows

# Times in the one format that needs no further check.
_MOMENT = r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?Z$"
_DAY = r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])$"
_DIGITS_MAX = 9  # fits into every integer type except the two smallest


class DeclaredSchema:
    """A label is an error class and, for a type error, the field: `VALUE_WRONG_TYPE amount is no double`."""

    def __init__(self, bronze: Bronze) -> None:
        self._bronze = bronze
        self._rows = PlainRows(bronze, "")
        self._schema = parse_ddl(bronze.schema) if bronze.decode == "json" else Struct(())
        self._kinds: dict[Path, Kind] = {(): self._schema}
        self.is_columnar = bronze.decode == "json" and self._gather((), self._schema)
        self.paths = list(self._kinds)
        self.objects = [path for path, kind in self._kinds.items() if isinstance(kind, Struct)]
        self.texts = [path for path, kind in self._kinds.items() if isinstance(kind, Scalar) and _has_limits(kind)]

    def _gather(self, path: Path, struct: Struct) -> bool:
        for name, kind in struct.fields:
            if not can_be_named((*path, name)):
                return False
            self._kinds[*path, name] = kind
            if isinstance(kind, Struct) and not self._gather((*path, name), kind):
                return False
        return True

    def judge(self, facts: Facts) -> Verdicts:
        told = [self._first_of(shape) for shape in facts.shapes]
        unknown = ~facts.sane | facts.where([each is None for each in told])
        fails = {
            label: facts.where([each is not None and each[0] == label for each in told])
            for label in sorted({each[0] for each in told if each is not None and each[0]})
        }
        for path in self.texts:
            # Fields after the wrong one are ignored.
            is_looked_at = facts.where([each is not None and path in each[1] for each in told])
            if is_looked_at.any():
                unknown |= is_looked_at & self._is_dubious(path, facts)
        # Spark refuses duplicate names at any depth, but shapes do not include undeclared objects.
        braces = pc.fill_null(pc.count_substring(facts.whole, "{"), 0).to_numpy(zero_copy_only=False)
        objects = np.zeros(len(unknown), np.int64)
        if facts.shapes:
            per_shape = [sum(shape.types[path] == "OBJECT" for path in self.objects) for shape in facts.shapes]
            objects = np.asarray(per_shape)[facts.shape_of]
        unknown |= braces != objects
        return Verdicts(fails, unknown)

    def _first_of(self, shape: Shape) -> tuple[str, set[Path]] | None:
        """The first rule that values of this shape break, if any, and the fields before it whose values matter as well.

        None if each value must be examined.
        """
        if shape.has_duplicates or shape.types[()] != "OBJECT":
            return None
        before: set[Path] = set()
        for path, kind in self._kinds.items():
            found = shape.types[path]
            if found in (MISSING, "NULL"):
                continue
            accepted = _accepted(kind)
            if accepted is None:
                return None
            if accepted and found not in accepted:
                return f"VALUE_WRONG_TYPE {'.'.join(path)} is no {kind}", before
            before.add(path)
        if self._bronze.unknown_fields == "dlq" and any(self._unknown_in(shape)):
            return "VALUE_UNKNOWN_FIELD", before
        return "", before

    def _unknown_in(self, shape: Shape) -> Iterator[bool]:
        for path, kind in self._kinds.items():
            if isinstance(kind, Struct):
                yield bool(set(shape.names.get(path, ())) - {name for name, _ in kind.fields})

    def _is_dubious(self, path: Path, facts: Facts) -> Mask:
        """The rows in which the field is present and not certainly valid."""
        kind, text = self._kinds[path], facts.texts[path]
        is_there = facts.where([shape.types[path] not in (MISSING, "NULL") for shape in facts.shapes])
        assert isinstance(kind, Scalar)
        match kind.name:
            case "timestamp":
                is_good = pc.match_substring_regex(text, _MOMENT)
            case "date":
                is_good = pc.match_substring_regex(text, _DAY)
            case "integer" | "long":
                is_good = pc.less_equal(pc.utf8_length(text), _DIGITS_MAX)
            case _:  # a double with an exponent that cannot be too large
                is_good = pc.and_(
                    pc.less_equal(pc.utf8_length(text), 30), pc.invert(pc.match_substring_regex(text, "[eE]"))
                )
        found: Mask = is_there & ~pc.fill_null(is_good, False).to_numpy(zero_copy_only=False)
        return found

    def exact(self, row: Rows) -> list[str]:
        error = self._rows.why_not(row)
        if error is None:
            return []
        if error.error_class != "VALUE_WRONG_TYPE":
            return [error.error_class]
        return [f"{error.error_class} {error.message.partition(': ')[0]}"]


def of_key(bronze: Bronze, keys: pa.Array) -> Mask:
    """The rows in which the record's key needs a further check."""
    if not bronze.key:
        return np.zeros(len(keys), np.bool_)
    is_number = bronze.key.split(None, 1)[1].lower() != "string"
    try:
        text = pc.cast(keys, pa.string())
    except pa.ArrowInvalid:
        return np.ones(len(keys), np.bool_)
    is_good = pc.match_substring_regex(text, r"^[1-9]\d{0,1}$|^[1-9]\d{2,8}$" if is_number else "")
    found: Mask = ~pc.fill_null(is_good, False).to_numpy(zero_copy_only=False)
    return found


def _has_limits(kind: Scalar) -> bool:
    return kind.name not in ("string", "boolean")


def _accepted(kind: Kind) -> tuple[str, ...] | None:
    """The JSON types that fit. Empty: all types fit. None: each value must be examined."""
    if isinstance(kind, Struct):
        return ("OBJECT",)
    if not isinstance(kind, Scalar) or kind.name in ("byte", "short", "binary", "timestamp_ntz", "float"):
        return None
    if kind.name in ("integer", "long"):
        return INTEGERS
    return {"double": NUMBERS, "boolean": ("BOOLEAN",), "string": ()}.get(kind.name, ("VARCHAR",))
