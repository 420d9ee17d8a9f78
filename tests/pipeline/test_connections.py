"""The connections that the ranges of one task share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from chronik.client.addresses import Address
from chronik.pipeline.connection import BlockingConnection
from chronik.pipeline.connections import IdleConnections
from chronik.pipeline.errors import PipelineError
from chronik.pipeline.reading import read_range
from chronik.pipeline.security import NO_QUERY_SECURITY, QuerySecurity
from tests.pipeline import topics


class Counted:
    """Security settings that count the connections opened with them."""

    def __init__(self) -> None:
        self.opened: list[BlockingConnection] = []

    def connector(self, client_id: str) -> Callable[[Address], BlockingConnection]:
        connect = NO_QUERY_SECURITY.connector(client_id)

        def counted(address: Address) -> BlockingConnection:
            self.opened.append(connect(address))
            return self.opened[-1]

        return counted


@pytest.fixture
def counted() -> Counted:
    return Counted()


@pytest.fixture
def connections(counted: Counted) -> Iterator[IdleConnections]:
    made = IdleConnections(cast(QuerySecurity, counted), "test")
    yield made
    made.close()
    assert all(each._socket.fileno() < 0 for each in counted.opened)


def offsets(tables: Iterator[Any]) -> list[int]:
    return [offset for table in tables for offset in table["offset"].to_pylist()]


def test_the_ranges_of_a_task_share_a_connection(
    bootstrap: str, unique: Callable[[str], str], counted: Counted, connections: IdleConnections
) -> None:
    """A connection costs more than a range of four records."""
    topic = topics.create(bootstrap, unique("shared"), partitions=3)
    for partition in range(3):
        topics.fill(bootstrap, topic, 4, partition=partition)
    for partition in range(3):
        found = offsets(read_range(bootstrap, topic, partition, start=0, end=4, connections=connections))
        assert found == [0, 1, 2, 3]
    assert len(counted.opened) == 1


def test_a_range_that_fails_leaves_no_connection(
    bootstrap: str, unique: Callable[[str], str], counted: Counted, connections: IdleConnections
) -> None:
    """A response to its last request would be taken for the response to the next range's first one."""
    topic = topics.create(bootstrap, unique("failed"))
    topics.fill(bootstrap, topic, 10)
    short = read_range(bootstrap, topic, 0, start=0, end=15, timeout_ms=0, connections=connections)
    with pytest.raises(PipelineError):
        list(short)
    assert offsets(read_range(bootstrap, topic, 0, start=0, end=10, connections=connections)) == list(range(10))
    assert len(counted.opened) == 2


def test_a_range_that_is_given_up_leaves_no_connection(
    bootstrap: str, unique: Callable[[str], str], counted: Counted, connections: IdleConnections
) -> None:
    """Spark ends a task with `limit` early; the next fetch may be in flight then."""
    topic = topics.create(bootstrap, unique("ended"))
    topics.fill(bootstrap, topic, 400, **{"batch.num.messages": 50})
    given_up = read_range(bootstrap, topic, 0, start=0, end=400, fetch_bytes_max=2_000, connections=connections)
    next(given_up)
    given_up.close()  # type: ignore[attr-defined]
    found = offsets(read_range(bootstrap, topic, 0, start=390, end=400, connections=connections))
    assert found == list(range(390, 400))
    assert len(counted.opened) == 2
