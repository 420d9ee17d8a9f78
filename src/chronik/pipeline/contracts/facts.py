"""Facts about many JSON values at once, as columns: their shapes, and the text of fields. DuckDB parses the values.

A shape is the structure of a value: the names in each declared object, in order, and the type of each declared field.
Topics have few shapes, so a rule about shapes is evaluated once per shape, not once per record.

DuckDB's parser accepts slightly more than JSON (commas before a bracket, NaN), and uses the first of two equal names.
Values for which this may matter are not `sane`, and their facts are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Path = tuple[str, ...]
Mask = np.ndarray[Any, np.dtype[np.bool_]]

MISSING: Final = "MISSING"
INTEGERS: Final = ("UBIGINT", "BIGINT")
NUMBERS: Final = (*INTEGERS, "DOUBLE")
_DUBIOUS: Final = r"(?i),\s*[}\]]|[:\[,]\s*[-+]?(nan|inf)"
_UNIT: Final = "\x1f"  # separates the parts of a shape, because no JSON text contains it


@dataclass(frozen=True, slots=True)
class Shape:
    """`types` by path, with MISSING for an absent field; `names` by path of an object."""

    types: dict[Path, str]
    names: dict[Path, tuple[str, ...]]

    @property
    def has_duplicates(self) -> bool:
        return any(len(set(each)) != len(each) for each in self.names.values())


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about one block of values, row by row. `shape_of` is an index into `shapes`, valid where `sane` is True."""

    sane: Mask
    shapes: list[Shape]
    shape_of: np.ndarray[Any, np.dtype[np.int64]]
    texts: dict[Path, pa.Array]
    whole: pa.Array

    def where(self, per_shape: Sequence[bool]) -> Mask:
        """Converts a value per shape to a mask of rows."""
        if not self.shapes:
            return np.zeros(len(self.sane), np.bool_)
        found: Mask = np.asarray(per_shape, np.bool_)[self.shape_of] & self.sane
        return found


def can_be_named(path: Path) -> bool:
    return all(name and not set(name) & set('"\\\0' + _UNIT) for name in path)


class FactFinder:
    """Keeps its connection and a cache of shapes."""

    def __init__(self, paths: Sequence[Path], objects: Sequence[Path], texts: Sequence[Path]) -> None:
        self._paths, self._objects, self._texts = list(paths), list(objects), list(texts)
        self._known: dict[str, Shape] = {}
        self._connection = duckdb.connect(config={"python_enable_replacements": "false", "threads": "1"})
        self._connection.execute("SET enable_progress_bar = false")
        parts = [f"coalesce(json_keys(v, '{_json_path(path)}'), [])::JSON::VARCHAR" for path in self._objects]
        if self._paths:
            parts.append(f"json_type(v, {_list(self._paths)})::JSON::VARCHAR")
        shape = f" || '{_UNIT}' || ".join(parts) or "''"
        texts_of = "[]::VARCHAR[]" if not self._texts else f"json_extract_string(v, {_list(self._texts)})"
        self._query = (
            f"SELECT row, {shape} AS shape, {texts_of} AS texts"  # noqa: S608 - paths are quoted
            f" FROM chronik_values WHERE json_valid(v) AND NOT regexp_matches(v, '{_DUBIOUS}') ORDER BY row"
        )

    def close(self) -> None:
        self._connection.close()

    def of(self, values: pa.Array) -> Facts:
        """`values` are texts. Nulls are not sane."""
        count = len(values)
        rows = pa.table({"row": pa.array(np.arange(count)), "v": values})
        self._connection.register("chronik_values", rows)
        found = self._connection.sql(self._query).to_arrow_table()
        at = found["row"].to_numpy()
        sane = np.zeros(count, np.bool_)
        sane[at] = True
        encoded = found["shape"].combine_chunks().dictionary_encode()
        shapes = [self._shape(text) for text in encoded.dictionary.to_pylist()]
        shape_of = np.zeros(count, np.int64)
        shape_of[at] = encoded.indices.to_numpy()
        lists = found["texts"].combine_chunks()
        place = np.full(count, -1, np.int64)
        place[at] = np.arange(len(at))
        takes = pa.array(place, mask=place < 0)
        texts = {path: pc.list_element(lists, index).take(takes) for index, path in enumerate(self._texts) if len(at)}
        texts = texts or {path: pa.nulls(count, pa.string()) for path in self._texts}
        return Facts(sane, shapes, shape_of, texts, values)

    def _shape(self, text: str) -> Shape:
        if text not in self._known:
            parts = [json.loads(part) for part in text.split(_UNIT)] if text else []
            names = dict(zip(self._objects, map(tuple, parts), strict=False))
            types = parts[len(self._objects)] if self._paths else []
            told = {path: kind or MISSING for path, kind in zip(self._paths, types, strict=True)}
            self._known[text] = Shape(told, names)
        return self._known[text]


def _json_path(path: Path) -> str:
    return "$" + "".join(f'."{name}"' for name in path).replace("'", "''")


def _list(paths: Sequence[Path]) -> str:
    return "[" + ", ".join(f"'{_json_path(path)}'" for path in paths) + "]"
