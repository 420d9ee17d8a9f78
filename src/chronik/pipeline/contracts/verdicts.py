"""What rules say of a block of records, and the interface of a set of rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from chronik.pipeline.contracts.facts import Facts, Mask, Path

Rows = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Rows that break each rule. Of `unknown` rows nothing here counts: they are judged one by one."""

    fails: Mapping[str, Mask]
    unknown: Mask


class Contract(Protocol):
    """`paths`, `objects` and `texts` are the facts that it needs; none of them help if it is not `is_columnar`."""

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
        """Labels of the rules that a record breaks."""
        ...
