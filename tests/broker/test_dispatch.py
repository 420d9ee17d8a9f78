"""From a frame to its handler and back: what is served, what cannot be answered, and how an answer is framed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chronik.broker.api import Api, Later
from chronik.broker.authorizer import AllowEverything
from chronik.broker.context import Context
from chronik.broker.dispatch import Dispatcher
from chronik.broker.errors import Unanswerable
from chronik.broker.metrics import Metrics
from chronik.broker.permissions import NOTHING
from chronik.broker.quotas.client_quotas import ClientQuotas
from chronik.broker.session import Session
from chronik.broker.settings import Settings
from chronik.broker.turns import Turns
from chronik.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from chronik.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from chronik.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from chronik.wire.notation import Versions
from chronik.wire.primitives import TAGS_MAX
from tests.broker.harness import NOW_MS, TestClock
from tests.broker.hostile import frame

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=3, member_id="m")
ANSWER_V4 = bytes.fromhex("0000000c 00000007 00 00000000 001b 00")  # size, correlation, tags, throttle, error, tags
ANSWER_V0 = bytes.fromhex("00000006 00000007 001b")

# As much of a connection as counting needs.
ASKER = SimpleNamespace(
    last_request_ns=NOW_MS * 1_000_000, hold_objects=lambda size_bytes: None, session=Session("PLAINTEXT", 1 << 20)
)


def dispatcher(handle: Callable[[Any, Context], Any]) -> Dispatcher:
    apis = [
        Api(0, "Produce", Versions.parse("3-13"), ProduceRequest, ProduceResponse, handle, "", NOTHING),
        Api(12, "Heartbeat", Versions.parse("0-4"), HeartbeatRequest, HeartbeatResponse, handle, "", NOTHING),
        Api(18, "ApiVersions", Versions.parse("0-4"), ApiVersionsRequest, ApiVersionsResponse, handle, "", NOTHING),
    ]
    clock = TestClock()
    quotas = ClientQuotas(clock, Settings.default(node_id=1))
    services = SimpleNamespace(
        metrics=Metrics(),
        runtime=SimpleNamespace(clock=clock),
        turns=Turns(clock),
        quotas=quotas,
        authorizer=AllowEverything(),
    )
    return Dispatcher(cast(Any, services), {each.key: each for each in apis})


def rebalancing(request: Any, context: Context) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=27)


def dispatch(handle: Callable[[Any, Context], Any], data: bytes) -> Any:
    return dispatcher(handle).answer(memoryview(bytearray(data)), cast(Any, ASKER))


def request(version: int) -> bytes:
    return frame(HEARTBEAT, version, 7)[4:]


def test_a_handler_gets_its_request_and_who_asks() -> None:
    seen: list[Any] = []

    def handle(asked: HeartbeatRequest, context: Context) -> HeartbeatResponse:
        seen.extend([asked.group_id, asked.generation_id, context.version, context.client_id])
        return HeartbeatResponse(error_code=0)

    dispatch(handle, request(4))
    assert seen == ["g", 3, 4, "hostile"]


@pytest.mark.parametrize(("version", "expected"), [(0, ANSWER_V0), (4, ANSWER_V4)])
def test_an_answer_is_framed_in_the_version_asked_for(version: int, expected: bytes) -> None:
    assert b"".join(dispatch(rebalancing, request(version))) == expected


def test_what_has_no_place_before_a_login_is_not_answered() -> None:
    stranger = SimpleNamespace(**vars(ASKER))
    stranger.session = Session("SASL_PLAINTEXT", 1 << 20, needs_login=True)
    with pytest.raises(Unanswerable, match="API key 12 is not served before anything was asked on SASL_PLAINTEXT"):
        dispatcher(rebalancing).answer(memoryview(bytearray(request(4))), cast(Any, stranger))


def test_a_handler_may_answer_later_in_three_ways() -> None:
    """A future, `Later` and a coroutine give the same bytes as an answer at once."""

    async def test() -> None:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def coroutine() -> HeartbeatResponse:
            return HeartbeatResponse(error_code=(await future).error_code)

        as_future = dispatch(lambda *_: future, request(0))
        as_later = dispatch(lambda *_: Later(future, lambda done: done.result()), request(0))
        as_coroutine = dispatch(lambda *_: coroutine(), request(0))
        future.set_result(HeartbeatResponse(error_code=27))
        for answer in (as_future, as_later):
            assert answer.later.future is future
            assert b"".join(answer.parts()) == ANSWER_V0
        assert b"".join(await as_coroutine) == ANSWER_V0

    asyncio.run(test())


def test_a_response_that_is_ready_is_sent_only_if_its_wait_brought_no_error() -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        done, failed = loop.create_future(), loop.create_future()
        done.set_result(None)
        failed.set_exception(OSError("the commit failed"))
        told = [Later(future, lambda future: repr(future.exception()).encode(), b"ready") for future in (done, failed)]
        assert [each.response() for each in told] == [b"ready", b"OSError('the commit failed')"]

    asyncio.run(test())


@pytest.mark.parametrize(("partition_count", "is_in_pieces"), [(1, False), (3_000, True)])
def test_a_large_request_is_read_in_pieces_only_if_it_has_many_elements(
    partition_count: int, is_in_pieces: bool
) -> None:
    """Producers send large frames all day, with the records of a few partitions in each. Only what is read in pieces
    is counted by its objects, which shows here which way it went."""
    counted: list[int] = []
    asked: list[int] = []
    partitions = [
        PartitionProduceData(index=n, records=bytes(100_000 // partition_count)) for n in range(partition_count)
    ]
    topic = TopicProduceData(name="t", topic_id=bytes(16), partition_data=partitions)
    data = frame(ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic]), 8, 7)[4:]

    def handle(request: ProduceRequest, context: Context) -> ProduceResponse:
        asked.append(len(request.topic_data[0].partition_data))
        return ProduceResponse(responses=[])

    async def test() -> None:
        asker = SimpleNamespace(**{**vars(ASKER), "hold_objects": counted.append}, hold_back=int, go_on=int)
        answer = dispatcher(handle).answer(memoryview(bytearray(data)), cast(Any, asker))
        if not isinstance(answer, list):
            await cast(Any, answer)

    asyncio.run(test())
    assert (asked, bool(counted)) == ([partition_count], is_in_pieces)


def test_none_sends_nothing() -> None:
    assert dispatch(lambda *_: None, request(4)) is None


GOOD = request(4)
FIXED = GOOD[:8]
TAGS_AT = 10 + len("hostile")  # where the header's tags begin in v4
UNANSWERABLE = {
    "nothing": b"",
    "half a header": GOOD[:9],
    "unknown key": b"\x03\xe7" + GOOD[2:],
    "version too new": GOOD[:2] + b"\x00\x05" + GOOD[4:],
    "version below zero": GOOD[:2] + b"\xff\xff" + GOOD[4:],
    "client id past the end": FIXED + b"\x7f\xff" + GOOD[10:],
    "client id not utf-8": FIXED + b"\x00\x02\xff\xfe" + GOOD[TAGS_AT:],
    "a tag past the end": GOOD[:TAGS_AT] + b"\x01\x00\x7f",
    "a tag without a size": GOOD[:TAGS_AT] + b"\x01\x00",
    "a number of tags that never ends": GOOD[:TAGS_AT] + b"\xff" * 12,
    "too many tags": GOOD[:TAGS_AT] + b"\x91\x4e" + bytes(2 * (TAGS_MAX + 1)) + GOOD[TAGS_AT + 1 :],
    "no body": GOOD[: TAGS_AT + 1],
    "half a body": GOOD[:-4],
}


@pytest.mark.parametrize("name", UNANSWERABLE)
def test_what_has_no_answer_says_why_and_reaches_no_handler(name: str) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("a handler was called")

    with pytest.raises(Unanswerable, match=r"\w{3}"):
        dispatch(never, UNANSWERABLE[name])


def test_header_tags_that_nobody_knows_are_skipped() -> None:
    """Also just as many as are allowed."""
    for tags in (b"\x00", b"\x02\x00\x01a\x05\x03abc", b"\x90\x4e" + bytes(2 * TAGS_MAX)):
        assert b"".join(dispatch(rebalancing, GOOD[:TAGS_AT] + tags + GOOD[TAGS_AT + 1 :])) == ANSWER_V4


def test_a_large_request_that_is_cut_off_is_refused() -> None:
    """The quick reader gives up without a reason, and the one in pieces says it."""
    topic = TopicProduceData(
        name="t", topic_id=bytes(16), partition_data=[PartitionProduceData(index=0, records=bytes(100_000))]
    )
    data = frame(ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic]), 8, 7)[4:]
    with pytest.raises(Unanswerable, match="ProduceRequest"):
        dispatch(rebalancing, data[:-1])


def test_every_prefix_of_a_request_is_refused() -> None:
    for end in range(len(GOOD)):
        with pytest.raises(Unanswerable):
            dispatch(rebalancing, GOOD[:end])


def test_a_newer_api_versions_reaches_its_handler_without_a_body() -> None:
    """Its body cannot be read; the answer is of version 0, which every client can read."""
    seen: list[Any] = []

    def handle(asked: Any, context: Context) -> ApiVersionsResponse:
        seen.extend([asked, context.version])
        return ApiVersionsResponse(error_code=35, api_keys=[])

    data = frame(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3, 7)[4:]
    answer = dispatch(handle, data[:2] + b"\x00\x63" + data[4:])
    assert seen == [None, 99]
    assert b"".join(answer) == bytes.fromhex("0000000a 00000007 0023 00000000")
