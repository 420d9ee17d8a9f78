"""Mutated frames at every stage of a login: `python -m tests.fuzz.logins`.

A complete node serves a listener with logins, in virtual time. A client brings a connection to a stage with valid
frames and continues with mutated ones. The node may answer or close the connection. It must not raise, it must not
serve a client as a user unless the client has sent that user's password or token, and it must not change its image: no
user here has a rule. `client_port.py` has the stages after a login.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time
from random import Random

from chronik.broker.session import ANONYMOUS, Stage
from chronik.broker.settings.access import STANDARD
from chronik.metadata.snapshot import state_hash
from chronik.wire.messages.api_versions import ApiVersionsRequest
from chronik.wire.messages.list_groups import ListGroupsRequest
from chronik.wire.messages.metadata import MetadataRequest
from chronik.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from chronik.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.hostile import Peer, World, frame, run
from tests.broker.sasl.logging_in import ALICE, BOB, NOW_S, make_bearer_world, make_world
from tests.broker.sasl.tokens import key_set, token_of
from tests.fuzz.mutations import mutate
from tests.fuzz.rounds import run_rounds

FRAMES_PER_WORLD = 20_000
FRAMES_PER_CONNECTION = 4
CONNECTIONS_PER_CHECK = 64
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
    settings = {
        "connections_max_reauth_ms": 60_000,
        "connection_failed_authentication_delay_ms": 1,
        "authorizer_class_name": STANDARD,
        "super_users": "User:broker",
    }
    by_token = stage.startswith("bearer")
    world = await (make_bearer_world(key_set(KEY), **settings) if by_token else make_world(**settings))
    before = state_hash(world.node.store.image)
    left, number = frames, 0
    try:
        while left > 0:
            sent, finding = await _one_connection(world, stage, random)
            left, number = left - sent, number + 1
            if finding is None and (number % CONNECTIONS_PER_CHECK == 0 or left <= 0):
                finding = _finding(world, before)
            if finding is not None:
                return f"{stage}, about connection {number}: {finding}"
    finally:
        await world.node.stop()
    return None


def _finding(world: World, before: str) -> str | None:
    if world.node.failure is not None:
        return f"the node has stopped: {world.node.failure}"
    after = state_hash(world.node.store.image)
    return None if after == before else f"the image {before} became {after}"


async def _one_connection(world: World, stage: str, random: Random) -> tuple[int, str | None]:
    """How many frames were sent, and the finding, if any."""
    peer = Peer(world.node)
    for each in STAGES[stage]:
        peer.send(each)
    session = peer.connection.session
    before = session.principal
    sent, count = b"", 0
    while count < FRAMES_PER_CONNECTION:
        seeds = BEARER_SEEDS if stage.startswith("bearer") else SEEDS
        data = _data(random, seeds)
        sent, count = sent + data, count + 1
        peer.send(data)
        if peer.is_closed:
            break
        if session.stage is Stage.AUTHENTICATED and not any(secret in sent for secret in SECRETS):
            return count, f"logged in as {session.principal} by {sent!r}"
        if before != ANONYMOUS and session.principal != before:
            return count, f"{before} became {session.principal} by {sent!r}"
    if not peer.is_closed:
        peer.hang_up()
    await asyncio.sleep(0.01)
    return count, None


def _data(random: Random, seeds: list[bytes]) -> bytes:
    """Mostly whole frames, so that what is behind the size is reached."""
    data = random.choice(seeds)
    match random.randrange(5):
        case 0:
            return data
        case 1:
            return mutate(random, data, random.choice(seeds))
        case _:
            return bare(mutate(random, data[4:], random.choice(seeds)[4:]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=1_000_000, help="in all, over all stages")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the first; a run with the same is the same")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    return run_rounds(fuzz_logins, STAGES, seed=options.seed, frames=options.frames, per_round=FRAMES_PER_WORLD)


if __name__ == "__main__":
    sys.exit(main())
