"""Kafka's frames: four bytes of size, then that many bytes. Bytes in, frames out; no I/O.

A frame is a writable memoryview that owns its memory, so a produce request can be patched and appended in place. The
transport calls `room()` for a place to put bytes and reports `received(count)`; small frames go through a scratch
buffer that readers may share (`make_scratch`), a large one is received directly into its own memory.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from struct import Struct as Packing

from chronik.wire.errors import Malformed

SIZE_BYTES = 4
SCRATCH_BYTES = 256 * 1024  # uvloop's read size
FIRST_GRANT_BYTES = 2 * SCRATCH_BYTES  # granted for a large frame before any of its bytes have arrived
_size_of = Packing(">i").unpack_from
pack_size = Packing(">i").pack


def make_scratch() -> memoryview:
    """A buffer for all readers of one event loop.

    Its data is consumed before the loop calls another reader's `room`, because `received` never waits. Loops in
    different threads need separate buffers.
    """
    return memoryview(unfilled(SCRATCH_BYTES))


def unfilled(size_bytes: int) -> bytearray:
    """Uninitialized memory, which is not exposed until it is filled with received bytes. Clearing a megabyte first
    would cost a tenth of the time that Python takes to receive a request of that size."""
    made: bytearray = _make_bytearray(None, size_bytes)
    return made


_make_bytearray = ctypes.pythonapi.PyByteArray_FromStringAndSize
_make_bytearray.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t]
_make_bytearray.restype = ctypes.py_object


class BadFrame(Malformed):
    """A frame's size is negative or over the limit; the rest of the stream cannot be trusted."""

    def __init__(self, size_bytes: int, size_bytes_max: int) -> None:
        super().__init__("frame", 0, f"a size of {size_bytes} bytes, at most {size_bytes_max} are allowed")
        self.size_bytes = size_bytes


class FrameReader:
    """Splits a stream into frames. After BadFrame the stream is unusable: close it.

    `admit(size_bytes)` is called before memory is used for a frame that does not fit the scratch buffer: first for a
    part, then for as much again as has arrived. While it returns False, `waiting_bytes` is the requested size: stop
    reading, and call `go_on()` when there may be room. Without `admit` there is always room.
    """

    __slots__ = (
        "_admit",
        "_filled",
        "_frame",
        "_granted",
        "_memory",
        "_rest",
        "_scratch",
        "has_part_of_a_frame",
        "size_bytes_max",
        "waiting_bytes",
    )

    def __init__(
        self,
        size_bytes_max: int,
        admit: Callable[[int], bool] | None = None,
        scratch: memoryview | None = None,
    ) -> None:
        self.size_bytes_max = size_bytes_max
        self.waiting_bytes = 0
        self.has_part_of_a_frame = False
        self._admit = admit
        self._scratch = make_scratch() if scratch is None else scratch
        memory = self._scratch.obj
        assert isinstance(memory, bytearray), "the scratch buffer is a view of a whole bytearray"
        self._memory = memory  # slicing this copies in one step
        self._frame: memoryview | None = None  # an incomplete frame of known size
        self._filled = 0
        self._granted = 0  # admitted bytes of it; the kernel provides the memory after that only on use
        self._rest = b""  # received but not split yet: part of a size, or bytes waiting for admission

    @property
    def admitted_bytes(self) -> int:
        """The bytes that `admit` granted for the incomplete frame."""
        return self._granted if self._frame is not None and len(self._frame) > SCRATCH_BYTES else 0

    def go_on(self) -> list[memoryview]:
        """Retries admission. Returns the frames that are complete now; the reader may still be waiting."""
        self.waiting_bytes = 0
        if self._frame is not None:
            self._ask_for_more(len(self._frame))
            return []
        self._scratch[: len(self._rest)] = self._rest
        return self.received(0)

    def room(self) -> memoryview:
        """The buffer for the next bytes; never empty. Valid until `received`."""
        if self._frame is not None:
            return self._frame[self._filled : self._granted]
        if self._rest:
            self._scratch[: len(self._rest)] = self._rest
            return self._scratch[len(self._rest) :]
        return self._scratch

    def received(self, count: int) -> list[memoryview]:
        """`count` bytes were put into `room()`. Returns the frames that are complete now, in order."""
        if self._frame is not None:
            self._filled += count
            size_bytes = len(self._frame)
            if self._filled < size_bytes:
                if self._filled == self._granted:
                    self._ask_for_more(size_bytes)
                return []
            whole, self._frame = self._frame, None
            self.has_part_of_a_frame = False
            return [whole]
        scratch = self._scratch
        if count > SIZE_BYTES and not self._rest and _size_of(scratch)[0] == count - SIZE_BYTES <= self.size_bytes_max:
            self.has_part_of_a_frame = False
            return [memoryview(self._memory[SIZE_BYTES:count])]  # one whole frame, as most reads find
        end, at = len(self._rest) + count, 0
        self._rest = b""
        frames: list[memoryview] = []
        while end - at >= SIZE_BYTES:
            (size_bytes,) = _size_of(scratch, at)
            if not 0 <= size_bytes <= self.size_bytes_max:
                raise BadFrame(size_bytes, self.size_bytes_max)
            at += SIZE_BYTES
            behind = at + size_bytes
            if behind <= end:
                frames.append(memoryview(self._memory[at:behind]))
                at = behind
                continue
            self.has_part_of_a_frame = True
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
        self.has_part_of_a_frame = at < end
        if at < end:
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
        """Whether a frame of known size is being received into its own memory."""
        return self._frame is not None

    def end(self) -> None:
        """No more data will come: frees the memory of the incomplete frame, which may be large."""
        self._frame = None
        self._rest = b""
        self.has_part_of_a_frame = False

    def feed(self, data: bytes) -> list[memoryview]:
        """`room` and `received` for bytes that are already in another buffer."""
        frames: list[memoryview] = []
        view = memoryview(data)
        while view:
            room = self.room()
            count = min(len(room), len(view))
            room[:count] = view[:count]
            frames += self.received(count)
            view = view[count:]
        return frames
