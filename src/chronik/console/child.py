"""The console's process as `launching` starts it: the order is one line of JSON on stdin, whose end ends it."""

from __future__ import annotations

import json
import os
import socket
import sys

from chronik.console.app import Console
from chronik.console.server import run
from chronik.console.settings import STORAGE_DEFAULT, ConsoleSettings, Listening


def main() -> None:
    order = json.loads(sys.stdin.buffer.readline())
    listener = socket.socket(fileno=order["descriptor"])
    host, port = listener.getsockname()[:2]
    settings = ConsoleSettings(
        bootstrap=order["bootstrap"],
        listening=Listening(host, port),
        allows_changes=order["allows_changes"],
        storage=STORAGE_DEFAULT,
        script_token=os.environ.get("CHRONIK_CONSOLE_TOKEN", ""),
    )
    settings.check()

    def started(console: Console) -> None:
        console.sessions.accept(order["token"])

    run(settings, listener, started, until_stdin_ends)


def until_stdin_ends() -> None:
    while os.read(0, 4096):
        pass


if __name__ == "__main__":
    main()
