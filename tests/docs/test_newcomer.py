"""The first lines of the README, in an empty environment with the built wheel."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chronik.testing.ports import free_ports
from tests.docs.test_console_pages import environment
from tests.house.console_blocks import Shell
from tests.house.repository import ROOT

INSTALL, START = "pip install chronik", "chronik up"


def first_lines() -> list[str]:
    block = re.search(r"^```sh\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert block is not None
    return block[1].splitlines()


def test_the_readme_begins_with_the_first_message() -> None:
    lines = first_lines()
    assert INSTALL in lines
    assert [line for line in lines if line.startswith(START)]
    assert lines[-1].startswith("chronik consume")


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_first_lines_of_the_readme_work_where_nothing_is_installed(tmp_path: Path) -> None:
    """Prints how long it took. Packages come from wherever pip is configured to look."""
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", str(tmp_path), str(ROOT)], check=True)
    [wheel] = tmp_path.glob("chronik-*.whl")
    [port] = free_ports(1)
    environ = environment(tmp_path, CHRONIK_BOOTSTRAP=f"127.0.0.1:{port}")
    del environ["PYTHONPATH"]
    began = time.monotonic()
    with Shell(tmp_path, environ) as shell:
        for line in first_lines():
            command = line.replace(INSTALL, f"pip install --quiet --no-cache-dir {wheel}")
            code, printed = shell.run(command.replace(START, f"{START} --port {port} -o chronik.admin.listener=none"))
            print(f"{time.monotonic() - began:.1f} s: {line}")
            assert code == 0, printed
        assert printed == "hello\n"
