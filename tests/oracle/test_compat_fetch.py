"""Fetch: from every offset, under every limit, in sessions and without, in formats old and new."""

from __future__ import annotations

from functools import partial

import pytest

from chronik.wire.batches import build
from chronik.wire.compression import Codec
from chronik.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from chronik.wire.records import Record
from tests.oracle.asking import TIME_MS, TIMEOUT_MS, batch, create_topic, fetch, produce_all, records
from tests.oracle.comparison import Asked, Pair, Server

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("compat")]

VERSION_TOPIC_IDS = 13
VERSION_SESSIONS = 7
VERSION_LEADER_EPOCHS = 9
VERSION_DIVERGENCE = 12


def asked(version: int, name: str, offset: int, **more: object) -> Asked:
    if version < VERSION_TOPIC_IDS:
        return fetch(name, offset, **more)  # type: ignore[arg-type]
    return lambda server: fetch("", offset, topic_id=server.topic_ids[name], **more)  # type: ignore[arg-type]


def filled(pair: Pair, suffix: str, codec: Codec = Codec.NONE) -> str:
    """A topic of five batches: three, one, four, two and five records."""
    name = create_topic(pair, pair.name(suffix))
    first = 0
    for count in (3, 1, 4, 2, 5):
        produce_all(pair, name, [batch(count, codec, first=first)])
        first += count
    return name


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
def test_fetch_from_every_offset(pair: Pair, codec: Codec) -> None:
    """At the start and inside of batches, at the end, beyond it, before it; old versions in their own formats."""
    name = filled(pair, codec.name.lower(), codec)
    for version in pair.versions(FetchRequest):
        for offset in (-1, 0, 1, 2, 3, 4, 7, 8, 14, 15, 16, 100):
            pair.case = f"from {offset}"
            pair.ask(asked(version, name, offset), version, repacked=version < 4)


def test_limits_of_bytes(pair: Pair) -> None:
    """A batch is never cut, and one is always returned; from v3 on the whole answer has a limit too."""
    name = filled(pair, "limits")
    for version in pair.versions(FetchRequest):
        for limit in (0, 1, 50, 121, 122, 150, 200, 300, 2000):
            pair.case = f"{limit} bytes"
            pair.ask(asked(version, name, 0, partition_bytes_max=limit), version)
            if version >= 3:
                pair.ask(asked(version, name, 0, bytes_max=limit), version)
        pair.ask(asked(version, name, 15, max_wait_ms=1, min_bytes=1), version)
        pair.ask(asked(version, name, 4, max_wait_ms=50, min_bytes=100_000), version)


def test_limits_over_several_partitions(pair: Pair) -> None:
    """The rest for the second partition, after the first one took its share."""
    name = create_topic(pair, pair.name("several"), 3)
    size = len(batch(3))
    for partition in range(3):
        produce_all(pair, name, [batch(3, first=3 * n) for n in range(3)], partition=partition)
    for version in pair.versions(FetchRequest, first=3):
        for limit in (1, size - 1, size, 2 * size, 3 * size, 5 * size, 6 * size, 9 * size, 3 * size + 1):
            pair.case = f"{limit} bytes"

            def request(
                server: Server, limit: int = limit, version: int = version, each: int = 2 * size
            ) -> FetchRequest:
                by_id = version >= VERSION_TOPIC_IDS
                wanted = [
                    FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=each) for index in (2, 0, 1)
                ]
                topic = FetchTopic(
                    topic="" if by_id else name,
                    topic_id=server.topic_ids[name] if by_id else bytes(16),
                    partitions=wanted,
                )
                return fetch("", 0, bytes_max=limit, topics=[topic])

            pair.ask(request, version)
        pair.case = "half a batch is not sent"
        pair.ask(partial(request, limit=3 * size, each=size * 3 // 2), version, differs="whole-batches")


def test_much_at_once(pair: Pair) -> None:
    """More than one smaller response: all of it for clients with min_bytes above 1, and in versions without a limit."""
    name = create_topic(pair, pair.name("much"))
    produce_all(pair, name, [batch(first=first, size=90_000) for first in range(8)])
    for version in pair.versions(FetchRequest):
        pair.case = "any byte is enough"
        differs = "portions" if version >= 3 else None
        pair.ask(asked(version, name, 0, min_bytes=1), version, differs=differs, on=f"new-{version}")
        pair.case = "a byte is not enough"
        pair.ask(asked(version, name, 0, min_bytes=2), version)


def test_fetch_of_what_is_not_there(pair: Pair) -> None:
    """Unknown topics, partitions and ids; nothing at all."""
    name = filled(pair, "there")
    for version in pair.versions(FetchRequest):
        pair.ask(asked(version, name, 0, partition=5), version)
        pair.ask(asked(version, name, 0, partition=-1), version)
        if version < VERSION_TOPIC_IDS:
            pair.ask(fetch(pair.name("unknown"), 0), version)
            pair.ask(fetch("", 0), version)
        else:
            pair.ask(fetch("", 0, topic_id=b"\x06" * 16), version)
            pair.ask(fetch("", 0, topic_id=bytes(16)), version)
        pair.ask(fetch("", 0, topics=[]), version)


def test_leader_epochs(pair: Pair) -> None:
    """A consumer that knows an older leader, or a newer one, than there is."""
    name = filled(pair, "epochs")
    for version in pair.versions(FetchRequest, first=VERSION_LEADER_EPOCHS):
        for epoch in (-1, 0, 1, 7):
            pair.case = f"epoch {epoch}"
            pair.ask(asked(version, name, 3, leader_epoch=epoch), version)
        if version >= VERSION_DIVERGENCE:
            for epoch, offset in ((0, 3), (0, 15), (0, 20), (1, 3), (5, 15), (5, 20), (0, -1)):
                pair.case = f"last fetched {epoch}, from {offset}"
                pair.ask(asked(version, name, offset, last_fetched_epoch=epoch), version)


def test_isolation_levels(pair: Pair) -> None:
    """Without transactions both levels read the same records; only one response lists aborted transactions, none
    here."""
    name = filled(pair, "isolated")
    for version in pair.versions(FetchRequest, first=4):
        for isolation in (0, 1):
            pair.ask(asked(version, name, 0, isolation=isolation), version)
            pair.ask(asked(version, name, 15, isolation=isolation), version)


def test_fetch_sessions(pair: Pair) -> None:
    """A session's response only contains changes; a request with a wrong epoch is refused."""
    for version in pair.versions(FetchRequest, first=VERSION_SESSIONS):
        name = create_topic(pair, pair.name(f"v{version}"), 3)
        by_id = version >= VERSION_TOPIC_IDS
        produce_all(pair, name, [batch(2)], partition=1)

        def topic(server: Server, offsets: dict[int, int], name: str = name, by_id: bool = by_id) -> FetchTopic:
            return FetchTopic(
                topic="" if by_id else name,
                topic_id=server.topic_ids[name] if by_id else bytes(16),
                partitions=[
                    FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
                    for index, offset in offsets.items()
                ],
            )

        def go_on(
            epoch: int,
            offsets: dict[int, int] | None = None,
            *,
            forget: list[int] | None = None,
            name: str = name,
            by_id: bool = by_id,
            version: int = version,
        ) -> None:
            def request(server: Server) -> FetchRequest:
                gone = ForgottenTopic(
                    topic="" if by_id else name,
                    topic_id=server.topic_ids[name] if by_id else bytes(16),
                    partitions=forget or [],
                )
                return fetch(
                    "",
                    0,
                    topics=[topic(server, offsets)] if offsets else [],
                    session=(server.kept["session"], epoch),
                    forgotten_topics_data=[gone] if forget else [],
                )

            pair.case = f"epoch {epoch} {offsets} {forget}"
            pair.ask(request, version)

        answers = pair.ask(
            lambda server, topic=topic: fetch("", 0, session=(0, 0), topics=[topic(server, {0: 0, 1: 0, 2: 0})]),
            version,
        )
        for each, answer in zip(pair.servers, answers, strict=True):
            each.kept["session"] = answer.session_id
        go_on(1)  # nothing new is requested: partitions with data still have it
        go_on(2, {1: 2})
        go_on(3)  # nothing new at all
        produce_all(pair, name, [batch(1)], partition=2)
        go_on(4)
        go_on(5, {2: 1})
        go_on(6, forget=[2])
        produce_all(pair, name, [batch(1)], partition=2)
        go_on(7)
        go_on(8, {0: 99})  # an error in the middle
        go_on(9)
        go_on(10, {0: 0, 7: 0})  # a partition that is not there
        go_on(12)  # an epoch was left out
        go_on(11)
        go_on(-1)  # the end
        go_on(12)
        pair.ask(lambda server, topic=topic: fetch("", 0, session=(77, 3), topics=[topic(server, {0: 0})]), version)
        pair.ask(lambda server, topic=topic: fetch("", 0, session=(77, 0), topics=[topic(server, {0: 0})]), version)
        pair.ask(lambda server, topic=topic: fetch("", 0, session=(77, -1), topics=[topic(server, {0: 0})]), version)


def test_sessions_of_nothing(pair: Pair) -> None:
    """A full fetch without partitions makes no session."""
    for version in pair.versions(FetchRequest, first=VERSION_SESSIONS):
        pair.ask(fetch("", 0, session=(0, 0), topics=[]), version)


def test_down_conversion(pair: Pair) -> None:
    """Readers of magic 0 and 1 get records written in magic 2: without headers, and with null keys and values."""
    name = create_topic(pair, pair.name("converted"))
    odd = [
        Record(0, TIME_MS, None, b"no key"),
        Record(1, TIME_MS + 5, b"k", None),
        Record(2, TIME_MS + 3, b"k", b"with headers", (("h", b"1"), ("h", None))),
        Record(3, TIME_MS - 7, b"", b""),
    ]
    produce_all(pair, name, [build(odd, codec) for codec in (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)])
    for version in pair.versions(FetchRequest, last=3):
        for offset in (0, 1, 4, 6, 9, 13, 15):
            pair.case = f"from {offset}"
            pair.ask(fetch(name, offset), version, repacked=True)


def test_zstd_for_old_readers(pair: Pair) -> None:
    """zstd came with Fetch v10: an older reader gets an error."""
    name = create_topic(pair, pair.name("zstd"))
    produce_all(pair, name, [batch(2), batch(3, Codec.ZSTD), batch(1)])
    for version in pair.versions(FetchRequest):
        for offset in (0, 2, 5):
            pair.case = f"from {offset}"
            pair.ask(asked(version, name, offset), version)


def test_fetch_waits_for_data(pair: Pair) -> None:
    """A waiting fetch responds when a record is written."""
    name = create_topic(pair, pair.name("waiting"))
    offset = 0
    for version in pair.versions(FetchRequest):
        had_to_wait = False
        while not had_to_wait:
            complaints = len(pair.complaints)
            pair.send(asked(version, name, offset, max_wait_ms=TIMEOUT_MS, min_bytes=1), version, on="waiting")
            produce_all(pair, name, [build(records(2))])
            kafka, _ = pair.receive(FetchRequest, version, on="waiting")
            offset += 2
            # If Kafka's fetch begins in the middle of the append, it returns the records with the old high watermark.
            # The start of the wait is not visible from outside, so such an attempt is not counted.
            had_to_wait = kafka.responses[0].partitions[0].high_watermark == offset
            if not had_to_wait:
                del pair.complaints[complaints:]
