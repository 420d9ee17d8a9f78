"""The interfaces to the machine: clock, disk, network, randomness. Passed in, never imported.

The real ones are `real_*` beside this file, the simulated ones are in `chronik.sim`. No other package uses time, open,
socket, random or threading, so a whole node runs unchanged in virtual time and a failing seed replays exactly.

Waiting uses asyncio: `loop.call_later`, `asyncio.sleep` and futures are allowed everywhere, because the simulator
supplies the event loop. Everything runs on that loop except the work given to a `Lane`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from chronik.runtime.errors import Refusals
from chronik.runtime.tls import TlsClient, TlsServer

Buffer = bytes | bytearray | memoryview
T = TypeVar("T")


class Clock(Protocol):
    def wall_ms(self) -> int:
        """Unix time. It may jump: use it for values that users see (timestamps, retention), never to order events."""

    def monotonic_ns(self) -> int:
        """Never goes back, and advances while the machine sleeps (CLOCK_BOOTTIME). For leases and deadlines."""


class File(Protocol):
    """One open file. Every method may block; only `sync` may take long, so it belongs on a lane."""

    path: str

    def size_bytes(self) -> int: ...

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Writes at the end, into the page cache, and returns the position where the first byte landed.

        All or nothing for this process: when the disk is full, the file is truncated back and DiskFull is raised.
        """

    def read(self, position: int, size_bytes: int) -> memoryview:
        """Up to `size_bytes` from `position`; fewer only at the end of the file."""

    def read_noting_origin(self, position: int, size_bytes: int) -> tuple[memoryview, bool]:
        """Like `read`; also returns whether all of it came from memory rather than from the disk."""

    def truncate(self, size_bytes: int) -> None: ...

    def write_again(self, position: int, size_bytes: int) -> None:
        """Rewrites existing bytes in place, so that the next `sync` writes them.

        After a failed sync the kernel may treat data as written that is not on the disk: other processes can read it,
        and a later sync succeeds without it. Data already on the disk stays safe meanwhile.
        """

    def sync(self) -> None:
        """Returns when everything appended before the call survives a power cut (fdatasync). After an error, stop."""

    def forget(self, start: int, end: int) -> None:
        """These synced bytes are unlikely to be read: the kernel need not cache them."""

    def is_in_place(self) -> bool:
        """Whether its path still leads to this file. If not, written data cannot be found after it is closed."""

    def close(self) -> None:
        """Not required: an unreferenced file closes itself, once no lane uses it."""


class Lane(Protocol):
    """A thread for blocking work. Work given to one lane runs in order, one item at a time."""

    name: str

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Runs `work` off the loop; the future resolves on the loop. Cancelling the future does not stop the work."""

    def sync(self, files: Sequence[File]) -> asyncio.Future[None]:
        """Syncs each file, off the loop, concurrently or in any order; does not wait for `run`'s work."""

    def sync_then(self, files: Sequence[File], done: Callable[[BaseException | None], None]) -> None:
        """Like `sync`, but calls `done` on the loop when the files are synced, with the error if there is one. That is
        an iteration of the loop sooner than a future tells."""

    def under_way(self) -> Sequence[tuple[str, int]]:
        """The oldest running operation of each execution path (thread and kernel). Queued work does not count. An
        operation keeps its name, and no other operation gets it."""

    def close(self) -> None:
        """Waits for the given work, then ends the thread."""


class Disk(Protocol):
    """Files by absolute path. Methods block; call the long ones on a lane.

    Methods that open, create or replace something raise DiskFull, without any effect, if space or file descriptors are
    exhausted. An OSError is a failure.

    Up to `journal_bytes_max`, writing data twice, also into a pre-extended file that is synced, is cheaper than syncing
    the grown file. From `piece_bytes_min` on, reading and sending in alternation is cheaper than reading everything
    first.
    """

    journal_bytes_max: int
    piece_bytes_min: int
    files_max: int  # log files that may be open at once
    refused: Refusals  # counts of every DiskFull raised
    prompt_lanes: list[Lane]  # the open ones

    def open(self, path: str, *, create: bool = False) -> File:
        """Opens for reading and appending. Without `create` a missing file raises FileNotFoundError."""

    def create_ahead(self, path: str, ahead_bytes: int) -> File:
        """A new file that replaces any existing one, for a journal: up to `ahead_bytes` of zeros after its end make
        syncs of small appends cheap. Readers of the file must recognize these zeros."""

    def exists(self, path: str) -> bool: ...

    def list(self, directory: str) -> list[str]:
        """Names in the directory, sorted; empty if it does not exist."""

    def make_directory(self, path: str, *, durable: bool = True) -> None:
        """Creates it and its parents, durably by default; otherwise `sync_directory` of the parent does that later."""

    def read_file(self, path: str) -> bytes: ...

    def replace_file(self, path: str, data: bytes) -> None:
        """Old or new content after a power cut, never a mixture: temp, fsync, rename, fsync of the directory."""

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, directory: str) -> None: ...

    def sync_directory(self, directory: str) -> None:
        """Makes creations, renames and removals in it survive a power cut."""

    def modified_ms(self, path: str) -> int:
        """Wall time of the last write to the file, according to the file system."""

    def set_modified(self, path: str, modified_ms: int) -> None:
        """For a copy of another file, which gets that file's age."""

    def free_bytes(self, directory: str) -> int: ...

    def total_bytes(self, directory: str) -> int: ...

    def lock(self, path: str) -> None:
        """Takes an exclusive lock held until `unlock` or the end of the process; raises DiskInUse if it is taken."""

    def unlock(self, path: str) -> None: ...

    def lane(self, name: str, *, is_prompt: bool = False) -> Lane:
        """A prompt lane has short operations that acknowledgements wait for; `hung_disk` watches these."""


class Listener(Protocol):
    host: str
    port: int  # the actual port, even if 0 was requested

    def secure_with(self, tls: TlsServer) -> None:
        """Uses these settings for new connections; open ones are unchanged. Only for a listener that has TLS."""

    def close(self) -> None:
        """Stops accepting; open connections stay."""


class Sends(Protocol):
    """Small responses to many peers, sent together if the machine supports it."""

    def writer_of(self, transport: asyncio.Transport) -> Callable[[bytes], None]:
        """Like the transport's own `write`, but sent at the latest when the loop iteration ends."""

    def flush(self) -> None:
        """Sends buffered data now. Call it before writing to a transport directly."""

    def close(self) -> None: ...


class Network(Protocol):
    """Streams with asyncio's own Protocol and Transport, so that uvloop and the simulator run the same code.

    With TLS, a protocol is created when the handshake is done, and `get_extra_info("tls_subject")` of its transport is
    the subject of the peer's verified certificate; None if it presented none, or without TLS.
    """

    connections_max: int  # client connections for which there are descriptors

    async def listen(
        self, host: str, port: int, factory: Callable[[], asyncio.Protocol], tls: TlsServer | None = None
    ) -> Listener: ...

    async def connect(
        self, host: str, port: int, factory: Callable[[], asyncio.Protocol], tls: TlsClient | None = None
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        """Raises OSError with host and port in its message; TlsFailed if the handshake fails."""

    def sends(self) -> Sends:
        """The sends of the running event loop."""


class Randomness(Protocol):
    def below(self, bound: int) -> int:
        """0 <= result < bound."""

    def bytes(self, count: int) -> bytes: ...


class Runtime(NamedTuple):
    clock: Clock
    disk: Disk
    network: Network
    randomness: Randomness
