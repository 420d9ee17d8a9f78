"""Configurations with which a node refuses to start: listeners that everyone can reach, and promises that it would not
keep."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from chronik.broker.errors import BadSetting
from chronik.broker.settings import Settings
from chronik.broker.settings.access import STANDARD
from chronik.broker.settings.exposure import require_kept
from chronik.broker.settings.listeners import Address, Listener, are_all_own, is_loopback
from chronik.runtime.machine import Machine
from chronik.runtime.units import GIB

HERE = Machine(memory_bytes=GIB, host_name="this-host")
LOOPBACK = "listeners=PLAINTEXT://127.0.0.1:9092"
QUORUM = "controller.listener.names=C listener.security.protocol.map=PLAINTEXT:PLAINTEXT,C:PLAINTEXT"
OTHER = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT"
SECRET = "chronik.quorum.secret=sixteen-characters"
SASL = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,S:SASL_PLAINTEXT sasl.enabled.mechanisms=SCRAM-SHA-512"
INSECURE = "chronik.insecure.listeners=true"
CERTIFIED = "ssl.client.auth=required"
INTER_BROKER = "inter.broker.listener.name=SSL"
SECURED_QUORUM = QUORUM.replace("C:PLAINTEXT", "C:SSL")


def load(text: str) -> Settings:
    overrides = dict(item.partition("=")[::2] for item in text.split())
    return Settings.load(None, environment={}, overrides=overrides, machine=HERE)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("localhost", True),
        ("LocalHost", True),
        ("", False),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("localhost.example", False),
        ("this-host", False),
    ],
)
def test_loopback_is_what_only_this_machine_can_reach(host: str, *, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    "text",
    [
        LOOPBACK,
        "listeners=PLAINTEXT://localhost:9092",
        "listeners=PLAINTEXT://[::1]:9092",
        f"{LOOPBACK},C://127.0.0.1:9093 {QUORUM}",
        f"{LOOPBACK},C://10.0.0.1:9093 {QUORUM} {SECRET}",
        INSECURE,
        f"listeners=PLAINTEXT://:9092,C://:9093 {QUORUM} chronik.admin.listener=0.0.0.0:1 {INSECURE}",
        f"{LOOPBACK} authorizer.class.name={STANDARD} super.users=User:a allow.everyone.if.no.acl.found=false",
        f"{LOOPBACK} ssl.client.auth=none sasl.enabled.mechanisms= allow.everyone.if.no.acl.found=true",
        f"listeners=SSL://10.0.0.1:9092 {INTER_BROKER} {CERTIFIED}",
        f"listeners=SSL://:9092 {INTER_BROKER} listener.name.ssl.ssl.client.auth=required",
        f"{LOOPBACK},C://:9093 {SECURED_QUORUM} {CERTIFIED} chronik.quorum.principals=User:CN=node1;User:CN=node2",
        f"{LOOPBACK} chronik.admin.listener=0.0.0.0:9644 chronik.admin.security.protocol=SSL {CERTIFIED}",
        f"{LOOPBACK},S://0.0.0.0:1 {SASL} advertised.listeners=PLAINTEXT://localhost:1,S://h:1",
        f"{LOOPBACK},S://127.0.0.1:1 {SASL} listener.name.s.sasl.enabled.mechanisms=SCRAM-SHA-256",
        f"{LOOPBACK},S://127.0.0.1:1 {SASL} listener.name.S.scram-sha-512.sasl.jaas.config=",
    ],
)
def test_what_is_guarded_or_asked_for_starts(text: str) -> None:
    require_kept(load(text))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("", "listeners"),
        ("listeners=PLAINTEXT://10.0.0.1:9092", "listeners"),
        ("listeners=PLAINTEXT://kafka.example:9092", "listeners"),
        (f"{LOOPBACK},OTHER://[::]:1 {OTHER} advertised.listeners=PLAINTEXT://localhost:9092", "listeners"),
        (f"{LOOPBACK},C://:9093 {QUORUM}", "controller.listener.names"),
        (f"{LOOPBACK} chronik.admin.listener=0.0.0.0:9644", "chronik.admin.listener"),
        (f"listeners=PLAINTEXT://:9092,C://:9093 {QUORUM} {SECRET}", "listeners"),
        (f"listeners=SSL://:9092 {INTER_BROKER} ssl.client.auth=requested", "listeners"),
        (f"listeners=SSL://:9092 {INTER_BROKER}", "listeners"),
        (f"listeners=SSL://:9092 {INTER_BROKER} {CERTIFIED} listener.name.ssl.ssl.client.auth=none", "listeners"),
    ],
)
def test_a_listener_that_others_can_reach_must_be_asked_for(text: str, key: str) -> None:
    """Without logins, everyone who reaches the listener can read, write and delete everything."""
    with pytest.raises(BadSetting, match=r"127\.0\.0\.1.*chronik\.insecure\.listeners=true") as refused:
        require_kept(load(text))
    assert refused.value.key == key
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "key_value",
    [
        "ssl.client.auth=required",
        "ssl.client.auth=requested",
        "ssl.keystore.location=/k",
        "ssl.truststore.certificates=x",
        "sasl.enabled.mechanisms=SCRAM-SHA-512",
        "sasl.jaas.config=x",
        "super.users=User:admin",
        "allow.everyone.if.no.acl.found=false",
        "delegation.token.secret.key=x",
        "principal.builder.class=com.example.Builder",
        "listener.name.plaintext.ssl.client.auth=required",
        "listener.name.plaintext.scram-sha-256.sasl.jaas.config=x",
        "listener.name.plaintext.sasl.enabled.mechanisms=PLAIN",
    ],
)
def test_a_key_that_would_restrict_access_stops_the_node(key_value: str) -> None:
    """Its author believes that unknown clients have no access."""
    with pytest.raises(BadSetting, match="access is not restricted") as refused:
        require_kept(load(f"{LOOPBACK} {INSECURE} {key_value}"))
    assert refused.value.key == key_value.partition("=")[0]


def test_a_certificate_alone_makes_no_node_of_the_quorum() -> None:
    """A trust store accepts clients' certificates too, and a member of the quorum controls the cluster."""
    with pytest.raises(BadSetting, match=r"list the principals of its nodes, or set chronik\.quorum\.secret"):
        require_kept(load(f"{LOOPBACK},C://:9093 {SECURED_QUORUM} {CERTIFIED}"))
    require_kept(load(f"{LOOPBACK},C://:9093 {SECURED_QUORUM} {CERTIFIED} {SECRET}"))


def test_a_key_of_tls_for_a_listener_without_it_stops_the_node() -> None:
    """Its author believes that this listener requires certificates."""
    text = f"{LOOPBACK},SSL://127.0.0.1:9093 listener.name.plaintext.ssl.client.auth=required"
    with pytest.raises(BadSetting, match="PLAINTEXT does not use TLS"):
        require_kept(load(text))


@pytest.mark.parametrize(
    "key_value",
    [
        "sasl.mechanism.controller.protocol=PLAIN",
        "sasl.oauthbearer.jwks.endpoint.url=https://h/jwks",
        "sasl.server.callback.handler.class=com.example.Handler",
        "listener.name.s.scram-sha-512.sasl.server.callback.handler.class=com.example.Handler",
        "listener.name.s.oauthbearer.sasl.jaas.config=x",
        "listener.name.plaintext.scram-sha-512.sasl.jaas.config=x",
        "listener.name.s.ssl.client.auth=required",
    ],
)
def test_with_logins_too_a_key_that_does_nothing_stops_the_node(key_value: str) -> None:
    with pytest.raises(BadSetting, match="access is not restricted") as refused:
        require_kept(load(f"{LOOPBACK},S://127.0.0.1:1 {SASL} {key_value}"))
    assert refused.value.key == key_value.partition("=")[0]


def test_passwords_that_are_sent_in_the_clear_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    plain = SASL.replace("SCRAM-SHA-512", "PLAIN")
    overrides = dict(item.partition("=")[::2] for item in f"{LOOPBACK},S://127.0.0.1:1 {plain}".split())
    overrides["listener.name.s.plain.sasl.jaas.config"] = 'PlainLoginModule required user_a="swordfish";'
    require_kept(Settings.load(None, environment={}, overrides=overrides, machine=HERE))
    assert "S://127.0.0.1:1: PLAIN sends passwords" in caplog.text
    assert "swordfish" not in caplog.text
    caplog.clear()
    require_kept(load(f"{LOOPBACK},S://127.0.0.1:1 {SASL}"))
    assert caplog.text == ""


def test_a_container_says_it_by_its_environment() -> None:
    """As the usual images are configured."""
    environment = {"KAFKA_LISTENERS": "PLAINTEXT://:9092", "KAFKA_CHRONIK_INSECURE_LISTENERS": "true"}
    require_kept(Settings.load(None, environment=environment, overrides={}, machine=HERE))
    del environment["KAFKA_CHRONIK_INSECURE_LISTENERS"]
    unsaid = Settings.load(None, environment=environment, overrides={}, machine=HERE)
    with pytest.raises(BadSetting):
        require_kept(unsaid)


def test_no_password_is_printed() -> None:
    for key in ("ssl.key.password", "sasl.jaas.config", "listener.name.a.plain.sasl.jaas.config"):
        with pytest.raises(BadSetting) as refused:
            require_kept(load(f"{LOOPBACK} {key}=swordfish"))
        assert "swordfish" not in str(refused.value)


def test_all_reachable_listeners_are_named_at_once() -> None:
    """An operator fixes the file once, not listener by listener."""
    listeners = "listeners=PLAINTEXT://:9092,C://10.0.0.1:9093 chronik.admin.listener=0.0.0.0:9644 node.id=1"
    with pytest.raises(BadSetting) as refused:
        require_kept(load(f"{listeners} {QUORUM} process.roles=broker,controller"))
    for each in ("PLAINTEXT://", "C://10.0.0.1:9093", "0.0.0.0:9644"):
        assert each in str(refused.value)


@pytest.mark.parametrize(("mode", "is_open"), [(0o644, True), (0o640, True), (0o600, False), (0o400, False)])
def test_a_secret_that_other_users_can_read_is_warned_about(
    mode: int, is_open: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "secret"
    path.write_text("sixteen-characters\n")
    path.chmod(mode)
    require_kept(load(f"{LOOPBACK} chronik.quorum.secret.file={path}"))
    assert (f"`chmod 600 {path}`" in caplog.text) == is_open


def test_an_open_quorum_is_warned_about_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        require_kept(load(f"listeners=PLAINTEXT://:9092,C://:9093 {QUORUM} {INSECURE}"))
        assert [record.getMessage() for record in caplog.records] == [
            "anyone who can connect to C://:9093 can control this cluster: set chronik.quorum.secret on every node"
        ]
        require_kept(load(f"listeners=PLAINTEXT://:9092,C://:9093 {QUORUM} {INSECURE} {SECRET}"))
        assert len(caplog.records) == 1


def test_a_secret_comes_from_its_key_or_its_file(tmp_path: Path) -> None:
    """A file, so that no list of processes shows it."""
    file = tmp_path / "secret"
    file.write_text("sixteen-characters\n")
    assert load(SECRET).quorum_secret == load(f"chronik.quorum.secret.file={file}").quorum_secret
    assert load("").quorum_secret == b""
    for text, why in [
        (f"{SECRET} chronik.quorum.secret.file={file}", "set one of them"),
        (f"chronik.quorum.secret.file={tmp_path}/none", "No such file"),
        ("chronik.quorum.secret=short", "16 characters or more"),
    ]:
        with pytest.raises(BadSetting, match=why) as refused:
            load(text)
        assert "sixteen-characters" not in str(refused.value)
    file.write_text("\n")
    with pytest.raises(BadSetting, match="the file is empty"):
        load(f"chronik.quorum.secret.file={file}")


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        ([], False),
        ([Address("localhost", 9093)], True),
        ([Address("127.0.0.1", 9093), Address("this-host", 9093)], True),
        ([Address("localhost", 9094)], False),
        ([Address("other-host", 9093)], False),
        ([Address("localhost", 9093), Address("other-host", 9093)], False),
    ],
)
def test_a_node_recognises_itself_in_a_list_of_servers(addresses: list[Address], *, expected: bool) -> None:
    """Kafka's sample file lists the node itself. Waiting to be added by another node would never end."""
    assert are_all_own(addresses, [Listener("CONTROLLER", "", 9093)], "this-host") is expected


GUARDED = f"authorizer.class.name={STANDARD}"
PEERS = "node.id=1 controller.quorum.voters=1@127.0.0.1:9093,2@127.0.0.1:9095"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{LOOPBACK} {GUARDED}", ""),
        (f"{LOOPBACK} {GUARDED} super.users=User:ANONYMOUS", "everybody who can connect to PLAINTEXT://127.0.0.1:9092"),
        (f"{LOOPBACK},C://127.0.0.1:9093 {QUORUM} {PEERS} {GUARDED}", "they replicate only if an ACL allows it"),
        (f"{LOOPBACK},C://127.0.0.1:9093 {QUORUM} {PEERS}", ""),
    ],
)
def test_what_callers_without_a_login_may_do_is_said_at_the_start(
    text: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither nodes that may not replicate nor unknown clients that may do everything are obvious in the settings."""
    with caplog.at_level(logging.WARNING):
        require_kept(load(text))
    messages = [record.getMessage() for record in caplog.records]
    assert [said in message for message in messages] == ([True] if said else [])
