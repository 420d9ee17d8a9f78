"""Creates functions that read and write a (message, version), on first use, and caches them.

    encode(ListOffsetsRequest(...), 4)        -> bytes
    decode(ListOffsetsRequest, 4, data)       -> ListOffsetsRequest
    encoder_of / decoder_of                   -> the bare functions, for hot paths
    pieces_encoder_of / pieces_decoder_of     -> generators, for messages that are too long to process without a pause
    brief_decoder_of                          -> the bare function, for messages that are mostly one long value

Reading raises only MalformedMessage, writing raises only Unencodable.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from chronik.wire.decoding import make_decoder
from chronik.wire.encoding import make_encoder
from chronik.wire.errors import MalformedMessage, Unencodable
from chronik.wire.explain import explain
from chronik.wire.notation import Struct

M = TypeVar("M", bound=Struct)
Decoder = Callable[..., tuple[M, int]]
Encoder = Callable[[M, list[Any]], None]
PiecesDecoder = Callable[..., Generator[int, None, tuple[M, int, int]]]
PiecesEncoder = Callable[[M, list[Any]], Generator[int, None, None]]

_decoders: dict[tuple[type[Struct], int], Any] = {}
_encoders: dict[tuple[type[Struct], int], Any] = {}
_brief_decoders: dict[tuple[type[Struct], int], Any] = {}
_pieces_decoders: dict[tuple[type[Struct], int], Any] = {}
_pieces_encoders: dict[tuple[type[Struct], int], Any] = {}


def decoder_of(message: type[M], version: int) -> Decoder[M]:
    """`decode(buffer: memoryview, at=0, budget=None) -> (message, end)`. The caller handles bytes after `end`."""
    made: Decoder[M] | None = _decoders.get((message, version))
    if made is None:
        _require(message, version)
        made = _decoders[message, version] = make_decoder(message, version, explain)
    return made


class TooMany(Exception):
    """A message with too many elements, or a malformed one."""


def brief_decoder_of(message: type[M], version: int) -> Decoder[M]:
    """Like `decoder_of`, but raises TooMany instead of explaining. With a small budget it stops before it has created
    many objects: such a message is then decoded in pieces."""
    made: Decoder[M] | None = _brief_decoders.get((message, version))
    if made is None:
        _require(message, version)
        made = _brief_decoders[message, version] = make_decoder(message, version, lambda *_: TooMany())
    return made


def encoder_of(message: type[M], version: int) -> Encoder[M]:
    """`encode(message, parts)`: appends the bytes-like parts of the message to a list."""
    made: Encoder[M] | None = _encoders.get((message, version))
    if made is None:
        _require(message, version)
        made = _encoders[message, version] = make_encoder(message, version)
    return made


def pieces_decoder_of(message: type[M], version: int) -> PiecesDecoder[M]:
    """Like `decoder_of`, but a generator that yields every few elements; returns (message, end, bytes of its
    objects)."""
    made: PiecesDecoder[M] | None = _pieces_decoders.get((message, version))
    if made is None:
        _require(message, version)
        made = _pieces_decoders[message, version] = make_decoder(message, version, explain, in_pieces=True)
    return made


def pieces_encoder_of(message: type[M], version: int) -> PiecesEncoder[M]:
    """Like `encoder_of`, but a generator that yields every few elements."""
    made: PiecesEncoder[M] | None = _pieces_encoders.get((message, version))
    if made is None:
        _require(message, version)
        made = _pieces_encoders[message, version] = make_encoder(message, version, in_pieces=True)
    return made


def decode(message: type[M], version: int, data: bytes | memoryview) -> M:
    """Decodes a message that must use all of `data`."""
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
