"""What every client must be able to do with a broker, stated once; each client's test file inherits it.

The client decides how; the broker under it must make every line true. Waiting is for a condition, never for a time: a
slow machine makes these tests slow, not red.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import ClassVar

import pytest

from chronik.testing import Cluster
from tests.clients.driver import CODECS, Driver, Sent

HANG_SECONDS = 120
TIMESTAMP_MS = 1_700_000_000_123


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Polls a condition that another process brings about."""
    deadline = time.monotonic() + HANG_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.02)


class GroupContract:
    """Subclasses give `driver`, a fixture that yields a connected Driver. What a group does does not depend on its
    protocol."""

    topics: ClassVar[Iterator[int]] = iter(range(1_000_000))

    @pytest.fixture
    def topic(self, cluster: Cluster) -> str:
        """A new topic with three partitions, created by use (num.partitions)."""
        return f"{type(self).__name__.lower()}-{next(self.topics)}"

    def test_two_members_share_the_partitions_and_one_takes_over_when_the_other_leaves(
        self, driver: Driver, topic: str
    ) -> None:
        driver.produce(topic, [Sent(f"{n}", partition=n % 3) for n in range(30)])
        group = f"group-{topic}"
        driver.join("a", group, topic)
        wait_until(lambda: driver.assignment("a") == [0, 1, 2], "the only member owns everything")
        wait_until(lambda: len(driver.received("a")) == 30, "it reads everything")
        driver.commit("a")
        driver.join("b", group, topic)
        wait_until(lambda: 0 < len(driver.assignment("b")) < 3, "the second member gets its share")
        wait_until(
            lambda: sorted(driver.assignment("a") + driver.assignment("b")) == [0, 1, 2],
            "every partition has one owner",
        )
        driver.produce(topic, [Sent(f"more {n}", partition=n % 3) for n in range(30)])
        wait_until(
            lambda: {r.value for m in "ab" for r in driver.received(m)} >= {f"more {n}" for n in range(30)},
            "the two of them read everything that is new",
        )
        driver.leave("a")
        wait_until(lambda: driver.assignment("b") == [0, 1, 2], "the one that stays takes over")
        driver.leave("b")

    def test_a_group_goes_on_where_it_committed(self, driver: Driver, topic: str) -> None:
        driver.produce(topic, [Sent(f"old {n}", partition=n % 3) for n in range(12)])
        group = f"group-{topic}"
        driver.join("first", group, topic)
        wait_until(lambda: len(driver.received("first")) == 12, "it reads everything")
        driver.commit("first")
        driver.leave("first")
        driver.produce(topic, [Sent(f"new {n}", partition=n % 3) for n in range(6)])
        driver.join("second", group, topic)
        wait_until(lambda: len(driver.received("second")) >= 6, "its successor reads on")
        assert {record.value for record in driver.received("second")} == {f"new {n}" for n in range(6)}
        driver.leave("second")


class ConsumerGroupContract(GroupContract):
    """The coordinator assigns (KIP-848)."""

    def test_three_members_have_a_partition_each(self, driver: Driver, topic: str) -> None:
        driver.produce(topic, [Sent(f"{n}", partition=n % 3) for n in range(30)])
        for member in "abc":
            driver.join(member, f"group-{topic}", topic)
        wait_until(
            lambda: sorted(driver.assignment(member) for member in "abc") == [[0], [1], [2]],
            "every member has one partition",
        )
        wait_until(
            lambda: (
                {record.value for member in "abc" for record in driver.received(member)} == {f"{n}" for n in range(30)}
            ),
            "all of them together have read everything",
        )
        for member in "abc":
            driver.leave(member)


class ClientContract(GroupContract):
    def test_what_is_produced_is_consumed_with_keys_and_nulls(self, driver: Driver, topic: str) -> None:
        sent = [Sent("one", key="k", partition=0), Sent("", key="", partition=0), Sent(None, key="gone", partition=0)]
        offsets = driver.produce(topic, sent)
        assert offsets == [(0, 0), (0, 1), (0, 2)]
        seen = driver.consume(topic, 3)
        assert [(record.value, record.key) for record in seen] == [("one", "k"), ("", ""), (None, "gone")]
        assert [record.offset for record in seen] == [0, 1, 2]

    def test_offsets_of_each_partition_count_from_zero(self, driver: Driver, topic: str) -> None:
        offsets = driver.produce(topic, [Sent(f"{n}", partition=n % 3) for n in range(30)])
        for partition in range(3):
            assert [offset for where, offset in offsets if where == partition] == list(range(10))
        seen = driver.consume(topic, 30)
        assert sorted((record.partition, record.offset, record.value) for record in seen) == sorted(
            (partition, offset, f"{n}") for n, (partition, offset) in enumerate(offsets)
        )

    @pytest.mark.parametrize("codec", CODECS)
    def test_compressed_records_come_back(self, driver: Driver, topic: str, codec: str) -> None:
        if codec not in driver.codecs:
            return  # this client cannot write it; the others prove the broker
        values = [f"{codec} {n} " + "x" * 200 for n in range(200)]
        driver.produce(topic, [Sent(value, partition=1) for value in values], codec=codec)
        assert [record.value for record in driver.consume(topic, 200)] == values

    def test_headers_and_timestamps_are_kept(self, driver: Driver, topic: str) -> None:
        headers = (("trace", "abc"), ("trace", "def"), ("empty", "")) if driver.has_headers else ()
        driver.produce(topic, [Sent("v", headers=headers, timestamp_ms=TIMESTAMP_MS, partition=0)])
        (seen,) = driver.consume(topic, 1)
        assert seen.headers == headers
        assert seen.timestamp_ms == TIMESTAMP_MS

    def test_an_idempotent_producer_writes_each_record_once(self, driver: Driver, topic: str) -> None:
        if not driver.is_idempotent:
            return
        offsets = driver.produce(topic, [Sent(f"{n}", partition=0) for n in range(100)], idempotent=True)
        assert offsets == [(0, n) for n in range(100)]
        assert [record.value for record in driver.consume(topic, 100)] == [f"{n}" for n in range(100)]
