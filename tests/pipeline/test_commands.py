"""The commands of pipelines that need no Spark: they answer at once, and with the sentence that helps."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from chronik.pipeline.conditions import PipelineFault
from chronik.pipeline.letters import ADDED
from chronik.pipeline.live_cluster import LiveCluster, Outgoing
from chronik.pipeline.registry import load
from chronik.pipeline.stopping import StopMark
from chronik.testing import Cluster
from tests.cli.conftest import Run, run_command
from tests.house.repository import SOURCE
from tests.pipeline.secured import ADMIN, ALICE, PASSWORD, Secured

__all__ = ["run_command"]

SHOP = '@bronze(topic="{topic}")\ndef raw(records):\n    return records\n'


@pytest.fixture
def shop(tmp_path: Path) -> Callable[[str], str]:
    def write(topic: str) -> str:
        file = tmp_path / "shop.py"
        file.write_text("from chronik.pipeline import bronze\n" + SHOP.replace("{topic}", topic))
        return str(file)

    return write


def test_help_brings_no_spark_along() -> None:
    """`chronik --help` is typed a hundred times a day."""
    script = (
        "import sys; sys.argv = ['chronik', '--help']\nfrom chronik.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(sorted({'pyspark', 'pyarrow', 'deltalake', 'yaml', 'pandas'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONPATH": str(SOURCE)}, capture_output=True, text=True
    )
    assert done.stderr.strip() == "[]"
    assert "materialize" in done.stdout


def test_dry_run_tells_a_mistake_without_starting_a_jvm(
    run_command: Run, our_broker: Cluster, unique: Callable[[str], str], shop: Callable[[str], str], tmp_path: Path
) -> None:
    """The answer to a typing error must not take ten seconds."""
    topic = unique("orders")
    LiveCluster(our_broker.bootstrap).create_topic(topic, 1)
    words = ["--bootstrap", our_broker.bootstrap, "--storage", str(tmp_path / "lake"), "--format", "json"]
    done = run_command("pipeline", "dry-run", shop(topic[:-1]), *words)
    assert done.exit_code == 1
    [error] = done.json["errors"]
    assert (error["condition"], error["nearest"], error["line"]) == ("TOPIC_NOT_FOUND", topic, 3)
    assert not (tmp_path / "lake").exists()


def test_a_cluster_that_is_not_there_is_told_with_the_exit_code_for_it(
    run_command: Run, shop: Callable[[str], str]
) -> None:
    """Scripts tell a broken pipeline from a broken network."""
    done = run_command("pipeline", "status", shop("orders"), "--bootstrap", "127.0.0.1:1")
    assert done.exit_code == 3
    assert len(done.err.splitlines()) == 1


def test_a_file_that_is_not_there_is_one_line(run_command: Run, tmp_path: Path) -> None:
    """Of every command that takes one."""
    for command in ("dry-run", "run", "status", "stop"):
        done = run_command("pipeline", command, str(tmp_path / "no.py"))
        assert (done.exit_code, done.err) == (1, f"chronik: FILE_NOT_FOUND: there is no file {tmp_path}/no.py\n")


def test_init_writes_a_pipeline_and_never_over_one(run_command: Run, tmp_path: Path) -> None:
    """A user's files must not be replaced."""
    assert run_command("pipeline", "init", str(tmp_path / "new")).exit_code == 0
    assert (tmp_path / "new/pipeline.py").exists()
    assert (tmp_path / "new/fixtures/orders.jsonl").exists()
    again = run_command("pipeline", "init", str(tmp_path / "new"))
    assert again.exit_code == 1
    assert "it exists" in again.err


def test_stop_leaves_a_mark_that_the_next_run_clears(
    run_command: Run, shop: Callable[[str], str], tmp_path: Path
) -> None:
    """Otherwise a pipeline that was stopped once would never start again."""
    mark = StopMark(tmp_path, "shop")
    assert not mark.is_set()
    assert run_command("pipeline", "stop", shop("orders"), "--storage", str(tmp_path)).exit_code == 0
    assert mark.is_set()
    mark.clear()
    assert not mark.is_set()


def test_dead_letters_are_shown_and_counted(
    run_command: Run, our_broker: Cluster, unique: Callable[[str], str]
) -> None:
    """What is needed to repair a record: its position, the error, and its bytes."""
    topic = unique("orders")
    cluster = LiveCluster(our_broker.bootstrap)
    cluster.create_topic(f"{topic}.dlq", 1)
    texts = [topic, "id1", "3", "42", "1767225600000", "shop", "raw", "VALUE_NOT_JSON", "the value is cut"]
    headers = (("own", b"1"), *((name, text.encode()) for name, text in zip(ADDED, texts, strict=True)))
    cluster.send(f"{topic}.dlq", [Outgoing(b"k", b"\xff{", headers), Outgoing(b"no", b"letter")])
    words = ["--bootstrap", our_broker.bootstrap, "--format", "json"]
    [letter] = run_command("dlq", "show", topic, *words).json
    assert (letter["partition"], letter["offset"], letter["error"]) == (3, 42, "VALUE_NOT_JSON")
    assert (letter["key"], letter["value"], letter["headers"]) == ("k", "\\xff{", {"own": "1"})
    assert run_command("dlq", "show", f"{topic}.dlq", "--summary", *words).json == [
        {"pipeline": "shop", "flow": "raw", "error": "VALUE_NOT_JSON", "count": 1}
    ]
    missing = run_command("dlq", "show", topic[:-1], "--bootstrap", our_broker.bootstrap)
    assert missing.exit_code == 1
    assert f"did you mean '{topic}.dlq'?" in missing.err


def test_tables_are_pending_until_somebody_materializes_them(
    run_command: Run, our_broker: Cluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """The controller refuses a topic with invalid settings, whichever tool sets them."""
    topic = unique("kept")
    cluster = LiveCluster(our_broker.bootstrap)
    cluster.create_topic(topic, 1, {"chronik.table.enable": "true", "chronik.table.mode": "upsert"})
    cluster.send(topic, [Outgoing(b"k", b"v")])
    done = run_command(
        "table", "list", "--bootstrap", our_broker.bootstrap, "--storage", str(tmp_path), "--format", "json"
    )
    [row] = [row for row in json.loads(done.out) if row["topic"] == topic]
    assert (row["state"], row["mode"], row["lag_messages"], row["version"]) == ("PENDING", "upsert", 1, None)
    words = ["--config", "chronik.table.on.error=explode", "--bootstrap", our_broker.bootstrap]
    refused = run_command("topic", "alter", topic, *words)
    assert refused.exit_code == 1
    assert "dlq, suspend, drop" in refused.err


@pytest.mark.parametrize("suffix", [".py", ".yaml"])
def test_a_pipeline_may_name_the_file_that_says_how_to_reach_its_cluster(tmp_path: Path, suffix: str) -> None:
    """Relative to the pipeline, because both files are deployed together. The file's contents are never shown."""
    file = tmp_path / f"shop{suffix}"

    def written(value: str) -> str:
        head = f"command_config = {value!r}\nfrom chronik.pipeline import bronze\n" + SHOP.replace("{topic}", "orders")
        twin = f"command_config: {json.dumps(value)}\nbronze:\n  - {{name: raw, topic: orders}}\n"
        file.write_text(head if suffix == ".py" else twin)
        return load(file).command_config

    assert written("client.properties") == str(tmp_path / "client.properties")
    assert written("/etc/client.properties") == "/etc/client.properties"
    with pytest.raises(PipelineFault) as refused:
        written(f"security.protocol=SSL\nssl.key.password={PASSWORD}")
    assert refused.value.condition == "COMMAND_CONFIG_INVALID"
    assert PASSWORD not in str(refused.value)


def test_commands_log_in_with_the_file_that_they_or_the_pipeline_name(
    run_command: Run, secured: Secured, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """Of two files the one on the command line counts. No command shows the password."""
    topic = secured.topic(unique("orders"), ("1", "2"))
    config = str(secured.properties_file(ADMIN))
    file = tmp_path / "shop.py"
    plain = "from chronik.pipeline import bronze\n" + SHOP.replace("{topic}", topic)
    where = ["--bootstrap", secured.main, "--format", "json"]
    file.write_text(plain)
    by_option = run_command("pipeline", "status", str(file), *where, "--command-config", config)
    file.write_text(f"command_config = {config!r}\n{plain}")
    by_file = run_command("pipeline", "status", str(file), *where)
    assert [(row["flow"], row["state"]) for row in by_option.json] == [("raw", "never ran")]
    assert by_file.json == by_option.json
    asked = run_command("sql", f'SELECT value FROM "{topic}"', *where, "--command-config", config)
    assert asked.json == [{"value": "1"}, {"value": "2"}]
    listed = run_command("table", "list", *where, "--command-config", config)
    missing = run_command("sql", "SELECT 1 FROM t", *where, "--command-config", str(tmp_path / "none"))
    alices = str(secured.properties_file(ALICE))
    alice = run_command("pipeline", "dry-run", str(file), *where, "--command-config", alices)
    assert (listed.exit_code, missing.exit_code, alice.exit_code) == (0, 2, 1)
    assert "--command-config" in missing.err
    [denied] = alice.json["errors"]
    assert denied["condition"] == "TOPIC_DENIED"
    assert f"chronik acl add --principal User:alice --operation read --topic {topic}" in denied["message"]
    for done in (by_option, by_file, asked, listed, missing, alice):
        assert PASSWORD not in done.out + done.err
