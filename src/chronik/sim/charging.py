"""Charges the product's computing to the meter of its process, by the table in `prices`.

Active only while a world with meters runs: the methods in `CHARGED` are wrapped meanwhile. They do the work of one
partition, one request, one record or one batch, so any loop over many of them costs as much as it should.
"""

from __future__ import annotations

import contextlib
from asyncio import events
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from chronik.broker import dispatch
from chronik.broker.apis import fetch as fetch_api
from chronik.broker.limits import AT_ONCE_BYTES
from chronik.broker.turns import Turns
from chronik.metadata.store import MetadataStore
from chronik.raft.core import Core
from chronik.replication.replica import Replica
from chronik.replication.sessions import FollowerSession
from chronik.sim import prices
from chronik.sim.loop import ProcessLoop
from chronik.storage.log import Log
from chronik.storage.log_reads import ReadableLog
from chronik.wire.batches import BatchView

PRODUCE_KEY = b"\x00\x00"


class Charged(NamedTuple):
    owner: type
    method: str
    price: int | Callable[..., int]  # fixed, or computed from the method's arguments
    is_after: bool = False  # the price is computed from the result


def _request(_: object, frame: memoryview, __: object) -> int:
    """Larger frames than the product decodes at once are decoded in pieces, which are charged separately."""
    if len(frame) > AT_ONCE_BYTES:
        return prices.REQUEST_NS
    is_produce = frame[:2] == PRODUCE_KEY
    per_byte = prices.DECODED_RECORDS_PS_PER_BYTE if is_produce else prices.DECODED_PS_PER_BYTE
    return prices.REQUEST_NS + len(frame) * per_byte // 1000


def _encoded(parts: Any) -> int:
    """Records are passed on as stored in the log, without encoding."""
    if parts is None:
        return 0
    return sum([len(part) for part in parts if type(part) is bytes]) * prices.ENCODED_PS_PER_BYTE // 1000


def _pieces(_: Turns, pieces: int = 1) -> int:
    return pieces * prices.PIECE_NS


def _batch(_: Log, batch: BatchView, *__: object, **___: object) -> int:
    return prices.PARTITION_NS + len(batch.data) * prices.BATCH_PS_PER_BYTE // 1000


def _fetched(_: Log, buffer: memoryview, *__: object, **___: object) -> int:
    return prices.PARTITION_NS + len(buffer) * prices.BATCH_PS_PER_BYTE // 1000


def _record(_: object, __: int, data: bytes) -> int:
    return prices.RECORD_NS + len(data) * prices.RECORD_PS_PER_BYTE // 1000


def _image(_: object, data: bytes) -> int:
    return len(data) * prices.RECORD_PS_PER_BYTE // 1000


CHARGED = (
    Charged(dispatch.Dispatcher, "answer", _request),
    Charged(dispatch._Served, "parts", _encoded, is_after=True),
    Charged(Turns, "spend", _pieces),
    Charged(fetch_api._Fetch, "_read_partition", prices.PARTITION_NS),
    Charged(FollowerSession, "_look", prices.PARTITION_NS),
    Charged(FollowerSession, "_data", prices.PARTITION_NS),
    Charged(Replica, "change", prices.PARTITION_NS),
    Charged(Replica, "_commit", prices.PARTITION_NS),
    Charged(Log, "append", _batch),
    Charged(Log, "append_fetched", _fetched),
    Charged(ReadableLog, "read", prices.PARTITION_NS),
    Charged(ReadableLog, "readable_bytes", prices.PARTITION_NS),
    Charged(Core, "step", prices.RAFT_STEP_NS),
    Charged(Core, "tick", prices.RAFT_STEP_NS),
    Charged(MetadataStore, "_apply", _record),
    Charged(MetadataStore, "_restore", _image),
)


@contextlib.contextmanager
def charging(*, is_on: bool) -> Iterator[None]:
    """Charges for the methods of `CHARGED` within the context."""
    if not is_on:
        yield
        return
    before = [(each, each.owner.__dict__[each.method]) for each in CHARGED]
    for each, method in before:
        wrap = _charged_after if each.is_after else _charged_before
        setattr(each.owner, each.method, wrap(method, each.price))
    try:
        yield
    finally:
        for each, method in before:
            setattr(each.owner, each.method, method)


def _charged_before(method: Any, price: Any) -> Callable[..., Any]:
    is_fixed = isinstance(price, int)

    def call(*args: Any, **named: Any) -> Any:
        loop = events._get_running_loop()
        if isinstance(loop, ProcessLoop) and loop.meter is not None:
            loop.meter.charge(price if is_fixed else price(*args, **named))
        return method(*args, **named)

    return call


def _charged_after(method: Any, price: Any) -> Callable[..., Any]:
    def call(*args: Any, **named: Any) -> Any:
        loop = events._get_running_loop()
        result = method(*args, **named)
        if isinstance(loop, ProcessLoop) and loop.meter is not None:
            loop.meter.charge(price(result))
        return result

    return call
