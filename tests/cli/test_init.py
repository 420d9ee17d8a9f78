"""`chronik init` and `chronik cert`: files that make a cluster, for their owner only, and never over other files."""

from __future__ import annotations

import os
import ssl
import stat
from pathlib import Path
from typing import Any

import pytest

from chronik.broker.settings import Settings
from chronik.broker.settings.exposure import require_guarded, require_kept, require_known_nodes
from chronik.client.properties import ClientSecurity
from chronik.testing.cluster_files import Place, plan_secured
from tests.cli.conftest import Run


def made(run_command: Run, directory: Path, *words: str) -> Any:
    done = run_command("init", str(directory), *words, "--format", "json")
    assert done.exit_code == 0, done.err
    return done.json


def settings_of(node: dict[str, Any]) -> Settings:
    """As a node reads its file, with the checks of a start."""
    settings = Settings.load(node["file"], environment={}, overrides={})
    require_kept(settings)
    require_guarded(settings)
    require_known_nodes(settings)
    return settings


def test_an_open_cluster_listens_on_loopback(run_command: Run, tmp_path: Path) -> None:
    """The default must not open a port to others."""
    told = made(run_command, tmp_path / "c", "--nodes", "3")
    nodes = [settings_of(node) for node in told["nodes"]]
    assert told["bootstrap"] == "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"
    assert [str(node.listeners[0]) for node in nodes] == [
        f"PLAINTEXT://127.0.0.1:{port}" for port in (9092, 9093, 9094)
    ]
    assert {node.voters for node in nodes} == {nodes[0].voters}
    assert len({node.quorum_secret for node in nodes}) == 1
    assert nodes[0].quorum_secret
    refused = run_command("init", str(tmp_path / "d"), "--host", "kafka1.example")
    assert (refused.exit_code, "add --secure" in refused.err) == (2, True)
    assert not (tmp_path / "d").exists()


def test_a_secured_cluster_of_three_hosts(run_command: Run, tmp_path: Path) -> None:
    hosts = [word for name in ("k1.example", "k2.example", "10.0.0.3:9999") for word in ("--host", name)]
    told = made(run_command, tmp_path / "c", "--secure", *hosts, "--user", "shop")
    assert told["bootstrap"] == "k1.example:9092,k2.example:9092,10.0.0.3:9999"
    nodes = [settings_of(node) for node in told["nodes"]]
    assert [str(node.listeners[0]) for node in nodes] == ["SASL_SSL://:9092", "SASL_SSL://:9092", "SASL_SSL://:9999"]
    assert [voter.port for voter in nodes[0].voters] == [9093, 9093, 10000]
    for node in nodes:
        assert node.access_policy is not None
        assert node.access_policy.super_users == {"User:admin", "User:broker"}
        assert node.controller_listeners[0].security_protocol == "SSL"
    assert [user["user"] for user in told["users"]] == ["admin", "shop"]
    shown = run_command("cert", "show", str(tmp_path / "c/node-3/node.pem"), "--format", "json").json
    assert (shown[0]["subject"], shown[0]["hosts"]) == ("CN=node-3", ["10.0.0.3"])


def test_only_the_owner_can_read_what_was_written(run_command: Run, tmp_path: Path) -> None:
    """Whatever the umask says."""
    before = os.umask(0)
    try:
        told = made(run_command, tmp_path / "a/c", "--secure")
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "a/c").rglob("*")}
    assert {path for path, mode in modes.items() if mode != (0o700 if path.is_dir() else 0o600)} == set()
    assert stat.S_IMODE((tmp_path / "a/c").stat().st_mode) == 0o700
    assert {Path(file) for file in told["files"]} == {path for path in modes if path.is_file()}


def test_no_file_is_overwritten(run_command: Run, tmp_path: Path) -> None:
    """The file in the way may hold the only key of an authority."""
    made(run_command, tmp_path, "--secure")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    again = run_command("init", str(tmp_path), "--secure")
    assert again.exit_code == 2
    assert f"{tmp_path}/ca.pem and " in again.err
    other = run_command("init", str(tmp_path))
    assert f"{tmp_path}/node-1/server.properties is in the way: nothing was written" in other.err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_file_that_appears_meanwhile_is_not_overwritten_either(tmp_path: Path) -> None:
    plan = plan_secured(tmp_path, [Place("127.0.0.1", 1, 2)], ["app"])
    (tmp_path / "ca.key").write_text("precious")
    with pytest.raises(FileExistsError):
        plan.write()
    assert (tmp_path / "ca.key").read_text() == "precious"


def test_passwords_are_in_files_and_nowhere_else(run_command: Run, tmp_path: Path) -> None:
    """Output ends up in logs and on screens. A node's file only has the brokers' password."""
    done = run_command("init", str(tmp_path / "c"), "--secure", "--nodes", "3")
    users = tmp_path / "c/users"
    passwords = {name: (users / f"{name}.password").read_text().strip() for name in ("admin", "app")}
    assert len(set(passwords.values())) == 2
    assert not [name for name, password in passwords.items() if password in done.out]
    for name, password in passwords.items():
        read = ClientSecurity.load(str(users / f"{name}.properties"))
        assert read.credentials is not None
        assert (read.credentials.user, read.credentials.password) == (name, password)
    node_files = [path for path in (tmp_path / "c").glob("node-*/**/*") if path.is_file()]
    assert not [path for path in node_files for password in passwords.values() if password in path.read_text()]
    assert "chronik server" in done.out
    for library in ("Java", "confluent-kafka", "kafka-python", "aiokafka", "franz-go"):
        assert f"\n{library}" in done.out


MISTAKES = [
    (("--nodes", "0"), "--nodes 0: 1 to 100"),
    (("--nodes", "3", "--host", "a", "--host", "b", "--secure"), "--host was given 2 times for 3 nodes"),
    (("--nodes", "2", "--quorum-port", "1"), "--quorum-port was given 1 times for 2 nodes"),
    (("--host", "127.0.0.1:9", "--quorum-port", "9"), "port 9 of 127.0.0.1 is used twice"),
    (("--port", "65536"), "port 65536: 1 to 65535"),
    (("--host", "a b", "--secure"), "--host 'a b': write a host name"),
    (("--user", "x"), "a cluster without --secure has no users"),
    (("--secure", "--user", "admin"), "--user admin: this user is made in any case"),
    (("--secure", "--user", "../x"), "--user '../x': write a name of letters"),
    (("--secure", "--user", ""), "--user '': write a name of letters"),
]


@pytest.mark.parametrize(("words", "reason"), MISTAKES)
def test_mistakes_are_told_before_anything_is_written(
    run_command: Run, tmp_path: Path, words: tuple[str, ...], reason: str
) -> None:
    done = run_command("init", str(tmp_path / "c"), *words)
    assert (done.exit_code, done.out) == (2, "")
    assert reason in done.err
    assert not (tmp_path / "c").exists()


def test_a_certificate_is_renewed_for_the_same_hosts_by_the_same_authority(run_command: Run, tmp_path: Path) -> None:
    """A node takes only a certificate with the subject and hosts that it had."""
    made(run_command, tmp_path, "--secure")
    file = tmp_path / "node-1/node.pem"
    before = file.read_text()
    [old] = run_command("cert", "show", str(file), "--format", "json").json
    [new] = run_command("cert", "renew", str(file), "--days", "700", "--format", "json").json
    assert (
        (new["subject"], new["hosts"])
        == (old["subject"], old["hosts"])
        == ("CN=node-1", ["localhost", "127.0.0.1", "::1"])
    )
    assert new["expires"] > old["expires"]
    assert file.read_text() != before
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    ssl.create_default_context().load_cert_chain(file)
    assert sorted(path.name for path in file.parent.iterdir()) == ["ca.pem", "data", "node.pem", "server.properties"]


def test_a_renewal_without_its_authority_says_where_to_find_it(run_command: Run, tmp_path: Path) -> None:
    made(run_command, tmp_path, "--secure")
    (tmp_path / "ca.key").rename(tmp_path / "elsewhere")
    file = tmp_path / "node-1/node.pem"
    before = file.read_text()
    done = run_command("cert", "renew", str(file))
    assert (done.exit_code, "ca.key: No such file or directory" in done.err, "--authority" in done.err) == (
        2,
        True,
        True,
    )
    made(run_command, tmp_path / "other", "--secure")
    (tmp_path / "ca.key").write_text((tmp_path / "other/ca.key").read_text())
    done = run_command("cert", "renew", str(file))
    assert (done.exit_code, "does not belong" in done.err) == (2, True)
    assert file.read_text() == before
    assert run_command("cert", "show", str(tmp_path / "elsewhere")).exit_code == 2
