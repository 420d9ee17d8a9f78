"""subscribePattern has the same meaning as in Spark's Kafka source: Java's syntax, matched anywhere in the name."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from chronik.pipeline.topic_pattern import topic_pattern
from tests.pipeline.topic_patterns import FOUND, NAMES, REFUSED, random_pattern

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def found_here(pattern: str) -> set[str]:
    return {name for name in NAMES if topic_pattern(pattern).search(name)}


@pytest.mark.parametrize("pattern", FOUND)
def test_a_pattern_is_found_in_the_names_in_which_java_finds_it(pattern: str) -> None:
    """A topic that does not match is silently not read."""
    assert found_here(pattern) == (set(NAMES) if FOUND[pattern] == "*" else set(FOUND[pattern].split()))


@pytest.mark.parametrize("pattern", REFUSED)
def test_a_pattern_that_is_none_is_refused_with_a_reason(pattern: str) -> None:
    """Read in another sense it would choose other topics."""
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - there are many reasons
        topic_pattern(pattern)
    assert str(refused.value)


@pytest.mark.spark
@pytest.mark.java
@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_java_itself_finds_the_same(spark: SparkSession) -> None:
    """The table above, and patterns at random. One that Java refuses need not be refused here."""
    java = spark._jvm.java.util.regex.Pattern  # type: ignore[union-attr]
    rng = random.Random(7)
    for pattern in [*FOUND, *(random_pattern(rng) for _ in range(400))]:
        try:
            compiled = java.compile(pattern)
        except Exception as error:  # noqa: BLE001 - py4j's own, by whatever name
            assert "PatternSyntaxException" in str(error)  # noqa: PT017 - there is no match to be compared
            assert pattern not in FOUND
            continue
        found = {name for name in NAMES if compiled.matcher(name).find()}
        assert (pattern, found_here(pattern)) == (pattern, found)
