"""A cluster with logins, TLS, client certificates and access rules, and its clients' settings.

Listeners: `main` is SASL_SSL with PLAIN and SCRAM, `unencrypted` is SASL_PLAINTEXT with the same users, `mutual` is SSL
and demands a certificate. The user `admin` may do everything, `alice` what rules allow. PASSWORD is found wherever it
leaks: no other text contains it.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Final
from unittest.mock import patch

import pytest

from chronik.cli.main import main
from chronik.client.admin import users
from chronik.client.properties import secured_client
from chronik.pipeline.live_cluster import LiveCluster, Outgoing
from chronik.pipeline.security import PREFIX, QuerySecurity
from chronik.runtime.real import real_runtime
from chronik.testing import Cluster
from chronik.testing.ports import free_ports
from chronik.wire.scram import KINDS
from tests.broker.tls_files import Files

ADMIN, ALICE = "admin", "alice"
PASSWORD: Final = "correct-horse-7f3a91"
PLAIN, SCRAM = "PLAIN", "SCRAM-SHA-512"
MECHANISMS: Final = (PLAIN, *KINDS)
ITERATIONS: Final = 4096
LIFETIME_MS: Final = 3_600_000  # of a login on `unencrypted`


class Secured:
    def __init__(self, directory: Path) -> None:
        self.files = Files(directory)
        self.directory = directory
        ports = dict(zip(("MAIN", "UNENCRYPTED", "MUTUAL"), free_ports(3), strict=True))
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
        own = f'username="{ADMIN}" password="{PASSWORD}" user_{ADMIN}="{PASSWORD}" user_{ALICE}="{PASSWORD}"'
        self.main, self.unencrypted, self.mutual = (f"127.0.0.1:{port}" for port in ports.values())
        self.cluster = Cluster(
            settings={
                **self.files.stores,
                "listeners": listeners,
                "advertised.listeners": listeners,
                "listener.security.protocol.map": "MAIN:SASL_SSL,UNENCRYPTED:SASL_PLAINTEXT,MUTUAL:SSL",
                "inter.broker.listener.name": "MAIN",
                "listener.name.mutual.ssl.client.auth": "required",
                "listener.name.unencrypted.connections.max.reauth.ms": str(LIFETIME_MS),
                "sasl.enabled.mechanisms": ",".join(MECHANISMS),
                "sasl.mechanism.inter.broker.protocol": PLAIN,
                "sasl.jaas.config": f"PlainLoginModule required {own};",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": f"User:{ADMIN};User:CN=boss",
            }
        )
        self.admin = LiveCluster(self.main, self.security(ADMIN, PLAIN))
        self.user(ALICE)

    def user(self, name: str) -> str:
        """Created by the admin: logs in by SCRAM with PASSWORD. Rules for `alice` stay, so a test that expects denials
        uses a separate user."""
        for mechanism in KINDS:
            asyncio.run(self._add_user(name, mechanism))
        return name

    async def _add_user(self, name: str, mechanism: str) -> None:
        runtime = real_runtime()
        salted = users.salt_password(runtime.randomness, KINDS[mechanism], PASSWORD, ITERATIONS)
        async with secured_client(runtime, self.main, self.admin.security.checked(), client_id="test") as cluster:
            await users.put(cluster, name, salted)

    def properties(self, user: str, mechanism: str = SCRAM, *, password: str = PASSWORD) -> dict[str, str]:
        """Of a login on `main`."""
        module = "plain.PlainLoginModule" if mechanism == PLAIN else "scram.ScramLoginModule"
        login = f'org.apache.kafka.common.security.{module} required username="{user}" password="{password}";'
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": login,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.files.trust),
        }

    def options(self, user: str, mechanism: str = SCRAM) -> dict[str, str]:
        """Of a reader or writer of Spark."""
        return {"kafka.bootstrap.servers": self.main, **as_options(self.properties(user, mechanism))}

    def security(self, user: str, mechanism: str = SCRAM, **more: str) -> QuerySecurity:
        return QuerySecurity(tuple(self.properties(user, mechanism, **more).items()))

    def properties_file(self, user: str) -> Path:
        path = self.directory / f"{user}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in self.properties(user, PLAIN).items()))
        return path

    def topic(self, name: str, values: tuple[str, ...] = (), partitions: int = 1) -> str:
        """Made and filled by the admin."""
        self.admin.create_topic(name, partitions)
        self.admin.send(name, [Outgoing(None, value.encode()) for value in values])
        return name

    def allow(self, command: str) -> None:
        """Runs a `chronik acl add` as the admin does."""
        words = shlex.split(command)
        assert words[:3] == ["chronik", "acl", "add"]
        config = ["--bootstrap", self.main, "--command-config", str(self.properties_file(ADMIN))]
        with (
            patch.object(sys, "argv", [*words, *config]),
            redirect_stdout(StringIO()) as said,
            pytest.raises(SystemExit) as ended,
        ):
            main()
        assert not ended.value.code, said.getvalue()


def as_options(properties: Mapping[str, str]) -> dict[str, str]:
    return {f"{PREFIX}{key}": value for key, value in properties.items()}


@pytest.fixture(scope="session")
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("secured"))
    yield made
    made.cluster.close()
