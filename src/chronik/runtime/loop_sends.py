"""Sends individually through the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class LoopSends:
    def writer_of(self, transport: asyncio.Transport) -> Callable[[bytes], None]:
        return transport.write

    def flush(self) -> None:
        pass  # nothing is buffered

    def close(self) -> None:
        pass
