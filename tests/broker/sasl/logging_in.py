"""A node with a SASL listener in virtual time, and a client that speaks in frames."""

from __future__ import annotations

from typing import Any, TypeVar

from chronik.broker.first_users import credential_of
from chronik.metadata.commands.alter_scram_credentials import AlterScramCredentials
from chronik.sim.disk import SimDisk
from chronik.wire.compiler import decode
from chronik.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from chronik.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from chronik.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from chronik.wire.notation import Request, Response
from chronik.wire.scram import KINDS, salted_password
from tests.broker.harness import NOW_MS, Client
from tests.broker.hostile import World

R = TypeVar("R", bound=Response)
KEYS_PATH = "/etc/keys.json"
PLAIN_USERS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="broker" password="b" user_broker="b" user_alice="secret" user_bob="geheim";'
)
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:9092",
    "security_inter_broker_protocol": "SASL_PLAINTEXT",
    "sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "sasl_mechanism_inter_broker_protocol": "PLAIN",
    "sasl_jaas_config": PLAIN_USERS,
}
ALICE, BOB = b"\0alice\0secret", b"\0bob\0geheim"


BEARER_SETTINGS = {
    "sasl_enabled_mechanisms": "PLAIN,OAUTHBEARER",
    "sasl_oauthbearer_jwks_endpoint_url": f"file://{KEYS_PATH}",
}
NOW_S = NOW_MS // 1000


async def make_bearer_world(keys: bytes, **settings: object) -> World:
    """A node that verifies tokens with these keys."""
    disk = SimDisk(0)
    disk.make_directory("/etc")
    disk.replace_file(KEYS_PATH, keys)
    return await World.make(disk, **(SETTINGS | BEARER_SETTINGS | settings))


async def make_world(**settings: object) -> World:
    """carol has a SCRAM credential for each mechanism, with the password "pw"."""
    made = await World.make(**(SETTINGS | settings))
    users = [
        credential_of("carol", kind, b"salt", 4096, salted_password(kind, "pw", b"salt", 4096))
        for kind in KINDS.values()
    ]
    await made.node.store.submit(AlterScramCredentials(deletions=[], upsertions=users))
    return made


class Stranger:
    """One connection that has not logged in."""

    def __init__(self, world: World) -> None:
        self.client = Client(world.node)

    @property
    def session(self) -> Any:
        return self.client.connection.session

    @property
    def is_closed(self) -> bool:
        return self.client.is_closed

    async def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> SaslHandshakeResponse:
        return await self.ask(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse, version)

    async def token(self, data: bytes, version: int = 2) -> SaslAuthenticateResponse:
        return await self.ask(SaslAuthenticateRequest(auth_bytes=data), SaslAuthenticateResponse, version)

    async def ask(self, request: Request, response: type[R], version: int) -> R:
        return await self.client.ask(request, response, version)

    async def bare(self, data: bytes) -> bytes:
        return await self.client.send_frame(data)

    async def log_in(self, token: bytes = ALICE) -> SaslAuthenticateResponse:
        assert (await self.handshake()).error_code == 0
        return await self.token(token)

    async def groups(self) -> ListGroupsResponse:
        return await self.ask(ListGroupsRequest(), ListGroupsResponse, 0)


def as_response(response: type[R], version: int, data: bytes) -> R:
    return decode(response, version, memoryview(data))
