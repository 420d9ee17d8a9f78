"""The console of `chronik up`: its address is there at once, its process starts when somebody opens it.

This process only listens. With the first connection a child starts, takes the socket over and answers what has waited
in its queue, so starting a cluster costs no time for a console that nobody opens. The child ends when its stdin does,
so it never outlives its starter. Nothing heavy is imported here: a broker may run in this process.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import select
import socket
import subprocess
import sys
import threading
from typing import Final

HOST: Final = "127.0.0.1"
BACKLOG: Final = 128
END_S: Final = 5
AGAIN_S: Final = 1.0  # before a child that ended is replaced


class LazyConsole:
    """Raises OSError if it cannot listen."""

    def __init__(self, bootstrap: str, port: int, *, allows_changes: bool = False) -> None:
        self._bootstrap, self._allows_changes = bootstrap, allows_changes
        self._token = secrets.token_hex(32)
        self._listener = listen(port)
        self._stopped = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._wait, name="console", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/?token={self._token}"

    def stop(self) -> None:
        self._stopped.set()
        with contextlib.suppress(OSError):
            self._listener.close()
        child = self._child
        if child is not None:
            child.terminate()
            try:
                child.wait(END_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            self._thread.join()

    def _wait(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # the socket was closed
            while not self._stopped.is_set():
                ready, _, _ = select.select([self._listener], [], [], 1.0)
                if ready and not self._stopped.is_set():
                    child = self._child = self._start()
                    child.wait()
                    assert child.stdin is not None
                    child.stdin.close()
                    self._stopped.wait(AGAIN_S)

    def _start(self) -> subprocess.Popen[bytes]:
        descriptor = self._listener.fileno()
        child = subprocess.Popen(
            [sys.executable, "-m", "chronik.console.child"],
            stdin=subprocess.PIPE,
            pass_fds=[descriptor],
            start_new_session=True,  # Ctrl-C in a terminal is for the starter
        )
        order = {
            "descriptor": descriptor,
            "bootstrap": self._bootstrap,
            "token": self._token,
            "allows_changes": self._allows_changes,
        }
        assert child.stdin is not None
        child.stdin.write(json.dumps(order).encode() + b"\n")
        child.stdin.flush()  # it stays open: its end is the child's
        return child


def listen(port: int) -> socket.socket:
    """On this port, or on any other if it is taken: the address is printed anyway."""
    for wanted in dict.fromkeys((port, 0)):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((HOST, wanted))
            listener.listen(BACKLOG)
        except OSError:
            listener.close()
            if not wanted:
                raise
        else:
            return listener
    raise AssertionError("port 0 is always free or raises")
