"""The commands that tutorials and how-to guides show, run in their order, with their output compared.

Pages that kill nodes or need Spark are marked long; the commands of all pages are parsed in every run.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from chronik.cli.main import COMMANDS, app
from chronik.testing import Cluster
from chronik.testing.ports import free_ports
from tests.house.console_blocks import Shell, check, steps_of
from tests.house.repository import ROOT, SOURCE

DOCS = ROOT / "docs"
HANDLED_ELSEWHERE = {"how-to/backup.md", "how-to/secure.md", "how-to/systemd.md"}  # by tests/cli/test_how_to_*.py
NODES = 3
RECORDS = "for key in a b c d; do echo $key:$key; done | chronik produce orders --key-separator : --bootstrap {}"


def environment(folder: Path, **more: str) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    kept = {name: os.environ[name] for name in ("JAVA_HOME", "CHRONIK_CACHE") if name in os.environ}
    return {
        "PATH": path,
        "PYTHONPATH": str(SOURCE),
        "HOME": str(folder),
        "COLUMNS": "200",
        "PYTHONUNBUFFERED": "1",
        **kept,
        **more,
    }


def prepare(shell: Shell, *commands: str) -> None:
    for command in commands:
        code, printed = shell.run(command)
        assert code == 0, f"{command}\n{printed}"


@pytest.fixture
def one_node() -> Iterator[tuple[Cluster, str]]:
    """With its admin listener, whose address pages call localhost:9644."""
    [port] = free_ports(1)
    with Cluster(settings={"chronik.admin.listener": f"127.0.0.1:{port}"}) as cluster:
        yield cluster, f"localhost:{port}"


@pytest.mark.slow
def test_the_first_message(tmp_path: Path) -> None:
    """The first page that users follow."""
    [port] = free_ports(1)
    start = "chronik up"
    replaced = {start: f"{start} --port {port} -o chronik.admin.listener=none"}
    with Shell(tmp_path, environment(tmp_path, CHRONIK_BOOTSTRAP=f"127.0.0.1:{port}")) as shell:
        assert check(DOCS / "tutorials/first-message.md", shell, replaced) >= 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "preparation"),
    [
        (
            "how-to/reset-a-group.md",
            (
                "chronik topic create orders",
                "seq 3 | chronik produce orders",
                "chronik consume orders --group billing --from earliest --count 3",
            ),
        ),
        ("how-to/report-a-bug.md", ()),
        ("how-to/monitor.md", ()),
        ("how-to/size.md", ()),
        ("how-to/check-a-schema.md", ()),
    ],
)
def test_a_guide_for_a_running_cluster(
    page: str, preparation: tuple[str, ...], one_node: tuple[Cluster, str], tmp_path: Path
) -> None:
    cluster, admin = one_node
    with Shell(tmp_path, environment(tmp_path, CHRONIK_BOOTSTRAP=cluster.bootstrap)) as shell:
        prepare(shell, *preparation)
        assert check(DOCS / page, shell, {"localhost:9644": admin}) >= 1


@pytest.mark.slow
def test_moving_from_kafka(chronik_cluster: Cluster, tmp_path: Path) -> None:
    """With records, partitions and offsets of the old cluster."""
    port, quorum_port = free_ports(2)
    old = chronik_cluster.bootstrap
    replaced = {"kafka:29092": old, ":9092": f":{port}", ":9093": f":{quorum_port}"}
    settings = {"CHRONIK_BOOTSTRAP": f"127.0.0.1:{port}", "KAFKA_CHRONIK_ADMIN_LISTENER": "none"}
    with Shell(tmp_path, environment(tmp_path, **settings)) as shell:
        prepare(
            shell,
            f"chronik topic create orders --partitions 2 --bootstrap {old}",
            RECORDS.format(old),
            f"chronik group reset billing --topic orders --partition 0 --to 3 --execute --bootstrap {old}",
        )
        assert check(DOCS / "how-to/move-from-kafka.md", shell, replaced) >= 12


class ThreeNodes:
    """A shell in which other ports replace 9092 and so on, with the nodes' files and processes named as on the
    pages."""

    def __init__(self, folder: Path) -> None:
        ports = free_ports(2 * (NODES + 1))
        self._clients, self._quorum = ports[: NODES + 1], ports[NODES + 1 :]
        self.shell = Shell(folder, environment(folder, KAFKA_CHRONIK_ADMIN_LISTENER="none"))

    def replaced(self, *inits: str) -> Mapping[str, str]:
        places = zip(self._clients[:NODES], self._quorum[:NODES], strict=True)
        words = " ".join(f"--host 127.0.0.1:{port} --quorum-port {quorum}" for port, quorum in places)
        numbered = [
            *zip(range(9092, 9096), self._clients, strict=True),
            *zip(range(9192, 9196), self._quorum, strict=True),
        ]
        return {each: f"{each} {words}" for each in inits} | {f":{shown}": f":{port}" for shown, port in numbered}

    def start(self) -> None:
        """As the tutorial does, into the directory `cluster`."""
        init = "chronik init cluster --nodes 3"
        numbers = range(1, NODES + 1)
        prepare(
            self.shell,
            f"{self.replaced(init)[init]} > init.txt",
            *(
                f"chronik server cluster/node-{n}/server.properties > node-{n}.log 2>&1 & echo $! > {n}.pid"
                for n in numbers
            ),
            *(f"until grep -s ^ready node-{n}.log; do sleep 0.1; done" for n in numbers),
            "export CHRONIK_BOOTSTRAP=" + ",".join(f"127.0.0.1:{port}" for port in self._clients[:NODES]),
            "chronik topic create orders --partitions 3",
            "seq 100 | chronik produce orders",
        )


@pytest.fixture
def three_nodes(tmp_path: Path) -> Iterator[ThreeNodes]:
    made = ThreeNodes(tmp_path)
    with made.shell:
        yield made


@pytest.mark.slow
def test_a_lost_quorum(three_nodes: ThreeNodes) -> None:
    """This page is not read before it is needed."""
    three_nodes.start()
    prepare(
        three_nodes.shell,
        "kill -9 $(cat 1.pid) $(cat 2.pid)",
        "until chronik cluster status 2>&1 | grep votes; do :; done",
    )
    assert check(DOCS / "how-to/quorum-lost.md", three_nodes.shell, three_nodes.replaced()) >= 4


@pytest.mark.long
@pytest.mark.parametrize("page", ["how-to/upgrade.md", "how-to/nodes.md"])
def test_a_guide_for_three_nodes(page: str, three_nodes: ThreeNodes) -> None:
    three_nodes.start()
    assert check(DOCS / page, three_nodes.shell, three_nodes.replaced()) >= 4


@pytest.mark.long
def test_breaking_a_cluster(three_nodes: ThreeNodes) -> None:
    replaced = three_nodes.replaced("chronik init trial --nodes 3")
    assert check(DOCS / "tutorials/break-a-cluster.md", three_nodes.shell, replaced) >= 18


@pytest.mark.long
@pytest.mark.spark
def test_orders_to_a_table_and_its_dead_letters(tmp_path: Path) -> None:
    """The guide about dead letters continues the tutorial."""
    [port] = free_ports(1)
    replaced = {"chronik up": f"chronik up --port {port} -o chronik.admin.listener=none"}
    with Shell(tmp_path, environment(tmp_path, CHRONIK_BOOTSTRAP=f"127.0.0.1:{port}")) as shell:
        assert check(DOCS / "tutorials/orders-to-table.md", shell, replaced) >= 10
        assert check(DOCS / "how-to/dead-letters.md", shell) >= 4


def pages() -> list[Path]:
    return sorted(DOCS.rglob("*.md"))


def test_every_page_with_console_blocks_is_run() -> None:
    """A page that no test runs becomes wrong."""
    here = Path(__file__).read_text("utf-8")
    with_steps = {page.relative_to(DOCS).as_posix() for page in pages() if steps_of(page.read_text("utf-8"))}
    assert {page for page in with_steps if f'"{page}"' not in here} <= HANDLED_ELSEWHERE


def test_commands_are_found_in_lines_of_a_shell() -> None:
    assert list(commands_in("echo a | chronik produce x --key 'a b' > f 2>&1 & echo $!")) == [
        ["produce", "x", "--key", "a b"]
    ]
    assert list(commands_in("chronik consume x --count 2 | sort")) == [["consume", "x", "--count", "2"]]
    assert list(commands_in("until chronik cluster status 2>&1 | grep x; do sleep 0.1; done")) == [
        ["cluster", "status"]
    ]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_every_command_of_a_page_is_a_valid_command_line(page: Path) -> None:
    """In console and shell blocks. A renamed option must not leave an outdated page."""
    text = page.read_text("utf-8")
    lines = [step.command for step in steps_of(text)]
    for block in re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        lines += block.splitlines()
    for noun in COMMANDS:
        app[noun]  # imports it
    for words in (found for line in lines for found in commands_in(line)):
        app.parse_args(words, exit_on_error=False)


def commands_in(line: str) -> Iterator[list[str]]:
    """The words after each `chronik`, without redirections and other shell syntax."""
    if "<<" in line:
        line = line.partition("\n")[0].partition("<<")[0]
    reader = shlex.shlex(line, posix=True, punctuation_chars=True)
    reader.whitespace_split = True
    words: list[str] | None = None
    for token in reader:
        ends = not set(token) - set("();<>|&") or token in ("do", "done")
        if ends and words is not None:
            yield words[:-1] if token.startswith(">") and words[-1:] == ["2"] else words
        words = None if ends else [] if token == "chronik" else None if words is None else [*words, token]
    if words is not None:
        yield words
