"""How a command fails. The whole tree, with the exit code of each; `main` prints the message and exits with it.

CommandError
  CommandFailed   1  refused, or not found
  Misused         2  invalid command line or input; nothing was changed
  NoBroker        3  no broker reached
"""

from __future__ import annotations


class CommandError(Exception):
    """Base: the message is all that the user sees."""

    exit_code = 1


class CommandFailed(CommandError):
    """Something was tried and did not work."""


class Misused(CommandError):
    """Nothing was changed."""

    exit_code = 2


class NoBroker(CommandError):
    """Nothing could be tried."""

    exit_code = 3
