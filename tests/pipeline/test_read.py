"""`chronik.read`: table and topic as one frame, every record once. The pipeline is `topic_loop`, without Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import chronik
from chronik.pipeline import frontier, snapshot
from chronik.pipeline.errors import PipelineError
from chronik.testing import Cluster
from tests.pipeline import topics
from tests.pipeline.topic_loop import Loop

PARTITIONS = 3
COLUMNS = ["n", "city", "_unknown", "id", "_deleted", "_topic_id", "_partition", "_offset", "_timestamp"]


class Shop:
    """A topic, the folder of its table, and a pipeline that runs a batch on request."""

    def __init__(
        self, bootstrap: str, topic: str, storage: Path, keys: str = "", *, is_new: bool = True, replicas: int = 1
    ) -> None:
        self.bootstrap, self.topic, self.storage, self.keys = bootstrap, topic, str(storage), keys
        if is_new:
            admin = AdminClient({"bootstrap.servers": bootstrap})
            admin.create_topics([NewTopic(topic, PARTITIONS, replicas)])[topic].result(60)
        self.producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1})
        self.sent = 0
        self._loops: list[Loop] = []

    def send(self, count: int) -> None:
        for number in range(self.sent, self.sent + count):
            value = b'{"n": %d, "city": "Ulm"}' % number
            self.producer.produce(
                self.topic, value, key=b"%d" % (number % 40 if self.keys else number), partition=number % PARTITIONS
            )
            self.producer.poll(0)
        assert self.producer.flush(60) == 0
        self.sent += count

    def send_raw(self, key: bytes | None, value: bytes | None, partition: int = 0) -> None:
        self.producer.produce(self.topic, value, key=key, partition=partition)
        assert self.producer.flush(60) == 0

    def batch(self) -> None:
        loop = self.loop()
        loop.batch(loop.next_number())

    def loop(self) -> Loop:
        self._loops.append(Loop(self.bootstrap, self.topic, self.storage, self.keys))
        return self._loops[-1]

    def close(self) -> None:
        for loop in self._loops:
            loop.cluster.close()

    def read(self, **options: Any) -> Any:
        return chronik.read("orders", bootstrap=self.bootstrap, storage=self.storage, **options)

    def numbers(self, **options: Any) -> list[int]:
        found: list[int] = self.read(**options).to_arrow()["n"].to_pylist()
        return sorted(found)


@pytest.fixture
def shops(our_broker: Cluster, unique: Callable[[str], str], tmp_path: Path) -> Iterator[Callable[[str], Shop]]:
    """Makes one; with `keys` its table is kept by key."""
    made: list[Shop] = []

    def make(keys: str) -> Shop:
        made.append(Shop(our_broker.bootstrap, unique("orders"), tmp_path, keys))
        return made[-1]

    yield make
    for shop in made:
        shop.close()


@pytest.fixture
def shop(shops: Callable[[str], Shop]) -> Shop:
    return shops("")


def test_before_during_and_after_the_first_batch(shop: Shop) -> None:
    """The same rows, wherever they are: all in the topic, in both, or all in the table."""
    loop = shop.loop()
    shop.send(10)
    assert shop.numbers() == list(range(10))
    loop.batch(0)
    found = shop.read()
    assert (found.version, found.tail_rows) == (0, 0)
    shop.send(5)
    found = shop.read()
    assert (found.version, found.tail_rows) == (0, 5)
    assert found.columns == COLUMNS
    before = found.to_arrow()
    loop.batch(1)
    after = shop.read().to_arrow()
    order = [("_partition", "ascending"), ("_offset", "ascending")]
    assert before.sort_by(order) == after.sort_by(order), "a row of the topic is the row that the table gets"
    assert found.to_arrow() == before, "a snapshot stays what it was"


def test_a_batch_that_is_committed_but_not_noted_as_done(shop: Shop) -> None:
    """A driver killed between the two: the table's own rows tell where it ends."""
    loop = shop.loop()
    shop.send(9)
    loop.batch(0)
    (loop.checkpoint / "commits" / "0").unlink()
    shop.send(3)
    assert shop.numbers() == list(range(12))


def test_records_without_rows_leave_none(shop: Shop) -> None:
    """Dead letters are in neither half, also at the end of the table, and after retention has removed them."""
    loop = shop.loop()
    shop.send(6)
    for value in (b"{", b'{"n": "1"}', b'{"n": 1} {}', b"\xff"):
        shop.send_raw(b"1", value)
    assert shop.numbers() == list(range(6))
    loop.batch(0)
    topics.delete_before(shop.bootstrap, shop.topic, 0, 6)
    assert shop.numbers() == list(range(6)), "the checkpoint knows that these records were dealt with"


def test_records_that_are_in_neither_are_an_error(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The missing offsets are named; they can be accepted."""
    monkeypatch.setattr(snapshot, "RETRY_S", 0)
    loop = shop.loop()
    shop.send(9)
    loop.batch(0)
    shop.send(9)
    topics.delete_before(shop.bootstrap, shop.topic, 1, 5)
    with pytest.raises(PipelineError) as raised:
        shop.numbers()
    assert raised.value.condition == "RECORDS_MISSING"
    assert raised.value.parameters["missing"] == f"{shop.topic}-1 offsets 3 to 4"
    kept = shop.numbers(fail_on_data_loss=False)
    assert kept == [number for number in range(18) if number not in (10, 13)]


def test_a_topic_that_was_created_again(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its offsets begin at 0, and the rows of the topic before stay in the table."""
    shop.send(9)
    shop.batch()
    topics.delete(shop.bootstrap, shop.topic)
    topics.create(shop.bootstrap, shop.topic, PARTITIONS)
    shop.send(6)
    assert shop.numbers() == list(range(15))
    assert len(set(shop.read().to_arrow()["_topic_id"].to_pylist())) == 2
    monkeypatch.setattr(frontier, "_bounds", lambda table: {})  # as of files without statistics
    assert shop.numbers() == list(range(15))


def test_retention_overtakes_the_reader(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that are deleted between the lookup of the table and the read, because the table has them now, are not
    lost."""
    loop = shop.loop()
    shop.send(9)
    real, calls = snapshot.read_range, []

    def late(*words: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        if not calls:
            calls.append(1)
            loop.batch(0)
            for partition in range(PARTITIONS):
                topics.delete_before(shop.bootstrap, shop.topic, partition, 3)
        return real(*words, **options)

    monkeypatch.setattr(snapshot, "read_range", late)
    assert shop.numbers() == list(range(9))
    assert calls


def test_by_key(shops: Callable[[str], Shop]) -> None:
    """A keyed table equals a dict of the same records, wherever they are."""
    shop = shops("id")
    loop = shop.loop()
    oracle: dict[int, int | None] = {}
    for batch in range(3):
        for number in range(30):
            key, deletes = (7 * number + batch) % 20, (number + batch) % 9 == 0
            shop.send_raw(b"%d" % key, None if deletes else b'{"n": %d}' % (100 * batch + number), key % PARTITIONS)
            oracle[key] = None if deletes else 100 * batch + number
        rows = shop.read().to_arrow()
        found = dict(zip(rows["id"].to_pylist(), rows["n"].to_pylist(), strict=True))
        assert found == {key: value for key, value in oracle.items() if value is not None}
        assert rows.num_rows == len(found)
        assert "_deleted" not in rows.column_names
        if batch < 2:
            loop.batch(batch)


def test_surfaces(shop: Shop) -> None:
    """pandas, DuckDB, and whatever reads Arrow's stream."""
    duckdb = pytest.importorskip("duckdb")
    shop.send(6)
    shop.batch()
    shop.send(3)
    frame = shop.read()
    assert sorted(frame.to_pandas()["n"]) == list(range(9))
    relation = frame.to_duckdb(duckdb.connect())
    assert relation.aggregate("count(*) AS c, sum(n) AS s").fetchall() == [(9, sum(range(9)))]
    assert pa.RecordBatchReader.from_stream(frame).read_all().num_rows == 9
    assert repr(frame) == "<chronik.read('orders'): version 0 of the table and 3 rows after it>"
    with pytest.raises(PipelineError, match=r"pip install 'polars'") if _lacks("polars") else _nothing():
        assert sorted(frame.to_polars()["n"]) == list(range(9))


def test_what_cannot_be_read_is_said(shop: Shop) -> None:
    """A name that nothing has, a table of unknown origin, a topic that is gone."""
    shop.send(1)
    shop.batch()
    with pytest.raises(PipelineError, match="did you mean 'orders'"):
        chronik.read("oders", bootstrap=shop.bootstrap, storage=shop.storage)
    note = Path(shop.storage, "tables", "orders", "_flow.json")
    text = note.read_text()
    note.write_text(text.replace('"is_plain": true', '"is_plain": false'))
    with pytest.raises(PipelineError, match="READ_NEEDS_SPARK"):
        shop.read()
    note.unlink()
    with pytest.raises(PipelineError, match="READ_FLOW_UNKNOWN"):
        shop.read()
    note.write_text(text)
    topics.delete(shop.bootstrap, shop.topic)
    with pytest.raises(PipelineError, match="TOPIC_NOT_FOUND"):
        shop.read()


def test_only_files_that_may_reach_further_are_read(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Statistics of the log suffice for old files."""
    loop = shop.loop()
    for number in range(4):
        shop.send(9)
        loop.batch(number)
    read: list[str] = []
    real = frontier.read_file
    monkeypatch.setattr(
        frontier, "read_file", lambda system, file, schema: (read.append(file.path), real(system, file, schema))[1]
    )
    assert len(shop.numbers()) == 36
    assert 0 < len(read) <= PARTITIONS


@pytest.mark.long
def test_each_read_has_each_record_once_while_brokers_are_killed(tmp_path: Path) -> None:
    """If a leader dies during a read, another node continues; every frame has all records that were acknowledged
    before."""
    with Cluster(nodes=3, in_process=False, settings={"default.replication.factor": "3"}) as cluster:
        shop = Shop(cluster.bootstrap, "orders", tmp_path, replicas=3)
        loop = shop.loop()
        for node in (1, 2, 3):
            shop.send(30)
            if node == 2:
                loop.batch(0)
            cluster.kill(node)
            for _ in range(3):
                _require_once(shop.read().to_arrow(), shop.sent)
            cluster.start_again(node)
            while _in_sync(cluster.bootstrap, "orders") < 3:
                time.sleep(0.1)
        shop.close()


def _in_sync(bootstrap: str, topic: str) -> int:
    """Of the partition that has fewest."""
    found = AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, timeout=60).topics[topic].partitions
    return min(len(each.isrs) for each in found.values())


@pytest.mark.parametrize("kills", [4, pytest.param(40, marks=pytest.mark.long)])
@pytest.mark.parametrize("keys", ["", "id"])
def test_each_read_has_each_record_once_while_the_driver_is_killed(
    shops: Callable[[str], Shop], kills: int, keys: str
) -> None:
    """kill -9 at any moment, commits, compaction and a producer, and reads without a pause between them."""
    shop = shops(keys)
    shop.loop()  # notes how the table is made
    sent_before: list[tuple[int, pa.Table]] = []
    ends = threading.Event()

    def produce() -> None:
        while not ends.is_set():
            shop.send(20)
            time.sleep(0.005)

    def kill() -> None:
        for _ in range(kills):
            driver = _driver(shop)
            time.sleep(0.3 + 0.13 * (len(sent_before) % 5))
            os.kill(driver.pid, signal.SIGKILL)
            driver.wait()
        ends.set()

    workers = [threading.Thread(target=produce), threading.Thread(target=kill)]
    for worker in workers:
        worker.start()
    try:
        while not ends.is_set():
            floor = shop.sent
            sent_before.append((floor, shop.read().to_arrow()))
    finally:
        ends.set()
        for worker in workers:
            worker.join()
    assert len(sent_before) > kills
    versions = [frame.num_rows for _, frame in sent_before]
    assert versions[-1] > 0
    for floor, frame in sent_before:
        if keys:
            _require_newest(frame, floor)
        else:
            _require_once(frame, floor)


def _require_once(frame: pa.Table, floor: int) -> None:
    """Everything that was acknowledged before the read, nothing twice, and of each partition no gap."""
    numbers = frame["n"].to_pylist()
    assert max(Counter(numbers).values(), default=1) == 1
    assert set(range(floor)) <= set(numbers)
    for partition in range(PARTITIONS):
        offsets = sorted(frame.filter(pc.equal(frame["_partition"], partition))["_offset"].to_pylist())
        assert offsets == list(range(len(offsets)))


def _require_newest(frame: pa.Table, floor: int) -> None:
    """One row for each key, not older than the records acknowledged before the read."""
    newest = {number % 40: number for number in range(floor)}
    found = dict(zip(frame["id"].to_pylist(), frame["n"].to_pylist(), strict=True))
    assert len(found) == frame.num_rows
    assert all(found.get(key, -1) >= number for key, number in newest.items())


def _driver(shop: Shop) -> subprocess.Popen[str]:
    driver = subprocess.Popen(
        [sys.executable, "-m", "tests.pipeline.topic_loop", shop.bootstrap, shop.topic, shop.storage, shop.keys],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert driver.stdout is not None
    assert driver.stdout.readline() == "started\n"
    driver.stdout.close()
    return driver


def _lacks(package: str) -> bool:
    from importlib.util import find_spec

    return find_spec(package) is None


def _nothing() -> Any:
    from contextlib import nullcontext

    return nullcontext()


def test_importing_the_package_imports_nothing_else() -> None:
    """A broker, a client and a command import it too."""
    code = "import sys; before = set(sys.modules); import chronik; print(sorted(set(sys.modules) - before))"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    printed = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert printed.stdout == "['chronik']\n"


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence with the command that installs it."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "deltalake" else name)
    with pytest.raises(PipelineError, match=r"needs deltalake, which is not installed: pip install 'chronik\[sql\]'"):
        chronik.read("orders")
