"""`chronik user`, `chronik storage format` and --command-config, on a cluster whose every listener needs a login."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chronik.broker.first_users import FILE, read_first_users
from chronik.cli.errors import Misused
from chronik.cli.formatting import parse_user
from chronik.runtime.real import real_runtime
from chronik.runtime.real_disk import RealDisk
from chronik.testing import Cluster
from chronik.wire.scram import KIND_OF, keys_of, salted_password
from tests.cli.conftest import Run

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
LISTENERS = {
    "listeners": "S://127.0.0.1:0",
    "advertised.listeners": "S://127.0.0.1:0",
    "listener.security.protocol.map": "S:SASL_PLAINTEXT",
    "inter.broker.listener.name": "S",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    "listener.name.s.scram-sha-512.sasl.jaas.config": f'{SCRAM} username="admin" password="top";',
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Its first user comes from formatting, as it would on a server."""
    from chronik.broker.first_users import write_first_users
    from chronik.cli.formatting import new_user

    data = tmp_path_factory.mktemp("guarded")
    runtime = real_runtime()
    write_first_users(runtime.disk, str(data), [new_user("admin", "SCRAM-SHA-512", "top", runtime.randomness)])
    with Cluster(settings=LISTENERS, data=data) as cluster:
        yield cluster


def write_properties(path: Path, user: str, password: str, mechanism: str = "SCRAM-SHA-512") -> str:
    path.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={SCRAM} username="{user}" \\\n  password="{password}";\n',
        encoding="utf-8",
    )
    return str(path)


@pytest.fixture
def as_user(run_command: Run, guarded: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.setenv("CHRONIK_BOOTSTRAP", guarded.bootstrap)

    def run(user: str, password: str, *words: str, mechanism: str = "SCRAM-SHA-512", stdin: bytes = b"") -> Any:
        file = write_properties(tmp_path / f"{user}.properties", user, password, mechanism)
        return run_command(*words, "--command-config", file, stdin=stdin)

    return run


def test_users_are_added_listed_described_and_deleted(as_user: Callable[..., Any]) -> None:
    added = as_user("admin", "top", "user", "add", "bob", "-m", "SCRAM-SHA-256", "--format", "json", stdin=b"pw\n")
    assert (added.exit_code, added.json) == (
        0,
        [{"user": "bob", "mechanism": "SCRAM-SHA-256", "iterations": 4096}],
    )
    listed = as_user("bob", "pw", "user", "list", "--format", "json", mechanism="SCRAM-SHA-256")
    assert [(row["user"], row["mechanism"]) for row in listed.json] == [
        ("admin", "SCRAM-SHA-512"),
        ("bob", "SCRAM-SHA-256"),
    ]
    missing = as_user("admin", "top", "user", "describe", "bobb")
    assert (missing.exit_code, "did you mean 'bob'?" in missing.err) == (1, True)
    gone = as_user("admin", "top", "user", "delete", "bob")
    assert gone.exit_code == 0
    refused = as_user("bob", "pw", "user", "list", mechanism="SCRAM-SHA-256")
    assert (refused.exit_code, "SASL_AUTHENTICATION_FAILED" in refused.err) == (1, True)


def test_a_password_comes_from_a_file_and_never_from_the_command_line(
    as_user: Callable[..., Any], tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("from a file\nsecond line\n", encoding="utf-8")
    added = as_user("admin", "top", "user", "add", "carl", "--password-file", str(secret), "--iterations", "8192")
    assert added.exit_code == 0
    assert as_user("carl", "from a file", "topic", "list").exit_code == 0
    piped = as_user("admin", "top", "user", "add", "carl", "--password-file", "-", stdin=b"from a pipe\n")
    assert piped.exit_code == 0
    assert as_user("carl", "from a pipe", "topic", "list").exit_code == 0
    empty = as_user("admin", "top", "user", "add", "carl", stdin=b"\n")
    assert (empty.exit_code, "empty" in empty.err) == (2, True)
    absent = as_user("admin", "top", "user", "add", "carl", "--password-file", "/nowhere")
    assert absent.exit_code == 2
    assert as_user("admin", "top", "user", "add", "carl", "--iterations", "1", stdin=b"x\n").exit_code == 1
    as_user("admin", "top", "user", "delete", "carl")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("security.protocol=TLS", "SASL_PLAINTEXT"),
        ("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI", "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        ("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN", "sasl.jaas.config"),
        (
            'security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config=M required password="swordfish";',
            "username",
        ),
        (
            'security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config=M required password="swordfish',
            "quotes",
        ),
    ],
)
def test_a_file_that_describes_no_login_is_explained_without_its_secrets(
    run_command: Run, tmp_path: Path, text: str, complaint: str
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(text, encoding="utf-8")
    done = run_command("topic", "list", "--command-config", str(file))
    assert (done.exit_code, complaint in done.err, "swordfish" in done.err) == (2, True, False)


def test_formatting_writes_credentials_for_the_first_start(run_command: Run, tmp_path: Path) -> None:
    data = tmp_path / "data"
    own = ("-o", f"log.dirs={data}", "-o", "listeners=PLAINTEXT://127.0.0.1:0")
    done = run_command(
        "storage", "format", *own, "--user", "admin", "-S", "SCRAM-SHA-256=[name=bob,password=x]", stdin=b"swordfish\n"
    )
    assert done.exit_code == 0
    users = read_first_users(RealDisk(), str(data))
    assert [(user.name, user.mechanism) for user in users] == [("bob", 1), ("admin", 2)]
    for user, password in zip(users, ("x", "swordfish"), strict=True):
        kind = KIND_OF[user.mechanism]
        salted = salted_password(kind, password, user.salt, user.iterations)
        assert (user.stored_key, user.server_key) == tuple(keys_of(kind, salted))
    assert (data / FILE).stat().st_mode & 0o077 == 0
    assert "swordfish" not in (data / FILE).read_text(encoding="utf-8")
    assert json.loads((data / FILE).read_text(encoding="utf-8"))[0]["name"] == "bob"
    (data / "meta.properties").write_text("version=1\n", encoding="utf-8")
    again = run_command("storage", "format", *own, "--user", "admin", stdin=b"x\n")
    assert (again.exit_code, "chronik user add" in again.err) == (1, True)
    assert run_command("storage", "format", *own).exit_code == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SCRAM-SHA-512",
        "PLAIN=[name=a,password=swordfish]",
        "SCRAM-SHA-512=[password=swordfish]",
        "SCRAM-SHA-512=[name=a]",
        "SCRAM-SHA-512=[name=a,password=swordfish,saltedpassword=AAAA]",
        "SCRAM-SHA-512=[name=a,saltedpassword=AAAA]",
        "SCRAM-SHA-512=[name=a,password=swordfish,iterations=1]",
        "SCRAM-SHA-512=[name=a,password=swordfish,salt=!]",
        "SCRAM-SHA-512=[name=a,name=b,password=swordfish]",
        "SCRAM-SHA-512=[name=a,password=swordfish,colour=red]",
    ],
)
def test_what_kafka_would_not_take_as_a_user_is_refused(text: str) -> None:
    with pytest.raises(Misused) as refused:
        parse_user(text, real_runtime().randomness)
    assert "swordfish" not in str(refused.value)


def test_a_user_may_be_given_as_a_salted_password() -> None:
    randomness = real_runtime().randomness
    salt, kind = b"salt of alice", KIND_OF[1]
    salted = base64.b64encode(salted_password(kind, "pw", salt, 5000)).decode()
    encoded = base64.b64encode(salt).decode()
    given = f'SCRAM-SHA-256=[name="alice",salt={encoded},saltedpassword="{salted}",iterations=5000]'
    with_password = f"SCRAM-SHA-256=[name=alice,salt={encoded},password=pw,iterations=5000]"
    assert parse_user(given, randomness) == parse_user(with_password, randomness)
