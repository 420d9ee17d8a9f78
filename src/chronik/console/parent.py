"""Ends a process of the console when the console has ended, also one that was killed and could end nothing."""

from __future__ import annotations

import os
import threading
import time
from typing import Final

LOOK_S: Final = 0.5


def end_with_parent(parent_id: int) -> None:
    """From now on. The console tells its id: it may have ended before this process could ask for it."""
    threading.Thread(target=_watch, args=(parent_id,), name="parent", daemon=True).start()


def _watch(parent_id: int) -> None:
    while os.getppid() == parent_id:
        time.sleep(LOOK_S)
    os._exit(1)  # from a thread; a query or a run has nothing to clean up
