"""Shows a run's progress: one line that is updated in place, and one row for each flow at the end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, TextIO

if TYPE_CHECKING:
    from chronik.pipeline.running import Standing

WIDTH_MAX: Final = 240


def text_of(standings: Iterable[Standing]) -> str:
    """For example: orders #4 1,200 rows/s, lag 30 (0.4s), batch 812ms, dlq 3 | ..."""
    return " | ".join(_told(standing) for standing in standings)


def _told(standing: Standing) -> str:
    if standing.fault:
        return f"{standing.flow.name} stopped"
    if standing.batch_id < 0:
        return f"{standing.flow.name} waits"
    lag = ""
    if standing.lag is not None:
        lag = f"lag {standing.lag.messages:,} ({standing.lag.ms / 1000:.1f}s), "
    late = f", late {standing.rows_late:,}" if standing.rows_late else ""
    return (
        f"{standing.flow.name} #{standing.batch_id} {standing.rows_per_second:,} rows/s, {lag}"
        f"batch {standing.batch_ms}ms, dlq {standing.rows_dead:,}{late}"
    )


def row(standing: Standing) -> dict[str, Any]:
    """The same for a table or a program, over the whole run."""
    return {
        "flow": standing.flow.name,
        "kind": standing.flow.kind,
        "rows_in": standing.rows_in,
        "rows_out": standing.rows_out,
        "rows_dead": standing.rows_dead,
        "rows_dropped": standing.rows_dropped,
        "rows_late": standing.rows_late,
        "failed": dict(standing.failed),
        "batches": standing.batch_id + 1,
        "lag_messages": standing.lag.messages if standing.lag else None,
        "lag_ms": standing.lag.ms if standing.lag else None,
        "fault": standing.fault or None,
    }


class Line:
    """A line updated in place on a terminal; no output elsewhere, to keep logs short."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_shown = stream.isatty()

    def show(self, standings: Iterable[Standing]) -> None:
        if self._is_shown:
            self._stream.write(f"\r\033[K{text_of(standings)[:WIDTH_MAX]}")
            self._stream.flush()

    def say(self, words: str) -> None:
        self._stream.write(f"\n{words}\n" if self._is_shown else f"{words}\n")
        self._stream.flush()

    def end(self) -> None:
        if self._is_shown:
            self._stream.write("\r\033[K")
            self._stream.flush()
