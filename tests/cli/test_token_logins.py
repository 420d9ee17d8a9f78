"""Commands that log in by OAUTHBEARER, with --command-config: a token of an endpoint, of a file, and none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chronik.testing import Cluster
from tests.broker.sasl.identity_provider import IdentityProvider
from tests.cli.conftest import Run

SETTINGS = {
    "listeners": "S://127.0.0.1:0",
    "advertised.listeners": "S://127.0.0.1:0",
    "listener.security.protocol.map": "S:SASL_PLAINTEXT",
    "inter.broker.listener.name": "S",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "file:///nowhere",
}


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider() as made:
        made.client_id, made.client_secret = "me", "swordfish"
        yield made


def test_commands_log_in_by_tokens(
    provider: IdentityProvider, run_command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, token, properties = (tmp_path / name for name in ("keys.json", "token", "client.properties"))
    keys.write_bytes(provider.keys)

    def listed(**changes: str) -> tuple[int, str]:
        keys_of = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": provider.url("/token"),
            "sasl.oauthbearer.client.credentials.client.id": "me",
            "sasl.oauthbearer.client.credentials.client.secret": "swordfish",
        } | {f"sasl.oauthbearer.{name}": text for name, text in changes.items()}
        properties.write_text("".join(f"{key}={text}\n" for key, text in keys_of.items()))
        done = run_command("topic", "list", "--command-config", str(properties))
        assert "swordfish" not in done.err
        return done.exit_code, done.err

    with Cluster(settings=SETTINGS | {"sasl.oauthbearer.jwks.endpoint.url": keys.as_uri()}) as cluster:
        monkeypatch.setenv("CHRONIK_BOOTSTRAP", cluster.bootstrap)
        assert listed()[0] == 0
        code, told = listed(**{"client.credentials.client.secret": "wrong"})
        assert (code != 0, "status 401" in told) == (True, True), told
        token.write_text(provider.token())
        assert listed(**{"token.endpoint.url": token.as_uri()})[0] == 0
        token.write_text(provider.token()[:-8] + "AAAAAAAA")
        code, told = listed(**{"token.endpoint.url": token.as_uri()})
        assert (code != 0, "invalid_token" in told) == (True, True), told
        code, told = listed(**{"token.endpoint.url": "http://idp.example/token"})
        assert (code != 0, "use https" in told) == (True, True), told
