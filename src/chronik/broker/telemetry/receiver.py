"""The receiver of clients' metrics (KIP-714): what GetTelemetrySubscriptions and PushTelemetry do on a node.

A payload is decompressed and decoded in pieces, a few payloads at a time; what cannot be read changes nothing and is
answered INVALID_RECORD, as Kafka answers when its receiver fails. The bytes of a payload are bounded before and after
decompression by telemetry.max.bytes.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from chronik.broker import limits
from chronik.broker.telemetry.clients import ZERO_ID, Caller, Clients, silent_ms_max
from chronik.broker.telemetry.pushed import LABEL_CHARS_MAX, POINTS_MAX, Pushed, Pusher
from chronik.catalogue import client_selectors as of_client
from chronik.runtime.pieces import Work
from chronik.runtime.units import NS_PER_MS
from chronik.wire.compression import Codec, decompress
from chronik.wire.error_codes import ErrorCode
from chronik.wire.errors import Malformed
from chronik.wire.messages.push_telemetry import PushTelemetryRequest
from chronik.wire.otlp import Points, read_points
from chronik.wire.uuids import uuid_text

if TYPE_CHECKING:
    from chronik.broker.context import Context
    from chronik.broker.memory import MemoryBudget
    from chronik.broker.telemetry.subscriptions import Wanted
    from chronik.broker.turns import Turns
    from chronik.runtime.interfaces import Runtime

log = logging.getLogger("chronik.broker.telemetry")

AT_ONCE: Final = 4  # payloads that are decoded side by side
DECOMPRESSED_PIECES: Final = 4


class Receiver:
    """One per node."""

    def __init__(self, runtime: Runtime, memory: MemoryBudget, turns: Turns) -> None:
        share_bytes = memory.size_bytes // limits.TELEMETRY_SHARE
        self.clients = Clients(share_bytes, memory.keep)
        self.pushed = Pushed(share_bytes, memory.keep)
        self.pushes = 0  # that were read
        self.pushes_failed = 0
        self._runtime, self._turns = runtime, turns
        self._may_decode = asyncio.Semaphore(AT_ONCE)

    @property
    def now_ms(self) -> int:
        return self._runtime.clock.monotonic_ns() // NS_PER_MS

    def subscription(self, instance_id: bytes, context: Context) -> tuple[bytes, Wanted | ErrorCode]:
        """A client without an id gets one."""
        while instance_id == ZERO_ID or uuid_text(instance_id).startswith("-"):
            instance_id = self._runtime.randomness.bytes(16)
        return instance_id, self.clients.get(instance_id, self._caller(instance_id, context), self.now_ms)

    async def push(self, request: PushTelemetryRequest, context: Context, bytes_max: int) -> ErrorCode:
        instance_id = request.client_instance_id
        wanted = self.clients.push(request, self._caller(instance_id, context), bytes_max, self.now_ms)
        if isinstance(wanted, ErrorCode):
            return wanted
        if not request.metrics:
            return ErrorCode.NONE
        pusher = _pusher(instance_id, context)
        async with self._may_decode:
            try:
                read = await self._turns.run(_read(request, bytes_max))
            except Malformed as fault:
                log.debug("metrics of client %s are refused: %s", pusher.instance_id, fault)
                self.pushes_failed += 1
                self.clients.refuse_payload(instance_id)
                return ErrorCode.INVALID_RECORD
        self.pushes += 1
        self.pushed.series_dropped += not read.are_all
        self.pushed.take(pusher, read.points, self.now_ms, silent_ms_max(wanted))
        return ErrorCode.NONE

    def _caller(self, instance_id: bytes, context: Context) -> Caller:
        connection = context.connection
        software = context.session.client_software
        host, _, port = connection.peer.rpartition(":")
        return Caller(
            connection,
            {
                of_client.CLIENT_INSTANCE_ID: uuid_text(instance_id),
                of_client.CLIENT_ID: context.client_id,
                of_client.CLIENT_SOFTWARE_NAME: software and software[0],
                of_client.CLIENT_SOFTWARE_VERSION: software and software[1],
                of_client.CLIENT_SOURCE_ADDRESS: host,
                of_client.CLIENT_SOURCE_PORT: port,
            },
        )


def _pusher(instance_id: bytes, context: Context) -> Pusher:
    return Pusher(
        instance_id=uuid_text(instance_id),
        client_id=(context.client_id or "")[:LABEL_CHARS_MAX],
        software=context.session.client_software or ("", ""),
        host=context.session.host,
    )


def _read(request: PushTelemetryRequest, bytes_max: int) -> Work[Points]:
    payload = decompress(Codec(request.compression_type), request.metrics, bytes_max)
    yield DECOMPRESSED_PIECES + len(payload) // 16384
    return (yield from read_points(payload, POINTS_MAX))
