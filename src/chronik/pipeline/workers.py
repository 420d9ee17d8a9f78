"""Keeps a task's Python process fast for the next task, because Spark reuses it.

After every task Spark's worker runs the garbage collector, which visits every live object: after all imports some
hundred thousand, 40 ms of a core, while a small task takes five. Objects of modules stay until the process ends, so
they are frozen once, and later collections visit only the tasks' objects. Knows no Spark.
"""

from __future__ import annotations

import gc
import sys

_module_count = 0


def settle() -> None:
    """Call this at the end of a task. It has an effect only after tasks that have imported modules."""
    global _module_count
    if len(sys.modules) > _module_count:
        _module_count = len(sys.modules)
        gc.collect()  # otherwise present garbage would be frozen too
        gc.freeze()
