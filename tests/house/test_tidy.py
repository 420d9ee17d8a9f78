"""The tree is tidy, and the rules detect what is not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tests.house import tidiness
from tests.house.repository import ROOT, SOURCE, layers_present, own_files, source_modules

UNTIDY = [
    ("import time", "Clock"),
    ("import os.path", "Disk"),
    ("from random import choice", "Randomness"),
    ("from concurrent.futures import ThreadPoolExecutor", "Lane"),
    ("def f():\n    import socket", "Network"),
    ("data = open('x').read()", "Disk"),
    ("spread = hash(topic) % 3", "zlib.crc32"),
    ("stamp = datetime.datetime.now()", "Clock"),
    ("topic_id = uuid.uuid4()", "Randomness"),
    ("await loop.run_in_executor(None, work)", "Lane"),
    ("await asyncio.get_running_loop().create_server(P)", "Network"),
    ("await asyncio.to_thread(work)", "Lane"),
]
TIDY = [
    "import asyncio, struct, zlib",
    "from chronik.runtime.interfaces import Clock",
    "from . import time",
    "file = disk.open(path, create=True)",
    "now_ns = clock.monotonic_ns()",
    "loop.call_later(1, wake)",
    "def open(path): ...",
    "size = len(hashes)",
]
# Dots in brackets, so that this line does not match itself.
REGISTRIES = re.compile(
    r"pypi[.]org|pythonhosted[.]|repo1?[.]maven[.]|maven[.]org/maven2|registry[.]npm|--(extra-)?index-url"
)


def complaints(rule: Callable[[str], Iterator[str]], paths: Iterable[Path]) -> list[str]:
    return [f"{path.relative_to(ROOT)}: {each}" for path in paths for each in rule(path.read_text())]


@pytest.mark.parametrize(("source", "way_out"), UNTIDY)
def test_reaching_past_the_runtime_is_noticed_and_the_way_out_named(source: str, way_out: str) -> None:
    """A rule that never complains guards nothing, and a complaint without a way out is noise."""
    [complaint] = tidiness.machine_calls(source if "await" not in source else f"async def f():\n    {source}")
    assert way_out in complaint


@pytest.mark.parametrize("source", TIDY)
def test_going_through_the_runtime_is_left_alone(source: str) -> None:
    """Interfaces have methods named `open`; a rule that cries at them would be switched off."""
    assert list(tidiness.machine_calls(source)) == []


def test_a_long_a_silent_and_a_vaguely_named_module_are_noticed() -> None:
    """The three rules about a module as a whole must bite too."""
    assert list(tidiness.size("\n" * tidiness.LINES_MAX)) == []
    assert list(tidiness.size("\n" * (tidiness.LINES_MAX + 1)))
    assert list(tidiness.introduction("")) == []
    assert list(tidiness.introduction('"""A thing."""\nx = 1')) == []
    assert list(tidiness.introduction("x = 1"))
    assert list(tidiness.name("journal")) == []
    assert list(tidiness.name("utils"))


@pytest.mark.parametrize("layer", [layer for layer in layers_present() if layer != "runtime"])
def test_a_layer_touches_the_machine_only_through_runtime(layer: str) -> None:
    """Otherwise a node would not run in virtual time, and a failing seed would not replay."""
    assert complaints(tidiness.machine_calls, sorted((SOURCE / "chronik" / layer).rglob("*.py"))) == []


def test_no_module_is_too_long() -> None:
    """A reader should know their room in every file."""
    tests_and_tools = [path for folder in ("tests", "tools") for path in (ROOT / folder).rglob("*.py")]
    assert complaints(tidiness.size, source_modules() + tests_and_tools) == []


def test_every_module_says_what_it_is_for() -> None:
    """The first ten lines explain the file's purpose to a newcomer."""
    assert complaints(tidiness.introduction, source_modules()) == []


def test_every_module_is_named_after_a_thing() -> None:
    """A drawer named `utils` fills up."""
    found = [f"{path}: {each}" for path in own_files() if path.suffix == ".py" for each in tidiness.name(path.stem)]
    assert found == []


def test_no_file_names_a_registry() -> None:
    """Where packages come from is the machine's own configuration; a committed address would bypass a mirror."""
    assert all(
        REGISTRIES.search(".".join(parts)) for parts in (("//pypi", "org/simple"), ("files.pythonhosted", "org"))
    )
    found = []
    for path in own_files():
        text = path.read_bytes().decode("utf-8", "replace")
        found += [f"{path.relative_to(ROOT)}: {match}: leave it out" for match in REGISTRIES.findall(text)]
    assert found == []


# They wait for the task that they start, or read its result in a callback.
STARTS_TASKS = {
    "broker/apis/produce.py": "waits for several appends at once; the reply reads the results",
    "broker/lifecycle.py": "waits for the first of two events",
    "broker/node_base.py": "waits for the start or a failure, whichever comes first",
    "broker/process.py": "waits for the first of signal, start and end",
    "metadata/joining.py": "done() waits for it",
    "metadata/quorum.py": "keeps the answer for requests that are repeated; a callback reads it",
    "metadata/writer.py": "a callback reads the result",
    "peer/protocol.py": "a step of a login that takes long; a callback reads the result",
    "runtime/tasks.py": "the owner of all others",
    "client/admin/vigil.py": "looks at the quorum beside the work, which it awaits or ends before it returns",
}


def test_only_known_modules_start_tasks() -> None:
    """A task without a waiter fails silently. `chronik.runtime.tasks.Tasks` starts tasks and logs their errors."""
    package = SOURCE / "chronik"
    starting = {
        path.relative_to(package).as_posix()
        for layer in layers_present()
        for path in (package / layer).rglob("*.py")
        if re.search(r"\b(create_task|ensure_future|TaskGroup)\(", path.read_text())
    }
    assert starting == set(STARTS_TASKS)


SHARED = ("runtime/units.py", "wire/internal_topics.py", "wire/isolation.py", "wire/offset_specs.py")


def test_units_and_kafkas_constants_are_defined_once() -> None:
    """Two definitions of one name can differ. Import it instead."""
    package = SOURCE / "chronik"
    names = "|".join(
        re.findall(r"^([A-Z_]+) = ", "".join((package / each).read_text() for each in SHARED), re.MULTILINE)
    )
    definition = re.compile(rf"^(?:[A-Z_]+, )*_?({names})\b(?:, [A-Z_]+)*(?:: \w+)? = ", re.MULTILINE)
    again = [
        f"{path.relative_to(package)}: {found}"
        for path in sorted(package.rglob("*.py"))
        if path.relative_to(package).as_posix() not in SHARED
        for found in definition.findall(path.read_text())
    ]
    assert again == []
