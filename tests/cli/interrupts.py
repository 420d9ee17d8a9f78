"""Ctrl-C for commands that tests start."""

from __future__ import annotations

import signal


def heed_interrupts() -> None:
    """For `preexec_fn`: the command reacts to Ctrl-C, as if it was started from a terminal.

    Shells start background jobs with SIGINT ignored, and child processes inherit that. A CI run may be such a job.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
