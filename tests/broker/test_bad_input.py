"""Invalid bytes from clients of a complete node: they are refused, or the connection is closed with one line; others
are served."""

from __future__ import annotations

import asyncio
import gzip
import logging
from random import Random

import pytest

from chronik.broker import limits
from chronik.broker.api import served_apis
from chronik.wire.batches import CRC_COVERS_FROM
from chronik.wire.checksums import crc32c
from chronik.wire.compiler import encode
from chronik.wire.compression import Codec
from chronik.wire.error_codes import ErrorCode
from chronik.wire.framing import FIRST_GRANT_BYTES
from chronik.wire.headers import RequestHeader, request_header_version
from chronik.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from chronik.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from chronik.wire.messages.produce import ProduceResponse
from chronik.wire.notation import Struct
from tests.broker.hostile import Peer, World, batch, fetch_request, frame, produce_request, run, turns
from tests.fuzz.mutations import mutate
from tests.wire.instances import Anything, layout, make

CRC_AT = 17
TARGET = "target"  # of mutated requests, which may delete it
TLS_HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(range(200))
GARBAGE = {
    "http": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    "tls": TLS_HELLO,
    "ssh": b"SSH-2.0-OpenSSH_9.6\r\n",
    "negative size": b"\xff\xff\xff\xff",
    "huge size": b"\x7f\xff\xff\xff",
    "no bytes": b"\x00\x00\x00\x00",
    "shorter than a header": b"\x00\x00\x00\x03abc",
    "unknown key": b"\x00\x00\x00\x0a" + (999).to_bytes(2, "big") + bytes(8),
    "negative key": b"\x00\x00\x00\x0a\xff\xff" + bytes(8),
    "unknown version": b"\x00\x00\x00\x0a\x00\x03\x00\x63" + bytes(6),
    "negative version": b"\x00\x00\x00\x0a\x00\x03\xff\xff" + bytes(6),
    "client id past the end": b"\x00\x00\x00\x0a\x00\x03\x00\x00" + bytes(4) + b"\x7f\xff",
    "client id not utf-8": b"\x00\x00\x00\x0c\x00\x03\x00\x00" + bytes(4) + b"\x00\x02\xff\xfe",
    "body cut short": frame(MetadataRequest(topics=None), 12)[:-2],
    "header tags without end": b"\x00\x00\x00\x0f\x00\x03\x00\x0c" + bytes(4) + b"\xff\xff\xff\xff\xff\xff\x07",
}
GARBAGE["body cut short"] = (len(GARBAGE["body cut short"]) - 4).to_bytes(4, "big") + GARBAGE["body cut short"][4:]


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_closed_with_one_line(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """However the bytes are cut into reads, and whatever follows them."""

    async def test() -> None:
        world = await World.make()
        await world.create()
        caplog.clear()
        for count, feed in enumerate((GARBAGE[name], GARBAGE[name] + GARBAGE[name] * 50), 1):
            peer = Peer(world.node)
            peer.send(feed)
            await turns()
            assert peer.is_closed
            assert peer.received == b""
            assert len(caplog.records) == count, caplog.text
        peer = Peer(world.node)
        for byte in GARBAGE[name]:
            peer.send(bytes([byte]))
        await turns()
        assert peer.is_closed
        assert len(caplog.records) == 3
        await world.is_serving()
        assert len(world.node.connections) == 1
        await world.node.stop()

    with caplog.at_level(logging.INFO, logger="chronik"):
        run(test())


def test_random_bytes_never_hurt(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        world = await World.make()
        await world.create()
        random = Random(3)
        for _ in range(300):
            caplog.clear()
            peer = Peer(world.node)
            body = random.randbytes(random.randrange(1, 60))
            if random.random() < 0.7:  # a size that fits, and perhaps a key that is served
                if random.random() < 0.7:
                    key = random.choice(list(served_apis()))
                    body = key.to_bytes(2, "big") + random.randrange(14).to_bytes(2, "big") + body
                body = len(body).to_bytes(4, "big") + body
            peer.send(body)
            await turns()
            assert len(caplog.records) <= 1, caplog.text
            assert "internal error" not in caplog.text
            peer.hang_up()
        await turns()
        await world.is_serving()
        assert (world.node.memory.used_bytes, world.node.memory.small_bytes) == (0, 0)
        await world.node.stop()

    run(test())


def aim(request: Struct, random: Random, topic_id: bytes) -> None:
    """Makes about half of the names in a request exist, so that handlers get past their first check."""
    for field in type(request).fields:
        value = getattr(request, field.name, None)
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, Struct):
                aim(inner, random, topic_id)
        if random.random() < 0.5:
            if field.name in ("name", "topic", "topic_name", "resource_name") and isinstance(value, str):
                setattr(request, field.name, TARGET)
            elif field.name == "topic_id":
                setattr(request, field.name, topic_id)
            elif field.name in ("partition", "partition_index", "index") and isinstance(value, int):
                setattr(request, field.name, 0)
            elif field.name in ("topics", "partitions") and isinstance(value, list) and value:
                if isinstance(value[0], str):
                    value[0] = TARGET
                elif isinstance(value[0], int):
                    value[0] = 0


@pytest.mark.parametrize("name", [api.name for api in served_apis().values()])
def test_a_mutated_body_of_any_api_at_any_version_is_answered_or_closed(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Decodable or not, no request makes a handler raise: that would be an internal error in the log."""

    async def test() -> None:
        world = await World.make(auto_create_topics_enable=False)
        await world.create()
        await world.create(TARGET)
        (api,) = [api for api in served_apis().values() if api.name == name]
        topic_id = world.node.store.image.topic_named(TARGET).topic_id
        random = Random(name)
        for version in api.versions:
            for _ in range(12):
                request = make(layout(api.request, version), Anything(random, tags=True))
                aim(request, random, topic_id)
                other = encode(make(layout(api.request, version), Anything(random, tags=True)), version)
                header = RequestHeader(
                    request_api_key=api.key, request_api_version=version, correlation_id=7, client_id="fuzz"
                )
                body = encode(request, version)
                if random.random() < 0.8:
                    body = mutate(random, body, other)
                data = encode(header, request_header_version(api.request, version)) + body
                caplog.clear()
                peer = Peer(world.node)
                peer.send(len(data).to_bytes(4, "big") + data)
                await turns()
                assert "Traceback" not in caplog.text, f"v{version} {data.hex()}\n{caplog.text}"
                assert len([each for each in caplog.records if each.name == "chronik.broker.connection"]) <= 1
                assert set(peer.correlation_ids()) <= {7}
                assert peer.is_closed or peer.node_reads
                peer.hang_up()
        await turns()
        await world.is_serving()
        assert (world.node.memory.used_bytes, len(world.node.connections)) == (0, 1)
        await world.node.stop()

    run(test())


def test_a_newer_api_versions_is_answered_in_the_oldest_version() -> None:
    """Kafka's rule: this is how a newer client learns the supported versions."""

    async def test() -> None:
        world = await World.make()
        peer = Peer(world.node)
        data = frame(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3)
        peer.send(data[:6] + (99).to_bytes(2, "big") + data[8:])
        await turns()
        answer = peer.answer(0, ApiVersionsResponse, 0)
        assert answer.error_code == 35
        assert not peer.is_closed
        await world.node.stop()

    run(test())


def test_a_slow_loris_is_closed_and_its_memory_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    """A frame that was begun must be whole within its time, even if a byte comes now and then."""

    async def test() -> None:
        world = await World.make()
        await world.create()
        small, large, size_only = (Peer(world.node, host) for host in ("a", "b", "c"))
        caplog.clear()
        small.send(b"\x00\x00\x00\x20ab")
        large.send((50 << 20).to_bytes(4, "big") + b"abc")
        size_only.send(b"\x00")
        assert world.node.memory.used_bytes == FIRST_GRANT_BYTES, "of what is announced only the first part counts"
        for _ in range(limits.FRAME_SECONDS_MAX + 6):
            await asyncio.sleep(1)
            large.send(b"x")
        assert small.is_closed
        assert large.is_closed
        assert size_only.is_closed
        assert len(caplog.records) == 3
        assert caplog.text.count("not finished within") == 3
        assert world.node.memory.used_bytes == 0
        await world.is_serving()
        await world.node.stop()

    run(test())


def test_a_frame_that_waits_for_our_memory_is_not_taken_for_slow() -> None:
    """The node does not read, so closing the connection would punish a client for being second."""

    async def test() -> None:
        world = await World.make(chronik_memory_budget_bytes=16 << 20)
        await world.create(max_message_bytes=str(10 << 20))
        waiting = Peer(world.node, "b")
        data = frame(produce_request(batch(bytes(900_000))), 9)
        # Keeps the budget for longer than a frame may take.
        assert world.node.memory.take(16 << 20)
        waiting.send(data)
        assert not waiting.node_reads
        await asyncio.sleep(3 * limits.FRAME_SECONDS_MAX)
        assert not waiting.is_closed
        world.node.memory.give_back(16 << 20)
        await turns()
        assert waiting.answer(0, ProduceResponse, 9).responses[0].partition_responses[0].error_code == 0
        assert world.node.memory.used_bytes == 0
        await world.node.stop()

    run(test())


def test_idle_connections_are_closed(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        world = await World.make(connections_max_idle_ms=60_000)
        idle, busy = Peer(world.node), Peer(world.node)
        for n in range(70):
            busy.send(frame(MetadataRequest(topics=[]), 12, n))
            await asyncio.sleep(1)
        assert idle.is_closed
        assert not busy.is_closed
        assert "connections.max.idle.ms=60000" in caplog.text
        await world.node.stop()

    with caplog.at_level(logging.INFO, logger="chronik"):
        run(test())


def test_too_many_connections_are_refused_and_served_again_when_some_left(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        world = await World.make(max_connections=3)
        await world.create()
        caplog.clear()
        peers = [Peer(world.node) for _ in range(10)]
        await turns()
        assert [peer.is_closed for peer in peers] == [False, False, *[True] * 8]
        assert len(caplog.records) == 8
        peers[0].hang_up()
        await turns()
        late = Peer(world.node)
        late.send(frame(fetch_request(), 11))
        await turns()
        assert late.correlation_ids() == [1]
        await world.node.stop()

    run(test())


def test_thousands_of_pipelined_requests_are_all_answered_and_nobody_waits_for_them() -> None:
    async def test() -> None:
        world = await World.make()
        await world.create()
        peer = Peer(world.node)
        requests = [
            frame(produce_request(batch(b"%d" % n)), 9, n) if n % 2 else frame(MetadataRequest(topics=[]), 12, n)
            for n in range(4000)
        ]
        peer.send(b"".join(requests))
        assert len(peer.correlation_ids()) < 200
        await world.is_serving()
        for _ in range(4000):
            await turns(5)
            if len(peer.received) and peer.correlation_ids()[-1] == 3999:
                break
        assert peer.correlation_ids() == list(range(4000))
        assert (world.node.memory.used_bytes, world.node.memory.small_bytes) == (0, 0)
        await world.node.stop()

    run(test())


def test_clients_that_never_read_share_the_memory_budget() -> None:
    """A fetch is a hundred bytes and its answer may be 55 MB: a few consumers that hang must not take the node down."""

    async def test() -> None:
        budget_bytes, batch_bytes = 16 << 20, 900_000
        world = await World.make(**{"chronik.memory.budget.bytes": budget_bytes})
        await world.create()
        for _ in range(20):
            await world.produce(bytes(batch_bytes))
        hanging = [Peer(world.node) for _ in range(20)]
        for peer in hanging:
            peer.reads = False
            peer.send(frame(fetch_request(min_bytes=2), 11, 1))
        await turns()
        assert all(len(peer.frames()) == 1 for peer in hanging), "each gets one batch at least"
        unread_bytes = sum(peer.unread_bytes for peer in hanging)
        assert world.node.memory.unsent_bytes == unread_bytes
        assert unread_bytes < budget_bytes + len(hanging) * (batch_bytes + 1000)
        await world.is_serving()
        hanging[0].read_everything()
        for peer in hanging[1:]:
            peer.hang_up()
        await turns()
        assert world.node.memory.unsent_bytes == 0
        reader = Peer(world.node)
        reader.send(frame(fetch_request(min_bytes=2), 11, 2))
        await turns()
        assert len(reader.received) > 15 * batch_bytes, "there is room again"
        await world.node.stop()

    run(test())


def test_a_client_that_never_reads_costs_one_reply_above_the_mark() -> None:
    async def test() -> None:
        world = await World.make()
        await world.create()
        for _ in range(6):
            await world.produce(bytes(900_000))
        peer = Peer(world.node)
        peer.reads = False
        peer.send(b"".join(frame(fetch_request(min_bytes=2), 11, n) for n in range(500)))
        await turns(500)
        assert peer.unread_bytes_most <= limits.UNSENT_BYTES_HIGH + 6_000_000
        assert not peer.node_reads
        await world.is_serving()
        peer.hang_up()
        await turns()
        assert world.node.memory.small_bytes == 0
        await world.node.stop()

    run(test())


def _compressed(inner: bytes, codec: int) -> bytes:
    """A batch of one record with this data as its compressed part."""
    data = bytearray(batch(b"x"))
    data[61:] = inner
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    data[22] |= codec
    data[CRC_AT : CRC_AT + 4] = crc32c(bytes(data[CRC_COVERS_FROM:])).to_bytes(4, "big")
    return bytes(data)


BOMB = gzip.compress(bytes(200 << 20), 9)  # 200 MiB of zeros in 200 KiB


@pytest.mark.parametrize(
    "configs",
    [
        {"cleanup_policy": "compact"},
        {"message_timestamp_type": "LogAppendTime"},
        {"compression_type": "zstd"},
        {"compression_type": "uncompressed"},
    ],
    ids=str,
)
def test_a_decompression_bomb_is_refused_or_left_as_it_is(configs: dict[str, str]) -> None:
    """Code that decompresses a batch stops at a limit; other code does not decompress it."""

    async def test() -> None:
        world = await World.make()
        await world.create()
        await world.create("bombed", **configs)
        peer = Peer(world.node)
        peer.send(frame(produce_request(_compressed(BOMB, 1), topic="bombed"), 9))
        await turns(50)
        (result,) = peer.answer(0, ProduceResponse, 9).responses[0].partition_responses
        if "compression_type" in configs:
            assert result.error_code != 0
        await world.is_serving()
        old = Peer(world.node)  # makes the node decompress what it has stored
        old.send(frame(fetch_request(topic="bombed"), 1))
        await turns(50)
        assert not old.is_closed
        await world.is_serving()
        await world.node.stop()

    run(test())


def test_a_request_of_very_many_elements_is_refused_before_it_is_decoded(caplog: pytest.LogCaptureFixture) -> None:
    """Two megabytes of empty names would be a million objects, and several seconds in which no other client is
    served."""

    async def test() -> None:
        world = await World.make()
        await world.create()
        caplog.clear()
        many = [MetadataRequestTopic(name=f"topic-number-{n:010}") for n in range(20_000)]
        names = MetadataRequest(topics=many, allow_auto_topic_creation=False)
        served, refused = Peer(world.node), Peer(world.node)
        served.send(frame(names, 4))
        await turns(200)  # it is read and answered in pieces
        assert len(served.frames()) == 1
        names.topics = [MetadataRequestTopic(name="")] * 999_999
        refused.send(frame(names, 4))
        await turns()
        assert refused.is_closed
        assert len(caplog.records) == 1
        await world.is_serving()
        await world.node.stop()

    run(test())


def test_a_batch_that_is_taken_apart_is_not_overtaken_by_later_ones() -> None:
    """It is taken apart away from the loop; a producer with five requests in flight must still find its order."""

    async def test() -> None:
        world = await World.make()
        await world.create("compacted", cleanup_policy="compact")
        compressed, plain = (batch(b"v", key=b"k", codec=codec) for codec in (Codec.GZIP, Codec.NONE))
        peer, other = Peer(world.node), Peer(world.node)
        sent = [compressed, plain, compressed, plain]
        peer.send(b"".join(frame(produce_request(each, topic="compacted"), 9, n) for n, each in enumerate(sent)))
        other.send(frame(produce_request(plain, topic="compacted"), 9, 9))
        await turns(50)
        answers = [peer.answer(n, ProduceResponse, 9).responses[0].partition_responses[0] for n in range(4)]
        assert [answer.error_code for answer in answers] == [0] * 4
        offsets = [answer.base_offset for answer in answers]
        assert offsets == sorted(offsets)
        assert other.correlation_ids() == [9], "only its own connection waits"
        refused = Peer(world.node)
        refused.send(frame(produce_request(batch(b"v", codec=Codec.GZIP), topic="compacted"), 9))
        await turns(50)
        (answer,) = refused.answer(0, ProduceResponse, 9).responses[0].partition_responses
        assert (answer.error_code, len(answer.record_errors)) == (ErrorCode.INVALID_RECORD, 1)
        await world.node.stop()

    run(test())


def test_huge_counts_cost_no_memory(caplog: pytest.LogCaptureFixture) -> None:
    """A count is checked against the bytes that are there before anything is made of it."""

    async def test() -> None:
        world = await World.make()
        await world.create()
        header = frame(MetadataRequest(topics=[]), 1)[4:-4]
        for count in (0x7FFFFFFF, 1_000_001, 60_000_000):
            caplog.clear()
            peer = Peer(world.node)
            body = header + count.to_bytes(4, "big") + bytes(100_000)
            peer.send(len(body).to_bytes(4, "big") + body)
            await turns()
            assert peer.is_closed
            assert len(caplog.records) == 1
        await world.is_serving()
        await world.node.stop()

    run(test())


def test_frames_that_are_only_announced_take_no_memory_from_others() -> None:
    """Two hundred connections each announce 100 MB and send a little. A large batch of another client is accepted, even
    from the same address, because memory is granted as bytes arrive."""

    async def test() -> None:
        world = await World.make(memory_budget_bytes=256 << 20)
        await world.create(max_message_bytes=str(4 << 20))
        liars = [Peer(world.node, "127.0.0.1") for _ in range(200)]
        for liar in liars:
            liar.send((100 << 20).to_bytes(4, "big") + bytes(65_000))
        assert (await asyncio.wait_for(world.produce(bytes(2 << 20)), 5)).error_code == 0
        await world.node.stop()

    run(test())


def test_frames_of_one_address_leave_memory_for_those_of_others() -> None:
    """An address that uses its whole share waits for itself; clients with other addresses are served."""

    async def test() -> None:
        world = await World.make(memory_budget_bytes=32 << 20)
        await world.create(max_message_bytes=str(4 << 20))
        hostile = [Peer(world.node, "10.6.6.6") for _ in range(100)]
        for peer in hostile:
            peer.send((100 << 20).to_bytes(4, "big") + bytes(1 << 20))
        assert world.node.memory.used_bytes <= (16 << 20) + (100 << 20)
        assert (await asyncio.wait_for(world.produce(bytes(2 << 20)), 5)).error_code == 0
        assert world.node.memory.used_bytes <= (16 << 20) + (100 << 20)
        for peer in hostile:
            peer.hang_up()
        await turns()
        assert world.node.memory.used_bytes == 0
        await world.is_serving()
        await world.node.stop()

    run(test())


def test_large_frames_of_which_none_fits_are_served_one_after_the_other() -> None:
    """Each of them has begun and holds memory that another one needs: without an exception they would wait forever."""

    async def test() -> None:
        world = await World.make(memory_budget_bytes=16 << 20)
        await world.create(max_message_bytes=str(16 << 20))
        data = frame(produce_request(batch(bytes(10 << 20))), 9)
        peers = [Peer(world.node, f"10.0.0.{n}") for n in range(10)]
        for start in range(0, len(data), 1 << 19):
            for peer in peers:
                peer.send(data[start : start + (1 << 19)])
            assert world.node.memory.used_bytes <= (16 << 20) + len(data)
        while not all(peer.frames() for peer in peers):
            await asyncio.sleep(0.01)
        assert world.node.memory.used_bytes == 0
        await world.node.stop()

    run(test())


def test_who_does_not_read_is_closed_when_others_need_the_memory() -> None:
    """A consumer may be slow, but not at the expense of all other clients."""

    async def test(budget_bytes: int, *, is_closed: bool) -> None:
        world = await World.make(memory_budget_bytes=budget_bytes)
        await world.create()
        for _ in range(20):
            await world.produce(bytes(900_000))
        reader = Peer(world.node, "10.0.0.7")
        reader.reads = False
        reader.send(frame(fetch_request(min_bytes=2, max_bytes=1 << 26), 11))
        await turns()
        assert world.node.memory.unsent_bytes > 14 << 20
        await asyncio.sleep(limits.UNREAD_SECONDS_MAX - 1)
        assert not reader.is_closed
        await asyncio.sleep(10)
        assert reader.is_closed is is_closed
        assert (world.node.memory.unsent_bytes == 0) is is_closed
        await world.node.stop()

    run(test(16 << 20, is_closed=True))
    run(test(1 << 30, is_closed=False))
