"""Mutated frames at every stage of a login: `python -m tests.fuzz.logins`.

A complete node serves a listener with logins, in virtual time. A client brings a connection to a stage with valid
frames and continues with mutated ones. The node may answer or close the connection. It must not raise, and it must not
serve a client as a user unless the client has sent that user's password or token.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from random import Random

from chronik.broker.session import ANONYMOUS, Stage
from chronik.wire.messages.api_versions import ApiVersionsRequest
from chronik.wire.messages.list_groups import ListGroupsRequest
from chronik.wire.messages.metadata import MetadataRequest
from chronik.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from chronik.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.hostile import Peer, World, frame, run
from tests.broker.sasl.logging_in import ALICE, BOB, NOW_S, make_bearer_world, make_world
from tests.broker.sasl.tokens import key_set, token_of
from tests.fuzz.mutations import mutate

FRAMES = 100_000
FRAMES_PER_CONNECTION = 4
PASSWORDS = (b"alice\0secret", b"bob\0geheim", b"broker\0b")
FIRST = b"n,,n=carol,r=clientnonce"
FINAL = b"c=biws,r=clientnonceservernonce,p=" + b"A" * 43 + b"="


def handshake(mechanism: str, version: int = 1) -> bytes:
    return frame(SaslHandshakeRequest(mechanism=mechanism), version)


def token(data: bytes, version: int = 2) -> bytes:
    return frame(SaslAuthenticateRequest(auth_bytes=data), version)


def bare(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


HELLO = frame(ApiVersionsRequest(client_software_name="fuzz", client_software_version="1"), 3)
KEY = "EdDSA"


def bearer(key: str = KEY, **claims: object) -> bytes:
    """A client's first message of OAUTHBEARER; only a token by KEY is good."""
    return f"n,,\x01auth=Bearer {token_of(NOW_S, key=key, headers={'kid': KEY}, **claims)}\x01\x01".encode()


# Tokens that let nobody in, and one that does.
GOOD_TOKEN = bearer()
BAD_TOKENS = (bearer("EdDSA-other"), bearer(exp=NOW_S - 9999), b"n,,\x01auth=Bearer a.b.c\x01\x01", b"\x01")
STAGES: dict[str, list[bytes]] = {
    "fresh": [],
    "greeted": [HELLO],
    "plain": [handshake("PLAIN")],
    "scram": [handshake("SCRAM-SHA-256")],
    "scram challenged": [handshake("SCRAM-SHA-512"), token(FIRST)],
    "bare": [handshake("PLAIN", 0)],
    "bare scram": [handshake("SCRAM-SHA-512", 0), bare(FIRST)],
    "renewal": [handshake("PLAIN"), token(ALICE), handshake("PLAIN")],
    "bearer": [handshake("OAUTHBEARER")],
    "bearer refused": [handshake("OAUTHBEARER"), token(BAD_TOKENS[0])],
    "bearer renewal": [handshake("OAUTHBEARER"), token(GOOD_TOKEN), handshake("OAUTHBEARER")],
    "bare renewal": [handshake("PLAIN"), token(ALICE), handshake("PLAIN", 0)],
}
BEARER_SEEDS = [
    HELLO,
    handshake("OAUTHBEARER"),
    *(token(each, version) for each in (GOOD_TOKEN, *BAD_TOKENS) for version in (0, 2)),
    frame(ListGroupsRequest(), 0),
]
SEEDS = [
    HELLO,
    *(handshake(name, version) for name in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "X") for version in (0, 1)),
    *(token(data, version) for data in (ALICE, BOB, FIRST, FINAL, b"\0alice\0wrong") for version in (0, 1, 2)),
    *(bare(data) for data in (ALICE, FIRST, FINAL)),
    frame(ListGroupsRequest(), 0),
    frame(MetadataRequest(topics=None), 12),
]


# The signature of the good token, without its last character, of which not all bits count.
SECRETS = (*PASSWORDS, GOOD_TOKEN.rstrip(b"\x01").rpartition(b".")[2][:-1])


class Complaints(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.first: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        self.first = self.first or f"{record.getMessage()} {record.exc_info or ''}"


def fuzz_logins(stage: str, seed: int, frames: int) -> str | None:
    """The first finding, or None."""
    complaints = Complaints()
    logging.getLogger("chronik").addHandler(complaints)
    try:
        return run(_fuzz(stage, Random(f"{stage} {seed}"), frames)) or complaints.first
    finally:
        logging.getLogger("chronik").removeHandler(complaints)


async def _fuzz(stage: str, random: Random, frames: int) -> str | None:
    settings = {"connections_max_reauth_ms": 60_000, "connection_failed_authentication_delay_ms": 1}
    by_token = stage.startswith("bearer")
    world = await (make_bearer_world(key_set(KEY), **settings) if by_token else make_world(**settings))
    try:
        for _ in range(frames // FRAMES_PER_CONNECTION):
            finding = await _one_connection(world, stage, random)
            if finding is not None:
                return finding
    finally:
        await world.node.stop()
    return None


async def _one_connection(world: World, stage: str, random: Random) -> str | None:
    peer = Peer(world.node)
    for each in STAGES[stage]:
        peer.send(each)
    session = peer.connection.session
    before = session.principal
    sent = b""
    for _ in range(FRAMES_PER_CONNECTION):
        seeds = BEARER_SEEDS if stage.startswith("bearer") else SEEDS
        data = random.choice(seeds)
        data = data if random.random() < 0.2 else mutate(random, data, random.choice(seeds))
        sent += data
        peer.send(data)
        if peer.is_closed:
            break
        if session.stage is Stage.AUTHENTICATED and not any(secret in sent for secret in SECRETS):
            return f"{stage}: logged in as {session.principal} by {sent!r}"
        if before != ANONYMOUS and session.principal != before:
            return f"{stage}: {before} became {session.principal} by {sent!r}"
    if not peer.is_closed:
        peer.hang_up()
    await asyncio.sleep(0.01)
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--frames", type=int, default=FRAMES)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    findings = [found for stage in STAGES if (found := fuzz_logins(stage, options.seed, options.frames // len(STAGES)))]
    print("\n".join(findings) or f"{options.frames} frames at {len(STAGES)} stages of a login: nothing found")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
