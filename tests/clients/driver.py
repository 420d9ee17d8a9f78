"""What every client under test can be told to do, whatever language it is written in.

Python clients implement `Driver` directly. The others are small programs that read one JSON object per line and answer
with one per line; `ProcessDriver` speaks to them. Ops and fields are the methods and arguments below:

    {"op": "produce", "topic": "t", "codec": "gzip", "idempotent": true, "records": [{"value": "v", ...}]}
    {"offsets": [[0, 17], ...]}                          or {"error": "what went wrong"}

Text stands for bytes in UTF-8; null is null.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True)
class Sent:
    value: str | None
    key: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    timestamp_ms: int | None = None
    partition: int | None = None


@dataclass(frozen=True)
class Seen:
    partition: int
    offset: int
    value: str | None
    key: str | None = None
    headers: tuple[tuple[str, str], ...] = field(default=())
    timestamp_ms: int | None = None


class Driver(Protocol):
    """One client library against one cluster."""

    codecs: Sequence[str]  # that it can write
    has_headers: bool
    has_timestamps: bool
    is_idempotent: bool  # can be asked for an idempotent producer

    def produce(
        self, topic: str, records: Sequence[Sent], *, codec: str = "none", idempotent: bool = False
    ) -> list[tuple[int, int]]:
        """Sends with acks=all, one after the other, and returns (partition, offset) of each."""

    def consume(self, topic: str, count: int) -> list[Seen]:
        """Everything from the beginning, without a group."""

    def join(self, member: str, group: str, topic: str) -> None:
        """Starts a consumer in a group, from the earliest offset, without automatic commits; it polls from now on."""

    def received(self, member: str) -> list[Seen]:
        """What the member has got so far."""

    def assignment(self, member: str) -> list[int]:
        """The partitions it owns now."""

    def commit(self, member: str) -> None:
        """Commits what it has received, and returns when it is committed."""

    def leave(self, member: str) -> None: ...

    def close(self) -> None: ...


class ProcessDriver:
    """A driver in another language: a command that takes the bootstrap address as its last argument."""

    def __init__(
        self,
        command: Sequence[str],
        bootstrap: str,
        *,
        codecs: Sequence[str] = CODECS,
        has_headers: bool = True,
        has_timestamps: bool = True,
        is_idempotent: bool = True,
        group_protocol: str = "classic",
    ) -> None:
        self.codecs, self.has_headers = codecs, has_headers
        self.has_timestamps, self.is_idempotent = has_timestamps, is_idempotent
        self._process = subprocess.Popen(
            [*command, bootstrap],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, "CHRONIK_GROUP_PROTOCOL": group_protocol},
        )
        self._turn = threading.Lock()

    def produce(
        self, topic: str, records: Sequence[Sent], *, codec: str = "none", idempotent: bool = False
    ) -> list[tuple[int, int]]:
        sent = [asdict(record) for record in records]
        reply = self._ask(op="produce", topic=topic, codec=codec, idempotent=idempotent, records=sent)
        return [(partition, offset) for partition, offset in reply["offsets"]]

    def consume(self, topic: str, count: int) -> list[Seen]:
        return _seen(self._ask(op="consume", topic=topic, count=count))

    def join(self, member: str, group: str, topic: str) -> None:
        self._ask(op="join", member=member, group=group, topic=topic)

    def received(self, member: str) -> list[Seen]:
        return _seen(self._ask(op="received", member=member))

    def assignment(self, member: str) -> list[int]:
        partitions: list[int] = self._ask(op="assignment", member=member)["partitions"]
        return sorted(partitions)

    def commit(self, member: str) -> None:
        self._ask(op="commit", member=member)

    def leave(self, member: str) -> None:
        self._ask(op="leave", member=member)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._turn:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        if not line:
            raise AssertionError(f"the client ended while doing {request}: see its output above")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise AssertionError(f"{request['op']}: {reply['error']}")
        return reply


def _seen(reply: dict[str, Any]) -> list[Seen]:
    return [
        Seen(
            partition=record["partition"],
            offset=record["offset"],
            value=record.get("value"),
            key=record.get("key"),
            headers=tuple((key, value) for key, value in record.get("headers") or ()),
            timestamp_ms=record.get("timestamp_ms"),
        )
        for record in reply["records"]
    ]
