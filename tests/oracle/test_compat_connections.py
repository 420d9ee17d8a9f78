"""What arrives before, instead of, or around a good request: frames, headers, versions, handshakes."""

from __future__ import annotations

import struct

import pytest

from chronik.broker.api import served_apis
from chronik.wire.messages.api_versions import ApiVersionsRequest
from chronik.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.oracle.comparison import Pair

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("compat")]

SERVED = ("api_keys", "supported_features", "finalized_features", "finalized_features_epoch")
API_VERSIONS, METADATA, PRODUCE = 18, 3, 0
CLIENT_METRICS = (71, 72)  # which Kafka serves, and advertises only with a plugin that receives them


def header(key: int, version: int, *, client_id: bytes | None = b"me", flexible: bool = False) -> bytes:
    size = -1 if client_id is None else len(client_id)
    return struct.pack(">hhih", key, version, 7, size) + (client_id or b"") + (b"\x00" if flexible else b"")


def test_api_versions(pair: Pair) -> None:
    """Errors and shape are Kafka's; the list of APIs is what each of them serves."""
    for version in pair.versions(ApiVersionsRequest):
        good = ApiVersionsRequest(client_software_name="compat", client_software_version="1.0")
        pair.ask(good, version, erased=SERVED)
        _, chronik = pair.ask(good, version, differs="what-is-served")
        keys = [each.api_key for each in chronik.api_keys]
        known = {*pair.kafka_serves, *CLIENT_METRICS}
        pair.agree("keys are those that Kafka has", [], [key for key in keys if key not in known])
        if version >= 3:
            for name, number in (("", "1"), ("compat", ""), ("a b", "1"), ("-a", "1"), ("a", "1_0")):
                pair.case = f"{name!r} {number!r}"
                pair.ask(ApiVersionsRequest(client_software_name=name, client_software_version=number), version)


def test_api_versions_that_nobody_knows(pair: Pair) -> None:
    """The response is v0 with UNSUPPORTED_VERSION, so that a newer client learns the supported versions."""
    for version in (5, 99, 32767, -1):
        answers = []
        for server in pair.servers:
            server.send_frame(header(API_VERSIONS, version, flexible=True) + b"\x02a\x02b\x00", "raw")
            answers.append(server.receive_frame("raw")[:6])
        pair.agree(f"ApiVersions v{version}", *answers)


def test_versions_and_keys_that_are_not_served(pair: Pair) -> None:
    """There is no answer to give: the connection ends."""
    for key in served_apis():
        if key != API_VERSIONS:
            for version in (-1, 99):
                pair.case = f"key {key} v{version}"
                pair.ask_frame(header(key, version))
    for key in (-1, 4, 5, 6, 7, 999, 32767):
        pair.case = f"key {key}"
        pair.ask_frame(header(key, 0))


def test_frames_that_are_not_requests(pair: Pair) -> None:
    """Too short for a header, a truncated body, and one with extra bytes."""
    for pair.case, frame in {
        "empty": b"",
        "two bytes": b"\x00\x03",
        "half a header": header(METADATA, 1)[:9],
        "client id beyond the end": struct.pack(">hhih", METADATA, 1, 7, 100) + b"me",
        "no body": header(METADATA, 1),
        "body cut": header(METADATA, 1) + b"\x00\x00\x00\x01\x00\x05ab",
        "array too long": header(METADATA, 1) + b"\x7f\xff\xff\xff",
        "null array in v0": header(METADATA, 0) + b"\xff\xff\xff\xff",
        "acks only": header(PRODUCE, 3) + b"\xff\xff\xff\xff",
    }.items():
        pair.ask_frame(frame)
    negative = header(METADATA, 1) + b"\xff\xff\xff\xfe"
    pair.ask_frame(negative, differs="negative-lengths")
    bad_text = header(METADATA, 1) + b"\x00\x00\x00\x01\x00\x02\xc3\x28"
    pair.ask_frame(bad_text, differs="text-that-is-not-utf-8")


def test_null_client_ids(pair: Pair) -> None:
    """A client need not have a name."""
    for version in (1, 9, 12):
        body = b"\x00\x00\x00\x00" if version < 9 else b"\x01\x00\x00" if version < 11 else b"\x01\x00\x00\x00"
        if version == 9:
            body = b"\x01\x00\x00\x00\x00"
        pair.case = f"v{version}"
        frame = header(METADATA, version, client_id=None, flexible=version >= 9) + body
        answers = []
        for server in pair.servers:
            server.send_frame(frame, "raw")
            answers.append(len(server.receive_frame("raw")) > 4)
        pair.agree("both answer", *answers)


def test_sasl_handshakes_without_sasl(pair: Pair) -> None:
    """A listener without SASL has no mechanisms, and says that this is not the time."""
    for version in pair.versions(SaslHandshakeRequest):
        for mechanism in ("PLAIN", "SCRAM-SHA-256", ""):
            pair.case = mechanism
            pair.ask(SaslHandshakeRequest(mechanism=mechanism), version)
