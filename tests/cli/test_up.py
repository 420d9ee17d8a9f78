"""`chronik up` as users run it: its output, and that the printed commands work."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from chronik.testing.local_cluster import why_not_here
from chronik.testing.processes import RESTARTS_MAX, keep_running
from tests.cli.conftest import Run
from tests.house.repository import SOURCE
from tests.pipeline.driver_processes import descendants

READY = "Ready. Press Ctrl-C to stop."


@contextmanager
def running(
    *words: str, before: Callable[[], object] | None = None
) -> Iterator[tuple[list[str], subprocess.Popen[str]]]:
    """`chronik up` with these words, and the lines it printed until it was ready. SIGINT ends it."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-m", "chronik.cli", "up", "--port", "0", "--log-level", "error", *words]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=before
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = []
        try:
            for line in process.stdout:
                if line.rstrip() == READY:
                    break
                lines.append(line.rstrip())
            else:
                pytest.fail(process.stderr.read())
            yield lines, process
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()


def data_of(directory: Path, *nodes: int, count: int | None = None) -> None:
    for node_id in nodes:
        (directory / f"node-{node_id}").mkdir(parents=True)
        (directory / f"node-{node_id}" / "meta.properties").touch()
    if count is not None:
        (directory / "nodes").write_text(f"{count}\n")


@pytest.mark.slow
def test_up_says_where_everything_is_what_to_try_and_that_it_stopped(run_command: Run) -> None:
    """The next command is on the screen, and works when copied."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-m", "chronik.cli", "up", "--port", "0", "--log-level", "error"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            told = dict(process.stdout.readline().rstrip("\n").split(maxsplit=1) for _ in range(5))
            assert process.stdout.readline() == "Ready. Press Ctrl-C to stop.\n"
            assert told.keys() == {"bootstrap.servers", "console", "metrics", "data", "try"}
            assert told["try"].endswith(f"--bootstrap {told['bootstrap.servers']}")
            assert run_command(*told["try"].split()[1:]).exit_code == 0
            for address in (told["metrics"].partition(",")[0], told["console"]):
                with urlopen(address) as page:
                    assert page.status == 200
        finally:
            process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "Stopped.\n"
    assert process.returncode == 0


@pytest.mark.slow
def test_a_cluster_that_lost_one_node_directory_starts_with_all_its_nodes(tmp_path: Path, run_command: Run) -> None:
    """The lost node joins empty under a new directory id and copies its replicas; two of three know everything."""
    data = tmp_path / "cluster"
    with running("--nodes", "3", "--data", str(data)) as (lines, _):
        servers = lines[0].split()[1]
        made = run_command("topic", "create", "kept", "--bootstrap", servers)
        assert made.exit_code == 0, made.err
        assert run_command("produce", "kept", "--bootstrap", servers, stdin=b"one\n").exit_code == 0
    before = (data / "node-3" / "meta.properties").read_text()
    shutil.rmtree(data / "node-3")
    with running("--nodes", "3", "--data", str(data)) as (lines, process):
        servers = lines[0].split()[1]
        assert len(servers.split(",")) == 3
        read = run_command("consume", "kept", "--from", "earliest", "--count", "1", "--bootstrap", servers)
        assert read.out.strip() == "one"
        after = (data / "node-3" / "meta.properties").read_text()
        assert after != before
        assert "node.id=3" in after
        assert process.stderr is not None
        assert "no data of node 3: it starts empty" in process.stderr.readline()


def test_a_cluster_without_a_majority_of_its_data_is_not_started(tmp_path: Path) -> None:
    data_of(tmp_path, 1, count=3)
    reason = why_not_here(tmp_path, 3)
    assert reason is not None
    assert "node-2, node-3" in reason
    assert "--nodes" not in reason, "no number of nodes brings the lost ones back"


@pytest.mark.parametrize(
    ("present", "recorded", "asked", "advice"),
    [
        ((1, 2, 3), 3, 5, "--nodes 3"),
        ((1, 2), 3, 2, "--nodes 3"),
        ((1, 2), None, 3, "write 3 into"),
        ((1, 2), 2, 3, "--nodes 2"),
        ((1, 3), None, 3, None),
        ((2, 3), 3, 3, None),
        ((), 3, 5, None),
    ],
)
def test_the_number_of_nodes_must_be_that_of_the_cluster(
    present: tuple[int, ...], recorded: int | None, asked: int, advice: str | None, tmp_path: Path
) -> None:
    """More or fewer nodes than voters would wait for each other without end."""
    data_of(tmp_path, *present, count=recorded)
    reason = why_not_here(tmp_path, asked)
    assert reason is None if advice is None else advice in str(reason)


@pytest.mark.slow
def test_a_cluster_in_the_background_of_a_script_says_where_its_metrics_are_and_obeys_sigint() -> None:
    """Shells without job control start background jobs with SIGINT ignored."""
    with running("--nodes", "3", before=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) as (lines, process):
        pages = [word.rstrip(",") for line in lines for word in line.split() if "/metrics" in word]
        assert len(pages) == 3
        for address in pages:
            with urlopen(address) as page:
                assert page.status == 200
    assert process.returncode == 0


@pytest.mark.parametrize("command", ["up", "server"])
@pytest.mark.parametrize("word", ["foo", "=value"])
def test_an_override_is_a_key_and_a_value(command: str, word: str, run_command: Run) -> None:
    """A typing error must not start a node without the setting."""
    done = run_command(command, "-o", word)
    assert done.exit_code == 2
    assert "write key=value" in done.err


@pytest.mark.slow
def test_a_node_that_dies_is_started_again_while_the_others_go_on(tmp_path: Path, run_command: Run) -> None:
    """Before, everything had to be stopped to get it back."""
    data = tmp_path / "cluster"
    with running("--nodes", "3", "--data", str(data)) as (lines, process):
        servers = lines[0].split()[1]
        assert process.stderr is not None
        assert run_command("topic", "create", "kept", "--bootstrap", servers).exit_code == 0
        victim = next(pid for pid in descendants(process.pid) if b"node.id=2" in command_of(pid))
        os.kill(victim, signal.SIGKILL)
        assert process.stderr.readline() == "node 2 ended with status -9; starting it again\n"
        second = servers.split(",")[1]
        while run_command("topic", "list", "--bootstrap", second).exit_code != 0:
            pass
        assert run_command("produce", "kept", "--bootstrap", second, stdin=b"one\n").exit_code == 0
        again = [pid for pid in descendants(process.pid) if b"node.id=2" in command_of(pid)]
        assert len(again) == 1
        assert again != [victim]


class _Node:
    """A process that ends as soon as it is looked at."""

    node_id = "2"

    def exit_code(self) -> int:
        return 1

    def wait(self) -> None:
        pass


def test_a_node_that_cannot_run_is_not_started_for_ever() -> None:
    """Its log says why; starting it a thousand times would hide that."""
    told: list[str] = []
    started: list[int] = []
    nodes: list[Any] = [_Node()]

    def start(index: int) -> Any:
        started.append(index)
        return _Node()

    assert keep_running(nodes, start, told.append) == 1
    assert started == [0] * RESTARTS_MAX
    assert told[-1].endswith("it stays down; 0 are left")


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
