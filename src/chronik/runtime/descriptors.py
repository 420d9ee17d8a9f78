"""How many file descriptors the process may have, and how they are shared.

Files and connections share what the system allows. A node that has too few of them keeps fewer files open and takes
fewer connections; what else it needs (listeners, journals, directories for a moment, connections to other nodes) has
descriptors of its own, so that neither can take them.
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
    handshakes_max: int  # of peers that have not completed their TLS handshake, and count for nothing else yet


def raise_limit() -> int:
    """To what the administrator allows this process; returns the limit that holds then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WORTH_HAVING_MAX if hard == resource.RLIM_INFINITY else min(hard, WORTH_HAVING_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # macOS refuses what its kernel would not give
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
