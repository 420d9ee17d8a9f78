"""Checks of invariants that must hold whatever clients, peers and disks do. A violation stops the node.

Use `check` and `broken` only for invariants of our own code. Invalid bytes from clients, peers and disks get an error
response or are reported as damage. Unlike `assert`, checks stay active under `python -O`.

An invariant begins with its number in docs/reference/invariants.md. The values name the subject: partition, offsets,
epoch. On paths that run for every request write `if a > b: broken("10 ...", ...)`, which costs a comparison; elsewhere
`check(a <= b, "10 ...", ...)`, which costs a call as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NoReturn


class InvariantBroken(Exception):
    """A bug. The node stops rather than continue with state it cannot trust."""

    promise = ""  # the broken invariant, without the values


def broken(promise: str, **subject: object) -> NoReturn:
    values = ", ".join(
        f"{name} {value.hex() if isinstance(value, bytes) else value}" for name, value in subject.items()
    )
    error = InvariantBroken(f"invariant {promise} ({values})" if values else f"invariant {promise}")
    error.promise = promise
    raise error


def check(holds: bool, promise: str, **subject: object) -> None:
    if not holds:
        broken(promise, **subject)


def hear_of_broken(loop: asyncio.AbstractEventLoop, stop: Callable[[BaseException], None]) -> Callable[[], None]:
    """Calls `stop` when a callback of the loop raises InvariantBroken: a timer, a protocol or a task without an owner.
    Otherwise the loop would log the error and continue. Returns a function that removes the handler.

    All handlers of one loop get every error, because the source of a callback is unknown.
    """
    before = loop.get_exception_handler()

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, InvariantBroken):
            stop(error)
        if before is not None:
            before(loop, context)
        else:
            loop.default_exception_handler(context)

    loop.set_exception_handler(handle)

    def end() -> None:
        if loop.get_exception_handler() is handle:
            loop.set_exception_handler(before)

    return end
