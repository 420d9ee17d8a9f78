"""What a node needs of the machine: clock, disk, network, randomness. Passed in, never imported.

The real ones are `real_*` beside this file, the simulated ones live in `chronik.sim`. No package but these calls time,
open, socket, random or threading, so a whole node runs unchanged in virtual time and a failing seed replays exactly.

Waiting is asyncio's: `loop.call_later`, `asyncio.sleep` and futures are allowed everywhere, because the simulator
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
        """Unix time. It may jump: use it for what users see (record timestamps, retention), never to order events."""

    def monotonic_ns(self) -> int:
        """Never goes back and counts while the machine sleeps (CLOCK_BOOTTIME). Leases and deadlines use it."""


class File(Protocol):
    """One open file. Every method may block; only `sync` may take long, so it belongs on a lane."""

    path: str

    def size_bytes(self) -> int: ...

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Writes at the end, into the page cache, and returns the position where the first byte landed.

        All or nothing as far as this process sees: when the disk is full the file is cut back and DiskFull is raised.
        """

    def read(self, position: int, size_bytes: int) -> memoryview:
        """Up to `size_bytes` from `position`; fewer only at the end of the file."""

    def read_noting_origin(self, position: int, size_bytes: int) -> tuple[memoryview, bool]:
        """As `read`; and whether the kernel held all of it in memory, so that nothing came from the disk."""

    def truncate(self, size_bytes: int) -> None: ...

    def write_again(self, position: int, size_bytes: int) -> None:
        """Puts the bytes that are there where they are, so that the next `sync` writes them.

        After a failed sync the kernel may hold bytes for written that are not on the disk: another process reads them,
        and its sync succeeds without them. What was on the disk is as safe as before while this runs.
        """

    def sync(self) -> None:
        """Returns when everything appended before the call survives a power cut (fdatasync). After an error, stop."""

    def forget(self, start: int, end: int) -> None:
        """Nobody is likely to read these bytes, which are synced: the kernel need not keep them in memory as well."""

    def is_in_place(self) -> bool:
        """Whether its path still leads to this very file. If not, nobody finds what is written once it is closed."""

    def close(self) -> None:
        """A file that is simply let go closes by itself, once no lane works on it any more."""


class Lane(Protocol):
    """A thread of its own for work that blocks. Work given to one lane runs in order, one piece at a time."""

    name: str

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Runs `work` off the loop; the future resolves on the loop. Cancelling the future does not stop the work."""

    def sync(self, files: Sequence[File]) -> asyncio.Future[None]:
        """`File.sync` of each, off the loop, at the same time or in any order; it does not wait for `run`'s work."""

    def under_way(self) -> Sequence[tuple[str, int]]:
        """The oldest operation that has begun and not ended, for each way of carrying one out. Work in a queue has not
        begun. An operation keeps its name; no other operation gets it."""

    def close(self) -> None:
        """Waits for what was given, then ends the thread."""


class Disk(Protocol):
    """Files by absolute path. Methods block; call the long ones on a lane.

    What opens, makes or replaces something raises DiskFull, having done nothing, when there is no room for it or no
    file descriptor is left. An OSError is a failure.

    Up to `journal_bytes_max` it costs less to write bytes once more, into a file written ahead, and sync that, than to
    sync the file that has grown by them. From `piece_bytes_min` on it costs less to read what is sent piece by piece,
    between sending, than to read it as a whole first.
    """

    journal_bytes_max: int
    piece_bytes_min: int
    files_max: int  # of logs, to be open at once
    refused: Refusals  # every DiskFull that it raised
    prompt_lanes: list[Lane]  # those that are open

    def open(self, path: str, *, create: bool = False) -> File:
        """Opens for reading and appending. Without `create` a missing file raises FileNotFoundError."""

    def create_ahead(self, path: str, ahead_bytes: int) -> File:
        """A new file in the place of whatever is there, for a journal: zeros stand behind its end, so many bytes ahead
        or fewer, which makes a sync of small appends cheap. Who opens it later finds them, and must tell them apart."""

    def exists(self, path: str) -> bool: ...

    def list(self, directory: str) -> list[str]:
        """Names in the directory, sorted; empty when it does not exist."""

    def make_directory(self, path: str, *, durable: bool = True) -> None:
        """Makes it and its parents, durably unless told otherwise: `sync_directory` of the parent does that later."""

    def read_file(self, path: str) -> bytes: ...

    def replace_file(self, path: str, data: bytes) -> None:
        """Old or new content after a power cut, never a mixture: temp, fsync, rename, fsync of the directory."""

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, directory: str) -> None: ...

    def sync_directory(self, directory: str) -> None:
        """Makes creations, renames and removals in it survive a power cut."""

    def modified_ms(self, path: str) -> int:
        """Wall time of the last write to the file, as the file system has it."""

    def set_modified(self, path: str, modified_ms: int) -> None:
        """For a file that holds what another held, and is as old as that."""

    def free_bytes(self, directory: str) -> int: ...

    def total_bytes(self, directory: str) -> int: ...

    def lock(self, path: str) -> None:
        """Takes an exclusive lock held until `unlock` or the end of the process; raises DiskInUse if it is taken."""

    def unlock(self, path: str) -> None: ...

    def lane(self, name: str, *, is_prompt: bool = False) -> Lane:
        """A prompt lane has short operations that acknowledgements wait for; `hung_disk` looks at these."""


class Listener(Protocol):
    host: str
    port: int  # the real one, also when 0 was asked for

    def secure_with(self, tls: TlsServer) -> None:
        """New connections are secured with this; open ones stay as they are. Only for a listener that has TLS."""

    def close(self) -> None:
        """Stops accepting; open connections stay."""


class Sends(Protocol):
    """Small answers to many peers, which leave together where the machine can do that."""

    def writer_of(self, transport: asyncio.Transport) -> Callable[[bytes], None]:
        """As the transport's own `write`, at the latest when the loop's turn ends."""

    def flush(self) -> None:
        """What was given leaves now. For whoever writes to a transport beside this."""

    def close(self) -> None: ...


class Network(Protocol):
    """Streams by asyncio's own Protocol and Transport, so that uvloop and the simulator serve the same code.

    With TLS, a protocol is made when the handshake is done, and `get_extra_info("tls_subject")` of its transport is the
    subject of the peer's verified certificate; None if it presented none, or without TLS.
    """

    connections_max: int  # of clients, for which there are descriptors

    async def listen(
        self, host: str, port: int, factory: Callable[[], asyncio.Protocol], tls: TlsServer | None = None
    ) -> Listener: ...

    async def connect(
        self, host: str, port: int, factory: Callable[[], asyncio.Protocol], tls: TlsClient | None = None
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        """Raises OSError with host and port in its message; TlsFailed where the handshake fails."""

    def sends(self) -> Sends:
        """Of one event loop."""


class Randomness(Protocol):
    def below(self, bound: int) -> int:
        """0 <= result < bound."""

    def bytes(self, count: int) -> bytes: ...


class Runtime(NamedTuple):
    clock: Clock
    disk: Disk
    network: Network
    randomness: Randomness
