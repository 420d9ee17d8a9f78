"""Questions to a running broker and to tables on disk, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from deltalake import write_deltalake

from chronik.client.errors import Unreachable
from chronik.pipeline.cluster import BlockingCluster
from chronik.pipeline.sql.errors import SqlError
from chronik.pipeline.sql.relations import Catalog, as_text
from chronik.pipeline.sql.running import QueryResult
from chronik.testing import Cluster

Ask = Callable[[str], list[tuple[Any, ...]]]
COUNT = 3000


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A topic `orders` with three partitions, `odd.ones` with bytes that are no text, and `twins`."""
    with Cluster(settings={"num.partitions": "3"}) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5})
        for number in range(COUNT):
            value = b'{"n": %d, "city": "%s"}' % (number, [b"Bonn", b"Ulm"][number % 2])
            producer.produce("orders", value, key=b"k%d" % (number % 7), partition=number % 3)
        producer.produce("odd.ones", b"\xff\x00ok", key=None, headers=[("trace", b"t1")], partition=0)
        producer.produce("odd.ones", None, key=b"gone", partition=0)
        producer.produce("twins", b"topic", partition=0)
        assert producer.flush(60) == 0
        yield cluster.bootstrap


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """Tables `sales` with three versions and a partition column, and `twins`."""
    sales = tmp_path / "tables" / "sales"
    for version in range(3):
        rows = pa.table({"City": ["Bonn", "Ulm"], "amount": [version, 10 * version], "_offset": [version, version]})
        write_deltalake(str(sales), rows, mode="append", partition_by=["City"])
    write_deltalake(str(tmp_path / "tables" / "twins"), pa.table({"a": ["table"]}))
    return tmp_path


@pytest.fixture
def ask(bootstrap: str, storage: Path) -> Iterator[Ask]:
    with _asking(bootstrap, storage) as ask:
        yield ask


class _asking:  # noqa: N801 - a context
    def __init__(self, bootstrap: str, storage: Path, *, as_bytes: bool = False) -> None:
        self._cluster = BlockingCluster(bootstrap, client_id="test")
        self._catalog = Catalog(self._cluster, bootstrap, str(storage), as_bytes=as_bytes)

    def __enter__(self) -> Ask:
        def ask(text: str) -> list[tuple[Any, ...]]:
            with QueryResult.to(text, self._catalog) as answer:
                return list(answer.rows())

        return ask

    def __exit__(self, *_: object) -> None:
        self._cluster.close()


def test_a_topic_is_counted_filtered_and_joined(ask: Ask) -> None:
    """All of its records, whichever partition they are in, as often as the query names the topic."""
    assert ask("SELECT count(*) FROM orders") == [(COUNT,)]
    assert ask("SELECT _partition, count(*), max(_offset) FROM orders GROUP BY 1 ORDER BY 1") == [
        (partition, COUNT // 3, COUNT // 3 - 1) for partition in range(3)
    ]
    cities = ask("SELECT value->>'$.city' AS city, sum((value->>'$.n')::int) FROM topics.orders GROUP BY 1 ORDER BY 1")
    assert cities == [("Bonn", sum(range(0, COUNT, 2))), ("Ulm", sum(range(1, COUNT, 2)))]
    assert ask("SELECT count(*) FROM orders a JOIN orders b USING (_partition, _offset)") == [(COUNT,)]
    assert len(ask("FROM orders LIMIT 5")) == 5


def test_the_columns_of_a_topic(ask: Ask) -> None:
    """A star has no headers; naming them brings them."""
    described = [row[0] for row in ask("DESCRIBE orders")]
    assert described == ["key", "value", "_partition", "_offset", "_timestamp"]
    rows = ask('SELECT key, value, _headers FROM "odd.ones" ORDER BY _offset')
    assert rows == [(None, "\\xff\x00ok", [{"key": "trace", "value": b"t1"}]), ("gone", None, None)]
    [(moment,)] = ask('SELECT max(_timestamp) FROM "odd.ones"')
    assert moment.year >= 2026


def test_bytes_stay_bytes_when_asked_for(bootstrap: str, storage: Path) -> None:
    """For values that are neither text nor JSON."""
    with _asking(bootstrap, storage, as_bytes=True) as ask:
        assert ask('SELECT value FROM "odd.ones" ORDER BY _offset LIMIT 1') == [(b"\xff\x00ok",)]


def test_text_that_is_no_utf_8_is_escaped_and_the_rest_untouched() -> None:
    """One odd record must not make a topic unreadable."""
    found = as_text(pa.array([b"a", None, b"\xc3\xa4", b"\xffb"]))
    assert found.to_pylist() == ["a", None, "ä", "\\xffb"]


def test_a_table_is_read_now_and_at_a_version(ask: Ask, storage: Path) -> None:
    """By name, by path, and at an earlier version; column names in any case."""
    assert ask("SELECT count(*), sum(AMOUNT) FROM sales") == [(6, 33)]
    assert ask('SELECT city, amount FROM tables."sales@v1" ORDER BY amount DESC LIMIT 1') == [("Ulm", 10)]
    assert ask(f"SELECT count(*) FROM '{storage}/tables/sales'") == [(6,)]
    assert ask("SELECT count(DISTINCT City) FROM sales WHERE City = 'Ulm'") == [(1,)]


def test_a_topic_and_a_table_are_joined(ask: Ask) -> None:
    """By the columns that say where a row came from, which have the same names in both."""
    [(count,)] = ask("SELECT count(*) FROM orders o JOIN sales s ON o._offset = s._offset AND o._partition = 0")
    assert count == 6


def test_a_name_that_is_both_must_be_told_apart(ask: Ask) -> None:
    """Guessing would answer the wrong question without a word."""
    with pytest.raises(SqlError, match=r"write topics\.twins or tables\.twins"):
        ask("SELECT * FROM twins")
    assert ask("SELECT value FROM topics.twins") == [("topic",)]
    assert ask("SELECT a FROM tables.twins") == [("table",)]


def test_files_are_left_to_duckdb(ask: Ask, storage: Path) -> None:
    """A list of a colleague's, joined with a topic."""
    (storage / "keys.csv").write_text("key\nk1\nk2\n")
    assert ask(f"SELECT count(DISTINCT o.key) FROM orders o JOIN '{storage}/keys.csv' USING (key)") == [(2,)]


@pytest.mark.parametrize(
    ("text", "condition", "hint"),
    [
        ("SELECT * FROM oders", "SQL_NAME_UNKNOWN", "; did you mean 'orders'?"),
        ("SELECT * FROM tables.sale", "SQL_NAME_UNKNOWN", "; did you mean 'sales'?"),
        ("SELECT * FROM tables.orders", "SQL_NAME_UNKNOWN", ""),
        ("SELECT * FROM zzz", "SQL_NAME_UNKNOWN", ""),
        ("SELECT vlaue FROM orders", "SQL_COLUMN_UNKNOWN", ": did you mean 'value'?"),
        ("SELECT amont FROM sales", "SQL_COLUMN_UNKNOWN", ": did you mean 'amount'?"),
        ("SELECT nofunction(key) FROM orders", "SQL_FAILED", None),
        ("SELECT value::int FROM orders", "SQL_FAILED", None),
    ],
)
def test_what_is_wrong_is_named_with_the_nearest_that_is_right(
    ask: Ask, text: str, condition: str, hint: str | None
) -> None:
    """Most are typing errors."""
    with pytest.raises(SqlError) as raised:
        ask(text)
    assert (raised.value.condition, raised.value.parameters.get("hint")) == (condition, hint)


def test_tables_are_read_without_a_broker_and_topics_are_not(storage: Path) -> None:
    """A missing broker is reported at once."""
    with _asking("127.0.0.1:1", storage) as ask:
        assert ask("SELECT count(*) FROM sales") == [(6,)]
        with pytest.raises(Unreachable):
            ask("SELECT count(*) FROM orders")
