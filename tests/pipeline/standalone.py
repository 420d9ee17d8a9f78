"""A standalone Spark of this machine, from the pip package alone: a master and two workers as separate processes.

    with Standalone(folder) as spark: ... spark.master

Ports are free ones that the system chose. Everything that was started ends with the `with`, executors included; what
the processes wrote is shown when one does not come up.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, Self

from chronik.pipeline import spark_home
from tests.house.repository import ROOT, SOURCE
from tests.pipeline.spark_session import JAVA_OPTIONS

MASTER: Final = "org.apache.spark.deploy.master.Master"
WORKER: Final = "org.apache.spark.deploy.worker.Worker"
WORKERS: Final = 2
START_S_MAX: Final = 120
POLL_S: Final = 0.05
LOG_LINES_SHOWN: Final = 40


class Standalone:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.master = ""

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        # What executors of any application are started with, here as on machines with `pip install chronik[spark]`.
        (self._folder / "spark-defaults.conf").write_text(
            f"spark.executor.extraJavaOptions {JAVA_OPTIONS}\nspark.driver.extraJavaOptions {JAVA_OPTIONS}\n"
            "spark.driver.bindAddress 127.0.0.1\nspark.driver.host 127.0.0.1\nspark.sql.shuffle.partitions 2\n"
        )
        try:
            log = self._start("master", MASTER, "--port", "0")
            self.master = self._said(log, r"Starting Spark master at (spark://\S+)")
            logs = [
                self._start(
                    f"worker-{number}",
                    WORKER,
                    *("--cores", "1", "--memory", "1g", "--work-dir", str(self._folder / f"work-{number}")),
                    self.master,
                )
                for number in range(WORKERS)
            ]
            for log in logs:
                self._said(log, r"Successfully registered with master (\S+)")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def stop(self) -> None:
        for process in reversed(self._processes):
            with contextlib.suppress(ProcessLookupError):  # a worker's executors are of its group
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._processes = []

    @property
    def environment(self) -> dict[str, str]:
        """For drivers that run on this machine."""
        spark_home.settle_in()
        return os.environ | {
            "SPARK_CONF_DIR": str(self._folder),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"{JAVA_OPTIONS} -Dspark.master.rest.enabled=false",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join([str(SOURCE), str(ROOT)]),
            "TZ": "UTC",
        }

    def executors(self) -> set[str]:
        """Workers that have run an executor: each keeps a folder for it."""
        return {path.parents[2].name for path in self._folder.glob("work-*/app-*/*/stderr")}

    def _start(self, name: str, main_class: str, *words: str) -> Path:
        environment = self.environment
        command = [f"{environment['SPARK_HOME']}/bin/spark-class", main_class, "--host", "127.0.0.1"]
        log = self._folder / f"{name}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*command, "--webui-port", "0", *words],
                env=environment,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self._processes.append(process)
        return log

    def _said(self, log: Path, pattern: str) -> str:
        process = self._processes[-1]
        end_s = time.monotonic() + START_S_MAX
        while time.monotonic() < end_s and process.poll() is None:
            if found := re.search(pattern, log.read_text(errors="replace")):
                return found.group(1)
            time.sleep(POLL_S)
        lines = log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
        raise AssertionError("\n".join([f"{log.stem} of Spark did not come up:", *lines]))
