"""`chronik txn` and transactions of `chronik produce`, against running brokers, ours and Kafka's."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chronik.cli.explaining import Waiting, explain_partition, explain_transaction
from chronik.client.admin.transactions import OpenTransaction, Transaction
from chronik.client.topology import TopicPartition
from chronik.testing import Cluster
from chronik.wire.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from chronik.wire.messages.init_producer_id import InitProducerIdResponse
from chronik.wire.messages.produce import ProduceResponse
from tests.cli.conftest import Run
from tests.cli.interrupts import heed_interrupts
from tests.oracle.comparison import Server
from tests.oracle.kafka_server import KafkaServer
from tests.oracle.transacting import LOADING, add, init, write

Unique = Callable[[str], str]
RETRY = (*LOADING, 51)  # CONCURRENT_TRANSACTIONS


class Open:
    """A producer that began a transaction and was lost."""

    def __init__(self, server: Server, name: str, topic: str, *, adds: bool = True) -> None:
        self.name, self.topic = name, topic
        answer: Any = None
        while answer is None or answer.error_code in RETRY:
            server.send(init(name)(server), 4)
            answer = server.receive(InitProducerIdResponse, 4).message
        assert answer.error_code == 0, answer
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        server.kept[f"producer {name}"] = self.producer_id, self.epoch
        if adds:
            server.send(add(name, 3, {topic: [0]})(server), 3)
            added = server.receive(AddPartitionsToTxnResponse, 3).message
            assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
        server.send(write(name, topic, 11, 0)(server), 11)
        written = server.receive(ProduceResponse, 11).message.responses[0].partition_responses[0]
        assert written.error_code == 0, written
        self.offset = written.base_offset


@pytest.fixture
def server(bootstrap: str) -> Iterator[Server]:
    made = Server("broker", int(bootstrap.rpartition(":")[2]))
    yield made
    made.close_all()


@pytest.fixture
def topic(chronik: Run, unique: Unique) -> str:
    name = unique("txn")
    assert chronik("topic", "create", name, "--partitions", "1").exit_code == 0
    return name


@pytest.fixture
def opened(chronik: Run, server: Server, topic: str, unique: Unique) -> Open:
    chronik("produce", topic, "--transactional-id", unique("first"), stdin=b"before\n")
    return Open(server, unique("lost producer"), topic)


def values(chronik: Run, topic: str, isolation: str = "read_committed") -> list[str]:
    return chronik("consume", topic, "--isolation", isolation, "--from", "earliest").lines


# --- chronik produce


def test_records_of_one_command_are_seen_together(chronik: Run, topic: str, unique: Unique) -> None:
    """And the summary counts them."""
    done = chronik("produce", topic, "--transactional-id", unique("id"), "--format", "json", stdin=b"a\nb\nc\n")
    assert (done.exit_code, done.err) == (0, "")
    assert [(row["records"], row["first_offset"]) for row in done.json] == [(3, 0)]
    while values(chronik, topic) != ["a", "b", "c"]:
        pass  # markers follow the decision


def test_input_that_breaks_off_leaves_only_whole_transactions(chronik: Run, topic: str, unique: Unique) -> None:
    """A bad line aborts its transaction; those before it, of --batch records each, stay."""
    lines = b'{"value": "1"}\n{"value": "2"}\n{"value": "3"}\nnonsense\n'
    words = ("produce", topic, "--input", "json", "--transactional-id", unique("id"))
    refused = chronik(*words, stdin=lines)
    assert refused.exit_code == 2
    assert "Nothing was written" in refused.err
    refused = chronik(*words, "--batch", "2", stdin=lines)
    assert refused.exit_code == 1
    assert "2 records before it were written" in refused.err
    while len(values(chronik, topic)) < 2:
        pass
    assert values(chronik, topic) == ["1", "2"]
    assert len(values(chronik, topic, "read_uncommitted")) >= 2


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--batch", "5"], "--batch needs --transactional-id"),
        (["--transactional-id", "x", "--batch", "0"], "--batch must be 1 or more"),
        (["--transactional-id", "x", "--acks", "1"], "excludes --acks 1"),
    ],
)
def test_options_of_transactions_that_do_not_fit_are_refused(run_command: Run, words: list[str], why: str) -> None:
    """Before anything is sent."""
    done = run_command("produce", "t", *words)
    assert done.exit_code == 2
    assert why in done.err


def test_an_interrupted_command_aborts_its_transaction(our_broker: Cluster, run_command: Run, unique: Unique) -> None:
    """Ctrl-C must not leave readers waiting until the transaction times out."""
    name, who = unique("interrupted"), unique("id")
    servers = ("--bootstrap", our_broker.bootstrap)
    assert run_command("topic", "create", name, *servers).exit_code == 0
    command = [sys.executable, "-m", "chronik.cli", "produce", name, "--transactional-id", who, *servers]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heed_interrupts
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b"line\n")
        process.stdin.flush()
        while run_command("consume", name, "--isolation", "uncommitted", *servers).lines != ["line"]:
            pass
        os.kill(process.pid, signal.SIGINT)
        assert process.wait() == 130
    while run_command("txn", "describe", who, "--format", "json", *servers).json[0]["state"] != "CompleteAbort":
        pass
    assert run_command("consume", name, *servers).lines == []


# --- chronik txn


def test_a_lost_transaction_is_listed_described_and_explained(chronik: Run, opened: Open) -> None:
    """Everything an operator needs to end it, as commands to copy."""
    listed = chronik("txn", "list", "--state", "Ongoing", "--producer-id", str(opened.producer_id), "--format", "json")
    assert [(row["transactional_id"], row["state"]) for row in listed.json] == [(opened.name, "Ongoing")]
    [described] = chronik("txn", "describe", opened.name, "--format", "json").json
    assert described["producer_id"] == opened.producer_id
    assert described["producer_epoch"] == opened.epoch
    assert described["partitions"] == [{"topic": opened.topic, "partition": 0}]
    assert described["age_ms"] >= 0
    explained = chronik("txn", "explain", opened.name)
    assert explained.exit_code == 0
    assert f"It waits for producer {opened.producer_id}, epoch {opened.epoch}, to commit or abort it." in explained.out
    assert "its coordinator, aborts it at its timeout of 1m, in " in explained.out
    assert f"--producer-id {opened.producer_id} --epoch {opened.epoch}" in explained.out
    assert f"wait at offset {opened.offset} of {opened.topic}-0: 1 record behind it" in explained.out
    place = chronik("txn", "explain", "--topic", opened.topic, "--partition", "0")
    assert "1 transaction is open" in place.out
    assert f"it is the transaction of {opened.name!r}" in place.out


def test_a_lost_transaction_is_committed_by_its_stored_producer_id_and_epoch(chronik: Run, opened: Open) -> None:
    """What Flink's users need after a job is lost between its checkpoint and its commit."""
    words = ("txn", "commit", opened.name, "--producer-id", str(opened.producer_id), "--epoch", str(opened.epoch))
    other = chronik(*words[:-1], str(opened.epoch + 1))
    assert other.exit_code == 1
    assert "PRODUCER_FENCED" in other.err
    done = chronik(*words, "--format", "json")
    assert done.json == [{"transactional_id": opened.name, "outcome": "committed"}]
    assert chronik(*words).exit_code == 0  # again changes nothing
    while len(values(chronik, opened.topic)) < 2:
        pass
    assert "Its last one was committed" in chronik("txn", "explain", opened.name).out


@pytest.mark.parametrize("by", ["id", "producer"])
def test_a_lost_transaction_is_aborted(chronik: Run, opened: Open, by: str) -> None:
    """By its id alone, or only if it is still that of a producer and epoch."""
    more = ("--producer-id", str(opened.producer_id), "--epoch", str(opened.epoch)) if by == "producer" else ()
    done = chronik("txn", "abort", opened.name, *more, "--format", "json")
    assert (done.exit_code, done.json) == (0, [{"transactional_id": opened.name, "outcome": "aborted"}])
    assert "No transaction is open" in _until_ended(chronik, opened)
    assert values(chronik, opened.topic) == ["before"]


def _until_ended(chronik: Run, opened: Open) -> str:
    while "is open on" in (said := chronik("txn", "explain", "--topic", opened.topic, "--partition", "0").out):
        if said.startswith("No"):
            break
    return said


def test_names_that_no_coordinator_knows_are_refused(chronik: Run, opened: Open) -> None:
    """The message names the most similar known name; and abort does not create an id."""
    wrong = opened.name[:-1] + "x"
    for words in (["describe"], ["explain"], ["abort"]):
        done = chronik("txn", *words, wrong)
        assert done.exit_code == 1, words
        assert "TRANSACTIONAL_ID_NOT_FOUND" in done.err
        assert "did you mean 'lost producer" in done.err
    done = chronik("txn", "commit", wrong, "--producer-id", "1", "--epoch", "0")
    assert done.exit_code == 1
    assert "INVALID_PRODUCER_ID_MAPPING" in done.err
    done = chronik("txn", "list", "--state", "Sleeping")
    assert done.exit_code == 1
    assert "no state is called Sleeping" in done.err
    done = chronik("txn", "explain", "--topic", opened.topic, "--partition", "7")
    assert done.exit_code == 1
    assert "no partition 7" in done.err


@pytest.mark.parametrize(
    "words",
    [
        ["describe"],
        ["explain"],
        ["explain", "id", "--topic", "t", "--partition", "0"],
        ["explain", "--topic", "t"],
        ["abort"],
        ["abort", "id", "--producer-id", "1"],
        ["abort", "id", "--topic", "t", "--partition", "0", "--start-offset", "0"],
        ["abort", "--topic", "t", "--partition", "0"],
        ["commit", "id"],
        ["list", "--longer-than", "soon"],
        ["find-hanging", "--longer-than", "5"],
    ],
)
def test_command_lines_that_name_nothing_are_refused(run_command: Run, words: list[str]) -> None:
    """With exit code 2: nothing was asked of a broker."""
    assert run_command("txn", *words).exit_code == 2


@pytest.fixture(params=["chronik", pytest.param("kafka", marks=pytest.mark.java)])
def careless(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A broker that takes transactional batches without asking the coordinator, as all did before Kafka 3.6."""
    settings = {"transaction.partition.verification.enable": "false"}
    running = (
        Cluster(settings=settings) if request.param == "chronik" else KafkaServer(tmp_path / "kafka", settings=settings)
    )
    with running as cluster:
        monkeypatch.setenv("CHRONIK_BOOTSTRAP", cluster.bootstrap)
        made = Server(request.param, cluster.port)
        yield made
        made.close_all()


def test_a_hanging_transaction_is_found_and_aborted(careless: Server, run_command: Run) -> None:
    """One that is open on a partition and that its coordinator does not count to any transaction."""
    assert run_command("topic", "create", "t", "--partitions", "1").exit_code == 0
    run_command("produce", "t", "--transactional-id", "first", stdin=b"before\n")
    known = Open(careless, "known", "t")
    hanging = Open(careless, "hanging", "t", adds=False)
    assert "No transaction is hanging" in run_command("txn", "find-hanging", "--longer-than", "99999d").err
    [found] = run_command("txn", "find-hanging", "--topic", "t", "--longer-than", "0s", "--format", "json").json
    assert (found["partition"], found["start_offset"], found["producer_id"]) == (0, hanging.offset, hanging.producer_id)
    said = run_command("txn", "explain", "--topic", "t", "--partition", "0").out
    assert "no coordinator knows it" in said
    command = re.findall(r"chronik (txn abort --topic .*)", said)
    refused = run_command("txn", "abort", "--topic", "t", "--partition", "0", "--start-offset", str(known.offset))
    assert refused.exit_code == 1
    assert "does not hang" in refused.err
    refused = run_command("txn", "abort", "--topic", "t", "--partition", "0", "--start-offset", "777")
    assert refused.exit_code == 1
    assert f"open ones start at: {known.offset}, {hanging.offset}" in refused.err
    done = run_command(*command[0].split(), "--format", "json")
    assert done.exit_code == 0, done.err
    assert json.loads(done.out)[0]["outcome"] == "aborted"
    assert run_command("txn", "abort", "known").exit_code == 0
    while "No transaction is open" not in run_command("txn", "explain", "--topic", "t", "--partition", "0").out:
        pass
    assert run_command("consume", "t").lines == ["before"]


# --- the words

AT = TopicPartition("orders", 0)


def transaction(state: str, **more: Any) -> Transaction:
    values = {"timeout_ms": 60_000, "start_ms": 1_000_000, "partitions": (AT,)} | more
    return Transaction("id", state, 3, 4001, 7, **values)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("Empty", "waits for nothing"),
        ("Ongoing", "aborts it at its timeout of 1m, in 50.0s"),
        ("PrepareCommit", "is committed: that is decided and cannot change"),
        ("PrepareAbort", "is aborted: that is decided and cannot change"),
        ("CompleteCommit", "Its last one was committed"),
        ("CompleteAbort", "Its last one was aborted"),
    ],
)
def test_each_state_is_explained(state: str, words: str) -> None:
    """In sentences, with what ends it."""
    assert words in " ".join(explain_transaction(transaction(state), {}, [], 1_010_000))


def test_what_keeps_a_transaction_is_named() -> None:
    """A partition without a leader, a timeout that has passed, one that never comes, records that wait."""
    said = " ".join(explain_transaction(transaction("PrepareCommit"), {}, [AT], 1_010_000))
    assert "orders-0 is without a leader" in said
    said = " ".join(explain_transaction(transaction("Ongoing"), {AT: Waiting(5, 9)}, [], 1_100_000))
    assert "has passed" in said
    assert "wait at offset 5 of orders-0: 4 records behind it" in said
    said = " ".join(explain_transaction(transaction("Ongoing", timeout_ms=2**31 - 1), {}, [], 1_100_000))
    assert "has no timeout" in said
    many = tuple(TopicPartition("orders", index) for index in range(8))
    assert "and 3 more" in " ".join(explain_transaction(transaction("Ongoing", partitions=many), {}, [], 1_000_000))
    found = OpenTransaction(AT, 4001, 7, 0, 5, 1_000_000)
    assert "no coordinator knows it" in explain_partition(AT, [(found, None)], Waiting(5, 9), 1_000_000)[1]
