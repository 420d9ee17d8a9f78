"""The results of rules for a block of records, and the interface of a set of rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from chronik.pipeline.contracts.facts import Facts, Mask, Path

Rows = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The rows that break each rule. Rows in `unknown` are undecided, and judged one by one."""

    fails: Mapping[str, Mask]
    unknown: Mask


class Contract(Protocol):
    """`paths`, `objects` and `texts` are the facts that it needs. If it is not `is_columnar`, it cannot use facts."""

    @property
    def paths(self) -> Sequence[Path]: ...
    @property
    def objects(self) -> Sequence[Path]: ...
    @property
    def texts(self) -> Sequence[Path]: ...
    @property
    def is_columnar(self) -> bool: ...

    def judge(self, facts: Facts) -> Verdicts: ...

    def exact(self, row: Rows) -> list[str]:
        """The labels of the rules that a record breaks."""
        ...
