"""A Spark home whose Python processes import the installed, compiled pyspark instead of a zip of sources.

Spark puts `$SPARK_HOME/python/lib/pyspark.zip` first on the path of every Python process that it starts, and it
contains no compiled files. So each process compiles it again, which takes most of a second, and a streaming query
starts ten processes before its first row. This creates a home that links to pyspark's own, without that folder, so that
Python finds the driver's pyspark. Changes nothing that is installed.
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
ZIPPED: Final = "python"  # the folder with pyspark.zip


def settle_in() -> None:
    """Call this before the JVM starts. Has no effect with a user-defined home, or if workers run another Python."""
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
