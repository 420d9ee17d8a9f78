"""A home for Spark whose Python processes import pyspark as it is installed: compiled, not from a zip of sources.

Spark puts `$SPARK_HOME/python/lib/pyspark.zip` first on the path of every Python process that it starts, and nothing in
there is compiled: each process does that again, for most of a second, and a streaming query starts ten before its first
row. The home that is made here is pyspark's own, link by link, without that folder, so that the path goes on to where
the driver's pyspark is. Changes nothing that is installed.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

HOME: Final = "SPARK_HOME"
ZIPPED: Final = "python"  # the folder of pyspark.zip


def settle_in() -> None:
    """Call before the JVM starts. Leaves alone a home of the user's, and workers that run another Python."""
    if HOME in os.environ or os.environ.get("PYSPARK_PYTHON", sys.executable) != sys.executable:
        return
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        return
    folder = Path(tempfile.mkdtemp(prefix="chronik-spark-home-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for entry in Path(found.origin).parent.iterdir():
        if entry.name != ZIPPED:
            (folder / entry.name).symlink_to(entry)
    os.environ[HOME] = str(folder)
