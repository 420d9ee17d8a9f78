"""The process that plays one seed of the simulator and writes what happened as lines of JSON.

It watches the run from outside: the log that every run has, and the packets on the simulated wires. The run itself is
the same as `chronik sim --seed`, to the byte. Lines go to the file that is named; the last line says how the run
ended.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import sys
from collections import deque
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from chronik.console.parent import end_with_parent

if TYPE_CHECKING:
    from chronik.sim.scenario import Outcome
    from chronik.sim.transport import Pipe

EVENTS_MAX: Final = 200_000
LOG_EVENTS_MAX: Final = 100_000  # the rest is for messages
TEXT_CHARS_MAX: Final = 500
CLIENT_PORT: Final = 9092
QUORUM_PORT: Final = 9093
_line: Final = re.compile(r"\s*(\d+)\.(\d{3}) (\S+)\s+(.*)", re.DOTALL)
_hits: Final = re.compile(r"hits (\S+)$")
NODE_WORDS: Final = ("starts", "is up", "stops", "is killed", "loses power", "crash", "ended", "is down", "has power")


class Messages:
    """What crosses the wires: when it left, and when it arrived, if it did."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.left_out = 0
        self._under_way: dict[Pipe, deque[dict[str, Any] | None]] = {}

    def launched(self, pipe: Pipe, packet: bytes) -> None:
        queue = self._under_way.setdefault(pipe, deque())
        if len(self.events) >= EVENTS_MAX - LOG_EVENTS_MAX:
            self.left_out += 1
            queue.append(None)
            return
        source, target = pipe.link
        made = {
            "time_us": pipe.wires.time.present_ns // 1_000,
            "kind": "message",
            "lane": source,
            "to": target,
            "arrives_us": None,
            "text": described(pipe, packet),
        }
        self.events.append(made)
        queue.append(made)

    def arrived(self, pipe: Pipe) -> None:
        """The first that is under way: a stream stays in order."""
        queue = self._under_way.get(pipe)
        made = queue.popleft() if queue else None
        if made is not None:
            made["arrives_us"] = pipe.wires.time.now_ns // 1_000


def described(pipe: Pipe, packet: bytes) -> str:
    """Requests of clients and brokers by the name of their API; everything else by its size."""
    from chronik.sim.transport import FIN, RST

    if packet is FIN or packet is RST:
        return "close" if packet is FIN else "reset"
    size = f"{len(packet)} bytes"
    ports = [pipe.target.get_extra_info(name, ("", 0))[1] for name in ("sockname", "peername")]
    if QUORUM_PORT in ports:
        return f"quorum, {size}"
    is_request = ports[0] == CLIENT_PORT and int.from_bytes(packet[:4], "big") == len(packet) - 4
    api = _apis().get(int.from_bytes(packet[4:6], "big")) if is_request else None
    return size if api is None else f"{api}, {size}"


@cache
def _apis() -> dict[int, str]:
    from chronik.wire import messages
    from chronik.wire.notation import Request

    for module in pkgutil.iter_modules(messages.__path__):
        importlib.import_module(f"{messages.__name__}.{module.name}")
    return {each.api_key: each.__name__.removesuffix("Request") for each in Request.__subclasses__()}


def watch(messages: Messages) -> None:
    """From now on `messages` hears of every packet in this process."""
    from chronik.sim.transport import Pipe

    launch, arrive = Pipe._launch, Pipe._arrive

    def launched(self: Pipe, packet: bytes) -> None:
        messages.launched(self, packet)
        launch(self, packet)

    def arrived(self: Pipe, packet: bytes) -> None:
        waits = len(self.held)
        arrive(self, packet)
        if len(self.held) <= waits and not self.target.is_gone:
            messages.arrived(self)

    Pipe._launch, Pipe._arrive = launched, arrived  # type: ignore[method-assign]


def log_event(line: str) -> dict[str, Any] | None:
    """An event from a line of a run's log."""
    found = _line.fullmatch(line)
    if found is None:
        return None
    ms, us, who, text = found.groups()
    if who == "fault":
        hit = _hits.search(text)
        kind, lane = "fault", hit[1] if hit else "world"
    elif text.startswith("VIOLATED"):
        kind, lane = "invariant", who
    elif who.startswith("node-") or who == "world":
        lane = who
        kind = "node" if any(word in text[:40] for word in NODE_WORDS) or text.startswith("is ") else "log"
    else:
        kind, lane = "client", who
    return {
        "time_us": int(ms) * 1_000 + int(us),
        "kind": kind,
        "lane": lane,
        "to": None,
        "arrives_us": None,
        "text": text[:TEXT_CHARS_MAX],
    }


def merged(lines: list[str], messages: Messages) -> list[dict[str, Any]]:
    """All events in order of time, numbered. Where a run was longer than can be kept, its end is what is kept."""
    logged = [event for line in lines if (event := log_event(line)) is not None][-LOG_EVENTS_MAX:]
    events = sorted([*logged, *messages.events], key=lambda event: event["time_us"])
    return [{"n": number, **event} for number, event in enumerate(events, 1)]


def summary(outcome: Outcome, events: list[dict[str, Any]], messages: Messages) -> dict[str, Any]:
    from chronik.sim.sweep import paste

    counts: dict[str, int] = {}
    for event in events:
        counts[event["kind"]] = counts.get(event["kind"], 0) + 1
    broken = next((event for event in reversed(events) if event["kind"] == "invariant"), None)
    failure = None
    if outcome.failure is not None:
        failure = {
            "text": str(outcome.failure),
            "invariant": outcome.invariant,
            "n": broken["n"] if broken else len(events),
            "time_us": broken["time_us"] if broken else outcome.virtual_ms * 1_000,
        }
    lanes = {event["lane"] for event in events} | {event["to"] for event in events if event["to"]}
    return {
        "summary": {
            "state": "passed" if failure is None else "failed",
            "lanes": sorted(lanes, key=lambda lane: (not lane.startswith("node-"), lane)),
            "end_us": outcome.virtual_ms * 1_000,
            "events": len(events),
            "is_truncated": messages.left_out > 0,
            "counts": counts,
            "failure": failure,
            "log_hash": outcome.log_hash,
            "test": paste(outcome),
        }
    }


def main() -> None:
    parent_id, path, scenario, seed, fault = sys.argv[1:]
    end_with_parent(int(parent_id))
    from chronik.sim.scenarios import run_named

    messages = Messages()
    watch(messages)
    outcome = run_named(scenario, int(seed), only=fault)
    events = merged(outcome.lines, messages)
    with open(path, "w", encoding="utf-8", errors="replace") as file:
        file.writelines(json.dumps(event, ensure_ascii=False, separators=(",", ":")) + "\n" for event in events)
    print(json.dumps(summary(outcome, events, messages)))


if __name__ == "__main__":
    main()
