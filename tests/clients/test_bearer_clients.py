"""Real clients that log in by OAUTHBEARER, with tokens of a small identity provider or of their own callbacks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka.abc import AbstractTokenProvider as AiokafkaTokens
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokens

from chronik.testing import Cluster
from tests.broker.sasl.identity_provider import IdentityProvider
from tests.clients.driver import Driver, Sent
from tests.clients.drivers.aiokafka import AiokafkaDriver
from tests.clients.drivers.confluent import ConfluentDriver
from tests.clients.drivers.kafka_python import KafkaPythonDriver
from tests.clients.drivers.kafka_tools import KafkaTools

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("bearer")]

CLIENT_ID, CLIENT_SECRET = "client", "secret"
OF_RDKAFKA = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
OF_PYTHON = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}


class Tokened:
    """A node whose only listener takes tokens, and the provider of these."""

    def __init__(self, folder: Path) -> None:
        self.provider = IdentityProvider()
        self.provider.client_id, self.provider.client_secret = CLIENT_ID, CLIENT_SECRET
        keys = folder / "keys.json"
        keys.write_bytes(self.provider.keys)
        self.cluster = Cluster(
            settings={
                "listeners": "S://127.0.0.1:0",
                "advertised.listeners": "S://127.0.0.1:0",
                "listener.security.protocol.map": "S:SASL_PLAINTEXT",
                "inter.broker.listener.name": "S",
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
                "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
                "sasl.oauthbearer.token.endpoint.url": self.provider.url("/token"),
                "sasl.oauthbearer.client.credentials.client.id": CLIENT_ID,
                "sasl.oauthbearer.client.credentials.client.secret": CLIENT_SECRET,
            }
        )

    def close(self) -> None:
        self.cluster.close()
        self.provider.close()


@pytest.fixture(scope="module")
def tokened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tokened]:
    made = Tokened(tmp_path_factory.mktemp("bearer"))
    yield made
    made.close()


def rdkafka_callback(tokened: Tokened) -> Driver:
    def token(config: str) -> tuple[str, float]:
        return tokened.provider.token(), 1e10

    settings: dict[str, Any] = {**OF_RDKAFKA, "oauth_cb": token}
    return ConfluentDriver(tokened.cluster.bootstrap, settings)


def rdkafka_oidc(tokened: Tokened) -> Driver:
    settings = {
        **OF_RDKAFKA,
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": CLIENT_ID,
        "sasl.oauthbearer.client.secret": CLIENT_SECRET,
        "sasl.oauthbearer.token.endpoint.url": tokened.provider.url("/token"),
        "sasl.oauthbearer.extensions": "pool=x,host=h",
    }
    return ConfluentDriver(tokened.cluster.bootstrap, settings)


def kafka_python(tokened: Tokened) -> Driver:
    class Tokens(KafkaPythonTokens):
        def __init__(self, **config: Any) -> None:
            """It has no settings."""

        def token(self) -> str:
            return tokened.provider.token()

    return KafkaPythonDriver(tokened.cluster.bootstrap, **OF_PYTHON, sasl_oauth_token_provider=Tokens())


def aiokafka(tokened: Tokened) -> Driver:
    class Tokens(AiokafkaTokens):
        async def token(self) -> str:
            return await asyncio.to_thread(tokened.provider.token)

    return AiokafkaDriver(tokened.cluster.bootstrap, **OF_PYTHON, sasl_oauth_token_provider=Tokens())


# One of them on every run; the others take long to start.
CLIENTS = [
    rdkafka_callback,
    *(pytest.param(each, marks=pytest.mark.long) for each in (rdkafka_oidc, kafka_python, aiokafka)),
]


@pytest.mark.parametrize("make", CLIENTS)
def test_a_client_with_a_token_produces_and_consumes(tokened: Tokened, make: Callable[[Tokened], Driver]) -> None:
    driver, topic = make(tokened), make.__name__.replace("_", "-")
    try:
        assert driver.produce(topic, [Sent("one", partition=0), Sent("two", partition=0)]) == [(0, 0), (0, 1)]
        assert [record.value for record in driver.consume(topic, 2)] == ["one", "two"]
    finally:
        driver.close()


@pytest.mark.long
def test_a_token_that_nobody_signed_is_refused_in_brokers_words(tokened: Tokened) -> None:
    errors: list[str] = []
    spoilt = tokened.provider.token()[:-8] + "AAAAAAAA"
    settings: dict[str, Any] = {
        **OF_RDKAFKA,
        "bootstrap.servers": tokened.cluster.bootstrap,
        "oauth_cb": lambda config: (spoilt, 1e10),
        "error_cb": lambda error: errors.append(str(error)),
    }
    admin = AdminClient(settings)
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=3)
    admin.poll(0)
    assert any("invalid_token" in error for error in errors), errors


@pytest.mark.java
@pytest.mark.long
def test_kafkas_console_tools_get_a_token_and_use_it(
    tokened: Tokened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = tokened.provider.url("/token")
    before = os.environ.get("JAVA_TOOL_OPTIONS", "")
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"{before} {allowed}".strip())
    own = tmp_path / "client.properties"
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    own.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f'sasl.jaas.config={module} required clientId="{CLIENT_ID}" clientSecret="{CLIENT_SECRET}";\n'
        f"sasl.oauthbearer.token.endpoint.url={url}\n"
        "sasl.login.callback.handler.class="
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler\n"
    )
    where = ("--bootstrap-server", tokened.cluster.bootstrap, "--topic", "console", "--command-config", str(own))
    tools = KafkaTools("4.3.1")
    try:
        tools.run("ConsoleProducer", *where, "--sync", "--timeout", "0", stdin="one\ntwo\n")
        read = ("--from-beginning", "--max-messages", "2", "--timeout-ms", "60000")
        seen = tools.run("ConsoleConsumer", *where, *read)
    finally:
        tools.close()
    assert [line for line in seen.splitlines() if line in ("one", "two")] == ["one", "two"]
