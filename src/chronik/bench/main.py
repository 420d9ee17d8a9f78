"""`chronik-bench`: a load generator that is faster than the broker it measures.

It works with any Kafka broker. Requests are encoded once, responses are inspected only for success, and everything runs
in one process on one core.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import App, CycloptsError, Parameter

from chronik import __version__
from chronik.bench.errors import BenchError, Misused

if TYPE_CHECKING:
    from chronik.bench.run import Setup
    from chronik.runtime.tls import TlsClient

HELP: Final = """\
Measure a Kafka broker: rate, latency, errors.

Latencies count from when a request was due, so a broker that stalls is charged for all the requests it kept waiting.

For example:
  chronik-bench --duration 15s
  chronik-bench --mode produce --message-size 100 --messages-per-request 1000 --concurrency 8
  chronik-bench --mode produce --rate 2000 --acks all --format json
  chronik-bench --mode roundtrip --rate 500
  chronik-bench --mode consume --concurrency 6

Exit codes: 0 measured, even with errors; 1 not measured; 2 invalid options; 3 no broker was reached;
130 interrupted."""

UNREACHABLE, INTERRUPTED = 3, 130
UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

Mode = Literal["produce", "consume", "roundtrip", "metadata"]

app = App(
    name="chronik-bench",
    help=HELP,
    help_format="plaintext",
    version=__version__,
    default_parameter=Parameter(negative="", show_default=False),
)


@app.default
def bench(
    *,
    bootstrap_servers: Annotated[
        str, Parameter(name=["--bootstrap-servers", "--bootstrap-server", "--bootstrap"], env_var="CHRONIK_BOOTSTRAP")
    ] = "localhost:9092",
    topic: str = "bench-test",
    message_size: int = 256,
    concurrency: int = 128,
    duration: str = "15s",
    mode: Mode = "produce",
    acks: Literal["all", "-1", "1", "0"] = "all",
    rate: int | None = None,
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none",
    messages_per_request: int = 1,
    partitions: int = 12,
    replication_factor: int = -1,
    output: Annotated[Literal["table", "json"], Parameter(name="--format")] = "table",
    command_config: Annotated[Path | None, Parameter(env_var="CHRONIK_COMMAND_CONFIG")] = None,
) -> int:
    """Measure a Kafka broker.

    Parameters
    ----------
    bootstrap_servers
        Brokers to contact first: host:port, separated by commas; default: localhost:9092.
    topic
        The topic to use; it is created if it does not exist.
    message_size
        Bytes of each message's value; default: 256.
    concurrency
        Connections, each with one request in flight; default: 128.
    duration
        How long to measure: 15s, 2m; default: 15s.
    mode
        produce sends records; consume reads existing records repeatedly; roundtrip measures from sending to receiving;
        metadata requests the topic's metadata.
    acks
        Required acknowledgements: all in-sync replicas, 1 the leader, 0 none.
    rate
        Total requests per second, sent when they are due; default: as fast as possible.
    compression
        Compression of batches, done once before the run.
    messages_per_request
        Records in each produce request; default: 1.
    partitions
        Partitions if the topic is created; default: 12.
    replication_factor
        Replicas if the topic is created; default: the broker's setting.
    output
        table for people, json for programs: the last line is one JSON object.
    command_config
        File of Kafka's client settings, such as security.protocol and ssl.truststore.location; default: plaintext.
    """
    from chronik.bench.run import Setup

    for name, value, least in (
        ("--message-size", message_size, 8 if mode == "roundtrip" else 1),
        ("--concurrency", concurrency, 1),
        ("--rate", 1 if rate is None else rate, 1),
        ("--messages-per-request", messages_per_request, 1),
        ("--partitions", partitions, 1),
    ):
        if value < least:
            raise Misused(f"{name} {value}: it must be at least {least}")
    if mode == "roundtrip" and (messages_per_request != 1 or compression != "none" or acks == "0"):
        raise Misused("roundtrip sends one plain, acknowledged record at a time")
    setup = Setup(
        mode=mode,
        topic=topic,
        partitions=partitions,
        replication_factor=replication_factor,
        message_size=message_size,
        messages_per_request=messages_per_request,
        concurrency=concurrency,
        acks=acks,
        compression=compression,
        rate=rate,
    )
    return _run(bootstrap_servers, setup, parse_seconds(duration), as_json=output == "json", tls=_tls(command_config))


def _tls(command_config: Path | None) -> TlsClient | None:
    if command_config is None:
        return None
    from chronik.client.properties import BadProperties, ClientSecurity

    try:
        return ClientSecurity.load(str(command_config)).tls
    except BadProperties as fault:
        raise Misused(f"--command-config: {fault}") from fault


def parse_seconds(text: str) -> float:
    for unit in sorted(UNITS_S, key=len, reverse=True):
        number = text.removesuffix(unit)
        if number != text and number.replace(".", "", 1).isdigit():
            return float(number) * UNITS_S[unit]
    if text.isdigit():
        return float(text)
    raise Misused(f"--duration {text!r}: write a number and a unit, as in 500ms, 15s or 2m")


def _run(bootstrap: str, setup: Setup, seconds: float, *, as_json: bool, tls: TlsClient | None) -> int:
    import uvloop

    from chronik.bench.run import measure
    from chronik.client.errors import BadAddress, ClientError, Unreachable

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(measure(bootstrap, setup, seconds, as_json=as_json, tls=tls))
    except BadAddress as fault:
        raise Misused(f"--bootstrap-servers: {fault}") from fault
    except Unreachable as fault:
        print(f"chronik-bench: {fault} Asked: {bootstrap} (--bootstrap-servers).", file=sys.stderr)
        return UNREACHABLE
    except (ClientError, OSError) as fault:
        raise BenchError(str(fault)) from fault
    return 0


def main() -> None:
    try:
        app(sys.argv[1:], exit_on_error=False)
    except CycloptsError:  # already printed
        sys.exit(Misused.exit_code)
    except BenchError as error:
        print(f"chronik-bench: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
