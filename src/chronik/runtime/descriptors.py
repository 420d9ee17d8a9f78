"""The process's limit on file descriptors, and how it is divided.

Files and connections share the system's limit. A node with too few descriptors keeps fewer files open and accepts fewer
connections. Everything else (listeners, journals, temporarily opened directories, connections to other nodes) has a
separate reserve.
"""

from __future__ import annotations

import resource
from typing import NamedTuple

WORTH_HAVING_MAX = 1 << 20  # more are never needed, and some systems allow a billion
SPARE = 64  # or a quarter, if that is less
HANDSHAKES_MAX = 4096  # or a quarter of the connections, if that is less; each holds up to 64 KB of its peer's hello
UNLIMITED = 1 << 30


class Shares(NamedTuple):
    files_max: int  # of logs
    connections_max: int  # of clients
    handshakes_max: int  # peers whose TLS handshake is incomplete; no other limit counts them yet


def raise_limit() -> int:
    """Raises the limit as far as allowed, and returns the resulting limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WORTH_HAVING_MAX if hard == resource.RLIM_INFINITY else min(hard, WORTH_HAVING_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # macOS refuses limits that its kernel cannot provide
            return soft
        return wanted
    return limit()


def limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return UNLIMITED if soft == resource.RLIM_INFINITY else soft


def shares(limit: int) -> Shares:
    left = limit - min(SPARE, limit // 4)
    files_max = max(2, left // 2)
    handshakes_max = max(1, min(HANDSHAKES_MAX, (left - files_max) // 4))
    return Shares(files_max, max(1, left - files_max - handshakes_max), handshakes_max)
