"""Sends that leave one by one, as the event loop has it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class LoopSends:
    def writer_of(self, transport: asyncio.Transport) -> Callable[[bytes], None]:
        return transport.write

    def flush(self) -> None:
        pass  # nothing is kept

    def close(self) -> None:
        pass
