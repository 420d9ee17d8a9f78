"""Keeps the materializing application alive: starts it, restarts it when it ends, with increasing delays.

It runs where an operator starts it, never inside a broker: if Spark dies, tables become stale, but no record is lost.
It knows nothing of tables; the application publishes their states, and `tables_listed` reads them.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from chronik.client.errors import Refused
from chronik.pipeline.flows import Flow, table_path
from chronik.pipeline.live_cluster import LiveCluster
from chronik.pipeline.materialized import PIPELINE, STATES_TOPIC, State, TableSettings, TableState
from chronik.pipeline.storage import folder_of
from chronik.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from chronik.client.topology import TopicPartition
    from chronik.wire.records import Record

RESTART_S_MIN, RESTART_S_MAX = 1, 60
HEALTHY_S: Final = 60  # an application that ran this long restarts with a short delay again
STOP_SECONDS_MAX: Final = 60
SILENT_MS: Final = 60_000  # a state that was not confirmed for this long counts as outdated


class Supervisor:
    """`start` returns a process; everything else is waiting. Clock and sleep are passed in, for tests."""

    def __init__(
        self,
        start: Callable[[], subprocess.Popen[bytes]],
        say: Callable[[str], None],
        *,
        clock_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._start, self._say, self._clock_s, self._sleep = start, say, clock_s, sleep

    def run(self, restarts_max: int | None = None) -> None:
        """Runs until it is interrupted, or has restarted the application this often."""
        wait_s, restarts = RESTART_S_MIN, 0
        while True:
            begun_s = self._clock_s()
            process = self._start()
            try:
                code = process.wait()
            except KeyboardInterrupt:
                process.send_signal(signal.SIGINT)
                process.wait(STOP_SECONDS_MAX)
                return
            if self._clock_s() - begun_s >= HEALTHY_S:
                wait_s = RESTART_S_MIN
            if restarts_max is not None and restarts >= restarts_max:
                return
            restarts += 1
            self._say(f"the Spark application ended with {code}; starting it again in {wait_s} s")
            self._sleep(wait_s)
            wait_s = min(2 * wait_s, RESTART_S_MAX)


def application(bootstrap: str, storage: Path, master: str | None, command_config: str = "") -> Sequence[str]:
    """`command_config` is the name of a file: process arguments are visible to every user of the machine."""
    command = [sys.executable, "-m", "chronik.pipeline.materialize", "--bootstrap", bootstrap]
    command += ["--storage", folder_of(storage)]
    if command_config:
        command += ["--command-config", command_config]
    return [*command, "--master", master] if master else command


def start_application(
    bootstrap: str, storage: Path, master: str | None, command_config: str = ""
) -> subprocess.Popen[bytes]:
    """In a separate process group: Ctrl-C goes to the supervisor, which forwards it."""
    command = application(bootstrap, storage, master, command_config)
    return subprocess.Popen(command, start_new_session=True)  # noqa: S603 - our own command


def tables_listed(cluster: LiveCluster, storage: Path, now_ms: int) -> Iterator[dict[str, Any]]:
    """Every topic that wants a table, with its last published state and its current lag."""
    said: dict[str, TableState] = {}

    def take(at: TopicPartition, record: Record) -> None:
        state = TableState.parse(record.value)
        if state is not None:
            said[state.topic] = state

    try:
        cluster.read(STATES_TOPIC, take)
    except Refused as fault:
        if fault.kafka_error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
    names = [name for name in cluster.topics() if not name.startswith("__")]
    for name, configs in cluster.configs_of(names).items():
        settings = TableSettings.of(name, configs)
        if settings is not None:
            yield _listed(cluster, settings, said.get(name), storage, now_ms)


def _listed(
    cluster: LiveCluster, settings: TableSettings, said: TableState | None, storage: Path, now_ms: int
) -> dict[str, Any]:
    flow = Flow(PIPELINE, settings.declarations("")[-1], settings.topic, str(storage))
    lag = cluster.lag_of(flow.group, settings.topic)
    is_current = said is not None and now_ms - said.time_ms <= SILENT_MS
    return {
        "topic": settings.topic,
        "table": said.table if said is not None else table_path(str(storage), settings.table),
        "mode": settings.mode,
        "state": said.state if said is not None and is_current else str(State.PENDING),
        "version": said.version if said is not None and said.version >= 0 else None,
        "lag_messages": lag.messages if lag is not None else None,
        "lag_ms": lag.ms if lag is not None else None,
        "rows_dead": said.rows_dead if said is not None else 0,
        "error": (said.error or None) if said is not None else None,
    }
