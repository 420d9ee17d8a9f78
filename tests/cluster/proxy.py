"""The network between the nodes of a cluster, in user space, with cables that can be cut one way or both.

Every node reaches every other through a port of its own here: the quorum's connections by each node's list of voters,
those of followers by the listener that brokers advertise to each other. Clients connect directly. A cut holds bytes
back, as a network does that loses packets: connections stay, new ones hang, and what is held arrives after healing.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any

from chronik.testing import Cluster
from chronik.testing.ports import HOST, free_ports

CHUNK_BYTES = 1 << 16
FOLLOWER = re.compile(rb"broker-(\d+)-fetcher")  # as a follower names itself in its first request
NOBODY = 0
TURNS_TO_CLOSE = 10  # of the loop, for it to let go of its transports
Way = tuple[int, int]  # from which node to which


class Cables:
    """Runs on a thread of its own; all methods may be called from any other."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._open: dict[Way, asyncio.Event] = defaultdict(self._made_open)
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._thread = threading.Thread(target=self._loop.run_forever, name="cables", daemon=True)
        self._thread.start()

    @staticmethod
    def _made_open() -> asyncio.Event:
        event = asyncio.Event()
        event.set()
        return event

    def lay(self, to: int, port: int, source: int = NOBODY) -> int:
        """Returns the port by which `source` reaches the node's port; nobody: who connects is known by what it says."""
        return self._call(self._lay(to, port, source))

    def cut(self, ways: Iterable[Way]) -> None:
        self._call(self._set(list(ways), is_open=False))

    def heal(self) -> None:
        self._call(self._set(list(self._open), is_open=True))

    def close(self) -> None:
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _lay(self, to: int, port: int, source: int) -> int:
        server = await asyncio.start_server(self._task(partial(self._connected, to, port, source)), HOST, 0)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def _set(self, ways: Sequence[Way], *, is_open: bool) -> None:
        for way in ways:
            (self._open[way].set if is_open else self._open[way].clear)()

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for _ in range(TURNS_TO_CLOSE):
            await asyncio.sleep(0)

    def _task(self, serve: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
        def start(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = self._loop.create_task(serve(reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return start

    async def _connected(
        self, to: int, port: int, source: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        onward: asyncio.StreamWriter | None = None
        try:
            first = await reader.read(CHUNK_BYTES)
            if source == NOBODY and (named := FOLLOWER.search(first)):
                source = int(named[1])
            await self._open[source, to].wait()
            await self._open[to, source].wait()
            back, onward = await asyncio.open_connection(HOST, port)
            onward.write(first)
            async with asyncio.TaskGroup() as pumping:
                pumping.create_task(self._pump(reader, onward, (source, to)))
                pumping.create_task(self._pump(back, writer, (to, source)))
        except (OSError, ExceptionGroup):
            pass  # one end is gone, so the other one goes
        finally:
            for each in (writer, onward):
                if each is not None:
                    each.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way) -> None:
        while data := await reader.read(CHUNK_BYTES):
            await self._open[way].wait()
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError


class CabledCluster(Cluster):
    """Nodes that are processes, and cables between them."""

    def __init__(self, *, nodes: int, settings: dict[str, str]) -> None:
        self.cables = Cables()
        self._is_laid = False
        super().__init__(nodes=nodes, settings=settings, in_process=False)

    def _start(self, node_ids: Sequence[int]) -> None:
        if not self._is_laid:
            self._is_laid = True
            self._lay()
        super()._start(node_ids)

    def _lay(self) -> None:
        voters = [each.split("@")[1] for each in self.settings[0]["controller.quorum.voters"].split(",")]
        for (node_id, settings), port in zip(enumerate(self.settings, 1), free_ports(len(self.settings)), strict=True):
            known = []
            for peer, address in enumerate(voters, 1):
                quorum_port = int(address.rpartition(":")[2])
                reached = quorum_port if peer == node_id else self.cables.lay(peer, quorum_port, source=node_id)
                known.append(f"{peer}@{HOST}:{reached}")
            settings |= {
                "controller.quorum.voters": ",".join(known),
                "listeners": f"{settings['listeners']},REPLICATION://{HOST}:{port}",
                "advertised.listeners": f"{settings['advertised.listeners']},"
                f"REPLICATION://{HOST}:{self.cables.lay(node_id, port)}",
                "listener.security.protocol.map": f"{settings['listener.security.protocol.map']},REPLICATION:PLAINTEXT",
                "inter.broker.listener.name": "REPLICATION",
            }

    def close(self) -> None:
        """Without a clean stop: behind a cable nobody notices that the others stop too, and waits for them."""
        for node_id in range(1, len(self.ports) + 1):
            self.kill(node_id)
        super().close()
        self.cables.close()
