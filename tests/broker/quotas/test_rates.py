"""Rates and buckets compute what Kafka's own classes compute."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest

from chronik.broker.quotas.rates import Rate, TokenBucket
from tests.oracle.jars import kafka_jars

SOURCE = Path(__file__).parents[2] / "oracle" / "java" / "QuotaOracle.java"
CASES = 400


def waits(kind: str, samples: int, bound: float, uses: list[tuple[int, float]]) -> list[int]:
    """How long a client waits after each use."""
    found = []
    rate, bucket = Rate(samples, 1_000), TokenBucket()
    for now_ms, value in uses:
        if kind == "rate":
            rate.record(value, now_ms)
            found.append(rate.over_ms(bound, now_ms))
        else:
            over_ms = bucket.over_ms(now_ms, per_second=bound, seconds_max=samples)
            if not over_ms:
                bucket.take(value, now_ms, per_second=bound, seconds_max=samples)
            found.append(over_ms)
    return found


def test_a_rate_is_taken_over_ten_seconds_also_when_it_is_young() -> None:
    """60 KB three times within 6 ms, at 10,000 bytes a second: a real Kafka's throttle times, to the millisecond."""
    assert waits("rate", 11, 10_000, [(1_000, 60_000), (1_003, 60_000), (1_006, 60_000)]) == [0, 1_997, 7_994]


def test_what_is_older_than_all_windows_does_not_count() -> None:
    assert waits("rate", 3, 10, [(0, 100), (2_999, 0), (6_000, 10)]) == [8_000, 7_001, 0]


def test_a_bucket_fills_up_to_its_size_and_may_be_overdrawn_once() -> None:
    uses = [(100_000, 25.0), (100_000, 1.0), (101_000, 1.0), (107_000, 1.0)]
    assert waits("bucket", 10, 2, uses) == [0, 2_500, 1_500, 0]


def random_case(random: Random) -> tuple[str, int, float, list[tuple[int, float]]]:
    now_ms, uses = random.randrange(10_000_000), []
    for _ in range(random.randrange(1, 40)):
        now_ms += random.choice((0, 1, random.randrange(50), random.randrange(1_500), random.randrange(20_000)))
        uses.append((now_ms, float(random.choice((1, random.randrange(1, 5_000), random.randrange(1, 200_000))))))
    samples, bound = random.choice((2, 3, 11)), random.choice((1.0, 7.5, 1_000.0, 12_345.0))
    return random.choice(("rate", "bucket")), samples, bound, uses


@pytest.mark.java
def test_waits_are_those_of_kafkas_classes() -> None:
    random = Random(7)
    cases = [random_case(random) for _ in range(CASES)]
    lines = []
    for kind, samples, bound, uses in cases:
        lines.append(" ".join([kind, str(samples), str(bound), *(f"{at} {value}" for at, value in uses)]))
    java = shutil.which("java")
    assert java is not None
    command = [java, "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", f"{kafka_jars('4.3.1')}/*", str(SOURCE)]
    done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    for case, answer in zip(cases, done.stdout.splitlines(), strict=True):
        assert waits(*case) == [int(word) for word in answer.split()], case
