"""The processes of a Spark driver, for tests that kill them."""

from __future__ import annotations

import contextlib
import subprocess
import time
from pathlib import Path

# A driver's Python processes, by their purpose: tasks; the sink's commits; the source's planning.
TASKS = "pyspark.worker"
COMMITS = "pyspark.sql.worker.python_streaming_sink_runner"
PLANNING = "pyspark.sql.streaming.python_streaming_source_runner"


def descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found, ahead = [], [pid]
    while ahead:
        ahead = [child for each in ahead for child in children.get(each, [])]
        found += ahead
    return found


def workers_of(pid: int, module: str) -> list[int]:
    """Processes below a driver that run `module`; the forked ones, not the daemon that forks them."""
    found = []
    for each in descendants(pid):
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{each}/cmdline").read_bytes().split(b"\0")
            if any(word.startswith(module.encode()) for word in command):
                found.append(each)
    return [each for each in found if not set(descendants(each)) & set(found)]


def wait_until_planning(process: subprocess.Popen[bytes]) -> None:
    """A driver that starts has no batch under way: nothing that a kill could break."""
    while process.poll() is None and not workers_of(process.pid, PLANNING):
        time.sleep(0.05)
