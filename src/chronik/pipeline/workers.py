"""What a task does for the Python process that it runs in: Spark uses the process again, for the next task.

After every task Spark's worker collects garbage, and a collection looks at every object that is alive, which after all
imports are some hundred thousand: 40 ms of a core, where a small task takes five. What modules have made stays until
the process ends, so it is set aside once, and collections look at what tasks have made. Knows no Spark.
"""

from __future__ import annotations

import gc
import sys

_module_count = 0


def settle() -> None:
    """Call at the end of a task. Does something only after tasks that have imported something."""
    global _module_count
    if len(sys.modules) > _module_count:
        _module_count = len(sys.modules)
        gc.collect()  # or what is garbage now would be set aside with the rest
        gc.freeze()
