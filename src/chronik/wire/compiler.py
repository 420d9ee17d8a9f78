"""From (message, version) to functions that read and write it, made on first use and kept.

    encode(ListOffsetsRequest(...), 4)        -> bytes
    decode(ListOffsetsRequest, 4, data)       -> ListOffsetsRequest
    encoder_of / decoder_of                   -> the bare functions, for hot paths

Reading raises MalformedMessage, writing raises Unencodable; nothing else comes out of either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from chronik.wire.decoding import make_decoder
from chronik.wire.encoding import make_encoder
from chronik.wire.errors import MalformedMessage, Unencodable
from chronik.wire.explain import explain
from chronik.wire.notation import Struct

M = TypeVar("M", bound=Struct)
Decoder = Callable[..., tuple[M, int]]
Encoder = Callable[[M, list[Any]], None]

_decoders: dict[tuple[type[Struct], int], Any] = {}
_encoders: dict[tuple[type[Struct], int], Any] = {}


def decoder_of(message: type[M], version: int) -> Decoder[M]:
    """`decode(buffer: memoryview, at=0, budget=None) -> (message, end)`. Bytes behind `end` are the caller's."""
    made: Decoder[M] | None = _decoders.get((message, version))
    if made is None:
        _require(message, version)
        made = _decoders[message, version] = make_decoder(message, version, explain)
    return made


def encoder_of(message: type[M], version: int) -> Encoder[M]:
    """`encode(message, parts)`: appends the bytes-like parts of the message to a list."""
    made: Encoder[M] | None = _encoders.get((message, version))
    if made is None:
        _require(message, version)
        made = _encoders[message, version] = make_encoder(message, version)
    return made


def decode(message: type[M], version: int, data: bytes | memoryview) -> M:
    """Reads a message that must fill `data` exactly."""
    made, end = decoder_of(message, version)(memoryview(data))
    if end != len(data):
        raise MalformedMessage(message.__name__, version, "end", end, f"{len(data) - end} bytes too many")
    return made


def encode(message: Struct, version: int) -> bytes:
    parts: list[Any] = []
    encoder_of(type(message), version)(message, parts)
    return b"".join(parts)


def _require(message: type[Struct], version: int) -> None:
    if version not in message.versions:
        raise Unencodable(f"{message.__name__} has no version {version}, only {message.versions}")
