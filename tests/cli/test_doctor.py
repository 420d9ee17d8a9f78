"""`chronik doctor` on real nodes: quiet about a healthy cluster, and right about faults that are staged one by one."""

from __future__ import annotations

import json
import stat
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chronik.testing import Cluster
from tests.cli.conftest import Run

pytestmark = pytest.mark.slow

Unique = Callable[[str], str]
SETTINGS = {
    "chronik.admin.listener": "127.0.0.1:0",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "num.partitions": "2",
    "offsets.topic.replication.factor": "3",
}


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    with Cluster(nodes=3, settings=SETTINGS, in_process=False) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The doctor waits for what grows, and gives voters time to answer; a test has less time."""
    monkeypatch.setattr("chronik.client.doctor.gathering.BETWEEN_LOOKS_S", 0.05)
    monkeypatch.setattr("chronik.client.doctor.checks.VOTER_SILENT_MS", 1_000)


@pytest.fixture
def chronik(run_command: Run, three: Cluster, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("CHRONIK_BOOTSTRAP", three.bootstrap)
    return run_command


def checks(document: dict[str, Any]) -> set[str]:
    """Names of the findings. A test's data is in a temporary directory, which the doctor rightly mentions."""
    return {finding["check"] for finding in document["findings"]} - {"temporary-directory"}


def test_faults_are_found_one_by_one_and_gone_when_they_are_fixed(
    chronik: Run, run_command: Run, three: Cluster, tmp_path: Path
) -> None:
    """The whole life of a cluster in one test, because every stage needs the one before it."""

    def seen() -> dict[str, Any]:
        done = chronik("doctor", "--format", "json")
        document: dict[str, Any] = done.json
        assert done.exit_code == (0 if document["healthy"] else 1)
        return document

    def until(expected: set[str]) -> None:
        """Alarms, ISRs and fencing follow their cause a moment later."""
        while checks(seen()) != expected:
            pass

    assert chronik("topic", "create", "orders").exit_code == 0
    until(set())
    healthy = seen()
    assert healthy["healthy"]
    assert healthy["unanswered"] == {}
    assert "No problems found" in chronik("doctor").out

    # Settings that lose data or stop producers.
    for setting, check in (
        ("unclean.leader.election.enable=true", "unclean-elections"),
        ("min.insync.replicas=3", "min-isr-equals-replicas"),
        ("min.insync.replicas=1", "min-isr-one"),
    ):
        chronik("config", "set", "topic", "orders", setting)
        until({check})
        chronik("config", "unset", "topic", "orders", setting.partition("=")[0])
        until(set())
    chronik("topic", "create", "single", "--replication-factor", "1", "--partitions", "1")
    until({"one-replica"})
    chronik("topic", "delete", "single")
    chronik("config", "set", "broker", "1", "num.io.threads=4")
    until({"setting-without-effect"})
    chronik("config", "unset", "broker", "1", "num.io.threads")
    until(set())

    # A group without members, whose records retention may delete.
    chronik("produce", "orders", "--partition", "0", stdin=b"1\n2\n")
    chronik("consume", "orders", "--group", "billing", "--count", "1")
    until({"group-without-members"})
    chronik("topic", "create", "short", "--partitions", "1", "-c", "retention.ms=3600000")
    chronik("produce", "short", "--timestamp", "59m ago", stdin=b"1\n2\n")
    chronik("consume", "short", "--group", "slow", "--count", "1")
    until({"group-without-members", "retention-overtakes-group"})
    chronik("group", "delete", "billing", "slow")
    chronik("topic", "delete", "short")
    until(set())

    # An address that does not answer, and a node that died.
    dead = f"{three.bootstrap},127.0.0.1:1"
    silent = run_command("doctor", "--bootstrap", dead, "--format", "json")
    assert (silent.exit_code, checks(silent.json)) == (1, {"bootstrap-silent"})
    three.kill(3)
    until({"bootstrap-silent", "voter-silent", "broker-fenced", "under-replicated"})
    text = chronik("doctor").out
    assert "One more failed voter stops all changes of metadata." in text
    assert "`chronik cluster remove 3`" in text

    # The bundle contains the observations of that moment, and no record.
    bundle = tmp_path / "report.tar.gz"
    assert "read it before you send it" in chronik("doctor", "--bundle", str(bundle)).out
    assert stat.S_IMODE(bundle.stat().st_mode) == 0o600
    with tarfile.open(bundle) as archive:
        files = {member.name: archive.extractfile(member) for member in archive.getmembers()}
    assert {"chronik-doctor/findings.json", "chronik-doctor/facts.json", "chronik-doctor/status-1.json"} <= files.keys()
    assert "chronik-doctor/metrics-1.txt" in files
    again = chronik("doctor", "--bundle", str(bundle))
    assert (again.exit_code, "the file exists" in again.err) == (1, True)

    # Without a quorum it says so, instead of waiting for one.
    three.kill(2)
    while True:
        lost = seen()
        if "no-controller" in checks(lost):
            break
    [finding] = [each for each in lost["findings"] if each["check"] == "no-controller"]
    assert "1 of 3 voters answer, 2 are needed" in finding["what"]
    three.kill(1)
    assert chronik("doctor").exit_code == 3


def test_a_single_node_is_healthy(run_command: Run) -> None:
    """A newcomer's first command must not look broken."""
    with Cluster(settings={"chronik.admin.listener": "127.0.0.1:0"}) as cluster:
        at = ("--bootstrap", cluster.bootstrap)
        run_command("topic", "create", "orders", *at)
        done = run_command("doctor", "--format", "json", *at)
        assert done.exit_code == 0
        assert checks(done.json) == set()


def test_the_bundle_holds_no_secret_and_no_record(run_command: Run, tmp_path: Path) -> None:
    """It is sent to strangers."""
    secret, value = "a-secret-of-24-characters", "the-value-of-a-record"
    settings = {"chronik.admin.listener": "127.0.0.1:0", "chronik.quorum.secret": secret}
    bundle = tmp_path / "report.tar.gz"
    with Cluster(settings=settings) as cluster:
        at = ("--bootstrap", cluster.bootstrap)
        run_command("topic", "create", "orders", *at)
        run_command("produce", "orders", *at, stdin=value.encode())
        run_command("consume", "orders", "--group", "g", *at)
        assert run_command("doctor", "--bundle", str(bundle), *at).exit_code == 0
    with tarfile.open(bundle) as archive:
        for member in archive.getmembers():
            file = archive.extractfile(member)
            assert file is not None
            data = file.read().decode()
            assert secret not in data
            assert value not in data
            if member.name.endswith(".json"):
                json.loads(data)


def test_explain_says_why_a_group_is_behind(run_command: Run, our_broker: Cluster, unique: Unique) -> None:
    """The question that follows every alert about lag."""
    topic, group, at = unique("explained"), unique("behind"), ("--bootstrap", our_broker.bootstrap)
    run_command("topic", "create", topic, "--partitions", "1", *at)
    run_command("produce", topic, *at, stdin=b"1\n2\n3\n")
    run_command("consume", topic, "--group", group, "--count", "1", *at)
    done = run_command("group", "explain", group, "--for", "1", "--format", "json", *at)
    assert (done.exit_code, done.json["lag"]) == (0, 2)
    assert [each["cause"] for each in done.json["causes"]] == ["no-members"]
    assert "Start its consumers" in run_command("group", "explain", group, "--for", "1", *at).out
    run_command("consume", topic, "--group", group, *at)
    assert "is not behind" in run_command("group", "explain", group, *at).out
    unknown = run_command("group", "explain", group[:-1], *at)
    assert (unknown.exit_code, "does not exist" in unknown.err) == (1, True)
    assert run_command("group", "explain", group, "--for", "0", *at).exit_code == 2
