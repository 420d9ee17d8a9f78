"""TLS between a socket's asyncio transport and a protocol that knows nothing of it, by OpenSSL and two buffers.

It replaces the event loop's own TLS because a broker needs more: rate-limited handshakes (`tls_handshakes`), explained
failures, shared records for responses of one loop iteration (`tls_sends`), full records for large ones, and a buffer
size that counts every unsent byte. Works with asyncio and uvloop alike.

Order: bytes of one transport leave in the order given. A protocol is created and gets `connection_made` when the
handshake is done, never before. TLS has no half-close: the end of the peer's data ends the connection.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, cast

from chronik.runtime.errors import TlsFailed
from chronik.runtime.interfaces import Buffer
from chronik.runtime.tls_contexts import in_words
from chronik.runtime.tls_names import subject_of_der

RECORD_BYTES: Final = 16 * 1024  # maximum payload of a TLS record
READ_BYTES: Final = 256 * 1024  # of ciphertext at a time
HANDSHAKE: Final = 0x16  # first byte of a handshake record
HELLO_BYTES_MAX: Final = 64 * 1024  # before the handshake is done; a long chain of certificates has 10 KB

TOO_LONG: Final = f"its handshake has more than {HELLO_BYTES_MAX} bytes"
NOT_TLS: Final = "it does not speak TLS: set security.protocol=SSL at the client, or use a PLAINTEXT listener"


class TlsTransport(asyncio.Transport):
    """The transport of a secured connection, as its protocol sees it."""

    def __init__(self, layer: TlsLayer) -> None:
        super().__init__()
        self._layer = layer
        self.raw = layer.raw
        self.joined: list[Buffer] = []  # data that `tls_sends` buffers until the loop iteration ends
        self.joined_bytes = 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._layer.info.get(name) or self.raw.get_extra_info(name, default)

    # Writing

    def write(self, data: Buffer) -> None:
        if self._layer.is_open and data:
            self.raw.write(self._layer.encrypt([data]))

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        if self._layer.is_open:
            self.raw.write(self._layer.encrypt(list(list_of_data)))

    def take_joined(self) -> bytes:
        """The buffered data, as ciphertext."""
        joined, self.joined, self.joined_bytes = self.joined, [], 0
        return self._layer.encrypt(joined) if self._layer.is_open else b""

    def get_write_buffer_size(self) -> int:
        return self.raw.get_write_buffer_size() + self.joined_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.raw.set_write_buffer_limits(high, low)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self.raw.get_write_buffer_limits()

    def can_write_eof(self) -> bool:
        return False

    def write_eof(self) -> None:
        raise NotImplementedError("TLS has no half-close")

    # Reading

    def pause_reading(self) -> None:
        self._layer.pause()

    def resume_reading(self) -> None:
        self._layer.resume()

    def is_reading(self) -> bool:
        return self._layer.is_reading and not self.is_closing()

    # Ending

    def close(self) -> None:
        self._layer.close()

    def abort(self) -> None:
        self._layer.end()
        self.raw.abort()

    def is_closing(self) -> bool:
        return not self._layer.is_open or self.raw.is_closing()

    def get_protocol(self) -> asyncio.BaseProtocol:
        return cast(asyncio.BaseProtocol, self._layer.protocol)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._layer.protocol = protocol


class TlsLayer(asyncio.BufferedProtocol):
    """The socket's protocol. Subclasses define how the handshake starts and what happens at its end."""

    raw: asyncio.Transport

    def __init__(self, factory: Callable[[], asyncio.BaseProtocol], scratch: memoryview) -> None:
        """`scratch` is the receive buffer for ciphertext. All connections of one event loop share it: its data is
        consumed before the next socket is read."""
        self._factory = factory
        self._scratch = scratch
        self.protocol: asyncio.BaseProtocol | None = None  # set when the handshake ends
        self.transport: TlsTransport | None = None  # set when the handshake ends
        self.is_open = False  # from the end of the handshake until either side ends it
        self.is_reading = True  # as requested by the protocol
        self.info: dict[str, Any] = {}
        self._tls: ssl.SSLObject | None = None
        self._arriving = ssl.MemoryBIO()
        self._leaving = ssl.MemoryBIO()
        self._read_is_due = False
        self._has_ended = False  # the peer has closed its side
        self._fault: Exception | None = None  # the error that ended the connection

    # --- the handshake

    def wrap(self, context: ssl.SSLContext, *, is_server: bool, host: str | None = None) -> None:
        self._tls = context.wrap_bio(self._arriving, self._leaving, server_side=is_server, server_hostname=host)

    def shake(self) -> None:
        """Advances the handshake with the received data."""
        assert self._tls is not None
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send_pending()
            return
        except (ssl.SSLError, ssl.CertificateError) as error:
            self._send_pending()  # the alert with the reason
            self.failed(in_words(error))
            return
        self._send_pending()
        self._open()

    def _open(self) -> None:
        assert self._tls is not None
        der = self._tls.getpeercert(binary_form=True)
        self.info = {"sslcontext": self._tls.context, "tls_subject": subject_of_der(der) if der else None}
        self.is_open = True
        self.transport = TlsTransport(self)
        self.protocol = self._factory()
        self.shaken()
        self.protocol.connection_made(self.transport)
        self._read()

    def shaken(self) -> None:
        """The handshake is done."""

    def failed(self, reason: str) -> None:
        """The handshake failed, and the connection is closed."""
        raise NotImplementedError

    def _send_pending(self) -> None:
        if self._leaving.pending and not self.raw.is_closing():
            self.raw.write(self._leaving.read())

    # --- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.raw = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._scratch

    def buffer_updated(self, nbytes: int) -> None:
        self._arriving.write(self._scratch[:nbytes])
        if self.is_open:
            if self.is_reading:
                self._read()
        elif self.transport is None:
            self.arrived()

    def arrived(self) -> None:
        """More handshake data has arrived."""
        self.shake()
        if self.transport is None and self._arriving.pending > HELLO_BYTES_MAX:
            self.failed(TOO_LONG)

    def eof_received(self) -> None:
        if self.is_open:
            self._eof()
        elif self.transport is None:
            self.failed("it hung up during the handshake")

    def connection_lost(self, exc: Exception | None) -> None:
        was_made = self.transport is not None
        self.end()
        if was_made:
            assert self.protocol is not None
            self.protocol.connection_lost(self._fault or exc)
        else:
            self.failed(str(exc) if exc is not None else "it hung up during the handshake")

    def pause_writing(self) -> None:
        if self.protocol is not None:
            self.protocol.pause_writing()

    def resume_writing(self) -> None:
        if self.protocol is not None:
            self.protocol.resume_writing()

    # --- reading

    def pause(self) -> None:
        if self.is_reading:
            self.is_reading = False
            self.raw.pause_reading()

    def resume(self) -> None:
        if not self.is_reading:
            self.is_reading = True
            if not self._read_is_due:  # data decrypted before the pause comes first, but not within this call
                self._read_is_due = True
                asyncio.get_running_loop().call_soon(self._read_on)

    def _read_on(self) -> None:
        self._read_is_due = False
        if self.is_open and self.is_reading:
            self._read()
            self._read_socket()

    def _read_socket(self) -> None:
        if self.is_reading and self.is_open and not self.raw.is_closing():
            self.raw.resume_reading()

    def _read(self) -> None:
        """Passes decrypted data on, as long as the protocol reads."""
        try:
            if isinstance(self.protocol, asyncio.BufferedProtocol):
                self._fill(self.protocol)
            else:
                self._hand_over(cast(asyncio.Protocol, self.protocol))
        except ssl.SSLWantReadError:
            if self._leaving.pending:  # for example a response to a key update
                self._send_pending()
        except ssl.SSLZeroReturnError:
            self._eof()
        except ssl.SSLError as error:
            self._fault = TlsFailed(in_words(error))
            self._send_pending()
            self.end()
            self.raw.abort()

    def _fill(self, protocol: asyncio.BufferedProtocol) -> None:
        """Fills the protocol's own buffer with as many records as fit, before one notification."""
        assert self._tls is not None
        read, pending, arriving = self._tls.read, self._tls.pending, self._arriving
        while self.is_open and self.is_reading and (arriving.pending or pending()):
            room = cast(memoryview, protocol.get_buffer(-1))
            size_bytes = len(room)
            filled = 0
            try:
                filled = cast(int, read(size_bytes, room))
                if not filled:
                    raise ssl.SSLZeroReturnError
                # A fruitless read costs an exception, which is more than a small record does.
                while filled < size_bytes and (arriving.pending or pending()):
                    count = cast(int, read(size_bytes - filled, room[filled:]))
                    if not count:
                        raise ssl.SSLZeroReturnError
                    filled += count
            finally:
                if filled:
                    protocol.buffer_updated(filled)

    def _hand_over(self, protocol: asyncio.Protocol) -> None:
        assert self._tls is not None
        while self.is_open and self.is_reading:
            data = self._tls.read(RECORD_BYTES)
            if not data:
                raise ssl.SSLZeroReturnError
            protocol.data_received(data)

    def _eof(self) -> None:
        if not self._has_ended and self.is_open:
            self._has_ended = True
            cast(asyncio.Protocol, self.protocol).eof_received()
            self.close()

    # --- writing

    def encrypt(self, parts: Sequence[Buffer]) -> bytes:
        """Encrypts into records that are full except the last one."""
        assert self._tls is not None
        write = self._tls.write
        if len(parts) == 1 and len(parts[0]) <= RECORD_BYTES:  # the common case
            write(parts[0])
            return self._leaving.read()
        begun = b""  # start of a record
        for part in parts:
            view = memoryview(part)
            size_bytes = len(view)
            at = 0
            if begun:
                at = min(RECORD_BYTES - len(begun), size_bytes)
                begun += view[:at]
                if len(begun) < RECORD_BYTES:
                    continue
                write(begun)
                begun = b""
            while size_bytes - at >= RECORD_BYTES:
                at += write(view[at : at + RECORD_BYTES])
            if at < size_bytes:
                begun = bytes(view[at:])
        if begun:
            write(begun)
        return self._leaving.read()

    # --- ending

    def close(self) -> None:
        """Sends the buffered data and a close notification, then closes."""
        if not self.is_open or self.raw.is_closing():
            return
        assert self._tls is not None
        assert self.transport is not None
        last = self.transport.take_joined()
        with suppress(ssl.SSLError):  # unwrap would wait for the peer's close notification
            self._tls.unwrap()
        self.raw.write(last + self._leaving.read())
        self.end()
        self.raw.close()

    def end(self) -> None:
        """Stops reading and writing."""
        self.is_open = False
