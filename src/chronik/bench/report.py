"""The output of a run: a line that is updated while it runs, and a summary, for people or as one JSON object."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from chronik.bench.load import Load, Totals

LIVE_S: Final = 1.0
PIPED_EVERY: Final = 5  # without a terminal, a line every five seconds is enough
PERCENTILES: Final = (50.0, 90.0, 95.0, 99.0, 99.9)
MB: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Setup:
    """The measured setup; part of the JSON, so that results always include it."""

    mode: str
    topic: str
    partitions: int
    replication_factor: int
    message_size: int
    messages_per_request: int
    concurrency: int
    acks: str
    compression: str
    rate: int | None


async def live(load: Load, seconds: float, each_second: Callable[[], None]) -> None:
    """Shows progress on stderr until it is cancelled."""
    is_terminal = sys.stderr.isatty()
    started = last = time.monotonic()
    last_count = last_bytes = 0
    turn = 0
    while True:
        await asyncio.sleep(LIVE_S)
        each_second()
        turn += 1
        if not is_terminal and turn % PIPED_EVERY:
            continue
        now = time.monotonic()
        rate = (load.message_count - last_count) / (now - last)
        mb_rate = (load.byte_count - last_bytes) / (now - last) / MB
        recent = load.recent
        line = (
            f"{now - started:5.0f}/{seconds:.0f} s  {rate:12,.0f} msg/s  {mb_rate:9,.1f} MB/s  "
            f"p50 {recent.percentile(50) / 1000:8.2f} ms  p99 {recent.percentile(99) / 1000:8.2f} ms  "
            f"errors {load.error_count:,}"
        )
        print(f"\r\033[K{line}" if is_terminal else line, end="" if is_terminal else "\n", file=sys.stderr, flush=True)
        load.recent = type(recent)()
        last, last_count, last_bytes = now, load.message_count, load.byte_count


def end_live_line() -> None:
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def summary(setup: Setup, totals: Totals) -> dict[str, Any]:
    """The JSON object; latencies in milliseconds, rates over the whole run."""
    seconds = max(totals.seconds, 1e-9)
    latencies = {
        f"p{percent:g}_ms".replace(".", ""): totals.latency.percentile(percent) / 1000 for percent in PERCENTILES
    }
    return (
        {
            "msg_per_s": round(totals.message_count / seconds, 1),
            "mb_per_s": round(totals.byte_count / seconds / MB, 3),
        }
        | {name: round(value, 3) for name, value in latencies.items()}
        | {
            "max_ms": round(totals.latency.largest / 1000, 3),
            "errors": sum(totals.errors.values()),
            "error_names": totals.errors,
            "messages": totals.message_count,
            "requests": totals.request_count,
            "seconds": round(totals.seconds, 3),
            "client_cpu_s": round(totals.cpu_s, 3),
        }
        | asdict(setup)
    )


def print_summary(told: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(told), flush=True)
        return
    rate = "as fast as possible" if told["rate"] is None else f"{told['rate']:,} requests/s"
    print(
        f"{told['mode']} {told['topic']} ({told['partitions']} partitions), {told['message_size']} B, "
        f"{told['concurrency']} at a time, acks={told['acks']}, {told['compression']}, {rate}"
    )
    print(f"  rate       {told['msg_per_s']:,.0f} msg/s   {told['mb_per_s']:,.1f} MB/s")
    print(
        f"  latency    p50 {told['p50_ms']:.2f} ms   p90 {told['p90_ms']:.2f} ms   p99 {told['p99_ms']:.2f} ms   "
        f"p99.9 {told['p999_ms']:.2f} ms   max {told['max_ms']:.2f} ms"
    )
    print(f"  messages   {told['messages']:,} in {told['seconds']:.1f} s")
    per_request_us = told["client_cpu_s"] / max(1, told["requests"]) * 1e6
    print(f"  this side  {told['client_cpu_s']:.1f} s of CPU, {per_request_us:.1f} us a request")
    errors = ", ".join(f"{name} {count:,}" for name, count in told["error_names"].items())
    print(f"  errors     {told['errors']:,}{f' ({errors})' if errors else ''}")
