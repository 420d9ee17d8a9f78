"""Delegation tokens as Kafka's own command creates and changes them, and a Java client that logs in with one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from chronik.testing import Cluster
from tests.cli.test_token import PLAIN, SCRAM, SETTINGS
from tests.clients.drivers.kafka_tools import KafkaTools

pytestmark = pytest.mark.java


@pytest.fixture
def guarded() -> Iterator[Cluster]:
    with Cluster(settings=SETTINGS) as cluster:
        yield cluster


def properties(path: Path, mechanism: str, jaas: str) -> str:
    path.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas}\n")
    return str(path)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_kafkas_command_manages_tokens_and_a_java_client_logs_in(
    guarded: Cluster, tmp_path: Path, mechanism: str
) -> None:
    alice = properties(tmp_path / "alice", "PLAIN", f'{PLAIN} username="alice" password="b";')
    where = ("--bootstrap-server", guarded.bootstrap, "--command-config", alice)
    tools = KafkaTools("4.3.1")
    try:
        tokens = "DelegationTokenCommand"
        made = tools.run(tokens, *where, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
        found = re.search(r"^(\S{22})\s+(\S{88})\s+User:alice\s+User:alice\s+\[User:bob\]", made, re.MULTILINE)
        assert found is not None, made
        token_id, secret = found.groups()
        described = tools.run(tokens, *where, "--describe", "--owner-principal", "User:alice")
        assert token_id in described
        assert "expiry" in tools.run(tokens, *where, "--renew", "--renew-time-period", "-1", "--hmac", secret).lower()
        jaas = f'{SCRAM} username="{token_id}" password="{secret}" tokenauth="true";'
        by_token = properties(tmp_path / "token", mechanism, jaas)
        as_token = ("--bootstrap-server", guarded.bootstrap, "--command-config", by_token)
        assert not tools.run("TopicCommand", *as_token, "--list").strip()
        assert "not allowed" in tools.refused(tokens, *as_token, "--describe").lower()
        tools.run(tokens, *where, "--expire", "--expiry-time-period", "-1", "--hmac", secret)
        assert token_id not in tools.run(tokens, *where, "--describe")
        assert "invalid credentials" in tools.refused("TopicCommand", *as_token, "--list")
    finally:
        tools.close()
