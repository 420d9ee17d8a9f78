"""Kafka's frames: four bytes of size, then that many bytes. Bytes in, frames out; no socket in sight.

A frame is a writable memoryview that owns its memory, so that a produce request is patched and appended where it
arrived. The transport asks `room()` where to put bytes and tells `received(count)`; small frames come through a scratch
buffer that readers may share (`make_scratch`), a large one is received straight into its own memory.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from struct import Struct as Packing

from chronik.wire.errors import Malformed

SIZE_BYTES = 4
SCRATCH_BYTES = 256 * 1024  # what uvloop reads at a time
FIRST_GRANT_BYTES = 2 * SCRATCH_BYTES  # of a large frame, before any of its bytes must have arrived
_size_of = Packing(">i").unpack_from
pack_size = Packing(">i").pack


def make_scratch() -> memoryview:
    """A buffer for all readers of one event loop to share.

    What lands in it is consumed before the loop asks anybody else for room, because `received` never waits. Two loops
    in two threads need one each.
    """
    return memoryview(unfilled(SCRATCH_BYTES))


def unfilled(size_bytes: int) -> bytearray:
    """Whatever the memory held before; nobody sees it until every byte of a frame has been received into it. Clearing a
    megabyte first is a tenth of what Python does to take in a request of that size."""
    made: bytearray = _make_bytearray(None, size_bytes)
    return made


_make_bytearray = ctypes.pythonapi.PyByteArray_FromStringAndSize
_make_bytearray.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t]
_make_bytearray.restype = ctypes.py_object


class BadFrame(Malformed):
    """The size in front of a frame is negative or over the limit; nothing after it can be trusted."""

    def __init__(self, size_bytes: int, size_bytes_max: int) -> None:
        super().__init__("frame", 0, f"a size of {size_bytes} bytes, at most {size_bytes_max} are allowed")
        self.size_bytes = size_bytes


class FrameReader:
    """Cuts a stream into frames. After BadFrame the stream is lost: close it.

    `admit(size_bytes)` is asked before memory is used for a frame that does not fit the scratch buffer: first for a
    part, then for as much again as has arrived. While it says no, `waiting_bytes` tells the size wanted: stop reading,
    and call `go_on()` when there may be room. Without `admit` there is always room.
    """

    __slots__ = ("_admit", "_filled", "_frame", "_granted", "_rest", "_scratch", "size_bytes_max", "waiting_bytes")

    def __init__(
        self,
        size_bytes_max: int,
        admit: Callable[[int], bool] | None = None,
        scratch: memoryview | None = None,
    ) -> None:
        self.size_bytes_max = size_bytes_max
        self.waiting_bytes = 0
        self._admit = admit
        self._scratch = make_scratch() if scratch is None else scratch
        self._frame: memoryview | None = None  # a frame whose size is known and whose bytes are still coming
        self._filled = 0
        self._granted = 0  # of its bytes; the memory behind is ours, and the kernel gives none for it until it is used
        self._rest = b""  # received, not yet cut: part of a size, or what waits to be admitted

    @property
    def has_part_of_a_frame(self) -> bool:
        return self._frame is not None or bool(self._rest)

    @property
    def admitted_bytes(self) -> int:
        """What `admit` granted for the frame that is still coming."""
        return self._granted if self._frame is not None and len(self._frame) > SCRATCH_BYTES else 0

    def go_on(self) -> list[memoryview]:
        """Asks again for the frame that was not admitted: the frames that are whole now, and perhaps still waiting."""
        self.waiting_bytes = 0
        if self._frame is not None:
            self._ask_for_more(len(self._frame))
            return []
        self._scratch[: len(self._rest)] = self._rest
        return self.received(0)

    def room(self) -> memoryview:
        """Where the next bytes go; never empty. Valid until `received`."""
        if self._frame is not None:
            return self._frame[self._filled : self._granted]
        if self._rest:
            self._scratch[: len(self._rest)] = self._rest
            return self._scratch[len(self._rest) :]
        return self._scratch

    def received(self, count: int) -> list[memoryview]:
        """`count` bytes were put into `room()`: the frames that are whole now, in order."""
        if self._frame is not None:
            self._filled += count
            size_bytes = len(self._frame)
            if self._filled < size_bytes:
                if self._filled == self._granted:
                    self._ask_for_more(size_bytes)
                return []
            whole, self._frame = self._frame, None
            return [whole]
        scratch = self._scratch
        end, at = len(self._rest) + count, 0
        self._rest = b""
        frames: list[memoryview] = []
        while end - at >= SIZE_BYTES:
            (size_bytes,) = _size_of(scratch, at)
            if not 0 <= size_bytes <= self.size_bytes_max:
                raise BadFrame(size_bytes, self.size_bytes_max)
            at += SIZE_BYTES
            if at + size_bytes <= end:
                frames.append(memoryview(bytearray(scratch[at : at + size_bytes])))
                at += size_bytes
                continue
            self._granted = size_bytes
            if size_bytes > SCRATCH_BYTES and self._admit is not None:
                self._granted = min(size_bytes, FIRST_GRANT_BYTES)
                if not self._admit(self._granted):
                    self.waiting_bytes = self._granted
                    self._rest = bytes(scratch[at - SIZE_BYTES : end])
                    return frames
            self._frame = memoryview(unfilled(size_bytes))
            self._filled = end - at
            self._frame[: self._filled] = scratch[at:end]
            return frames
        self._rest = bytes(scratch[at:end])
        return frames

    def _ask_for_more(self, size_bytes: int) -> None:
        more_bytes = min(size_bytes - self._granted, self._granted)
        if self._admit is None or self._admit(more_bytes):
            self._granted += more_bytes
        else:
            self.waiting_bytes = more_bytes

    @property
    def has_begun(self) -> bool:
        """Whether a frame whose size is known is on its way, with memory of its own."""
        return self._frame is not None

    def end(self) -> None:
        """Nothing more will come: lets go of the memory for what was coming. It may be much, and we may live on."""
        self._frame = None
        self._rest = b""

    def feed(self, data: bytes) -> list[memoryview]:
        """`room` and `received` for bytes that are already somewhere else."""
        frames: list[memoryview] = []
        view = memoryview(data)
        while view:
            room = self.room()
            count = min(len(room), len(view))
            room[:count] = view[:count]
            frames += self.received(count)
            view = view[count:]
        return frames
