"""A slice of the fuzz job on every run; `make fuzz` does the million."""

from __future__ import annotations

import pytest

from tests.fuzz.run import fuzz
from tests.fuzz.targets import Target, all_targets

TARGETS = list(all_targets())
SLICES = 16


@pytest.mark.slow
@pytest.mark.parametrize("part", range(SLICES))
def test_no_mutated_input_gets_past_the_decoders(part: int) -> None:
    """Every target sees 24 inputs; the seed is fixed, so a failure here is never a surprise of the day."""
    findings = [finding for target in TARGETS[part::SLICES] if (finding := fuzz(target, seed=7, inputs=24))]
    assert findings == []


def test_the_fuzzer_reports_what_it_is_there_to_find() -> None:
    """A net is only as good as what it catches: a stray exception, and memory taken on an input's word."""

    def raises(data: bytes) -> None:
        raise IndexError("index out of range")

    def hoards(data: bytes) -> bytes:
        return bytes(8 << 20)

    assert "IndexError" in (fuzz(Target("raises", raises, lambda random: b"abc"), 1, 1) or "")
    assert "bytes of memory" in (fuzz(Target("hoards", hoards, lambda random: b"abc"), 1, 1) or "")
