"""Keys go where Kafka's own producer sends them, bit for bit; records without key stick, then move."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.client.partitioners import Sticky, murmur2, partition_of_key
from tests.client.machine import Chance
from tests.oracle import client_oracle

# From org.apache.kafka.common.utils.Utils.murmur2 of Kafka 4.3.1, as unsigned numbers.
FROM_JAVA = [
    (b"", 275646681),
    (b"a", 2731586172),
    (b"ab", 316155434),
    (b"abc", 479470107),
    (b"abcd", 2971317748),
    (b"abcde", 461995741),
    (b"21", 3321034988),
    (b"foobar", 3504634814),
    (b"a-little-bit-long-string", 3308985760),
    (b"\xff\xfe\xfd", 998637092),
    (bytes(range(256)), 2346620022),
    ("Zürich".encode(), 2743826481),
    (b"k" * 31, 924274934),
]


@pytest.mark.parametrize(("key", "expected"), FROM_JAVA)
def test_murmur2_is_that_of_javas_client(key: bytes, expected: int) -> None:
    """One different bit sends the records of a key to another partition than every other client does."""
    assert murmur2(key) == expected


@pytest.mark.java
def test_murmur2_agrees_with_java_on_random_keys() -> None:
    """A table can miss a case: every length from 0 to 40, with random bytes."""
    chance = random.Random(4)
    keys = [chance.randbytes(length) for length in range(41) for _ in range(20)]
    answers = client_oracle.ask([f"murmur2 {key.hex()}" for key in keys])
    assert [murmur2(key) for key in keys] == [int(answer) & 0xFFFFFFFF for answer in answers]


@given(key=st.binary(max_size=40), count=st.integers(1, 1000))
def test_a_key_has_one_place_and_it_exists(key: bytes, count: int) -> None:
    """A hash with its top bit set must not become a negative partition."""
    assert 0 <= partition_of_key(key, count) < count
    assert partition_of_key(key, count) == partition_of_key(key, count)


def test_the_top_bit_of_the_hash_does_not_count() -> None:
    """Java masks it off; a modulo of the signed number would land elsewhere."""
    assert murmur2(b"a") >= 2**31
    assert partition_of_key(b"a", 7) == (2731586172 - 2**31) % 7


@given(seed=st.integers(0, 1000), count=st.integers(1, 20))
def test_a_sticky_partition_moves_to_another_one(seed: int, count: int) -> None:
    """Staying would fill one partition; moving to one that cannot be written to would stall."""
    choices = list(range(0, 2 * count, 2))
    sticky = Sticky(Chance(seed), choices)
    assert sticky.partition in choices
    before = sticky.partition
    after = sticky.move(choices)
    assert after in choices
    assert (after != before) == (count > 1)
