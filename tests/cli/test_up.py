"""`chronik up` as a user meets it: what it prints, and that what it prints works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from urllib.request import urlopen

import pytest

from tests.cli.conftest import Run
from tests.house.repository import SOURCE


@pytest.mark.slow
def test_up_says_where_everything_is_what_to_try_and_that_it_stopped(run_command: Run) -> None:
    """The next thing to type is on the screen, and it works as it stands there."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-m", "chronik.cli", "up", "--port", "0", "--log-level", "error"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            told = dict(process.stdout.readline().rstrip("\n").split(maxsplit=1) for _ in range(4))
            assert process.stdout.readline() == "Ready. Press Ctrl-C to stop.\n"
            assert told.keys() == {"bootstrap.servers", "metrics", "data", "try"}
            assert told["try"].endswith(f"--bootstrap {told['bootstrap.servers']}")
            assert run_command(*told["try"].split()[1:]).exit_code == 0
            with urlopen(told["metrics"].partition(",")[0]) as page:
                assert page.status == 200
        finally:
            process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "Stopped.\n"
    assert process.returncode == 0
