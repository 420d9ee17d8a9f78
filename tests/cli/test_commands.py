"""Commands against running brokers, ours and Kafka's: what they print, and what they refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chronik.testing import Cluster
from tests.cli.conftest import Run

Unique = Callable[[str], str]


@pytest.fixture
def topic(chronik: Run, unique: Unique) -> str:
    """A topic with three partitions."""
    name = unique("cli")
    assert chronik("topic", "create", name, "--partitions", "3").exit_code == 0
    return name


def test_a_topic_is_created_listed_described_altered_and_deleted(chronik: Run, unique: Unique) -> None:
    """The first five minutes of every user."""
    name = unique("orders")
    created = chronik("topic", "create", name, "-p", "2", "-c", "retention.ms=86400000", "--format", "json")
    assert created.exit_code == 0
    assert [(row["name"], row["partitions"], row["created"]) for row in created.json] == [(name, 2, True)]
    listed = {row["name"]: row for row in chronik("topic", "list", "--format", "json").json}
    assert (listed[name]["partitions"], listed[name]["replication_factor"]) == (2, 1)
    assert name in chronik("topic", "list", "--sizes").out
    altered = chronik("topic", "alter", name, "--partitions", "4", "--config", "retention.ms=1000")
    assert (altered.exit_code, altered.out) == (0, f"altered {name}\n")
    [described] = chronik("topic", "describe", name, "--format", "json").json
    while len(described["partitions"]) != 4:  # a broker learns what the controller decided a moment later
        [described] = chronik("topic", "describe", name, "--format", "json").json
    assert described["configs"] == {"retention.ms": "1000"}
    assert [row["partition"] for row in described["partitions"]] == [0, 1, 2, 3]
    assert {(row["start_offset"], row["end_offset"], row["leader"]) for row in described["partitions"]} == {(0, 0, 1)}
    table = chronik("topic", "describe", name)
    assert "PARTITION  LEADER" in table.out
    assert "retention.ms=1000" in table.out
    deleted = chronik("topic", "delete", name, "--format", "json")
    assert deleted.json == [{"name": name, "deleted": True}]
    assert chronik("topic", "delete", name).exit_code == 1
    assert chronik("topic", "delete", name, "--if-exists").exit_code == 0


def test_errors_show_topic_ids_as_describe_does(run_command: Run, our_broker: Cluster, unique: Unique) -> None:
    """Two spellings of one id cannot be searched for."""
    servers, name = ("--bootstrap", our_broker.bootstrap), unique("twice")
    assert run_command("topic", "create", name, *servers).exit_code == 0
    (described,) = run_command("topic", "describe", name, "--format", "json", *servers).json
    assert f"id {described['topic_id']}" in run_command("topic", "create", name, *servers).err


def test_one_refused_topic_does_not_stop_the_others(chronik: Run, topic: str, unique: Unique) -> None:
    """And each refusal carries Kafka's name for it."""
    other = unique("other")
    done = chronik("topic", "create", topic, other, "bad name", "--format", "json")
    assert done.exit_code == 1
    assert [row["name"] for row in done.json] == [other]
    assert f"cannot create topic '{topic}': TOPIC_ALREADY_EXISTS" in done.err
    assert "INVALID_TOPIC_EXCEPTION" in done.err
    assert chronik("topic", "create", topic, "--if-not-exists").exit_code == 0


def test_names_that_do_not_exist_are_answered_with_the_nearest(chronik: Run, unique: Unique) -> None:
    """Most are typing errors."""
    name = unique("payments-ledger")
    chronik("topic", "create", name)
    for words in (["topic", "describe"], ["topic", "delete"], ["produce"], ["consume"], ["config", "get", "topic"]):
        done = chronik(*words, name[:-1] + "x")
        assert done.exit_code == 1, words
        assert "UNKNOWN_TOPIC_OR_PARTITION" in done.err
        assert "did you mean 'payments-ledger-" in done.err
    done = chronik("topic", "create", unique("t"), "--config", "retentoin.ms=5")
    assert "INVALID_CONFIG" in done.err
    assert "did you mean 'retention.ms'?" in done.err


def test_lines_become_records_and_records_lines(chronik: Run, topic: str) -> None:
    """The pipe that everybody tries first."""
    produced = chronik("produce", topic, "--format", "json", stdin=b"one\ntwo\n\nlast without newline")
    assert sum(row["records"] for row in produced.json) == 4
    consumed = chronik("consume", topic)
    assert sorted(consumed.lines) == ["", "last without newline", "one", "two"]
    assert consumed.err == ""


def test_keys_headers_offsets_and_times_are_columns_when_asked_for(chronik: Run, topic: str) -> None:
    """Separated by tabs, in one fixed order, so that cut and awk work."""
    chronik(
        *("produce", topic, "--key-separator", ":", "--header", "from=test", "--partition", "1"),
        *("--timestamp", "2026-03-01T12:00:00+01:00"),
        stdin=b"k1:v1\nno key\nk2:with:colon",
    )
    shown = chronik("consume", topic, "--keys", "--headers", "--offsets", "--timestamps").lines
    rows = [line.split("\t") for line in shown]
    assert [row[0] for row in rows] == [f"{topic}-1@0", f"{topic}-1@1", f"{topic}-1@2"]
    assert [row[2:] for row in rows] == [
        ["from=test", "k1", "v1"],
        ["from=test", "(null)", "no key"],
        ["from=test", "k2", "with:colon"],
    ]
    [record, *_] = [json.loads(line) for line in chronik("consume", topic, "--format", "json").lines]
    assert record["timestamp_ms"] == 1_772_362_800_000
    assert (record["key"], record["value"], record["headers"]) == ("k1", "v1", [{"key": "from", "value": "test"}])


def test_json_can_be_piped_back(chronik: Run, topic: str, unique: Unique) -> None:
    """A copy of a topic in one line, bytes that are no text and nulls included."""
    chronik("produce", topic, "--null-as", "NULL", "--key", "k", stdin=b"\xff\xfe raw\nNULL\ntext \xc3\xa4")
    copy = unique("copy")
    chronik("topic", "create", copy, "-p", "3")
    exported = chronik("consume", topic, "--format", "json")
    assert chronik("produce", copy, "--input", "json", "--keep-partitions", stdin=exported.out.encode()).exit_code == 0

    def records(name: str) -> list[dict[str, object]]:
        found = [json.loads(line) for line in chronik("consume", name, "--format", "json").lines]
        return [{key: value for key, value in record.items() if key != "topic"} for record in found]

    assert records(copy) == records(topic)
    assert {record.get("value_base64") for record in records(copy)} == {None, "//4gcmF3"}
    broken = chronik("produce", copy, "--input", "json", stdin=b'{"value": "fine"}\nnot json\n')
    assert broken.exit_code == 1
    assert "stdin, line 2: not JSON" in broken.err
    assert "1 record before it was written" in broken.err


def test_files_are_read_line_by_line_or_whole(chronik: Run, topic: str, tmp_path: Path) -> None:
    """Lines for logs, whole files for pictures."""
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_bytes(b"1\n2\n")
    second.write_bytes(b"\x00\n\x01")
    chronik("produce", topic, str(first), str(second), "-p", "0")
    chronik("produce", topic, str(first), str(second), "-p", "1", "--whole-files")
    records = [json.loads(line) for line in chronik("consume", topic, "--format", "json").lines]
    by_partition = {p: [r["value"] for r in records if r["partition"] == p] for p in (0, 1)}
    assert by_partition == {0: ["1", "2", "\x00", "\x01"], 1: ["1\n2\n", "\x00\n\x01"]}
    missing = chronik("produce", topic, str(tmp_path / "none"))
    assert missing.exit_code == 1
    assert "No such file" in missing.err


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_compression_is_readable(chronik: Run, topic: str, codec: str) -> None:
    """What one command writes the other reads."""
    lines = [f"line {index}" for index in range(1_000)]
    chronik("produce", topic, "-z", codec, "-p", "2", stdin="\n".join(lines).encode())
    assert chronik("consume", topic, "-p", "2").lines == lines


def test_reading_between_two_places(chronik: Run, topic: str) -> None:
    """From and to, by offset and by time, and never a record too many."""
    for day in range(1, 6):
        stamp = f"2026-03-0{day}T00:00:00Z"
        chronik("produce", topic, "-p", "0", "--timestamp", stamp, stdin=b"%d" % day)
    one = ("consume", topic, "-p", "0")
    assert chronik(*one, "--from", "1", "--to", "3").lines == ["2", "3"]
    assert chronik(*one, "--from", "2026-03-02T00:00:00Z", "--to", "2026-03-04T00:00:00Z").lines == ["2", "3"]
    assert chronik(*one, "--from", "2026-03-02T01:00:00+01:00", "--to", "2026-03-04T00:00:01Z").lines == ["2", "3", "4"]
    assert chronik(*one, "--from", "2026-03-02T00:00:01Z", "--count", "2").lines == ["3", "4"]
    assert chronik(*one, "--from", "latest").lines == []
    assert chronik(*one, "--from", "2030-01-01T00:00:00Z").lines == []
    bad = chronik("consume", topic, "-p", "7")
    assert (bad.exit_code, "has no partition 7, only 0 to 2" in bad.err) == (1, True)


def test_a_group_reads_once_and_shows_its_lag(chronik: Run, topic: str, unique: Unique) -> None:
    """Lag in records and in time, and 0 when there is none."""
    group = unique("readers")
    chronik("produce", topic, "-p", "1", stdin=b"\n".join(b"%d" % i for i in range(10)))
    assert chronik("consume", topic, "--group", group, "--count", "4").lines == ["0", "1", "2", "3"]
    [behind] = chronik("group", "describe", group, "--format", "json").json
    assert behind["lag"] == 6
    [row] = [row for row in behind["partitions"] if row["partition"] == 1]
    assert (row["committed"], row["end_offset"], row["lag"]) == (4, 10, 6)
    assert row["lag_ms"] > 0
    assert "behind" in chronik("group", "describe", group).out
    [listed] = [row for row in chronik("group", "list", "--lag", "--format", "json").json if row["group"] == group]
    assert (listed["members"], listed["lag"], listed["lag_ms"] > 0) == (0, 6, True)
    assert "BEHIND" in chronik("group", "list", "--lag").lines[0]
    assert chronik("consume", topic, "--group", group).lines == ["4", "5", "6", "7", "8", "9"]
    [after] = chronik("group", "describe", group, "--format", "json").json
    assert (after["lag"], after["lag_ms"], after["state"]) == (0, 0, "Empty")
    assert group in {row["group"] for row in chronik("group", "list", "--format", "json").json}
    assert chronik("group", "delete", group).exit_code == 0
    gone = chronik("group", "describe", group)
    assert (gone.exit_code, "GROUP_ID_NOT_FOUND" in gone.err) == (1, True)


def test_a_reset_shows_its_plan_and_changes_nothing_until_told(chronik: Run, topic: str, unique: Unique) -> None:
    """Moving a group loses or repeats work: nobody should do it by accident."""
    group = unique("moved")
    for day in range(1, 6):
        chronik("produce", topic, "-p", "0", "--timestamp", f"2026-03-0{day}T00:00:00Z", stdin=b"%d" % day)
    chronik("consume", topic, "--group", group)

    def committed() -> int:
        [described] = chronik("group", "describe", group, "--format", "json").json
        return int(next(row["committed"] for row in described["partitions"] if row["partition"] == 0))

    plan = chronik("group", "reset", group, "--to", "earliest")
    assert "add --execute" in plan.out
    assert committed() == 5
    reset = ("group", "reset", group, "--execute", "--format", "json")
    for words, expected in (
        (("--to", "earliest"), 0),
        (("--to", "2026-03-03T00:00:00Z"), 2),
        (("--shift", "2"), 4),
        (("--shift", "-1"), 3),
        (("--shift", "-100"), 0),
        (("--to", "99"), 5),
        (("--to", "2030-01-01T00:00:00Z"), 5),
        (("--to", "1"), 1),
    ):
        done = chronik(*reset, *words, "--topic", topic, "--partition", "0")
        assert [row["new_offset"] for row in done.json] == [expected], words
        assert committed() == expected
    assert chronik("consume", topic, "--group", group).lines == ["2", "3", "4", "5"]
    fresh = unique("fresh")
    assert chronik("group", "reset", fresh, "--to", "latest").exit_code == 1
    new = chronik("group", "reset", fresh, "--to", "latest", "--topic", topic, "--execute", "--format", "json").json
    assert sorted((row["partition"], row["new_offset"], row["old_offset"]) for row in new) == [
        (0, 5, None),
        (1, 0, None),
        (2, 0, None),
    ]


def test_settings_are_shown_set_and_unset(chronik: Run, topic: str) -> None:
    """With where each value comes from, and the nearest key for one that does not exist."""
    settings = ("config", "get", "topic", topic, "--format", "json")
    assert chronik(*settings).json == []
    assert chronik("config", "set", "topic", topic, "retention.ms=1234", "cleanup.policy=compact").exit_code == 0
    shown = {row["name"]: (row["value"], row["source"]) for row in chronik(*settings).json}
    assert shown == {"retention.ms": ("1234", "topic"), "cleanup.policy": ("compact", "topic")}
    assert chronik("config", "unset", "topic", topic, "retention.ms").exit_code == 0
    assert [row["name"] for row in chronik(*settings).json] == ["cleanup.policy"]
    everything = {row["name"]: row for row in chronik(*settings, "--all").json}
    assert everything["segment.ms"]["source"] == "default"
    bad = chronik("config", "set", "topic", topic, "retention.m=5")
    assert bad.exit_code == 1
    assert "INVALID_CONFIG" in bad.err
    assert "did you mean 'retention.ms'?" in bad.err
    unknown = chronik("config", "get", "topic", topic, "cleanup.polcy")
    assert (unknown.exit_code, "did you mean 'cleanup.policy'?" in unknown.err) == (1, True)
    assert chronik("config", "set", "topic", topic, "retention.ms=soon").exit_code == 1
    assert chronik("config", "get", "broker", "1", "--all").exit_code == 0


def test_a_setting_that_changes_nothing_here_is_said_to(run_command: Run, our_broker: Any, unique: Unique) -> None:
    """Kafka's key is taken, so that files and scripts work. "changed" alone would promise more threads."""
    at = ("--bootstrap", our_broker.bootstrap)
    done = run_command("config", "set", "broker", "1", "num.io.threads=4", *at)
    assert (done.exit_code, done.out) == (0, "")
    assert "num.io.threads is accepted and has no effect here" in done.err
    assert "one event loop serves everything" in done.err
    topic = unique("topic")
    run_command("topic", "create", topic, *at)
    both = run_command("config", "set", "topic", topic, "flush.ms=5", "retention.ms=500000", *at)
    assert (both.exit_code, both.out) == (0, f"topic '{topic}': changed\n")
    assert [line for line in both.err.splitlines() if "no effect" in line] == both.err.splitlines()[:1]
    assert "flush.ms" in both.err
    told = run_command("config", "set", "topic", topic, "flush.ms=6", "--format", "json", *at).json
    assert list(told["without_effect"]) == ["flush.ms"]
    run_command("config", "unset", "broker", "1", "num.io.threads", *at)
    empty = run_command("config", "get", "broker", "default", *at)
    assert empty.err == "The cluster-wide default has no settings of its own; --all shows those that apply\n"


def test_partitions_without_an_offset_are_shown_and_not_counted_as_lag(
    chronik: Run, topic: str, unique: Unique
) -> None:
    """Whether such a reader starts at the first record or the last is its own choice: a lag would be a guess."""
    group = unique("group")
    for partition in ("0", "1"):
        chronik("produce", topic, "--partition", partition, stdin=b"a\nb\nc\n")
    chronik("group", "reset", group, "--to", "1", "--topic", topic, "--partition", "0", "--execute")
    [told] = chronik("group", "describe", group, "--format", "json").json
    shown = [(row["partition"], row["committed"], row["lag"]) for row in told["partitions"]]
    assert shown == [(0, 1, 2), (1, None, None), (2, None, 0)]
    assert (told["lag"], told["partitions_without_offset"]) == (2, 2)
    table = chronik("group", "describe", group).out
    assert "behind, 2 partitions without an offset" in table
    assert table.count("no offset yet") == 2


def test_topics_that_programs_keep_for_themselves_are_listed_when_asked_for(run_command: Run, our_broker: Any) -> None:
    """A list of one's own topics is not the place for the log of a tool."""
    at = ("--bootstrap", our_broker.bootstrap)
    run_command("topic", "create", "__some_events", "seen", "--if-not-exists", *at)
    names = {row["name"] for row in run_command("topic", "list", "--format", "json", *at).json}
    everything = {row["name"] for row in run_command("topic", "list", "--internal", "--format", "json", *at).json}
    assert ("__some_events" in names, "__some_events" in everything, "seen" in names) == (False, True, True)


def test_the_last_records_of_each_partition_can_be_read(chronik: Run, topic: str) -> None:
    """What happened just now is the commonest question to a topic."""
    chronik("produce", topic, "-p", "0", stdin=b"1\n2\n3\n4\n5\n")
    chronik("produce", topic, "-p", "1", stdin=b"a\n")
    assert sorted(chronik("consume", topic, "--from", "-2").lines) == ["4", "5", "a"]
    assert chronik("consume", topic, "--from=-99", "-p", "0").lines == ["1", "2", "3", "4", "5"]
    nothing = chronik("consume", topic, "--from", "-0", "-p", "0")
    assert (nothing.exit_code, nothing.out, nothing.err) == (0, "", "No records.\n")
    assert chronik("consume", topic, "--from", "latest", "--format", "json").err == ""


def test_settings_are_shown_with_their_units(chronik: Run, topic: str) -> None:
    """The stored value, which scripts and other tools take, and what it means to people; JSON has the first alone."""
    assert chronik("config", "set", "topic", topic, "retention.ms=7d", "segment.bytes=1048576").exit_code == 0
    shown = chronik("config", "get", "topic", topic).out
    assert "604800000 (7d)" in shown
    assert "1048576 (1.0 MiB)" in shown
    rows = {row["name"]: row["value"] for row in chronik("config", "get", "topic", topic, "--format", "json").json}
    assert (rows["retention.ms"], rows["segment.bytes"]) == ("604800000", "1048576")
    every = chronik("config", "get", "topic", topic, "--all").out
    assert "9223372036854775807 (" not in every


def test_a_dry_run_shows_what_would_be_deleted_and_deletes_nothing(chronik: Run, topic: str, unique: Unique) -> None:
    """Topics, records and groups; what the command itself would refuse is refused."""
    group = unique("dry")
    for partition in range(3):
        assert chronik("produce", topic, "--partition", str(partition), stdin=b"a\nb\nc\n").exit_code == 0
    read = chronik("consume", topic, "--group", group, "--from", "earliest", "--count", "9")
    assert read.exit_code == 0
    deletes = ("topic", "delete", topic, "--dry-run")
    assert chronik(*deletes, "--format", "json").json == [{"name": topic, "partitions": 3, "records": 9}]
    assert chronik("topic", "delete", f"{topic}x", "--dry-run").exit_code == 1
    assert chronik("topic", "delete", f"{topic}x", "--dry-run", "--if-exists").exit_code == 0
    records = ("topic", "delete-records", topic, "--partition", "1", "--dry-run")
    [row] = chronik(*records, "--before", "2", "--format", "json").json
    assert (row["start_offset"], row["new_start_offset"], row["records"]) == (0, 2, 2)
    [row] = chronik(*records, "--before", "latest", "--format", "json").json
    assert row["records"] == 3
    assert chronik(*records, "--before", "7").exit_code == 1
    [row] = chronik("group", "delete", group, "--dry-run", "--format", "json").json
    assert (row["members"], row["offsets"]) == (0, 3)
    assert chronik("group", "delete", unique("none"), "--dry-run").exit_code == 1
    assert len(chronik("consume", topic, "--from", "earliest", "--count", "9").lines) == 9
    assert chronik("group", "delete", group, "--yes").exit_code == 0


def test_a_share_group_is_described_moved_forgotten_and_deleted(chronik: Run, unique: Unique) -> None:
    """On Kafka too: its share groups are shown by the same commands."""
    topic, group = unique("queue"), unique("workers")
    chronik("topic", "create", topic, "--partitions", "1")
    chronik("config", "set", "group", group, "share.auto.offset.reset=earliest")
    chronik("produce", topic, stdin=b"a\nb\nc\nd\n")
    assert chronik("consume", topic, "--share-group", group, "--count", "2").lines == ["a", "b"]
    [listed] = [row for row in chronik("group", "list", "--lag", "--format", "json").json if row["group"] == group]
    assert (listed["type"], listed["state"], listed["members"], listed["lag"]) == ("share", "Empty", 0, 2)
    [told] = chronik("group", "describe", group, "--format", "json").json
    [row] = told["partitions"]
    assert (told["type"], row["topic"], row["lag"], row["clients"]) == ("share", topic, 2, [])
    assert row["start_offset"] in (0, 2)  # where it is stored as yet; the lag knows what is acknowledged behind it
    assert "START" in chronik("group", "describe", group).out
    explained = chronik("group", "explain", group, "--for", "1", "--format", "json").json
    assert [each["cause"] for each in explained["causes"]] == ["no-members"]
    assert "2 records behind" in chronik("group", "explain", group, "--for", "1").out

    plan = chronik("group", "reset", group, "--to", "1", "--format", "json").json
    assert [(row["new_offset"], row["committed"]) for row in plan] == [(1, False)]
    assert chronik("group", "describe", group, "--format", "json").json[0]["lag"] == 2
    moved = chronik("group", "reset", group, "--to", "1", "--execute", "--format", "json").json
    assert [(row["new_offset"], row["committed"]) for row in moved] == [(1, True)]
    assert chronik("group", "describe", group, "--format", "json").json[0]["lag"] == 3
    assert chronik("consume", topic, "--share-group", group, "--count", "1").lines == ["b"]

    assert chronik("group", "delete", group, "--dry-run", "--format", "json").json[0]["offsets"] == 1
    one = ("group", "delete-offsets", group, "--topic", topic, "--yes")
    assert chronik(*one, "--partition", "0").exit_code == 2
    assert [row["topic"] for row in chronik(*one, "--format", "json").json] == [topic]
    assert chronik(*one).exit_code == 1  # there is nothing left
    assert chronik("group", "delete", group, "--yes").exit_code == 0
    assert chronik("group", "describe", group).exit_code == 1
