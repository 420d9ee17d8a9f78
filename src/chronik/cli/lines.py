"""Lines from stdin or files, as they arrive. Never blocks the event loop while a terminal or a pipe is silent.

A line ends at a newline, which is not part of it; the last line may lack one.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from chronik.cli.errors import CommandFailed

READ_BYTES: Final = 256 * 1024


def open_sources(files: Sequence[Path]) -> Iterator[tuple[str, AsyncIterator[bytes]]]:
    """Name and lines of each file; of stdin when there are none."""
    if not files:
        yield "stdin", _lines(sys.stdin.fileno())
    for path in files:
        yield str(path), _lines_of(path)


async def _lines_of(path: Path) -> AsyncIterator[bytes]:
    fd = _open(path)
    try:
        async for line in _lines(fd):
            yield line
    finally:
        os.close(fd)


def open_whole(files: Sequence[Path]) -> Iterator[tuple[str, AsyncIterator[bytes]]]:
    """Name of each file, and its content as if it were one line."""
    for path in files:
        yield str(path), _whole(path)


async def _whole(path: Path) -> AsyncIterator[bytes]:
    fd = _open(path)
    try:
        pieces = []
        while data := os.read(fd, READ_BYTES):
            pieces.append(data)
            await asyncio.sleep(0)
        yield b"".join(pieces)
    finally:
        os.close(fd)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise CommandFailed(f"cannot read {path}: {error.strerror}") from error


async def _lines(fd: int) -> AsyncIterator[bytes]:
    rest = b""
    async for data in _pieces(fd):
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            yield line
    if rest:
        yield rest


async def _pieces(fd: int) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    waits = True
    try:
        loop.add_reader(fd, readable.set)
    except PermissionError:  # a regular file is always readable
        waits = False
    try:
        while True:
            if waits:
                await readable.wait()
                readable.clear()
            else:
                await asyncio.sleep(0)
            data = os.read(fd, READ_BYTES)
            if not data:
                return
            yield data
    finally:
        if waits:
            with suppress(OSError, ValueError):
                loop.remove_reader(fd)
