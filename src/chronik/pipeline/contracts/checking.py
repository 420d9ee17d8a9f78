"""Reads a topic's stored records and judges them by a contract. Blocking; reads only the given ranges."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronik.pipeline.conditions import PipelineFault, nearest
from chronik.pipeline.contracts.declared import DeclaredSchema, of_key
from chronik.pipeline.contracts.facts import FactFinder, Mask
from chronik.pipeline.contracts.json_schema import JsonSchema
from chronik.pipeline.contracts.verdicts import Contract
from chronik.pipeline.declarations import Bronze
from chronik.pipeline.errors import PipelineError
from chronik.pipeline.reading import read_range
from chronik.pipeline.registry import load
from chronik.pipeline.security import NO_QUERY_SECURITY, QuerySecurity

COLUMNS: Final = ("key", "value", "partition", "offset", "timestamp", "headers")
SCHEMA_SUFFIXES: Final = (".json", ".jsonschema")


@dataclass(frozen=True, slots=True)
class Broken:
    """The first record that breaks a rule: the oldest by timestamp, then by partition and offset."""

    timestamp: datetime
    partition: int
    offset: int
    rules: tuple[str, ...]

    @property
    def order(self) -> tuple[Any, ...]:
        return (self.timestamp, self.partition, self.offset)


@dataclass
class Report:
    records: int = 0
    broken: int = 0
    one_by_one: int = 0  # number of records that were judged one by one
    by_rule: Counter[str] = field(default_factory=Counter)
    first: Broken | None = None
    first_of: dict[str, Broken] = field(default_factory=dict)

    def note(self, found: Broken) -> None:
        if self.first is None or found.order < self.first.order:
            self.first = found
        elif found.order == self.first.order:
            self.first = replace(found, rules=tuple(sorted({*self.first.rules, *found.rules})))
        for rule in found.rules:
            known = self.first_of.get(rule)
            if known is None or found.order < known.order:
                self.first_of[rule] = found


def contract_in(file: str, topic: str, name: str | None = None) -> tuple[Contract, Bronze | None]:
    """The contract in a JSON Schema, or in a pipeline file's declaration of the topic. `name` selects one of several
    declarations."""
    path = Path(file)
    if path.suffix in SCHEMA_SUFFIXES:
        try:
            return JsonSchema(json.loads(path.read_text()), file), None
        except FileNotFoundError:
            raise PipelineFault("FILE_NOT_FOUND", file=file) from None
        except (OSError, UnicodeDecodeError) as error:
            raise PipelineFault("FILE_NOT_READABLE", file=file, reason=str(error)) from error
        except ValueError as error:
            raise PipelineError("CONTRACT_INVALID", file=file, reason=f"it is not JSON: {error}") from error
    found = [each for each in load(path).of(Bronze) if isinstance(each, Bronze)]
    named = [each for each in found if each.topic == topic and name in (None, each.name)]
    if not named:
        known = sorted({each.topic for each in found})
        hint = f"; did you mean {near!r}?" if (near := nearest(topic, known)) else ""
        raise PipelineError(
            "CONTRACT_INVALID",
            file=file,
            reason=f"it declares no bronze of {topic!r}, only of {', '.join(known)}{hint}",
        )
    if len(named) > 1:
        reason = f"it declares {topic!r} as {', '.join(each.name for each in named)}: choose one with --name"
        raise PipelineError("CONTRACT_INVALID", file=file, reason=reason)
    return DeclaredSchema(named[0]), named[0]


def check(
    contract: Contract,
    bronze: Bronze | None,
    bootstrap: str,
    topic: str,
    ranges: Mapping[int, tuple[int, int]],
    *,
    sample: int = 1,
    security: QuerySecurity = NO_QUERY_SECURITY,
    progress: Callable[[int], None] = lambda _: None,
) -> Report:
    """Judges the records in these offset ranges; with `sample`, every n-th record of each partition."""
    report = Report()
    columns = COLUMNS if bronze is not None else COLUMNS[1:5]
    finder = FactFinder(contract.paths, contract.objects, contract.texts) if contract.is_columnar else None
    try:
        for partition, (start, end) in ranges.items():
            for batch in read_range(
                bootstrap,
                topic,
                partition,
                start=start,
                end=end,
                columns=columns,
                fail_on_data_loss=False,  # records that retention deletes meanwhile are no longer stored
                client_id="chronik-contract",
                security=security,
            ):
                rows = batch if sample == 1 else _every(batch, sample)
                judge(contract, bronze, finder, rows, report)
                progress(batch.num_rows)
    finally:
        if finder is not None:
            finder.close()
    return report


def judge(
    contract: Contract, bronze: Bronze | None, finder: FactFinder | None, batch: pa.RecordBatch, report: Report
) -> None:
    """Judges one block: first by columns, then the undecided records one by one."""
    count = batch.num_rows
    report.records += count
    values = batch.column("value")
    broken: dict[int, list[str]] = {}
    unknown = np.ones(count, np.bool_)
    if finder is not None and count:
        texts, is_text = _texts(values)
        verdicts = contract.judge(finder.of(texts))
        unknown = verdicts.unknown & ~(values.is_null().to_numpy(zero_copy_only=False) & (bronze is None))
        unknown |= ~is_text
        if bronze is not None:
            unknown |= of_key(bronze, batch.column("key"))
            if bronze.value_bytes_max is not None:
                sizes = pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False)
                unknown |= sizes > bronze.value_bytes_max
        for rule, mask in verdicts.fails.items():
            certain = mask & ~unknown
            if hits := int(np.count_nonzero(certain)):
                report.by_rule[rule] += hits
                _note_certain(rule, certain, batch, report)
        certain = np.zeros(count, np.bool_)
        for mask in verdicts.fails.values():
            certain |= mask & ~unknown
        report.broken += int(np.count_nonzero(certain))
    left = np.flatnonzero(unknown)
    report.one_by_one += len(left)
    for index, row in zip(left.tolist(), batch.take(pa.array(left)).to_pylist() if len(left) else (), strict=True):
        if rules := contract.exact(row):
            broken[index] = rules
            report.by_rule.update(rules)
            report.note(Broken(row["timestamp"], row["partition"], row["offset"], tuple(rules)))
    report.broken += len(broken)


def _note_certain(rule: str, mask: Mask, batch: pa.RecordBatch, report: Report) -> None:
    """Notes the first record in this block that breaks a rule."""
    hit = pa.table(batch.select(["timestamp", "partition", "offset"])).filter(pa.array(mask))
    order = [(name, "ascending") for name in ("timestamp", "partition", "offset")]
    [row] = hit.take(pc.sort_indices(hit, sort_keys=order)[:1]).to_pylist()
    report.note(Broken(row["timestamp"], row["partition"], row["offset"], (rule,)))


def _texts(values: pa.Array) -> tuple[pa.Array, Mask]:
    """Values as text. A value that is not UTF-8 is null, and False in the mask."""
    try:
        return pc.cast(values, pa.string()), np.ones(len(values), np.bool_)
    except pa.ArrowInvalid:
        texts = [_text(each) for each in values.to_pylist()]
        is_text = np.array([text is not None or not each.is_valid for text, each in zip(texts, values, strict=True)])
        return pa.array(texts, pa.string()), is_text


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _every(batch: pa.RecordBatch, sample: int) -> pa.RecordBatch:
    offsets = batch.column("offset").to_numpy()
    return batch.filter(pa.array(offsets % sample == 0))


def ranges_of(
    starts: Mapping[int, int], ends: Mapping[int, int], *, last: int | None, records_max: int | None
) -> dict[int, tuple[int, int]]:
    """Start and end per partition: the last N offsets of each, and at most `records_max` of the newest offsets in
    total."""
    spans = {each: max(0, ends[each] - starts[each]) for each in starts}
    if last is not None:
        spans = {each: min(span, last) for each, span in spans.items()}
    if records_max is not None:
        spans = _shared(spans, records_max)
    return {each: (ends[each] - span, ends[each]) for each, span in spans.items() if span}


def _shared(spans: Mapping[int, int], limit: int) -> dict[int, int]:
    """Shares the limit evenly; what a short partition does not need goes to the others."""
    shared: dict[int, int] = {}
    left = limit
    order: Sequence[int] = sorted(spans, key=lambda each: spans[each])
    for index, each in enumerate(order):
        shared[each] = min(spans[each], left // (len(order) - index))
        left -= shared[each]
    return shared
