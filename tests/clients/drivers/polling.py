"""A group member that polls in a thread of its own, for Python clients whose consumers are not to be shared."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack, closing
from typing import Any, Protocol

from tests.clients.driver import Seen

WAIT_SECONDS = 60  # for a thread to obey; only a hang takes so long


class GroupConsumer(Protocol):
    def poll(self) -> list[Seen]:
        """Waits a little for records."""

    def assignment(self) -> list[int]: ...

    def commit(self) -> None: ...

    def close(self) -> None: ...


class Member:
    """Runs a consumer in one thread; everything asked of it is done there, between two polls."""

    def __init__(self, make: Callable[[], GroupConsumer]) -> None:
        self.received: list[Seen] = []
        self._asked: list[tuple[Callable[[GroupConsumer], Any], Future[Any]]] = []
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(make,), daemon=True)
        self._thread.start()

    def do(self, work: Callable[[GroupConsumer], Any]) -> Any:
        """What it comes to. A failure is the asker's alone: a commit may meet a rebalance, and polling goes on."""
        asked: Future[Any] = Future()
        self._asked.append((work, asked))
        try:
            return asked.result(WAIT_SECONDS)
        except TimeoutError:
            raise AssertionError("the consumer hangs") from self._failure

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(WAIT_SECONDS)
        if self._failure is not None:
            raise self._failure

    def _run(self, make: Callable[[], GroupConsumer]) -> None:
        try:
            with closing(make()) as consumer:
                while not self._stopping.is_set():
                    self.received += consumer.poll()
                    while self._asked:
                        _answer(consumer, *self._asked.pop(0))
        except BaseException as failure:  # noqa: BLE001 - told to whoever stops the member
            self._failure = failure


def _answer(consumer: GroupConsumer, work: Callable[[GroupConsumer], Any], asked: Future[Any]) -> None:
    try:
        asked.set_result(work(consumer))
    except Exception as failure:  # noqa: BLE001 - told to whoever asked
        asked.set_exception(failure)


class Members:
    def __init__(self) -> None:
        self._members: dict[str, Member] = {}

    def start(self, name: str, make: Callable[[], GroupConsumer]) -> None:
        self._members[name] = Member(make)

    def received(self, name: str) -> list[Seen]:
        return list(self._members[name].received)

    def assignment(self, name: str) -> list[int]:
        return sorted(self._members[name].do(lambda consumer: consumer.assignment()))

    def commit(self, name: str) -> None:
        self._members[name].do(lambda consumer: consumer.commit())

    def leave(self, name: str) -> None:
        self._members.pop(name).stop()

    def close(self) -> None:
        """Stops every one, whatever another of them died of: a thread left behind disturbs the tests that follow."""
        with ExitStack() as stopping:
            for name in list(self._members):
                stopping.callback(self.leave, name)
