"""How two nodes of a quorum greet each other, and prove that both know the quorum's secret. Frames in, frames out.

Without a secret:  connector HELLO          acceptor HELLO
With a secret:     connector HELLO          acceptor CHALLENGE, with a nonce
                   connector PROOF          acceptor HELLO, then PROOF

A proof is an HMAC-SHA-256 under the secret over everything sent so far and the name of its side, so that neither
replaying a proof nor sending it back to its author works. The acceptor names its cluster only after the connector's
proof. A side that has a secret never continues without the other side's proof.

It authenticates the connection, but does not encrypt or sign what follows: on a network where others can alter packets,
use TLS or put the quorum's listener into a tunnel.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from hashlib import sha256

from chronik.raft.errors import MalformedMessage
from chronik.raft.framing import NONCE_BYTES, Hello

CHALLENGE, PROOF = b"CRQC", b"CRQP"
_CONNECTS, _ACCEPTS = b"chronik quorum connector", b"chronik quorum acceptor"


def proof(secret: bytes, side: bytes, *said: bytes) -> bytes:
    """Each part is preceded by its size, so that different lists of parts never give the same bytes."""
    made = hmac.new(secret, side, sha256)
    for part in said:
        made.update(len(part).to_bytes(4, "big") + part)
    return PROOF + made.digest()


def check_proof(given: bytes, expected: bytes) -> None:
    if not hmac.compare_digest(given, expected):
        raise MalformedMessage("it does not know this quorum's secret: compare chronik.quorum.secret on both nodes")


class Connector:
    """`begin` returns the first frame's body, `take` what to send next. `peer` is set when the greeting is complete."""

    def __init__(self, own: Hello, secret: bytes) -> None:
        self._own, self._secret = own, secret
        self._nonce = b""  # from the challenge
        self._answer: Hello | None = None  # its proof has not arrived yet
        self._answer_body = b""
        self.peer: Hello | None = None

    def begin(self) -> bytes:
        return self._own.encode()

    def take(self, body: bytes) -> list[bytes]:
        """Raises MalformedMessage."""
        if self._answer is not None:
            said = (self._own.encode(), self._nonce, self._answer_body)
            check_proof(body, proof(self._secret, _ACCEPTS, *said))
            self.peer = self._answer
            return []
        if body[:4] == CHALLENGE and not self._nonce:
            return self._prove(body[4:])
        answer = Hello.decode(body)
        answer.check_ids(self._own)
        if not self._secret:
            self.peer = answer
            return []
        if not self._nonce:
            raise MalformedMessage("it asks for no proof, as it has no secret: set chronik.quorum.secret there too")
        self._answer, self._answer_body = answer, body
        return []

    def _prove(self, nonce: bytes) -> list[bytes]:
        if not self._secret:
            raise MalformedMessage("it asks for the quorum's secret: set chronik.quorum.secret on this node too")
        if len(nonce) != NONCE_BYTES:
            raise MalformedMessage(f"a challenge of {len(nonce)} bytes")
        self._nonce = nonce
        return [proof(self._secret, _CONNECTS, self._own.encode(), nonce)]


class Acceptor:
    """Calls `admit` with the connector's hello when ids and proof are valid; it returns this node's hello or raises."""

    def __init__(self, node_id: int, secret: bytes, nonce: bytes, admit: Callable[[Hello], Hello]) -> None:
        self._node_id, self._secret, self._nonce, self._admit = node_id, secret, nonce, admit
        self._hello: Hello | None = None  # its proof has not arrived yet
        self._hello_body = b""
        self.peer: Hello | None = None

    def take(self, body: bytes) -> list[bytes]:
        """Raises MalformedMessage."""
        if self._hello is None:
            hello = Hello.decode(body)
            hello.check_ids(Hello(self._node_id, hello.sender, ""))
            if not self._secret:
                return [self._admitted(hello).encode()]
            self._hello, self._hello_body = hello, body
            return [CHALLENGE + self._nonce]
        check_proof(body, proof(self._secret, _CONNECTS, self._hello_body, self._nonce))
        own = self._admitted(self._hello).encode()
        return [own, proof(self._secret, _ACCEPTS, self._hello_body, self._nonce, own)]

    def _admitted(self, hello: Hello) -> Hello:
        own = self._admit(hello)
        self.peer = hello
        return own
