"""How a command fails. The whole tree, with the exit code of each; `main` prints the message and exits with it.

CommandError
  CommandFailed   1  the cluster refused, or what was named is not there
  Misused         2  what was typed makes no sense; nothing was tried
  NoBroker        3  nobody answered
"""

from __future__ import annotations


class CommandError(Exception):
    """Base: the message is all that the user sees."""

    exit_code = 1


class CommandFailed(CommandError):
    """Something was tried and did not work."""


class Misused(CommandError):
    """Nothing was tried."""

    exit_code = 2


class NoBroker(CommandError):
    """Nothing could be tried."""

    exit_code = 3
