"""File descriptors: as many as allowed, and shared so that files and connections do not take each other's."""

from __future__ import annotations

import subprocess
import sys

import pytest

from chronik.runtime.descriptors import SPARE, WORTH_HAVING_MAX, shares


@pytest.mark.parametrize("limit", [16, 64, 256, 1024, 4096, 524_288])
def test_files_connections_and_the_rest_fit_the_limit(limit: int) -> None:
    """A part that reaches its limit refuses further work, and the others continue."""
    files_max, connections_max, handshakes_max = shares(limit)
    assert files_max >= 2
    assert connections_max >= 1
    assert handshakes_max >= 1
    assert files_max + connections_max + handshakes_max <= limit - min(SPARE, limit // 4)


def test_a_process_takes_what_it_is_allowed() -> None:
    """Most systems start programs with 1,024 descriptors and allow hundreds of thousands."""
    script = (
        "import resource\n"
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))\n"
        "from chronik.runtime.descriptors import raise_limit\n"
        "print(raise_limit(), resource.getrlimit(resource.RLIMIT_NOFILE)[0], hard)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    returned, soft, hard = map(int, done.stdout.split())
    assert returned == soft == (min(hard, WORTH_HAVING_MAX) if hard >= 0 else WORTH_HAVING_MAX)
