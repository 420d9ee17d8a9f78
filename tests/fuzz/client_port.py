"""Mutated requests of every API from clients that a listener has let in: `python -m tests.fuzz.client_port`.

A door is a whole node in virtual time and a way to be let in: without a login, with a certificate, with a password, by
SASL_SSL. Three kinds of callers come through them.

- A user without rules changes nothing: the image and the ends of all logs stay as they are.
- A super user, and everybody where there is no authorizer, is served. The node goes on, and writes when it is asked.

For all of them nothing raises, no invariant breaks, and the memory that the node counts returns to nothing when its
clients have left. `logins.py` has the stages before a login.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time
from random import Random
from typing import Any, NamedTuple

from chronik.broker.api import served_apis
from chronik.broker.session import Stage
from chronik.broker.settings.access import STANDARD
from chronik.metadata.commands.create_topics import CreateTopics, NewTopic
from chronik.metadata.snapshot import state_hash
from chronik.sim.disk import SimDisk
from chronik.testing.certificates import Authority
from chronik.wire.compiler import encode
from chronik.wire.headers import RequestHeader, request_header_version
from tests.broker.hostile import Peer, World, frame, run
from tests.broker.requests_of_all_apis import rows
from tests.broker.sasl.logging_in import ALICE, PLAIN_USERS
from tests.fuzz.logins import Complaints, handshake, token
from tests.fuzz.mutations import mutate
from tests.fuzz.rounds import run_rounds
from tests.wire.instances import Anything, layout, make

FRAMES_PER_WORLD = 200_000  # looking for what is left behind takes an hour of virtual time
FRAMES_PER_CONNECTION = 32
FRAMES_PER_TURN = 8  # of the loop
INSTANCES_PER_API = 12
TOPICS = ("t", "__consumer_offsets", "__transaction_state")
STEP_MS = 10_000
WAIT_MS_MAX = 3_600_000  # virtual: longer than an answer of these frames may be held back
LOGIN = [handshake("PLAIN"), token(ALICE)]
SUPER_LOGIN = [handshake("PLAIN"), token(b"\0broker\0b")]
GUARDED = {"authorizer_class_name": STANDARD, "super_users": "User:broker"}
SASL = {"sasl_enabled_mechanisms": "PLAIN", "sasl_mechanism_inter_broker_protocol": "PLAIN"}
AUTHORITY = Authority()
STORES = {
    "ssl_keystore_type": "PEM",
    "ssl_keystore_location": "/etc/node.pem",
    "ssl_truststore_type": "PEM",
    "ssl_truststore_location": "/etc/ca.pem",
}


class Door(NamedTuple):
    protocol: str
    is_guarded: bool
    greeting: tuple[bytes, ...] = ()
    subject: str | None = None  # of the client's certificate
    changes_nothing: bool = True


DOORS: dict[str, Door] = {
    "PLAINTEXT, nobody": Door("PLAINTEXT", is_guarded=True),
    "PLAINTEXT, without an authorizer": Door("PLAINTEXT", is_guarded=False, changes_nothing=False),
    "SSL, a certificate": Door("SSL", is_guarded=True, subject="CN=alice"),
    "SASL_PLAINTEXT, a user": Door("SASL_PLAINTEXT", is_guarded=True, greeting=tuple(LOGIN)),
    "SASL_PLAINTEXT, a super user": Door(
        "SASL_PLAINTEXT", is_guarded=True, greeting=tuple(SUPER_LOGIN), changes_nothing=False
    ),
    "SASL_SSL, a user": Door("SASL_SSL", is_guarded=True, greeting=tuple(LOGIN), subject="CN=bob"),
}


async def make_world(door: Door) -> World:
    disk = SimDisk(0)
    disk.make_directory("/etc")
    disk.replace_file("/etc/node.pem", AUTHORITY.server().store_pem.encode())
    disk.replace_file("/etc/ca.pem", AUTHORITY.pem.encode())
    settings: dict[str, object] = {
        "listeners": f"{door.protocol}://127.0.0.1:9092",
        "security_inter_broker_protocol": door.protocol,
        "auto_create_topics_enable": not door.is_guarded,
    }
    settings |= {**SASL, "sasl_jaas_config": PLAIN_USERS} if door.protocol.startswith("SASL") else {}
    settings |= STORES if door.protocol.endswith("SSL") else {}
    return await World.make(disk, **(settings | (GUARDED if door.is_guarded else {})))


def bodies(random: Random, topic_id: bytes) -> list[bytes]:
    """Requests of every API: the ones that mean something, and random ones in random versions."""
    found = [_without_size(frame(row.request, row.version)) for row in rows(topic_id)]
    for api in served_apis().values():
        for _ in range(INSTANCES_PER_API):
            version = random.choice(range(api.versions.first, api.versions.last + 1))
            request = make(layout(api.request, version), Anything(random, tags=False))
            header = RequestHeader(
                request_api_key=api.key, request_api_version=version, correlation_id=1, client_id="fuzz"
            )
            found.append(encode(header, request_header_version(api.request, version)) + encode(request, version))
    return found


def _without_size(data: bytes) -> bytes:
    return data[4:]


def sized(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def data_of(random: Random, corpus: list[bytes]) -> bytes:
    """Mostly whole frames, so that what is behind the size is reached."""
    body = random.choice(corpus)
    match random.randrange(8):
        case 0:
            return mutate(random, sized(body), sized(random.choice(corpus)))
        case 1:
            return sized(body)
        case _:
            return sized(mutate(random, body, random.choice(corpus)))


def fuzz_port(name: str, seed: int, frames: int) -> str | None:
    """The finding, if any; the same seed is the same run."""
    complaints = Complaints()
    logging.getLogger("chronik").addHandler(complaints)
    try:
        found = run(_fuzz(DOORS[name], Random(f"{seed}/{name}"), frames)) or complaints.first
        return found and f"{name}, seed {seed}: {found}"
    finally:
        logging.getLogger("chronik").removeHandler(complaints)


async def _fuzz(door: Door, random: Random, frames: int) -> str | None:
    world = await make_world(door)
    try:
        topic_id = await _prepare(world)
        corpus = bodies(random, topic_id)
        before = state(world)
        left = frames
        while left > 0:
            left -= await _one_connection(world, door, random, corpus, min(left, FRAMES_PER_CONNECTION))
            if not door.changes_nothing and world.node.node_id not in world.node.store.image.brokers:
                return None  # a caller who may do so has removed the node from the cluster, so it has stopped
            if world.node.failure is not None:
                return f"the node has stopped: {world.node.failure}"
            if door.changes_nothing and state(world) != before:
                return f"{before} became {state(world)}"
        return await _left_behind(world)
    finally:
        await world.node.stop()


async def _prepare(world: World) -> bytes:
    """Topic `t` with a record, and the coordinators' topics; returns the id of `t`."""
    await world.node.store.submit(CreateTopics(topics=[NewTopic(name=name) for name in TOPICS]))
    await asyncio.sleep(1)
    topic = next(topic for topic in world.node.store.image.topics.values() if topic.name == "t")
    return bytes(topic.topic_id)


def state(world: World) -> tuple[Any, ...]:
    """What a caller without rules must not change."""
    ends = {replica.name: replica.log.end_offset for replica in world.node.replicas.all()}
    return state_hash(world.node.store.image), ends


async def _one_connection(world: World, door: Door, random: Random, corpus: list[bytes], frames: int) -> int:
    """How many frames it sent."""
    peer = Peer(world.node, subject=door.subject)
    for each in door.greeting:
        peer.send(each)
    assert peer.connection.session.stage is Stage.AUTHENTICATED, "the greeting logs in"
    principal = peer.connection.session.principal
    sent = 0
    while sent < frames and not peer.is_closed:
        peer.send(data_of(random, corpus))
        sent += 1
        if sent % FRAMES_PER_TURN == 0:
            await asyncio.sleep(0)
        if peer.connection.session.principal != principal:
            raise AssertionError(f"{principal} became {peer.connection.session.principal}")
    if random.random() < 0.9:
        await asyncio.sleep(0.02)
    if not peer.is_closed:
        peer.hang_up()
    await asyncio.sleep(0.001)
    return sent


async def _left_behind(world: World) -> str | None:
    """What is wrong with a node whose clients have all left."""
    memory = world.node.memory
    for _ in range(WAIT_MS_MAX // STEP_MS):
        await asyncio.sleep(STEP_MS / 1000)
        held = {name: getattr(memory, name) for name in ("used_bytes", "small_bytes", "unsent_bytes")}
        if not any(held.values()):
            return None
    return f"memory is held for nobody: {held}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=1_000_000, help="in all, over all doors")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the first; a run with the same is the same")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    return run_rounds(fuzz_port, DOORS, seed=options.seed, frames=options.frames, per_round=FRAMES_PER_WORLD)


if __name__ == "__main__":
    sys.exit(main())
