"""The same request to a real Kafka and to Chronik, and their answers side by side.

    pair.ask(MetadataRequest(topics=None), 12)          both are asked; the answers must be equal, byte by byte
    pair.ask(lambda server: ..., 12)                    a request with what that server gave out: ids, epochs
    pair.ask(..., 5, differs="whole-batches")       they must differ, for the reason that the product documents

An answer is decoded by our own wire layer, must be the same bytes when encoded again (so nothing was lost in reading
it), is masked as `masks` says, and is encoded once more: those are the bytes that are compared. A scenario continues
after a difference and fails at its end with all of them.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from chronik.broker.api import served_apis
from chronik.broker.compatibility import DIFFERENCES
from chronik.wire.compiler import decode, decoder_of, encode
from chronik.wire.headers import RequestHeader, ResponseHeader, request_header_version, response_header_version
from chronik.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from chronik.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from chronik.wire.notation import Request, Response, Struct, Versions
from tests.oracle.masks import Names, masked

CLIENT_ID = "compat"
ANSWER_S_MAX = 10  # far above any time-out that a scenario gives a server
UNSAFE_DOWNGRADE = 3  # of a feature
SHOWN_MAX = 12  # differing fields of one answer
SHOWN_CHARACTERS_MAX = 200  # of one value

Asked = Request | Callable[["Server"], Request]


class Closed(Exception):
    """The server closed the connection instead of answering."""


@dataclass(frozen=True)
class Answer:
    message: Any
    body: bytes


CLOSED = Answer(None, b"")  # no answer: the connection ended


class Server:
    """One of the two servers, with its connections and the names of the values that it generated."""

    def __init__(self, name: str, port: int) -> None:
        self.name = name
        self.port = port
        self.names = Names(port)
        self.topic_ids: dict[str, bytes] = {}
        self.kept: dict[str, Any] = {}  # values that a scenario sends back to this server
        self._sockets: dict[str, socket.socket] = {}
        self._correlation_id = 0

    def send(self, request: Request, version: int, on: str = "first") -> None:
        self._correlation_id += 1
        header = RequestHeader(
            request_api_key=request.api_key,
            request_api_version=version,
            correlation_id=self._correlation_id,
            client_id=CLIENT_ID,
        )
        head = encode(header, request_header_version(type(request), version))
        self.send_frame(head + encode(request, version), on)

    def send_frame(self, frame: bytes, on: str = "first") -> None:
        # A connection that has ended says so when its answer is read.
        with suppress(BrokenPipeError, ConnectionResetError):
            self._socket(on).sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self, response: type[Response], version: int, on: str = "first") -> Answer:
        frame = self.receive_frame(on)
        header_version = response_header_version(response, version)
        header, at = decoder_of(ResponseHeader, header_version)(memoryview(frame))
        assert header.correlation_id <= self._correlation_id
        body = frame[at:]
        message = decode(response, version, body)
        assert encode(message, version) == body, f"our wire layer does not give back the bytes of {self.name}"
        return Answer(message, body)

    def receive_frame(self, on: str = "first") -> bytes:
        (size,) = struct.unpack(">i", self._read(4, on))
        return self._read(size, on)

    def close(self, on: str) -> None:
        if on in self._sockets:
            self._sockets.pop(on).close()

    def close_all(self) -> None:
        for on in list(self._sockets):
            self.close(on)

    def _socket(self, on: str) -> socket.socket:
        if on not in self._sockets:
            self._sockets[on] = socket.create_connection(("127.0.0.1", self.port), timeout=ANSWER_S_MAX)
            self._sockets[on].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._sockets[on]

    def _read(self, count: int, on: str) -> bytes:
        data = b""
        while len(data) < count:
            try:
                more = self._socket(on).recv(count - len(data))
            except ConnectionResetError:
                more = b""
            if not more:
                self.close(on)
                raise Closed(self.name)
            data += more
        return data


@dataclass
class Pair:
    """A Kafka and a Chronik of their own, told the same from the start."""

    kafka: Server
    chronik: Server
    release: str
    kafka_serves: dict[int, Versions]
    newer_serves: dict[int, Versions]  # versions that are compared with a newer Kafka instead
    features: dict[str, int] = field(default_factory=dict)  # that both have at the same level
    prefix: str = ""
    case: str = ""  # the current step of a scenario, for error messages
    compared: int = 0
    complaints: list[str] = field(default_factory=list)
    differences_seen: set[str] = field(default_factory=set)

    @property
    def servers(self) -> tuple[Server, Server]:
        return self.kafka, self.chronik

    def name(self, suffix: str = "t") -> str:
        """A name for a topic or group, new in this test and the same on both servers."""
        return f"{self.prefix}.{suffix}"

    def versions(self, request: type[Request], first: int = 0, last: int = 99) -> list[int]:
        """What both serve and no newer Kafka answers for."""
        ours = served_apis()[request.api_key].versions
        kafkas = self.kafka_serves.get(request.api_key, Versions(1, 0))
        newer = self.newer_serves.get(request.api_key, Versions(1, 0))
        return [v for v in ours if v in kafkas and v not in newer and first <= v <= last]

    def served(self, request: type[Request]) -> list[int]:
        """What both serve, also if a newer Kafka answers for it: releases may differ in more than versions."""
        kafkas = self.kafka_serves.get(request.api_key, Versions(1, 0))
        return [v for v in served_apis()[request.api_key].versions if v in kafkas]

    def set_feature(self, name: str) -> None:
        """Chronik's level of a feature becomes the one that this Kafka has finalized; 0 if it does not know it."""
        self.features[name] = level = _finalized(self.kafka).get(name, 0)
        update = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=UNSAFE_DOWNGRADE)
        if _finalized(self.chronik).get(name, 0) != level:
            self.chronik.send(UpdateFeaturesRequest(feature_updates=[update]), 1)
            answer = self.chronik.receive(UpdateFeaturesResponse, 1).message
            assert answer.error_code == 0, f"{name} cannot be {level}: {answer.error_message}"

    def ask(self, asked: Asked, version: int, *, on: str = "first", **how: Any) -> tuple[Any, Any]:
        """Both answers, Kafka's first, compared."""
        self.send(asked, version, on=on)
        return self.receive(_type_of(asked, self.kafka), version, on=on, **how)

    def ask_until_equal(self, asked: Asked, version: int, **how: Any) -> None:
        """Like `ask`, for data that Kafka's broker learns later than its controller: repeated while the answers
        differ."""
        end = time.monotonic() + ANSWER_S_MAX
        while True:
            complaints = len(self.complaints)
            self.ask(asked, version, **how)
            if len(self.complaints) == complaints or time.monotonic() > end:
                return
            del self.complaints[complaints:]
            self.compared -= 1

    def do(self, asked: Asked, version: int, *, on: str = "first") -> tuple[Any, Any]:
        """Asks both without comparing: the setup of a later comparison."""
        self.send(asked, version, on=on)
        response = served_apis()[_type_of(asked, self.kafka).api_key].response
        kafka, chronik = (server.receive(response, version, on).message for server in self.servers)
        return kafka, chronik

    def send(self, asked: Asked, version: int, *, on: str = "first") -> None:
        for server in self.servers:
            server.send(_request(asked, server), version, on)

    def receive(
        self,
        request: type[Request],
        version: int,
        *,
        on: str = "first",
        differs: str | None = None,
        **mask: Any,
    ) -> tuple[Any, Any]:
        response = served_apis()[request.api_key].response
        answers = [_answer_of(server, response, version, on) for server in self.servers]
        shown = [
            masked(answer.message, server.names, **mask) for answer, server in zip(answers, self.servers, strict=True)
        ]
        equal = _bytes_of(shown[0], version) == _bytes_of(shown[1], version)
        self._judge(f"{request.__name__} v{version}", equal, differs, lambda: differences(shown[0], shown[1]))
        return answers[0].message, answers[1].message

    def ask_frame(self, frame: bytes, *, on: str = "raw", differs: str | None = None) -> None:
        """A frame as it is; both must answer the same bytes, or both close the connection."""
        answers = []
        for server in self.servers:
            try:
                server.send_frame(frame, on)
                answers.append(server.receive_frame(on))
            except Closed:
                answers.append(b"closed")
            server.close(on)
        lines = [f"kafka {answers[0].hex(' ')}", f"chronik {answers[1].hex(' ')}"]
        self._judge(f"frame {frame[:24].hex(' ')}", answers[0] == answers[1], differs, lambda: lines)

    def agree(self, what: str, kafka: object, chronik: object) -> None:
        """For values that are not answers, or only parts of one."""
        self._judge(what, kafka == chronik, None, lambda: [f"kafka {kafka!r}, chronik {chronik!r}"])

    def settle(self) -> None:
        """The end of a scenario: fails with every difference there was."""
        complaints, self.complaints = self.complaints, []
        assert not complaints, f"{len(complaints)} answers differ:\n" + "\n".join(complaints)

    def _judge(self, what: str, equal: bool, differs: str | None, why: Callable[[], Sequence[str]]) -> None:
        self.compared += 1
        if differs is not None:
            assert differs in DIFFERENCES, f"{differs} is not in chronik.broker.compatibility"
            self.differences_seen.add(differs)
            if equal:
                self.complaints.append(f"{what}: no difference any more, so {differs} is documented in vain")
        elif not equal:
            lines = list(why())
            more = [f"and {len(lines) - SHOWN_MAX} more"] if len(lines) > SHOWN_MAX else []
            self.complaints.append(
                "\n    ".join([f"{what} (Kafka {self.release}) {self.case}", *lines[:SHOWN_MAX], *more])
            )


def _answer_of(server: Server, response: type[Response], version: int, on: str) -> Answer:
    try:
        return server.receive(response, version, on)
    except Closed:
        return CLOSED


def _bytes_of(message: Any, version: int) -> bytes | None:
    return None if message is None else encode(message, version)


def _request(asked: Asked, server: Server) -> Request:
    return asked if isinstance(asked, Request) else asked(server)


def _type_of(asked: Asked, server: Server) -> type[Request]:
    return type(_request(asked, server))


def differences(kafka: Any, chronik: Any, path: str = "") -> Iterator[str]:
    """Every field in which two masked answers differ, by its path."""
    if isinstance(kafka, Struct) and type(kafka) is type(chronik):
        for each in type(kafka).fields:
            yield from differences(getattr(kafka, each.name), getattr(chronik, each.name), f"{path}.{each.name}")
    elif isinstance(kafka, list) and isinstance(chronik, list):
        if len(kafka) != len(chronik):
            yield f"{path}: kafka has {len(kafka)}, chronik {len(chronik)}: {_short(kafka)} | {_short(chronik)}"
        for index, (one, other) in enumerate(zip(kafka, chronik, strict=False)):
            yield from differences(one, other, f"{path}[{index}]")
    elif isinstance(kafka, bytes) and isinstance(chronik, bytes) and kafka != chronik:
        at = next((i for i, (a, b) in enumerate(zip(kafka, chronik, strict=False)) if a != b), len(chronik))
        at = min(at, len(kafka))
        sizes = f"{len(kafka)} and {len(chronik)} bytes, from byte {at}"
        yield f"{path}: {sizes}: kafka {_short(kafka[at:])}, chronik {_short(chronik[at:])}"
    elif kafka != chronik:
        yield f"{path}: kafka {_short(kafka)}, chronik {_short(chronik)}"


def _short(value: object) -> str:
    text = value.hex(" ") if isinstance(value, bytes) else repr(value)
    return text if len(text) < SHOWN_CHARACTERS_MAX else f"{text[:SHOWN_CHARACTERS_MAX]}..."


def _finalized(server: Server) -> dict[str, int]:
    server.send(ApiVersionsRequest(client_software_name="compat", client_software_version="1"), 3)
    answer = server.receive(ApiVersionsResponse, 3).message
    return {each.name: each.max_version_level for each in answer.finalized_features}


def ask_versions(server: Server) -> dict[int, Versions]:
    """The versions that a server reports."""
    server.send(ApiVersionsRequest(client_software_name="compat", client_software_version="1"), 3)
    answer = server.receive(ApiVersionsResponse, 3).message
    return {each.api_key: Versions(each.min_version, each.max_version) for each in answer.api_keys}
