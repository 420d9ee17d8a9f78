"""`chronik token` on a cluster whose every listener needs a login, and commands that log in with a token."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chronik.broker.settings.access import STANDARD
from chronik.testing import Cluster
from tests.cli.conftest import Run

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
KEY = "not-to-be-shown"
SETTINGS = {
    "listeners": "S://127.0.0.1:0",
    "advertised.listeners": "S://127.0.0.1:0",
    "listener.security.protocol.map": "S:SASL_PLAINTEXT",
    "inter.broker.listener.name": "S",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.s.plain.sasl.jaas.config": (
        f'{PLAIN} username="admin" password="a" user_admin="a" user_alice="b" user_bob="c";'
    ),
    "authorizer.class.name": STANDARD,
    "super.users": "User:admin",
    "delegation.token.secret.key": KEY,
}


@pytest.fixture(scope="module")
def guarded() -> Iterator[Cluster]:
    with Cluster(settings=SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def as_user(run_command: Run, guarded: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.setenv("CHRONIK_BOOTSTRAP", guarded.bootstrap)

    def run(user: str, *words: str, jaas: str = "", mechanism: str = "PLAIN") -> Any:
        passwords = {"admin": "a", "alice": "b", "bob": "c"}
        own = jaas or f'{PLAIN} username="{user}" password="{passwords[user]}";'
        file = tmp_path / "client.properties"
        file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={own}\n")
        return run_command(*words, "--command-config", str(file))

    return run


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_token_is_created_used_renewed_and_removed(as_user: Callable[..., Any], mechanism: str) -> None:
    made = as_user("alice", "token", "create", "--renewer", "bob", "--max-lifetime", "2h", "--format", "json")
    assert made.exit_code == 0, made.err
    token = made.json
    assert (token["owner"], token["renewers"]) == ("User:alice", ["User:bob"])
    login = {"jaas": token["sasl.jaas.config"], "mechanism": mechanism}
    assert as_user("", "topic", "list", **login).exit_code == 0
    own = as_user("", "token", "list", **login)
    assert (own.exit_code, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" in own.err) == (1, True)
    listed = as_user("bob", "token", "list", "--format", "json")
    assert [row["token_id"] for row in listed.json] == [token["token_id"]]
    assert token["password"] not in json.dumps(listed.json)
    assert as_user("bob", "token", "renew", token["token_id"], "--period", "30m", "--format", "json").exit_code == 0
    misspelt = as_user("alice", "token", "expire", token["token_id"] + "x")
    assert (misspelt.exit_code, token["token_id"] in misspelt.err.replace(token["token_id"] + "x", "")) == (1, True)
    assert as_user("bob", "token", "expire", token["token_id"]).exit_code == 0
    assert as_user("alice", "token", "list", "--format", "json").json == []
    refused = as_user("", "topic", "list", **login)
    assert (refused.exit_code, "SASL_AUTHENTICATION_FAILED" in refused.err) == (1, True)


def test_a_token_for_somebody_else_needs_a_permission(as_user: Callable[..., Any]) -> None:
    denied = as_user("alice", "token", "create", "--owner", "bob")
    assert (denied.exit_code, "DELEGATION_TOKEN_AUTHORIZATION_FAILED" in denied.err) == (1, True)
    made = as_user("admin", "token", "create", "--owner", "bob")
    assert made.exit_code == 0
    assert "tokenauth=" in made.out
    listed = as_user("admin", "token", "list", "--owner", "bob", "--format", "json")
    [row] = listed.json
    assert (row["owner"], row["requester"]) == ("User:bob", "User:admin")
    assert as_user("bob", "token", "expire", row["token_id"]).exit_code == 0


@pytest.mark.parametrize("words", [("create", "--max-lifetime", "2"), ("renew", "x", "--period", "0s")])
def test_a_duration_without_meaning_is_refused(as_user: Callable[..., Any], words: tuple[str, ...]) -> None:
    assert as_user("alice", "token", *words).exit_code == 2
