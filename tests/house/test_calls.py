"""The cost of a request: calls, files, file changes and executed lines must not increase unnoticed."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from count_calls import Count
from tests.house.repository import ROOT

# DESIGN.md, "The way of a request", has the figures. A few calls more are allowed than are measured: a heartbeat or a
# timer may fall into every one of the repeated requests. Between nodes many more do, on a machine with much to do.
BOUNDS = {
    "Produce": Count(82, 27, 62, 575),
    "CreateTopics": Count(331, 45, 177, 1520),
    "CreateTopics (follower)": Count(600, 65, 400, 3000),
    "CreateTopics (controller)": Count(1000, 65, 650, 5000),
}


def test_a_request_takes_no_more_calls_than_the_design_says() -> None:
    """Each call was added for a reason, but their sum is not reviewed. If this fails, run `tools/python
    tools/count_calls.py --trace` before you raise a limit."""
    command = [sys.executable, str(ROOT / "tools/count_calls.py")]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    found = {}
    for line in done.stdout.splitlines():
        what, figures = line.split(": ")
        found[what] = Count(*map(int, re.findall(r"\d+", figures)))
    assert found.keys() == BOUNDS.keys()
    above = {api: count for api, count in found.items() if any(map(int.__gt__, count, BOUNDS[api]))}
    assert not above, f"at most {BOUNDS}"
