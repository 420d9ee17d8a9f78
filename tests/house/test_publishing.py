"""The wheel and the source archive as a package index and its users see them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from tests.house.repository import ROOT, SOURCE

ADDRESS = "https://git.example/chronik/v1"
SOURCES = {"src", "tests", "tools", "docs", "examples", "deploy", "requirements", "benchmarks", "Makefile", "LICENSE"}


def wheel_in(directory: Path, **environment: str) -> Path:
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(directory),
    ]
    subprocess.run([*command, str(ROOT)], env={**os.environ, **environment}, check=True)
    [wheel] = directory.glob("chronik-*.whl")
    return wheel


@pytest.mark.slow
def test_links_of_a_published_wheel_lead_somewhere(tmp_path: Path) -> None:
    """A package index shows the README without the files beside it."""
    with zipfile.ZipFile(wheel_in(tmp_path, CHRONIK_REPOSITORY=ADDRESS)) as wheel:
        [name] = [each for each in wheel.namelist() if each.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(wheel.read(name).decode())
    links = re.findall(r"\]\(([^)#][^)]*)\)", str(metadata.get_payload()))
    assert links
    assert [link for link in links if not link.startswith("https://")] == []
    places = [link.removeprefix(f"{ADDRESS}/").partition("#")[0] for link in links if link.startswith(ADDRESS)]
    assert [place for place in places if not (ROOT / place).exists()] == []
    urls = dict(each.split(", ", 1) for each in metadata.get_all("Project-URL", []))
    assert urls["Changelog"] == f"{ADDRESS}/CHANGELOG.md"
    assert metadata["Keywords"]


@pytest.mark.slow
def test_the_source_archive_is_complete(tmp_path: Path) -> None:
    """Distributions build from it and run the tests."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    [archive] = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        held = {Path(*Path(name).parts[1:]).parts[0] for name in opened.getnames() if len(Path(name).parts) > 1}
    assert held >= SOURCES


def test_classifiers_and_the_python_that_is_required_agree() -> None:
    """pip goes by one, and people by the other."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions = [each.rpartition(" ")[2] for each in project["classifiers"] if re.search(r":: 3\.\d+$", each)]
    assert project["requires-python"] == f">={versions[0]}"


def test_spark_finds_other_data_sources_where_deltalake_is_missing() -> None:
    """Spark imports every pyspark_* module when any Python data source is looked up."""
    script = (
        "import sys; sys.modules['deltalake'] = None; import pyspark_chronik_table as made\n"
        "assert made.DefaultSource.name() == 'chronik-table'\n"
        "try: made.DefaultSource({'path': '/nowhere'}).schema()\n"
        "except ModuleNotFoundError as fault: print(fault)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONPATH": str(SOURCE)}, capture_output=True, text=True, check=True
    )
    assert "pip install 'chronik[spark]'" in done.stdout


@pytest.mark.long
def test_an_installed_wheel_reads_a_first_message(tmp_path: Path) -> None:
    """A newcomer's first steps, in an otherwise empty environment."""
    wheel = wheel_in(tmp_path)
    place = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    subprocess.run([str(place / "bin/pip"), "install", "--quiet", str(wheel)], check=True)
    chronik = str(place / "bin/chronik")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    command = [chronik, "server", "-o", f"log.dirs={tmp_path / 'data'}", "-o", "listeners=PLAINTEXT://127.0.0.1:0"]
    command += ["-o", "chronik.admin.listener=none"]
    node = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert node.stdout is not None
        environment["CHRONIK_BOOTSTRAP"] = node.stdout.readline().removeprefix("ready on ").strip()
        produce = [chronik, "produce", "greetings", "--create"]
        subprocess.run(produce, env=environment, input="hello\n", text=True, check=True)
        consume = [chronik, "consume", "greetings", "--from", "earliest", "--count", "1"]
        read = subprocess.run(consume, env=environment, capture_output=True, text=True, check=True)
        assert "hello" in read.stdout
    finally:
        node.kill()
        node.communicate()
