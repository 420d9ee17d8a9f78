"""A Spark session for a pipeline, or one clear line if it cannot start. Imports Spark only when asked for it."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from chronik.pipeline import spark_home
from chronik.pipeline.conditions import PipelineFault

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_VERSION_MIN: Final = 17
JAVA_SECONDS_MAX: Final = 30
CURES: Final = {
    "apt-get": "sudo apt-get install -y openjdk-17-jre-headless",
    "dnf": "sudo dnf install -y java-17-openjdk-headless",
    "apk": "sudo apk add openjdk17-jre-headless",
    "brew": "brew install openjdk@17",
}
LOG_LEVEL: Final = "CHRONIK_SPARK_LOG_LEVEL"  # what stops a flow is told by the run, without eighty lines of Java
# Options whose values Spark hides in plans. Besides URLs it hides what has password or secret in its name or value; the
# text of a private key has neither.
REDACTED: Final = "(?i)url|jaas|ssl[.]keystore[.]key|ssl[.]key[.]"
SETTINGS: Final = {
    "spark.sql.redaction.options.regex": REDACTED,
    "spark.sql.session.timeZone": "UTC",  # one meaning of a timestamp, wherever the driver stands
    "spark.ui.showConsoleProgress": "false",  # the progress line is ours
    "spark.python.authenticate.socketTimeout": "120s",  # a busy machine may take more than 15 s to start a process
    "spark.sql.streaming.stopTimeout": "60s",  # a stop waits for the batch under way, but not for ever
}
# A stage for each core is plenty on one machine; Spark's 200 are for clusters.
LOCAL_SETTINGS: Final = {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}


def require_spark() -> None:
    """Says what is missing and what to type, before a JVM says it in forty lines."""
    if any(importlib.util.find_spec(name) is None for name in ("pyspark", "deltalake", "pyarrow")):
        raise PipelineFault("SPARK_MISSING")
    found = java_found()
    if isinstance(found, str):
        raise PipelineFault("JDK_MISSING", found=found, cure=_cure())


def java_found() -> int | str:
    """The version of the Java that Spark would start, or why there is none that it could."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None:
        return "there is none on the PATH and JAVA_HOME is not set"
    try:
        asked = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=JAVA_SECONDS_MAX)  # noqa: S603 - the user's own Java
    except (OSError, subprocess.SubprocessError) as error:
        return f"{java} does not run: {error}"
    version = java_version(asked.stderr + asked.stdout)
    if version is None:
        return f"{java} does not tell its version"
    return version if version >= JAVA_VERSION_MIN else f"{java} is version {version}"


def java_version(text: str) -> int | None:
    """Of what `java -version` prints. Before 9 the number that counts was the second."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found.group(1)) if found else None


def _cure() -> str:
    return next((cure for tool, cure in CURES.items() if shutil.which(tool)), "install a JDK and set JAVA_HOME")


def spark_session(name: str, master: str | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """A session on `master`, by default two cores of this machine; `sc://...` is a Spark Connect server."""
    require_spark()
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    chosen = master or os.environ.get("SPARK_MASTER") or "local[2]"
    if chosen.startswith("local"):  # a cluster hands the zip to its machines
        spark_home.settle_in()
    builder = SparkSession.builder.appName(f"chronik {name}")
    builder = builder.remote(chosen) if chosen.startswith("sc://") else builder.master(chosen)
    for key, value in (
        SETTINGS | (LOCAL_SETTINGS if chosen.startswith("local") else {}) | dict(settings or {})
    ).items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except (Py4JError, PySparkException) as error:  # a master that does not answer, a setting that Spark refuses
        raise PipelineFault("SPARK_NOT_STARTED", master=chosen, reason=_reason(str(error))) from error
    if not chosen.startswith("sc://"):
        session.sparkContext.setLogLevel(os.environ.get(LOG_LEVEL, "OFF"))
    return session


def _reason(text: str) -> str:
    """The one line that counts: in an error of the JVM that behind the colon, before its trace."""
    lines = text.strip().splitlines()
    return next((line.removeprefix(": ") for line in lines if line.startswith(": ")), lines[0] if lines else "")
