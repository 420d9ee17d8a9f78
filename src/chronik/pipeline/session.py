"""A Spark session for a pipeline, or a one-line error if it cannot start. Imports Spark only when called."""

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
LOG_LEVEL: Final = "CHRONIK_SPARK_LOG_LEVEL"  # the run reports failures itself, without eighty lines of Java
# Options whose values Spark hides in plans. Besides URLs it hides options with password or secret in name or value; the
# text of a private key has neither.
REDACTED: Final = "(?i)url|jaas|ssl[.]keystore[.]key|ssl[.]key[.]"
SETTINGS: Final = {
    "spark.sql.redaction.options.regex": REDACTED,
    "spark.sql.session.timeZone": "UTC",  # timestamps mean the same wherever the driver runs
    "spark.ui.showConsoleProgress": "false",  # `progress` shows its own line
    "spark.python.authenticate.socketTimeout": "120s",  # a busy machine may take more than 15 s to start a process
    "spark.sql.streaming.stopTimeout": "60s",  # a stop waits for the current batch, but not forever
}
# One task per core is enough on one machine; Spark's default of 200 is for clusters.
LOCAL_SETTINGS: Final = {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}


def require_spark() -> None:
    """Reports what is missing and how to install it, before a JVM does so in forty lines."""
    if any(importlib.util.find_spec(name) is None for name in ("pyspark", "deltalake", "pyarrow")):
        raise PipelineFault("SPARK_MISSING")
    found = java_found()
    if isinstance(found, str):
        raise PipelineFault("JDK_MISSING", found=found, cure=_cure())


def java_found() -> int | str:
    """The version of the Java that Spark would start, or the reason why it cannot start one."""
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
    """Parses the output of `java -version`. Before Java 9 the second number was the version."""
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
    if chosen.startswith("local"):  # a cluster distributes the zip to its machines
        spark_home.settle_in()
    builder = SparkSession.builder.appName(f"chronik {name}")
    builder = builder.remote(chosen) if chosen.startswith("sc://") else builder.master(chosen)
    for key, value in (
        SETTINGS | (LOCAL_SETTINGS if chosen.startswith("local") else {}) | dict(settings or {})
    ).items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except (Py4JError, PySparkException) as error:  # an unreachable master, or an invalid setting
        raise PipelineFault("SPARK_NOT_STARTED", master=chosen, reason=_reason(str(error))) from error
    if not chosen.startswith("sc://"):
        session.sparkContext.setLogLevel(os.environ.get(LOG_LEVEL, "OFF"))
    return session


def _reason(text: str) -> str:
    """The line with the cause: for a JVM error, the text after the colon, before the trace."""
    lines = text.strip().splitlines()
    return next((line.removeprefix(": ") for line in lines if line.startswith(": ")), lines[0] if lines else "")
