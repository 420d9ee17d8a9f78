"""Everything that reads bytes from a stranger, with valid inputs to start from.

A target takes bytes and either returns or raises Malformed. Anything else is a finding: another exception, a decoder
that takes too long, one that takes more memory than 16x its input + 1 MiB, or two readers that disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from random import Random
from typing import NamedTuple

from chronik.peer.http import AnswerReader
from chronik.runtime.pieces import at_once
from chronik.security.bearer_tokens import KeySet, TokenRules, read_key_set, verify
from chronik.security.errors import SecurityError
from chronik.wire.compiler import decoder_of, encode
from chronik.wire.errors import Malformed, MalformedMessage
from chronik.wire.explain import read_slowly
from chronik.wire.framing import FrameReader
from chronik.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from chronik.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from chronik.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from chronik.wire.notation import Response, Struct
from chronik.wire.oauthbearer import bearer_first, read_bearer_first
from chronik.wire.otlp import read_points
from chronik.wire.peer import Bounds, Peer
from chronik.wire.peer_errors import PeerError
from tests.broker.sasl.tokens import key_set, token_of
from tests.fuzz import targets_records
from tests.wire.brokers import api_versions, reply
from tests.wire.instances import Anything, all_messages, layout, make
from tests.wire.otlp_messages import gauge, metrics_data, point, total

RESPONSES = 3
OTLP_POINTS = 20
NOW_S = 1_700_000_000
KEYS = ("EdDSA", "EdDSA-two")  # the same bytes in every run


class Target(NamedTuple):
    name: str
    run: Callable[[bytes], object]
    seeds: Callable[[Random], bytes]  # a valid input


class Disagreement(AssertionError):
    """The compiled decoder and the slow one read the same bytes differently."""


def all_targets() -> Iterator[Target]:
    for name, message in all_messages().items():
        for version in message.versions:
            yield Target(
                f"{name} v{version}", partial(decode_both_ways, message, version), partial(valid, message, version)
            )
    yield Target("frames", read_frames, lambda random: b"\x00\x00\x00\x04" + random.randbytes(4))
    yield Target("responses", read_responses, valid_responses)
    yield Target("HTTP answers", read_http, valid_http)
    yield Target("OAUTHBEARER", read_bearer_first, lambda random: bearer_first("a.b.c", "al,ice", {"key": "value"}))
    yield Target("tokens", verify_token, lambda random: token_of(NOW_S, key=random.choice(KEYS)).encode())
    yield Target("JWKS", read_keys, lambda random: key_set(random.choice(KEYS)))
    yield Target("OTLP metrics", read_otlp, valid_otlp)
    for name, run in targets_records.TARGETS:
        yield Target(name, run, lambda random: random.choice(targets_records.SEEDS))


def read_otlp(data: bytes) -> object:
    return at_once(read_points(data, OTLP_POINTS))


def valid_otlp(random: Random) -> bytes:
    points = [point(random.random(), topic="t", partition=number) for number in range(random.randrange(OTLP_POINTS))]
    return metrics_data(gauge("a.b", *points), total("c", point(random.randrange(9))), rack="r")


def valid(message: type[Struct], version: int, random: Random) -> bytes:
    return encode(make(layout(message, version), Anything(random, tags=True)), version)


def decode_both_ways(message: type[Struct], version: int, data: bytes) -> object:
    """The fast decoder must accept and refuse exactly what the slow one does, and read the same from it."""
    view = memoryview(data)
    try:
        fast = decoder_of(message, version)(view)
    except MalformedMessage as refused:
        if refused.reason == "refused":
            raise Disagreement(f"{refused}: only the compiled decoder refuses") from None
        raise
    slow = read_slowly(message, version, view)
    if fast != slow and repr(fast) != repr(slow):  # a NaN is not equal to itself, but prints the same
        raise Disagreement(f"{message.__name__} v{version}: {fast} != {slow}")
    return fast


def read_http(data: bytes) -> object:
    """In pieces and as a whole: what was read must not depend on how it arrived."""
    outcomes: list[object] = []
    for step in (7, max(1, len(data))):
        reader = AnswerReader(1 << 16)
        try:
            for at in range(0, len(data), step):
                reader.feed(data[at : at + step])
            reader.end()
            outcomes.append(reader.answer)
        except Malformed as refused:
            outcomes.append(refused.reason)
    if outcomes[0] != outcomes[1]:
        raise Disagreement(f"{outcomes[0]} in pieces, {outcomes[1]} as a whole")
    return outcomes


def valid_http(random: Random) -> bytes:
    chunks = b'5\r\n{"key\r\n7;x=y\r\ns": []}\r\n0\r\nA: b\r\n\r\n'
    return random.choice(
        [
            b'HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{"keys": []}',
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks,
            b"HTTP/1.0 100 Continue\r\n\r\nHTTP/1.0 404 Not Found\r\nA:b\r\n\r\nno such page",
            b"HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n",
        ]
    )


@cache
def known_keys() -> KeySet:
    return read_key_set(key_set(*KEYS))


def verify_token(data: bytes) -> object:
    """A spoilt token is refused, or says what it said before: nobody but the issuer can sign."""
    try:
        found = verify(data.decode("ascii"), known_keys(), TokenRules(), NOW_S * 1000)
    except UnicodeDecodeError:
        return None
    except SecurityError as refused:
        return str(refused)
    if found.subject != "alice":
        raise Disagreement(f"a token of alice became one of {found.subject!r}")
    return found


def read_keys(data: bytes) -> object:
    try:
        return len(read_key_set(data))
    except SecurityError as refused:
        return str(refused)


def read_frames(data: bytes) -> object:
    return FrameReader(1 << 20).feed(data)


class _Patient:
    """A login that never ends by itself."""

    name = "PATIENT"

    def first(self) -> bytes:
        return b""

    def answer(self, challenge: bytes) -> bytes | None:
        return None if challenge == b"enough" else challenge


def read_responses(data: bytes) -> object:
    """A whole conversation as a client hears it: versions, a login, then responses to three requests."""
    peer = Peer(
        "broker", "fuzz", mechanism=_Patient(), bounds=Bounds(response_bytes_max=1 << 20, decode_bytes_max=1 << 22)
    )
    peer.begin()
    heard: list[object] = []
    at = 0
    try:
        for end in [*range(7, len(data), 7), len(data)]:
            heard += peer.feed(data[at:end])
            at = end
            peer.take_outgoing()
            if peer.is_ready and not peer.in_flight_count and len(heard) < RESPONSES:
                peer.send(ListGroupsRequest(), ListGroupsResponse)
    except PeerError as fault:
        peer.end(fault)
    return heard


def valid_responses(random: Random) -> bytes:
    served = {request.api_key: request.versions for request in (SaslHandshakeRequest, SaslAuthenticateRequest)}
    challenges = [b"again"] * random.randrange(3) + [b"enough"]
    told: list[tuple[Response, int]] = [
        (api_versions(served | {ListGroupsRequest.api_key: ListGroupsRequest.versions}), 4),
        (SaslHandshakeResponse(error_code=0, mechanisms=["PATIENT"]), 1),
        *((SaslAuthenticateResponse(error_code=0, error_message=None, auth_bytes=each), 2) for each in challenges),
        *((ListGroupsResponse(error_code=0, groups=[]), 5) for _ in range(RESPONSES)),
    ]
    return b"".join(reply(response, version, number) for number, (response, version) in enumerate(told))


REFUSALS = (Malformed,)
