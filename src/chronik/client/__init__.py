"""The asynchronous Kafka client: connect to a cluster, write records, read them. Works with Kafka's brokers too.

    from chronik.client import Consumer, Producer, connect

    async with connect("localhost:9092") as cluster:
        async with Producer(cluster, creates_topics=True) as producer:
            await producer.send("orders", b"a value", key=b"a key")
        async with Consumer(cluster, group_id="billing") as consumer:
            consumer.subscribe(["orders"])
            for fetched in await consumer.poll():
                print(fetched.records)

The names in `__all__` are the public API, which changes only with a changelog entry. The modules of this package are
not public: commands, pipelines and the load generator use them. Names are imported on first use, so importing this
package is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from chronik.client.batching import Delivery, RecordPosition
    from chronik.client.connecting import connect
    from chronik.client.consumer import AtTime, Consumer
    from chronik.client.errors import (
        ClientError,
        Closed,
        DeliveryFailed,
        Fenced,
        OffsetOutOfRange,
        Refused,
        TransactionFailed,
        Unreachable,
    )
    from chronik.client.fetch_answers import Fetched, FetchOptions
    from chronik.client.membership import Member
    from chronik.client.producer import Producer
    from chronik.client.routing import ClusterClient
    from chronik.client.share_consumer import ShareConsumer
    from chronik.client.share_session import Acknowledge, ShareFetchOptions, ShareRecord
    from chronik.client.topology import TopicPartition
    from chronik.client.transactions import TransactionalProducer
    from chronik.wire.compression import Codec
    from chronik.wire.isolation import READ_COMMITTED, READ_UNCOMMITTED
    from chronik.wire.offset_specs import EARLIEST, LATEST
    from chronik.wire.records import Record

__all__ = [
    "EARLIEST",
    "LATEST",
    "READ_COMMITTED",
    "READ_UNCOMMITTED",
    "Acknowledge",
    "AtTime",
    "ClientError",
    "Closed",
    "ClusterClient",
    "Codec",
    "Consumer",
    "Delivery",
    "DeliveryFailed",
    "Fenced",
    "FetchOptions",
    "Fetched",
    "Member",
    "OffsetOutOfRange",
    "Producer",
    "Record",
    "RecordPosition",
    "Refused",
    "ShareConsumer",
    "ShareFetchOptions",
    "ShareRecord",
    "TopicPartition",
    "TransactionFailed",
    "TransactionalProducer",
    "Unreachable",
    "connect",
]

_MODULES: Final = {
    "chronik.client.batching": ("Delivery", "RecordPosition"),
    "chronik.client.connecting": ("connect",),
    "chronik.client.consumer": ("AtTime", "Consumer"),
    "chronik.client.errors": (
        "ClientError",
        "Closed",
        "DeliveryFailed",
        "Fenced",
        "OffsetOutOfRange",
        "Refused",
        "TransactionFailed",
        "Unreachable",
    ),
    "chronik.client.fetch_answers": ("FetchOptions", "Fetched"),
    "chronik.client.membership": ("Member",),
    "chronik.client.producer": ("Producer",),
    "chronik.client.routing": ("ClusterClient",),
    "chronik.client.share_consumer": ("ShareConsumer",),
    "chronik.client.share_session": ("Acknowledge", "ShareFetchOptions", "ShareRecord"),
    "chronik.client.topology": ("TopicPartition",),
    "chronik.client.transactions": ("TransactionalProducer",),
    "chronik.wire.compression": ("Codec",),
    "chronik.wire.isolation": ("READ_COMMITTED", "READ_UNCOMMITTED"),
    "chronik.wire.offset_specs": ("EARLIEST", "LATEST"),
    "chronik.wire.records": ("Record",),
}
_MODULE_OF: Final = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
