"""`exactlyOnce` without Spark: tasks and drivers that are repeated, overtaken and killed, against real brokers."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from chronik.client.routing import ClusterClient
from chronik.pipeline import batch_register, exactly_once, transactions
from chronik.pipeline.batch_register import Part, Register, handle_of, id_of
from chronik.pipeline.errors import PipelineError
from chronik.pipeline.exactly_once import TaskResult
from chronik.runtime.real import real_runtime
from chronik.testing import Cluster
from tests.house.repository import ROOT
from tests.pipeline import topics
from tests.pipeline.batch_writer import ROWS, abort, commit, options, visible, write, write_batch

REQUESTS_MAX = 60  # more than a batch of two tasks takes
ALL_ROWS = sorted(value for task in ROWS for value in task)


@pytest.fixture
def topic(bootstrap: str, unique: Callable[[str], str]) -> str:
    return topics.create(bootstrap, unique("once"), partitions=2)


def refused(condition: str) -> pytest.RaisesExc[PipelineError]:
    return pytest.raises(PipelineError, match=rf"^\[{condition}\]")


def end_transaction(bootstrap: str, key: str) -> None:
    """As its timeout would."""

    async def run() -> None:
        async with ClusterClient(real_runtime(), bootstrap) as cluster:
            await transactions.begin(cluster, key, lasts_ms=10_000, timeout_ms=10_000)

    asyncio.run(run())


def key_of(result: TaskResult) -> str:
    assert result.part is not None
    return id_of(result.query_id, result.run, result.part.task, result.part.worker)


def test_rows_are_visible_when_the_driver_has_committed_the_batch_and_once(bootstrap: str, topic: str) -> None:
    """Also when Spark repeats batches that were committed; the next batch is written by the same ids."""
    to = options(bootstrap, topic)
    results = [write(to, topic, "run1", 0, task, values) for task, values in enumerate(ROWS)]
    assert [each.part is None for each in results] == [False, False, True]
    commit(to, 0, results)
    assert visible(bootstrap, topic) == ALL_ROWS
    assert write(to, topic, "run2", 0, 0, ROWS[0]).is_decided
    write_batch(to, topic, "run2", 0, ROWS)
    write_batch(to, topic, "run2", 1, [["next"]])
    write_batch(to, topic, "run2", 2, [["last"]])
    write_batch(to, topic, "run2", 1, [["next"]])
    assert visible(bootstrap, topic) == sorted([*ALL_ROWS, "next", "last"])


def test_a_repeated_batch_may_have_other_tasks_and_other_rows(bootstrap: str, topic: str) -> None:
    """Spark promises neither after a restart; rows of the attempt that was not decided must not be seen."""
    to = options(bootstrap, topic)
    for task in range(4):
        write(to, topic, "run1", 0, task, [f"old{task}", "same"])
    write_batch(to, topic, "run2", 0, [["same", "new0"], ["new1"]])
    assert visible(bootstrap, topic) == ["new0", "new1", "same"]


@pytest.mark.parametrize("committed_count", [0, 1])
def test_a_driver_that_dies_while_it_commits_is_finished_by_the_next_one(
    our_broker: Cluster, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, committed_count: int
) -> None:
    """The decision names the transactions. The next attempt commits them and writes nothing, whatever rows it has."""
    topic = topics.create(our_broker.bootstrap, unique("once"), partitions=2)
    to = options(our_broker.bootstrap, topic)
    results = [write(to, topic, "run1", 0, task, values) for task, values in enumerate(ROWS)]
    real, count = exactly_once._commit_parts, committed_count

    async def dies(cluster: ClusterClient, task: object, register: Register, timeout_ms: int) -> None:
        await real(cluster, task, replace(register, parts=register.parts[:count]), timeout_ms)  # type: ignore[arg-type]
        raise ConnectionError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(exactly_once, "_commit_parts", dies)
        with pytest.raises(ConnectionError):
            commit(to, 0, results)
    abort(to, 0, results)  # Spark does this when a commit fails; the decision must survive it
    write_batch(to, topic, "run2", 0, [["other"]])
    assert visible(our_broker.bootstrap, topic) == ALL_ROWS


def test_a_batch_that_failed_leaves_nothing_that_readers_wait_for(bootstrap: str, topic: str) -> None:
    """Spark names the tasks that succeeded; those of tasks that were killed are found by their ids."""
    to = options(bootstrap, topic)
    write(to, topic, "run1", 0, 0, ["killed"])
    result = write(to, topic, "run1", 0, 1, ["succeeded"])
    abort(to, 0, [result])
    assert visible(bootstrap, topic) == []


def test_of_two_attempts_of_a_task_one_is_visible(bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Speculation: both write, in processes of their own, and Spark accepts one. The other must not abort it."""
    to = options(bootstrap, topic)
    accepted = write(to, topic, "run1", 0, 0, ["row"])
    monkeypatch.setattr(exactly_once, "_worker", (exactly_once._worker[0], "elsewhere"))
    write(to, topic, "run1", 0, 0, ["row"])
    commit(to, 0, [accepted])
    assert visible(bootstrap, topic) == ["row"]


def test_a_driver_that_was_thought_dead_commits_nothing(bootstrap: str, topic: str) -> None:
    """Its tasks have written, or are about to; the other driver has decided the batch meanwhile."""
    to = options(bootstrap, topic)
    write_batch(to, topic, "old", 0, [["first"]])
    late = write(to, topic, "old", 1, 0, ["late"])
    write_batch(to, topic, "new", 1, [["second"], ["third"]])
    with refused("QUERY_SUPERSEDED"):
        commit(to, 1, [late])
    with refused("QUERY_SUPERSEDED"):
        write(to, topic, "old", 2, 0, ["later"])
    write_batch(to, topic, "new", 2, [["fourth"]])
    assert visible(bootstrap, topic) == ["first", "fourth", "second", "third"]


def test_changes_of_the_register_at_the_same_time_are_all_made(bootstrap: str, unique: Callable[[str], str]) -> None:
    """It is a compare-and-set. If two could read the same state and both write, two drivers could decide a batch."""
    query = unique("register")

    async def run() -> None:
        async def add_one() -> None:
            async with ClusterClient(real_runtime(), bootstrap) as cluster:
                await batch_register.change(
                    cluster, query, lambda present: replace(present, batch=present.batch + 1), timeout_ms=60_000
                )

        await asyncio.gather(*(add_one() for _ in range(4)))
        async with ClusterClient(real_runtime(), bootstrap) as cluster:
            found = await batch_register.read(cluster, query, timeout_ms=10_000, is_stable=True)
        assert found.batch == 3

    asyncio.run(run())


def test_a_transaction_that_has_timed_out_gets_into_no_decision(bootstrap: str, topic: str) -> None:
    """Deciding first would lose its rows. The batch fails as a whole and is written again."""
    to = options(bootstrap, topic)
    results = [write(to, topic, "run1", 0, task, [f"row{task}"]) for task in range(2)]
    with refused("BATCH_ABORTED"):
        commit(replace(to, transaction_timeout_ms=1), 0, results)
    end_transaction(bootstrap, key_of(results[1]))
    with refused("BATCH_ABORTED"):
        commit(to, 0, results)
    abort(to, 0, results)
    assert visible(bootstrap, topic) == []
    write_batch(to, topic, "run2", 0, [["row0"], ["row1"]])
    assert visible(bootstrap, topic) == ["row0", "row1"]


@pytest.mark.parametrize("lost", [(0, 1), (1,)])
def test_a_decision_whose_transactions_have_timed_out_is_undone_or_told(
    our_broker: Cluster, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, lost: tuple[int, ...]
) -> None:
    """No driver came back for longer than the timeout. Silence would be a lost row."""
    topic = topics.create(our_broker.bootstrap, unique("once"), partitions=2)
    to = options(our_broker.bootstrap, topic)
    results = [write(to, topic, "run1", 0, task, [f"row{task}"]) for task in range(2)]

    async def dies(*_: object) -> None:
        raise ConnectionError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(exactly_once, "_commit_parts", dies)
        with pytest.raises(ConnectionError):
            commit(to, 0, results)
    for task in lost:
        end_transaction(our_broker.bootstrap, key_of(results[task]))
    again = [write(to, topic, "run2", 0, 0, ["row0"]), write(to, topic, "run2", 0, 1, ["row1"])]
    with refused("BATCH_ABORTED" if len(lost) == 2 else "BATCH_TORN"):
        commit(to, 0, again)
    if len(lost) == 2:
        write_batch(to, topic, "run3", 0, [["row0"], ["row1"]])
        assert visible(our_broker.bootstrap, topic) == ["row0", "row1"]


def test_clusters_without_transaction_version_2_are_written_to_as_well(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each partition is added by a request before it is written to."""
    monkeypatch.setattr(transactions, "ADDS_BY_WRITING", 99)
    to = options(bootstrap, topic)
    write_batch(to, topic, "run1", 0, ROWS)
    write(to, topic, "run1", 1, 0, ["lost"])
    write_batch(to, topic, "run2", 1, [["next"]])
    write_batch(to, topic, "run2", 0, ROWS)
    assert visible(bootstrap, topic) == sorted([*ALL_ROWS, "next"])


def test_batches_that_are_too_large_for_the_topic_are_halved(our_broker: Cluster, unique: Callable[[str], str]) -> None:
    """max.message.bytes is a setting of the topic, unknown to a task. Sequence numbers must continue after the first
    half."""
    topic = topics.create(our_broker.bootstrap, unique("small"), config={"max.message.bytes": "3000"})
    to = options(our_broker.bootstrap, topic)
    values = [f"{i:0200}" for i in range(100)]
    write_batch(to, topic, "run1", 0, [values])
    write_batch(to, topic, "run1", 1, [["next"]])
    assert visible(our_broker.bootstrap, topic, 1) == sorted([*values, "next"])
    with refused("RECORD_REFUSED"):
        write(to, topic, "run1", 2, 0, ["x" * 5000])
    assert visible(our_broker.bootstrap, topic, 1) == sorted([*values, "next"])


def test_a_register_of_many_parts_is_read_back() -> None:
    """Offsets have room for 4,096 bytes of text each, so it is cut into pieces."""
    parts = tuple(Part(i, f"{i:012x}", 10**12 + i, i % 32767) for i in range(1000))
    made = Register("run", ("before", "earlier"), 7, "earlier", parts, adds_by_writing=True)
    texts = made.to_texts()
    assert len(texts) > 5
    assert all(len(text.encode()) <= 4096 for text in texts)
    assert Register.from_texts(7, [*texts, "of an older register"]) == made
    assert batch_register.group_of("q") in handle_of("q", "run", parts[0]).transactional_id


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_batch_that_was_killed_at_any_request_is_written_once_by_the_next_attempt(
    our_broker: Cluster, unique: Callable[[str], str], moment: str
) -> None:
    """SIGKILL before each request leaves, and after each answer: tasks, decision and commits have a request each."""
    command = [sys.executable, "-m", "tests.pipeline.batch_writer", our_broker.bootstrap]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        for number in range(1, REQUESTS_MAX):
            topic = topics.create(our_broker.bootstrap, unique("killed"), partitions=2)
            program.stdin.write(f"{topic} {number} {moment}\n")
            program.stdin.flush()
            code = int(program.stdout.readline())
            write_batch(options(our_broker.bootstrap, topic), f"q-{topic}", "run2", 0, [ROWS[1] + ROWS[0]])
            assert visible(our_broker.bootstrap, topic) == ALL_ROWS, f"killed {moment} request {number}"
            if code == 0:
                break
            assert code == -signal.SIGKILL
        program.stdin.close()
    assert 10 < number < REQUESTS_MAX - 1
