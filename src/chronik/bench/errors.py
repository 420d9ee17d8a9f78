"""Why a measurement failed; the user sees only the message."""

from __future__ import annotations


class BenchError(Exception):
    """Base of this package's errors."""

    exit_code = 1


class Misused(BenchError):
    """Invalid options; nothing was measured."""

    exit_code = 2
