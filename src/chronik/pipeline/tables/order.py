"""The rule that decides which row of a key is kept, for every keyed table. Pure; knows Arrow and numpy, not Delta or
Spark.

Log order: two records of one partition compare by offset. Records of different partitions compare by timestamp, then by
topic id and partition, because offsets of different partitions are unrelated.
This is not a total order if timestamps of a key decrease within a partition, past one of another partition: then
offsets and timestamps contradict each other, and the result depends on what is read first.

The rule, for the rows of one key:
1. A deletion without a value of `sequence_by` uses log order: it removes every row that precedes it in the log. A
   tombstone has no columns, so it is such a deletion; without `sequence_by`, every deletion is.
2. Of the remaining rows, the one with the greatest `sequence_by` is kept; null is lowest. Ties are resolved by log
   order. If the kept row is a deletion, the key is not in the table.

Rows without provenance have no log position. They compare by `sequence_by`, and ties go to the later arrival.

The rule is applied to a part of a batch (`last_per_position`), to a whole batch together with the deletions that the
table remembers (`resolve`), and to a row and the table's row of the same key (`newer_sql`, `log_sql`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronik.pipeline.tables.errors import TableError
from chronik.runtime.invariants import check

TOPIC_ID: Final = "_topic_id"
PARTITION: Final = "_partition"
OFFSET: Final = "_offset"
TIMESTAMP: Final = "_timestamp"
PROVENANCE: Final = (TOPIC_ID, PARTITION, OFFSET, TIMESTAMP)

Numbers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Keeping:
    """How a table is keyed. `delete_column` is a boolean column that marks deletions and is not stored."""

    keys: tuple[str, ...]
    sequence_by: tuple[str, ...] = ()
    delete_column: str | None = None

    def check(self, columns: Sequence[str]) -> None:
        """The rows' columns must suffice to decide which row is last."""
        if not self.sequence_by and not has_provenance(columns):
            reason = f"rows carry no {', '.join(PROVENANCE)} either, so nothing tells which of two rows is the last"
            raise TableError("TABLE_OPTION_MISSING", option="sequenceBy", reason=reason)

    def stored(self, columns: Sequence[str]) -> list[str]:
        return [name for name in columns if name != self.delete_column]

    def sequence(self, columns: Sequence[str]) -> tuple[str, ...]:
        """The columns that precede log order. `_offset` at the end of `sequence_by` means log order itself."""
        if self.sequence_by and self.sequence_by[-1] == OFFSET and has_provenance(columns):
            return self.sequence_by[:-1]
        return self.sequence_by

    def order_columns(self, columns: Sequence[str]) -> list[str]:
        """All columns that the rule uses, except the deletion mark."""
        log = PROVENANCE if has_provenance(columns) else ()
        return list(dict.fromkeys((*self.keys, *self.sequence(columns), *log)))


def has_provenance(columns: Sequence[str]) -> bool:
    return set(PROVENANCE) <= set(columns)


@dataclass(frozen=True, slots=True)
class Ranked:
    """Rows as numbers that compare like the rows."""

    key: Numbers
    sequence: Numbers
    place: Numbers  # topic id and partition
    offset: Numbers
    time: Numbers
    deletes: np.ndarray[Any, np.dtype[np.bool_]]
    by_log: np.ndarray[Any, np.dtype[np.bool_]]  # deletions in log order

    @classmethod
    def of(cls, rows: pa.Table, keeping: Keeping) -> Ranked:
        names, count = rows.column_names, rows.num_rows
        sequence_by = keeping.sequence(names)
        deletes = np.zeros(count, np.bool_)
        if keeping.delete_column is not None:
            deletes = pc.fill_null(rows[keeping.delete_column], False).to_numpy()
        key, sequence = _ranks(rows, keeping.keys), _ranks(rows, sequence_by)
        if not has_provenance(names):
            nothing = np.zeros(count, np.int64)
            return cls(key, sequence, nothing, np.arange(count), nothing, deletes, np.zeros(count, np.bool_))
        silent = np.ones(count, np.bool_)
        for name in sequence_by:
            silent &= rows[name].is_null().to_numpy()
        place, time = _ranks(rows, (TOPIC_ID, PARTITION)), _ranks(rows, (TIMESTAMP,))
        return cls(key, sequence, place, _ranks(rows, (OFFSET,)), time, deletes, deletes & silent)

    def last_in_log(self, rows: Numbers) -> Numbers:
        """The last of each key's rows in log order."""
        latest = _last(rows, (self.key, self.place), (self.offset,))
        return _last(latest, (self.key,), (self.time, self.place))

    def greatest(self, rows: Numbers) -> Numbers:
        """Each key's rows with the greatest sequence."""
        top = np.full(int(self.key.max(initial=-1)) + 1, -1, np.int64)
        np.maximum.at(top, self.key[rows], self.sequence[rows])
        found: Numbers = rows[self.sequence[rows] == top[self.key[rows]]]
        return found

    def is_after(self, rows: Numbers, others: Numbers) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """For each pair of rows, whether the first follows the second in the log, or is the same record."""
        later = self.time[rows] > self.time[others]
        later |= (self.time[rows] == self.time[others]) & (self.place[rows] > self.place[others])
        return np.where(self.place[rows] == self.place[others], self.offset[rows] >= self.offset[others], later)


@dataclass(frozen=True, slots=True)
class Resolved:
    """Per key, row indices of the log-order deletion and of the kept row; -1 if there is none."""

    ranked: Ranked
    ended_by: Numbers
    standing: Numbers


def resolve(rows: pa.Table, keeping: Keeping) -> Resolved:
    """Applies the rule to all keys at once."""
    ranked = Ranked.of(rows, keeping)
    everything = np.arange(rows.num_rows)
    deletions = ranked.last_in_log(everything[ranked.by_log])
    ended_by = np.full(int(ranked.key.max(initial=-1)) + 1, -1, np.int64)
    ended_by[ranked.key[deletions]] = deletions
    others = everything[~ranked.by_log]
    ends = ended_by[ranked.key[others]]
    left = others[(ends < 0) | ranked.is_after(others, ends)]
    winners = ranked.last_in_log(ranked.greatest(left))
    standing = np.full(len(ended_by), -1, np.int64)
    standing[ranked.key[winners]] = winners
    check(
        int(np.count_nonzero(standing >= 0)) == len(winners),
        "19 one row of a key stands",
        rows=rows.num_rows,
        winners=len(winners),
    )
    check(
        int(np.count_nonzero(ended_by >= 0)) == len(deletions),
        "19 one deletion of a key counts",
        rows=rows.num_rows,
        deletions=len(deletions),
    )
    return Resolved(ranked, ended_by, standing)


def last_per_key(rows: pa.Table, keeping: Keeping) -> pa.Table:
    """A batch's result for each key: the kept row, deletions included, and the log-order deletion before it."""
    found = resolve(rows, keeping)
    chosen = np.concatenate([found.ended_by, found.standing])
    return rows.take(pa.array(np.sort(chosen[chosen >= 0])))


def living(rows: pa.Table, keeping: Keeping) -> pa.Table:
    """The kept rows that are not deletions: the table's content, if `rows` is everything."""
    found = resolve(rows, keeping)
    standing = found.standing[found.standing >= 0]
    return rows.take(pa.array(np.sort(standing[~found.ranked.deletes[standing]])))


def last_per_position(rows: pa.Table, keeping: Keeping) -> pa.Table:
    """The first step, for a part of a batch: drops rows that are superseded whatever the other parts hold.

    A row is needed unless a later one of its key and partition has an equal or greater sequence. Keeping only the
    greatest sequence would be wrong: another part may hold a deletion that removes that row but not the others.
    """
    ranked = Ranked.of(rows, keeping)
    left = np.arange(rows.num_rows)
    if keeping.delete_column is None or not has_provenance(rows.column_names):
        left = ranked.greatest(left)
    # A log-order deletion removes all rows before it, like a row with the greatest sequence of all.
    sequence = np.where(ranked.by_log, rows.num_rows + 1, ranked.sequence)
    latest_first = left[::-1]
    latest_first = latest_first[
        np.lexsort([-ranked.offset[latest_first], ranked.place[latest_first], ranked.key[latest_first]])
    ]
    key, place = ranked.key[latest_first], ranked.place[latest_first]
    group = np.cumsum(np.append([False], (key[1:] != key[:-1]) | (place[1:] != place[:-1])))[: len(key)]
    height = group * (rows.num_rows + 2) + sequence[latest_first]
    before = np.append([-1], np.maximum.accumulate(height))[: len(height)]
    check(
        len(np.unique(key[height > before])) == len(np.unique(ranked.key)),
        "19 no key is lost on the way",
        rows=rows.num_rows,
        keys=len(np.unique(ranked.key)),
    )
    return rows.take(pa.array(np.sort(latest_first[height > before])))


def _last(rows: Numbers, groups: Sequence[Numbers], by: Sequence[Numbers]) -> Numbers:
    """Among rows with equal `groups`, the greatest by `by`; among equal ones the last."""
    columns = [column[rows] for column in (*groups, *by)]
    ordered = rows[np.lexsort(columns[::-1])]
    is_last = np.ones(len(ordered), np.bool_)
    if len(ordered):
        is_last[:-1] = np.logical_or.reduce([column[ordered[1:]] != column[ordered[:-1]] for column in groups])
    return ordered[is_last]


def _ranks(rows: pa.Table, columns: Sequence[str]) -> Numbers:
    """Dense ranks from 0, compared column by column; null is lowest."""
    ranks = np.zeros(rows.num_rows, np.int64)
    for name in columns:
        column = rows[name].combine_chunks()
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        encoded = column.dictionary_encode()
        order = pc.sort_indices(encoded.dictionary).to_numpy()
        rank_of = np.empty(len(order) + 1, np.int64)
        rank_of[order] = np.arange(1, len(order) + 1)
        rank_of[-1] = 0  # for null, which is -1 below
        own = rank_of[pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)]
        ranks = np.unique(ranks * (len(order) + 1) + own, return_inverse=True)[1].reshape(-1)
    return ranks


def newer_sql(sequence_by: Sequence[str], *, has_log: bool) -> str:
    """SQL: row s is kept over row t of the same key, ignoring log-order deletions."""
    return is_not_older(sequence_by, log_sql() if has_log else "true")


def log_sql(prefix: str = "") -> str:
    """SQL: s follows t in the log, or is the same record. Column names of s start with `prefix`."""

    def same(column: str) -> str:
        return f"s.{quoted(prefix + column)} = t.{quoted(column)}"

    offset = is_not_older((OFFSET,), prefix=prefix)
    time = is_not_older((TIMESTAMP, TOPIC_ID, PARTITION), prefix=prefix)
    return f"(CASE WHEN {same(TOPIC_ID)} AND {same(PARTITION)} THEN {offset} ELSE {time} END)"


def is_not_older(columns: Sequence[str], level: str = "true", *, prefix: str = "") -> str:
    """SQL: row s follows row t, compared column by column; null is lowest. `level` decides ties."""
    condition = level
    for column in reversed(columns):
        s, t = f"s.{quoted(prefix + column)}", f"t.{quoted(column)}"
        condition = (
            f"({t} IS NULL AND {s} IS NOT NULL OR {s} > {t}"
            f" OR ({s} = {t} OR {s} IS NULL AND {t} IS NULL) AND {condition})"
        )
    return condition


def quoted(name: str) -> str:
    """A quoted column name in deltalake's SQL."""
    return '"' + name.replace('"', '""') + '"'
