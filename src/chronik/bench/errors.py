"""Why a measurement could not be made; the message is all that the user sees."""

from __future__ import annotations


class BenchError(Exception):
    """Base of this package's errors."""

    exit_code = 1


class Misused(BenchError):
    """Options that make no sense; nothing was measured."""

    exit_code = 2
