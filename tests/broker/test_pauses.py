"""Why a connection does not read or start a request: every set of reasons against the table in the module."""

from __future__ import annotations

import re

import pytest

from chronik.broker import pauses
from chronik.broker.pauses import NAMES, may_start, named, reads

ROW = re.compile(r"^    ([A-Z_]+) .*  (yes|no)  +(yes|no|behind another)$", re.MULTILINE)
TABLE = {name: (reading == "yes", starting) for name, reading, starting in ROW.findall(pauses.__doc__ or "")}


def test_the_table_names_every_reason() -> None:
    assert tuple(TABLE) == NAMES
    assert [getattr(pauses, name) for name in NAMES] == [1 << bit for bit in range(len(NAMES))]


@pytest.mark.parametrize("reasons", range(1 << len(NAMES)))
def test_any_reason_is_enough_and_none_undoes_another(reasons: int) -> None:
    rows = [TABLE[name] for name in named(reasons)]
    assert reads(reasons) == (not any(reading for reading, _ in rows))
    assert may_start(reasons, is_behind_another=False) == (not any(starting == "yes" for _, starting in rows))
    assert may_start(reasons, is_behind_another=True) == (not any(starting != "no" for _, starting in rows))
